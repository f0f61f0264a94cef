"""Strict JSON for messages: an unknown field is an error.

:func:`decode` and :func:`parsed` are the only places where JSON is read, and a test checks that.
Some texts come from a volume, an object or a socket that others can write. A text that is too long
or nested too deep is therefore an error of ours, whoever wrote it.

A message is a msgspec Struct. Its fields are messages, tuples (as lists), dict[str, X], str,
StrEnum, int, float, bool, None, unions of messages, ``X | None`` and NewTypes of these.
Encoding is canonical (sorted keys, no spaces), so equal values have equal bytes and hashes.
"""

import hashlib
import json
import math
from collections.abc import Callable
from itertools import accumulate
from typing import Any, NoReturn, TypeVar, cast, dataclass_transform

import msgspec

from penstock.base.errors import PeerError
from penstock.base.limits import JSON_BYTES_MAX, JSON_DEPTH_MAX
from penstock.base.once import one_at_a_time

T = TypeVar("T")
Absent = msgspec.UnsetType
ABSENT = msgspec.UNSET  # the value of a field that is left out of the text, so that older readers take it
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**64 - 1
# msgspec reads whole numbers of any length. A text that may have a long one is read slowly: with 19
# digits in a row behind what can stand before a number. (A hash has so many behind a letter.)
_LONG_NUMBER = b"-" + b"0" * 19
_DIGITS = bytes.maketrans(b"123456789:,[ \t\r\n", b"000000000-------")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="is"):
    """The base of everything that is written as JSON. Subclasses give a ``tag``, as a literal.

    The tag is stored beside the fields, and readers know the class by it. Stored files can still be
    read when a class gets another name, as long as its tag stays.
    """


class TolerantMessage(Message, forbid_unknown_fields=False):
    """A message that another version of the project may write: a job's status, and what it wants.

    Its reader leaves out the fields that it does not know.
    """


def encode(value: object) -> bytes:
    """Return the canonical UTF-8 JSON of a message. Raises TypeError on other types."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:  # the name of a file that is no UTF-8, for example
        return json.dumps(to_plain(value), sort_keys=True, separators=(",", ":")).encode()


def to_plain(value: object) -> Any:
    """Turn a value into what JSON has; every message carries its tag. Tuples stay tuples."""
    return msgspec.to_builtins(value, enc_hook=_basic)


def _basic(value: object) -> str | int | float:
    """Turn a value of a subclass, like NumPy's ``float64``, into one of its basic type."""
    for basic in (str, int, float):
        if isinstance(value, basic):
            return basic(value)
    raise TypeError(f"{type(value).__name__} is not part of the contract's JSON")


_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=_basic)


def decode(kind: type[T], data: bytes) -> T:
    """Read what :func:`encode` wrote as a ``kind`` (a message or a union of them).

    Raises PeerError on bad JSON, unknown or missing fields and wrong types. The error names the
    place. The types of ``kind`` bound the depth: reading ends at the first bracket too many. Where
    an unknown field is left out, the interpreter's bound of recursion ends the reading.
    """
    _check_length(len(data), JSON_BYTES_MAX)
    reader = _decoder(cast("Any", kind))
    if _LONG_NUMBER in data.translate(_DIGITS):
        return _decode_slowly(kind, data)
    try:
        value: T = reader.decode(data)
    except msgspec.ValidationError as error:
        raise _refused(kind, error) from error
    except (ValueError, RecursionError):
        return _decode_slowly(kind, data)
    return value


# msgspec notes a class before it knows all types of its fields. A thread that reads the class meanwhile ends the
# process (SIGSEGV). So classes are learned one at a time, and read only behind that (decision 240).
@one_at_a_time
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _decode_slowly(kind: type[T], data: bytes) -> T:
    """Read half a surrogate pair, which msgspec refuses, and refuse long numbers, which it reads.

    The classes of ``kind`` are learned already, by :func:`_decoder`.
    """
    raw = _checked(data, JSON_BYTES_MAX, JSON_DEPTH_MAX)
    plain = _loads(raw, parse_int=_integer, parse_float=_number)
    try:
        return msgspec.convert(plain, kind)
    except ValueError as error:  # UnicodeError, too: of half a pair in a number's place
        raise _refused(kind, error) from error


def _refused(kind: object, error: Exception) -> PeerError:
    return PeerError(f"{getattr(kind, '__name__', 'message')}: {error}")


def _integer(digits: str) -> int:
    if not INTEGER_MIN <= int(digits) <= INTEGER_MAX:
        raise ValueError(f"a whole number of {len(digits)} digits is out of range")
    return int(digits)


def _number(text: str) -> float:
    """Return a number; ``1e999`` is none."""
    if not math.isfinite(float(text)):
        raise ValueError("a number is out of range")
    return float(text)


def _no_number(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which Python's parser takes and JSON does not know."""
    raise ValueError(f"{name} is no number")


def parsed(data: bytes | str, bytes_max: int = JSON_BYTES_MAX, depth_max: int = JSON_DEPTH_MAX) -> Any:
    """Read JSON of at most ``bytes_max`` bytes (characters of a text), nested ``depth_max`` deep.

    Raises PeerError on anything else. msgspec takes a third of the time of Python's parser. What it
    refuses is read by Python's parser, so that parser alone decides what is JSON.
    """
    raw = _checked(data, bytes_max, depth_max)
    try:
        return _PARSER.decode(raw)
    except (ValueError, RecursionError):
        return _loads(raw)


_PARSER = msgspec.json.Decoder()


def _loads(
    raw: bytes,
    parse_int: Callable[[str], int] | None = None,
    parse_float: Callable[[str], float] | None = None,
) -> Any:
    try:
        return json.loads(raw.decode(), parse_int=parse_int, parse_float=parse_float, parse_constant=_no_number)
    except ValueError as error:
        raise PeerError(f"not JSON: {error}") from error


def _checked(data: bytes | str, bytes_max: int, depth_max: int) -> bytes:
    """Return the bytes of a text if it is not too long and not nested too deep."""
    _check_length(len(data), bytes_max)
    try:
        raw = data if isinstance(data, bytes) else data.encode()
    except ValueError as error:
        raise PeerError(f"not JSON: {error}") from error
    # The depth is checked first: the parser recurses, and only the interpreter bounds that. A text of
    # n bytes is at most n deep, and counting brackets takes a fifth of the time of reading.
    if len(raw) > depth_max and raw.count(b"[") + raw.count(b"{") > depth_max and depth_of(raw) > depth_max:
        raise PeerError(f"JSON that is nested more than {depth_max} deep")
    return raw


def _check_length(length: int, bytes_max: int) -> None:
    if length > bytes_max:
        raise PeerError(f"JSON of {length} bytes, at most {bytes_max} are read")


def depth_of(data: bytes) -> int:
    """Return how deep lists and objects are nested in JSON of UTF-8.

    It takes linear time for any bytes. In a text that is no JSON, the result is a lower bound: a
    string without an end reaches to the end.
    """
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    brackets = b"".join(unescaped.split(b'"')[::2]).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def digest(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hex: the hash that manifests hold."""
    return hashlib.sha256(data).hexdigest()
