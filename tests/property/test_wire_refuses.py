"""Damaged or forged metadata of a batch is refused, and never ends the process."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import PeerError
from penstock.base.limits import ELEMENT_FIXED_CHARGE_BYTES
from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
    Term,
    Version,
)
from penstock.model import wire
from penstock.model.elements import (
    Active,
    Barrier,
    BarrierKind,
    Credit,
    EndOfStream,
    Idle,
    LatencyMarker,
    Watermark,
)
from penstock.model.wire import DataHead

u64 = st.integers(0, (1 << 64) - 1)
i64 = st.integers(-(1 << 63), (1 << 63) - 1)
sequences = st.integers(1, (1 << 64) - 1)
tasks = st.builds(
    TaskId,
    st.integers(0, 255).map(StageIndex),
    st.integers(0, 1023).map(Ordinal),
    st.integers(0, (1 << 32) - 1),
)
channels = st.builds(ChannelId, st.integers(0, 65_535), tasks, tasks)
heads = st.builds(
    DataHead,
    st.integers(0, 1 << 31),
    st.integers(ELEMENT_FIXED_CHARGE_BYTES, wire.CHARGE_MAX),
    packed=st.booleans(),
)
controls = st.one_of(
    st.builds(
        Barrier,
        u64.map(Term),
        u64.map(Epoch),
        u64.map(Version),
        st.sampled_from(BarrierKind),
        u64.map(Epoch),
        i64,
    ),
    st.builds(Watermark, i64),
    st.builds(LatencyMarker, tasks, i64),
    st.sampled_from([EndOfStream(), Idle(), Active()]),
)
credit_lists = st.lists(
    st.builds(Credit, channels, u64, u64, u64.map(Version), st.integers(1, 2**64 - 1)),
    min_size=1,
    max_size=4,
)
names = st.text("abcdef-0123456789", max_size=40)
lives = (names.map(JobUid), u64.map(Attempt), names.map(Incarnation))
hellos = st.one_of(
    st.builds(wire.ChannelHello, *lives, channels, st.binary(min_size=32, max_size=32)),
    st.builds(
        wire.LinkHello,
        *lives,
        st.integers(0, 1023).map(Ordinal),
        st.integers(0, 1023).map(Ordinal),
    ),
)
replies = st.builds(
    wire.HandshakeReply,
    st.sampled_from([wire.AdmissionVerdict.ACCEPTED, wire.AdmissionVerdict.REFUSED]),
    st.none() | channels,
    st.text(max_size=200),
)
messages = st.one_of(
    st.builds(wire.encode_data, sequences, heads),
    st.builds(wire.encode_control, sequences, controls),
    credit_lists.map(wire.encode_credits),
    hellos.map(wire.encode_hello),
    replies.map(wire.encode_reply),
)
DECODERS: list[Callable[[bytes], object]] = [
    wire.decode,
    wire.decode_credits,
    wire.decode_hello,
    wire.decode_reply,
]


def refused(message: bytes) -> None:
    for decode in DECODERS:
        with pytest.raises(PeerError):
            decode(message)


@given(sequences, st.one_of(heads, controls))
def test_an_element_is_read_as_it_was_written(sequence: int, head: wire.Head) -> None:
    encode = wire.encode_data if isinstance(head, DataHead) else wire.encode_control
    assert wire.decode(encode(sequence, head)) == (sequence, head)  # type: ignore[arg-type]


@given(credit_lists, hellos, replies)
def test_credits_and_handshakes_are_read_as_they_were_written(
    owed: list[Credit], hello: wire.Hello, reply: wire.HandshakeReply
) -> None:
    assert wire.decode_credits(wire.encode_credits(owed)) == owed
    assert wire.decode_hello(wire.encode_hello(hello)) == hello
    assert wire.decode_reply(wire.encode_reply(reply)) == reply


@given(messages, st.data())
def test_a_message_cut_short_or_made_longer_is_refused(message: bytes, data: st.DataObject) -> None:
    refused(message[: data.draw(st.integers(0, len(message) - 1))])
    refused(message + data.draw(st.binary(min_size=1, max_size=8)))


@given(messages, st.data())
def test_a_message_with_a_changed_byte_is_refused(message: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(message) - 1))
    flip = data.draw(st.integers(1, 255))
    refused(message[:place] + bytes((message[place] ^ flip,)) + message[place + 1 :])


@given(st.integers(0, 255), st.binary(max_size=120))
def test_made_up_bytes_with_a_good_checksum_are_refused_or_canonical(kind: int, rest: bytes) -> None:
    message = wire.seal(bytes((kind,)) + rest)
    for decode in DECODERS:
        try:
            decode(message)
        except PeerError:
            continue
        assert again(decode, message) == message


@given(messages, st.integers(0, 200), st.integers(0, 255))
def test_a_changed_byte_under_a_new_checksum_is_refused_or_canonical(message: bytes, place: int, value: int) -> None:
    body = bytearray(message[:-4])
    body[place % len(body)] = value
    forged = wire.seal(bytes(body))
    for decode in DECODERS:
        try:
            decode(forged)
        except PeerError:
            continue
        assert again(decode, forged) == forged


def again(decode: Callable[[bytes], object], message: bytes) -> bytes:
    """Encode what was decoded. A decoder must not accept two encodings of one value."""
    value = decode(message)
    match value:
        case (int() as sequence, DataHead() as head):
            return wire.encode_data(sequence, head)
        case (int() as sequence, head):
            return wire.encode_control(sequence, head)  # type: ignore[arg-type]
        case list():
            return wire.encode_credits(value)
        case wire.HandshakeReply():
            return wire.encode_reply(value)
        case wire.ChannelHello() | wire.LinkHello():
            return wire.encode_hello(value)
    raise AssertionError(f"unknown value {value!r}")
