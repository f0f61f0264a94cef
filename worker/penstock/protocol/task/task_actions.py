"""What a task wants done: orders to the shell, in order.

Those that can fail have an outcome, which the shell gives back as an event (:mod:`task_events`).
"""

from dataclasses import dataclass
from typing import Any

from penstock.base.values import hot_dataclass
from penstock.contract.ids import ChannelId, Epoch, KeyGroup, SplitId, Term, Version
from penstock.contract.keygroups import Share
from penstock.contract.manifest import SinkHandle, SplitState, StateFile, TaskManifest
from penstock.model.elements import Barrier, Control, Data, LatencyMarker


@dataclass(frozen=True, slots=True)
class LoadState:
    """Make these key groups, files and split states the task's own, then say Loaded(version).

    ``watermark_us`` is where event time stands; ``emitted_us`` up to when windows of these groups
    may have been emitted, by whichever task had them.
    """

    version: Version
    share: Share
    files: tuple[StateFile, ...]
    splits: tuple[SplitState, ...]
    watermark_us: int | None = None
    emitted_us: int | None = None


@dataclass(frozen=True, slots=True)
class Preload:
    """Bring these files near before they are needed, then say Preloaded(version)."""

    version: Version
    files: tuple[StateFile, ...]


@dataclass(frozen=True, slots=True)
class ReportReady:
    """Report that the task is built and waits for Started."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Report that the proposed ``version`` is known here and its files are near."""

    version: Version


@hot_dataclass
class ProcessRows:
    """Run the rows through the task's steps; what leaves comes back as Produced."""

    origin: ChannelId | SplitId
    data: Data[Any]


@hot_dataclass
class SendMark:
    """Pass a latency marker on to one receiver, or measure it where the rows end."""

    origin: ChannelId
    marker: LatencyMarker


@hot_dataclass
class AdvanceWatermark:
    """Tell the steps the task's watermark; what they emit comes back as Produced."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Fire:
    """Run the due processing-time timers of a key group."""

    group: KeyGroup


@hot_dataclass
class Send:
    """Put an element behind everything else on a channel; wait for credit if it is data."""

    channel: ChannelId
    element: Data[Any] | Control


@dataclass(frozen=True, slots=True)
class RelayBarrier:
    """Give a barrier that came in band to the sources of this worker, as Injected."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Cut now, on the task's thread; store beside processing; then say Stored or StoreFailed.

    The files must hold every change since epoch ``since``, whatever was cut in between.
    """

    barrier: Barrier
    since: Epoch
    watermark_us: int | None


@dataclass(frozen=True, slots=True)
class ExpediteSnapshot:
    """Somebody waits for the snapshot that is being stored: no rest until it is."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Report the snapshot; repeated by the member until it is decided."""

    term: Term
    epoch: Epoch
    manifest: TaskManifest


@dataclass(frozen=True, slots=True)
class Failed:
    """Report that this epoch cannot be completed here; the job goes on."""

    term: Term
    epoch: Epoch
    reason: str


@dataclass(frozen=True, slots=True)
class ConfirmCommitted:
    """Changes up to ``epoch`` are safe: forget that they were dirty; readers may acknowledge."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class PublishOutput:
    """Make the output of a committed epoch visible, then say Published; retried until done."""

    epoch: Epoch
    handles: tuple[SinkHandle, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the staging of output that is known published for good."""

    handles: tuple[SinkHandle, ...]


@dataclass(frozen=True, slots=True)
class Discard:
    """Drop prepared output that will never be committed (a reset)."""

    handles: tuple[SinkHandle, ...]


@dataclass(frozen=True, slots=True)
class CloseSplits:
    """These splits have moved to another task."""

    splits: tuple[SplitId, ...]


@dataclass(frozen=True, slots=True)
class DropGroups:
    """These key groups have moved to another task: forget their state."""

    share: Share


@dataclass(frozen=True, slots=True)
class AnnounceVersion:
    """Carry ``version`` in the credit of every input channel from now on."""

    version: Version


@dataclass(frozen=True, slots=True)
class Resumed:
    """Report that the task goes on under ``version``."""

    version: Version


@dataclass(frozen=True, slots=True)
class ReportFinished:
    """The task has sent its last element and heard the last one of every input."""


Action = (
    LoadState
    | Preload
    | ReportReady
    | Prepared
    | ProcessRows
    | SendMark
    | AdvanceWatermark
    | Fire
    | Send
    | RelayBarrier
    | Snapshot
    | ExpediteSnapshot
    | Ack
    | Failed
    | ConfirmCommitted
    | PublishOutput
    | Forget
    | Discard
    | CloseSplits
    | DropGroups
    | AnnounceVersion
    | Resumed
    | ReportFinished
)
