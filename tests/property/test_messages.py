"""Encoding and decoding does not change a message. A damaged message is at most an error."""

import json
import types
import typing
from enum import StrEnum
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import PeerError
from penstock.contract import codec
from penstock.contract.codec import ABSENT, Absent, Message, decode, encode, parsed, to_plain
from penstock.contract.keygroups import Range
from penstock.protocol.core_context import ControlSettings
from tests.support.messages import classes, is_message, plain_type

PIECES = (*b'_ _1_-0_1e999_NaN_Infinity_"_\\ud800_\xff_\0_,_]'.split(b"_"), b"9" * 5000)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(), max_size=6)  # half surrogate pairs, too
SCALARS = {
    str: TEXTS,
    int: st.integers(codec.INTEGER_MIN, codec.INTEGER_MAX),
    float: NUMBERS,
    bool: st.booleans(),
}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=3,
)


def values(kind: Any) -> "st.SearchStrategy[Any]":
    kind = plain_type(kind)
    origin, args = get_origin(kind), get_args(kind)
    if is_message(kind):
        return st.deferred(lambda: messages(kind))
    if origin in {Union, types.UnionType}:
        return st.one_of([values(a) for a in args])
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*[values(a) for a in args])
    if origin is dict:
        return st.dictionaries(TEXTS, values(args[1]), max_size=2)
    if kind is type(None):
        return st.none()
    if kind is Absent:
        return st.just(ABSENT)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    return SCALARS[kind]


def messages(kind: Any) -> "st.SearchStrategy[Any]":
    if kind is ControlSettings:
        return st.just(ControlSettings())  # its values have to fit each other
    if kind is Range:
        return st.tuples(st.integers(0, 9), st.integers(1, 9)).map(lambda r: Range(r[0], sum(r)))
    hints = typing.get_type_hints(kind)
    return st.builds(kind, **{f.name: values(hints[f.name]) for f in msgspec.structs.fields(kind)})


MESSAGES = st.sampled_from(classes()).flatmap(messages)


@given(value=MESSAGES)
def test_a_message_comes_back_as_it_was(value: Message) -> None:
    """In the canonical form, and in what Python's own JSON writes: that of older releases."""
    kind = type(value)
    written = encode(value)
    assert decode(kind, written) == value
    assert encode(decode(kind, written)) == written
    older = json.dumps(to_plain(value), sort_keys=True, separators=(",", ":"))
    assert decode(kind, older.encode()) == value
    assert json.loads(written) == json.loads(older)


@given(value=MESSAGES, data=st.data())
def test_a_changed_message_is_read_or_refused(value: Message, data: st.DataObject) -> None:
    kind = type(value)
    plain = json.loads(encode(value))
    name = data.draw(st.sampled_from([*plain, "new"]))
    if data.draw(st.booleans()):
        plain.pop(name, None)
    else:
        plain[name] = data.draw(ANYTHING)
    text = json.dumps(plain).encode()
    if data.draw(st.booleans()):
        text = text[: data.draw(st.integers(0, len(text)))]
    try:
        read = decode(kind, text)
    except PeerError:
        return
    unknown = set(plain) - {"is", *(f.name for f in msgspec.structs.fields(kind))}
    assert not unknown or not kind.__struct_config__.forbid_unknown_fields
    assert decode(kind, encode(read)) == read


@given(value=ANYTHING, data=st.data())
def test_any_text_is_read_as_pythons_own_parser_reads_it(value: object, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode(errors="surrogatepass")
    at = data.draw(st.integers(0, len(text)))
    text = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at:]
    try:
        expected = json.loads(text.decode(), parse_constant=_refused)
    except ValueError:
        with pytest.raises(PeerError):
            parsed(text)
        return
    assert json.dumps(parsed(text)) == json.dumps(expected)


def _refused(name: str) -> None:
    raise ValueError(name)
