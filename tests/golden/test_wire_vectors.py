"""The bytes on the wire never change by accident: one hex file for each kind of message.

A line of a file is ``name: hex``. A change here is a new wire version, or a bug.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

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

T = TypeVar("T")
FOLDER = Path(__file__).parent / "wire"
SOURCE = TaskId(StageIndex(2), Ordinal(3), 4)
CHANNEL = ChannelId(1, SOURCE, TaskId(StageIndex(5), Ordinal(6), 7))
BIG = (1 << 63) - 1
LIFE = (JobUid("5f0e-job"), Attempt(9), Incarnation("c0ffee-life"))

ELEMENTS: dict[str, dict[str, tuple[int, wire.Head]]] = {
    "data": {
        "without event time": (1, DataHead(rows=8192, charge=300_000)),
        "with event time": (258, DataHead(1, 513, -1, 1_700_000_000_000_000)),
    },
    "barrier": {
        "checkpoint": (
            2,
            Barrier(Term(1), Epoch(7), Version(3), BarrierKind.CHECKPOINT, Epoch(6), 1_000_000),
        ),
        "final": (BIG, Barrier(Term(4), Epoch(BIG), Version(5), BarrierKind.FINAL, Epoch(0), -1)),
    },
    "watermark": {"now": (3, Watermark(1_700_000_000_000_000)), "first": (1, Watermark(-BIG - 1))},
    "latency": {"marker": (4, LatencyMarker(SOURCE, 123_456_789))},
    "end": {"end of stream": (5, EndOfStream())},
    "idle": {"idle": (6, Idle()), "active": (7, Active())},
    "packed": {
        "without event time": (1, DataHead(8192, 300_000, packed=True)),
        "with event time": (258, DataHead(1, 513, -1, 1_700_000_000_000_000, packed=True)),
    },
}
CREDITS = {
    "one": [Credit(CHANNEL, 8_388_608, 0, Version(1), 8_388_608)],
    "two": [
        Credit(CHANNEL, BIG, 12, Version(2), BIG),
        Credit(ChannelId(0, CHANNEL.receiver, SOURCE), 1, 2, Version(3), 65_536),
    ],
}
HELLOS: dict[str, wire.Hello] = {
    "channel": wire.ChannelHello(*LIFE, CHANNEL, bytes(range(32))),
    "link": wire.LinkHello(*LIFE, Ordinal(3), Ordinal(6)),
}
REPLIES = {
    "accepted link": wire.HandshakeReply(wire.AdmissionVerdict.ACCEPTED),
    "accepted channel": wire.HandshakeReply(wire.AdmissionVerdict.ACCEPTED, CHANNEL),
    "refused channel": wire.HandshakeReply(wire.AdmissionVerdict.REFUSED, CHANNEL, "attempt 2 is over"),
}


def read(kind: str) -> dict[str, bytes]:
    lines = (FOLDER / f"{kind}.hex").read_text().splitlines()
    pairs = (line.split(": ", 1) for line in lines if not line.startswith("#"))
    return {name: bytes.fromhex(text) for name, text in pairs}


def check(kind: str, cases: Mapping[str, T], encode: Callable[[T], bytes], decode: Callable[[bytes], T]) -> None:
    vectors = read(kind)
    assert {name: encode(value).hex(" ") for name, value in cases.items()} == {
        name: data.hex(" ") for name, data in vectors.items()
    }
    assert {name: decode(data) for name, data in vectors.items()} == cases


@pytest.mark.parametrize("kind", ELEMENTS)
def test_elements(kind: str) -> None:
    def encode(case: tuple[int, wire.Head]) -> bytes:
        sequence, head = case
        if isinstance(head, DataHead):
            return wire.encode_data(sequence, head)
        return wire.encode_control(sequence, head)

    check(kind, ELEMENTS[kind], encode, wire.decode)


def test_credits() -> None:
    check("credit", CREDITS, wire.encode_credits, wire.decode_credits)


def test_handshake() -> None:
    check("hello", HELLOS, wire.encode_hello, wire.decode_hello)
    check("reply", REPLIES, wire.encode_reply, wire.decode_reply)


def test_the_first_byte_is_that_of_the_published_table() -> None:
    first = {kind: {data[0] for data in read(kind).values()} for kind in [*ELEMENTS, "credit"]}
    assert first == {
        "data": {1},
        "barrier": {2},
        "watermark": {3},
        "latency": {4},
        "end": {5},
        "idle": {6},
        "packed": {7},
        "credit": {16},
    }
