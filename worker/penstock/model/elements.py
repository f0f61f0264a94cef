"""Elements of a channel (data, barriers, watermarks, markers), and the credit that flows back.

Only :class:`Data` has a payload (an Arrow record batch in the engine, a list of records in the
simulator); the protocol core never reads it. Event times are microseconds.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from penstock.base.values import hot_dataclass
from penstock.contract.ids import ChannelId, Epoch, TaskId, Term, Version

P = TypeVar("P")


class BarrierKind(IntEnum):
    """Why an epoch is taken. The numbers are used on the wire."""

    CHECKPOINT = 0
    SAVEPOINT = 1
    RESCALE = 2
    FINAL = 3


@hot_dataclass
class Data(Generic[P]):
    """Rows in order. Both sides count ``charge`` bytes against the credit of the channel."""

    payload: P
    rows: int
    charge: int
    min_ts: int | None = None
    max_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Barrier:
    """Separates the rows that belong to ``epoch`` from later rows.

    ``committed`` is the last epoch that the leader knows as committed. ``version`` is the
    assignment that holds after the barrier (the next one if the kind is RESCALE).
    """

    term: Term
    epoch: Epoch
    version: Version
    kind: BarrierKind
    committed: Epoch
    time_us: int


@hot_dataclass
class Watermark:
    """No row with an event time at or below ``time_us`` follows on this channel, except late rows."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Idle:
    """The sender expects no rows: its watermark must not hold back the receiver's."""


@dataclass(frozen=True, slots=True)
class Active:
    """Ends :class:`Idle`. It is sent before the next element."""


@hot_dataclass
class LatencyMarker:
    """Flows like a row from ``source``; ``origin_ns`` is the monotonic time at which it was made."""

    source: TaskId
    origin_ns: int


@dataclass(frozen=True, slots=True)
class EndOfStream:
    """The last element of a channel: nothing follows, and closing the stream is no failure."""


@hot_dataclass
class Credit:
    """From receiver to sender: bytes granted and elements received since the attempt began.

    Both numbers are totals, so a lost or repeated message does no harm. ``version`` is the
    assignment that the receiver has loaded: the held rows of a rescale wait for it. ``window`` is
    how many bytes may wait at the receiver at its present speed; more may be granted for a while.
    """

    channel: ChannelId
    granted: int
    received: int
    version: Version
    window: int


Control = Barrier | Watermark | Idle | Active | LatencyMarker | EndOfStream
Element = Data[P] | Control
