"""What travels on a channel: data, barriers, watermarks, marks; and credit, the other way.

Only :class:`Data` has a payload (an Arrow record batch in the engine, a list of records in the
simulator); the protocol core never looks into it. Times of events are microseconds.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from penstock.base.values import hot_dataclass
from penstock.contract.ids import ChannelId, Epoch, TaskId, Term, Version

P = TypeVar("P")


class BarrierKind(IntEnum):
    """Why an epoch is taken; the numbers are those of the wire."""

    CHECKPOINT = 0
    SAVEPOINT = 1
    RESCALE = 2
    FINAL = 3


@hot_dataclass
class Data(Generic[P]):
    """Rows in order. ``charge`` is what both sides count against the credit of the channel."""

    payload: P
    rows: int
    charge: int
    min_ts: int | None = None
    max_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """Cut between what belongs to ``epoch`` and what does not.

    ``committed`` is the last epoch known committed by the leader; ``version`` is the assignment
    that holds behind the barrier (the next one, when the kind is RESCALE).
    """

    term: Term
    epoch: Epoch
    version: Version
    kind: BarrierKind
    committed: Epoch
    time_us: int


@hot_dataclass
class Watermark:
    """No row with an event time at or below ``time_us`` follows on this channel, save late ones."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The sender has nothing to expect: its watermark does not hold the receiver's back."""


@dataclass(frozen=True, slots=True)
class Active:
    """Ends :class:`Idle`; sent before the next element."""


@hot_dataclass
class LatencyMarker:
    """Travels like a row from ``source``; ``origin_ns`` is the monotonic clock at its making."""

    source: TaskId
    origin_ns: int


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """The last element of a channel: nothing follows, and closing it is no break."""


@hot_dataclass
class Credit:
    """Receiver to sender: bytes granted and elements received since the attempt began.

    Both numbers are cumulative, so a lost or repeated message does no harm. ``version`` is the
    assignment the receiver has loaded: held records of a rescale wait for it. ``window`` is how
    many bytes may wait at the receiver at its present pace; for a while more may be granted.
    """

    channel: ChannelId
    granted: int
    received: int
    version: Version
    window: int


Control = Barrier | Watermark | Idle | Active | LatencyMarker | EndOfStream
Element = Data[P] | Control
