"""The ends of a simulated channel, and the elements between them."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.base.limits import ELEMENT_FIXED_CHARGE_BYTES
from penstock.contract.ids import Incarnation, JobUid, Ordinal, Version
from penstock.model.elements import Control, Data
from penstock.protocol.channel.flow_control import Fill, ReceiveChannel, SendChannel
from penstock.protocol.channel.pace import CreditWindows, Pace
from sim.cluster.protocol_monitor import ChannelOrder

Element = Data[tuple[object, ...]] | Control


@dataclass(frozen=True, slots=True)
class Wire:
    """One element of a channel on a stream."""

    sequence: int
    element: Element


@dataclass(frozen=True, slots=True)
class Flush:
    """A deadline of a channel's buffer or credit has come."""


@dataclass(frozen=True, slots=True)
class ChannelSizes:
    """Bytes of buffers and credit. They are small, so that they fill."""

    buffer_bytes: int = 2_000
    flush_interval_s: float = 0.002
    high_watermark: int = 6_000
    low_watermark: int = 3_000


@dataclass(slots=True)
class Outbound:
    """The sender's end of a channel. ``stream`` is None inside one worker."""

    core: SendChannel[tuple[object, ...]]
    stream: int | None
    waiting: deque[Element] = field(default_factory=deque)
    told_version: Version = Version(0)
    order: ChannelOrder = field(default_factory=ChannelOrder)


@dataclass(slots=True)
class SimInbound:
    """The receiver's end of a channel, and its queue."""

    core: ReceiveChannel
    stream: int | None
    queue: deque[Element] = field(default_factory=deque)


@dataclass(slots=True)
class ChannelLoad:
    """The pace of a task, and the windows of its inputs."""

    pace: Pace = field(default_factory=Pace)
    windows: CreditWindows = field(default_factory=CreditWindows)


@dataclass(frozen=True, slots=True)
class SimStreamIdentity:
    """The identity of this engine for its peers."""

    job_uid: JobUid
    ordinal: Ordinal
    incarnation: Incarnation
    process: str


def pieces(data: Data[tuple[object, ...]], charge_max: int) -> Iterator[Data[tuple[object, ...]]]:
    """Cut rows into pieces of a bounded charge, or of one row."""
    if data.charge <= charge_max or data.rows == 1:
        yield data
        return
    half, fixed = data.rows // 2, ELEMENT_FIXED_CHARGE_BYTES
    row = (data.charge - fixed) // data.rows
    for rows in (data.payload[:half], data.payload[half:]):
        piece = Data(rows, len(rows), fixed + row * len(rows), data.min_ts, data.max_ts)
        yield from pieces(piece, charge_max)


def join(fill: Fill[tuple[object, ...]]) -> Data[tuple[object, ...]]:
    """Join the batches that travel together into one element."""
    rows = tuple(r for part in fill.parts for r in part.payload)
    lows = [p.min_ts for p in fill.parts if p.min_ts is not None]
    highs = [p.max_ts for p in fill.parts if p.max_ts is not None]
    return Data(rows, len(rows), fill.charge, min(lows, default=None), max(highs, default=None))
