"""Strict JSON for the dataclasses of the contract: what is not known is an error.

:func:`parsed` is the only place where JSON is read (a test sees to it): whoever writes it, on a
volume, in an object or on a socket, gets an error of ours for a text that is too long or too deep.

Supported: dataclasses, tuples (as lists), dict[str, X], str, StrEnum, int, float, bool, None,
unions of messages (tagged under ``"is"``), ``X | None`` and NewTypes of these.
Encoding is canonical (sorted keys, no spaces), so equal values have equal bytes and hashes.
"""

import dataclasses
import hashlib
import json
import math
import types
import typing
from enum import StrEnum
from functools import cache
from itertools import accumulate
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin

from penstock.base.errors import PeerError
from penstock.base.limits import JSON_BYTES_MAX, JSON_DEPTH_MAX
from penstock.base.suggest import unknown

T = TypeVar("T")
TAG = "is"
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**64 - 1
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class Message:
    """The base of everything that is written as JSON: a dataclass with a ``tag``.

    The tag is stored beside the fields, and readers know the class by it. It is given as a literal,
    so that stored files can still be read when a class gets another name.
    """

    __slots__ = ()
    tag_: ClassVar[str]

    def __init_subclass__(cls, tag: str = "") -> None:
        """Note the tag. With slots, ``dataclass`` makes the class again and gives none."""
        if tag:
            cls.tag_ = tag


def encode(value: object) -> bytes:
    """Return the canonical UTF-8 JSON of a message. Raises TypeError on other types."""
    return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":")).encode()


def decode(kind: type[T], data: bytes) -> T:
    """Read what :func:`encode` wrote as a ``kind`` (a message or a union of them).

    Raises PeerError naming the field on bad JSON, unknown or missing fields and wrong types.
    """
    value: T = from_plain(kind, parsed(data))
    return value


def parsed(
    data: bytes | str, bytes_max: int = JSON_BYTES_MAX, depth_max: int = JSON_DEPTH_MAX
) -> Any:
    """Read JSON of at most ``bytes_max`` bytes (characters of a text), nested ``depth_max`` deep.

    Raises PeerError on anything else.
    """
    if len(data) > bytes_max:
        raise PeerError(f"JSON of {len(data)} bytes, at most {bytes_max} are read")
    try:
        raw = data if isinstance(data, bytes) else data.encode()
        # Before it is parsed: the parser recurses, and its only own bound is the interpreter's.
        if raw.count(b"[") + raw.count(b"{") > depth_max and depth_of(raw) > depth_max:
            raise PeerError(f"JSON that is nested more than {depth_max} deep")
        return json.loads(raw.decode(), parse_constant=_no_number)
    except ValueError as error:
        raise PeerError(f"not JSON: {error}") from error


def _no_number(name: str) -> typing.NoReturn:
    """Refuse NaN and the infinities, which Python's parser takes and JSON does not know."""
    raise ValueError(f"{name} is no number")


def depth_of(data: bytes) -> int:
    """Return how deep lists and objects are nested in JSON of UTF-8; at least so deep in no JSON.

    In linear time, whatever is there: a text without an end reaches to the end.
    """
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def decode_known(kind: type[T], data: bytes) -> T:
    """Read like :func:`decode`, leaving aside the fields that this version does not know.

    For what is only shown: another version of the project may have written it.
    """
    value: T = from_plain(kind, _known(kind, parsed(data)))
    return value


def _known(kind: Any, plain: Any) -> Any:
    kind = _resolve(kind)
    args = get_args(kind)
    if _is_message(kind) and isinstance(plain, dict):
        fields = _fields(kind)
        kept = {n: _known(fields[n][0], v) for n, v in plain.items() if n in fields}
        return {**kept, **({TAG: plain[TAG]} if TAG in plain else {})}
    if get_origin(kind) in (Union, types.UnionType) and isinstance(plain, dict):
        members = [m for m in map(_resolve, args) if _is_message(m)]
        named = [m for m in members if m.tag_ == plain.get(TAG)]
        return _known(named[0], plain) if named else plain
    if get_origin(kind) is tuple and isinstance(plain, list) and args[-1] is Ellipsis:
        return [_known(args[0], v) for v in plain]
    return plain


def digest(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hex: the hash that manifests hold."""
    return hashlib.sha256(data).hexdigest()


def to_plain(value: object) -> Any:
    """Turn a value into what JSON knows; every message carries its tag."""
    if isinstance(value, Message):
        fields = dataclasses.fields(value)  # type: ignore[arg-type]
        return {
            TAG: value.tag_,
            **{f.name: to_plain(getattr(value, f.name)) for f in fields},
        }
    if isinstance(value, tuple | list):
        return [to_plain(v) for v in value]
    if isinstance(value, dict):
        return {_text_key(k): to_plain(v) for k, v in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} is not part of the contract's JSON")


def _text_key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"JSON keys are strings, not {type(key).__name__}")
    return key


def from_plain(kind: Any, plain: Any, path: str = "$") -> Any:
    """Build a ``kind`` from parsed JSON; ``path`` names the place in error messages."""
    kind = _resolve(kind)
    if _is_message(kind):
        return _message(kind, plain, path)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _union(get_args(kind), plain, path)
    if origin is tuple:
        return _tuple(get_args(kind), plain, path)
    if origin is dict:
        _expect(isinstance(plain, dict), path, "an object", plain)
        return {k: from_plain(get_args(kind)[1], v, f"{path}.{k}") for k, v in plain.items()}
    return _scalar(kind, plain, path)


def _resolve(kind: Any) -> Any:
    while hasattr(kind, "__supertype__"):  # a NewType is checked as what it stands for
        kind = kind.__supertype__
    return kind


def _scalar(kind: Any, plain: Any, path: str) -> Any:
    if kind is type(None):
        _expect(plain is None, path, "null", plain)
    elif kind is float:
        _expect(
            isinstance(plain, int | float) and not isinstance(plain, bool), path, "a number", plain
        )
        return _number(plain, path)
    elif kind is int:
        _expect(
            isinstance(plain, int) and not isinstance(plain, bool), path, "a whole number", plain
        )
        if not INTEGER_MIN <= plain <= INTEGER_MAX:
            raise PeerError(f"{path}: a whole number is out of range")
    elif isinstance(kind, type) and issubclass(kind, StrEnum):
        _expect(
            isinstance(plain, str) and plain in set(kind), path, f"one of {', '.join(kind)}", plain
        )
        return kind(plain)
    elif kind is bool or kind is str:
        _expect(isinstance(plain, kind), path, f"a {kind.__name__}", plain)
    else:
        raise TypeError(f"{path}: {kind} is not part of the contract's JSON")
    return plain


def _number(plain: float, path: str) -> float:
    """Return a number; ``1e999`` is none, and a long whole number has no float."""
    try:
        found = float(plain)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise PeerError(f"{path}: a number is out of range")
    return found


def _expect(ok: bool, path: str, wanted: str, got: Any) -> None:
    if not ok:
        raise PeerError(f"{path}: expected {wanted}, got {type(got).__name__}")


def _tuple(args: tuple[Any, ...], plain: Any, path: str) -> tuple[Any, ...]:
    _expect(isinstance(plain, list), path, "a list", plain)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(from_plain(args[0], v, f"{path}[{i}]") for i, v in enumerate(plain))
    _expect(len(plain) == len(args), path, f"{len(args)} items", plain)
    return tuple(
        from_plain(a, v, f"{path}[{i}]") for i, (a, v) in enumerate(zip(args, plain, strict=True))
    )


def _is_message(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Message)


def _union(args: tuple[Any, ...], plain: Any, path: str) -> Any:
    if plain is None and type(None) in args:
        return None
    members: list[Any] = [_resolve(a) for a in args if a is not type(None)]
    named: dict[str, Any] = {str(m.tag_): m for m in filter(_is_message, members)}
    if named and isinstance(plain, dict):
        tag = plain.get(TAG)
        if not isinstance(tag, str) or tag not in named:
            raise PeerError(f"{path}: {unknown('message', str(tag), named)}")
        return _message(named[tag], plain, path)
    scalars = [m for m in members if not _is_message(m)]
    _expect(bool(scalars), path, "an object", plain)
    if len(scalars) == 1:
        return from_plain(scalars[0], plain, path)
    matching = [s for s in scalars if isinstance(s, type) and isinstance(plain, s)]
    _expect(bool(matching), path, "one of its types", plain)
    return plain


@cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    hints = typing.get_type_hints(kind)
    required = dataclasses.MISSING
    return {
        f.name: (hints[f.name], f.default is required and f.default_factory is required)
        for f in dataclasses.fields(kind)
    }


def _message(kind: Any, plain: Any, path: str) -> Any:
    _expect(isinstance(plain, dict), path, f"an object ({kind.tag_})", plain)
    fields = _fields(kind)
    tag = plain.get(TAG, kind.tag_)
    if tag != kind.tag_:
        raise PeerError(f"{path}: expected {kind.tag_}, got {tag!r}")
    for name in plain:
        if name != TAG and name not in fields:
            raise PeerError(f"{path}: {unknown('field', name, fields)}")
    for name, (_, required) in fields.items():
        if required and name not in plain:
            raise PeerError(f"{path}: field {name!r} is missing")
    return kind(
        **{n: from_plain(h, plain[n], f"{path}.{n}") for n, (h, _) in fields.items() if n in plain}
    )
