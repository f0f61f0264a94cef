"""The actions of a task: what its core orders from the shell, in order.

An action that can fail has an outcome, which the shell gives back as an event (:mod:`task_events`).
"""

from dataclasses import dataclass
from typing import Any

from penstock.base.values import hot_dataclass
from penstock.contract.ids import ChannelId, Epoch, SplitId, Term, Version
from penstock.contract.keygroups import Share
from penstock.contract.manifest import SinkHandle, SplitState, StateFile, TaskManifest
from penstock.model.elements import Barrier, Control, Data, LatencyMarker


@dataclass(frozen=True, slots=True)
class LoadState:
    """Load these key groups, files and split states into the task. Answered by Loaded(version).

    ``watermark_us``: the event time of the task. ``emitted_us``: the time up to which windows of
    these groups may have been emitted, by any task that had them.
    """

    version: Version
    share: Share
    files: tuple[StateFile, ...]
    splits: tuple[SplitState, ...]
    watermark_us: int | None = None
    emitted_us: int | None = None


@dataclass(frozen=True, slots=True)
class Preload:
    """Fetch these files before they are needed. Answered by Preloaded(version)."""

    version: Version
    files: tuple[StateFile, ...]


@dataclass(frozen=True, slots=True)
class ReportReady:
    """Report that the task is built and waits for Started."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Report that the proposed ``version`` is known here and its files are fetched."""

    version: Version


@hot_dataclass
class ProcessRows:
    """Run the rows through the task's steps. Rows that leave come back as Produced."""

    origin: ChannelId | SplitId
    data: Data[Any]


@hot_dataclass
class SendMark:
    """Pass a latency marker on to one receiver, or measure it where the rows end."""

    origin: ChannelId
    marker: LatencyMarker


@hot_dataclass
class AdvanceWatermark:
    """Tell the steps the task's watermark. Rows that they emit come back as Produced."""

    time_us: int


@hot_dataclass
class Send:
    """Put an element behind all others on a channel. Data waits for credit."""

    channel: ChannelId
    element: Data[Any] | Control


@dataclass(frozen=True, slots=True)
class RelayBarrier:
    """Give a barrier that came in band to the sources of this worker, as Injected."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Cut now, on the task's thread, and store beside processing.

    The files must hold every change since epoch ``since``, whatever was cut in between. Answered by
    SnapshotStored or StoreFailed.
    """

    barrier: Barrier
    since: Epoch
    watermark_us: int | None


@dataclass(frozen=True, slots=True)
class ExpediteSnapshot:
    """Write the snapshot that is being stored at full speed, because somebody waits for it."""


@dataclass(frozen=True, slots=True)
class Ack:
    """Acknowledge the snapshot. The member repeats the report until the epoch is decided."""

    term: Term
    epoch: Epoch
    manifest: TaskManifest


@dataclass(frozen=True, slots=True)
class Failed:
    """Report that this epoch cannot be completed here. The job goes on."""

    term: Term
    epoch: Epoch
    reason: str


@dataclass(frozen=True, slots=True)
class ConfirmCommitted:
    """Mark changes up to ``epoch`` as clean: they are committed. Readers may acknowledge input."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class PublishOutput:
    """Make the output of a committed epoch visible; retried until done. Answered by Published."""

    epoch: Epoch
    handles: tuple[SinkHandle, ...]


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove the staged files of output that is recorded as published."""

    handles: tuple[SinkHandle, ...]


@dataclass(frozen=True, slots=True)
class Discard:
    """Drop prepared output that will never be committed (a reset)."""

    handles: tuple[SinkHandle, ...]


@dataclass(frozen=True, slots=True)
class CloseSplits:
    """Close these splits: they have moved to another task."""

    splits: tuple[SplitId, ...]


@dataclass(frozen=True, slots=True)
class DropGroups:
    """Forget the state of these key groups: they have moved to another task."""

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
    """Report that the task has sent its last element and received the last one of every input."""


Action = (
    LoadState
    | Preload
    | ReportReady
    | Prepared
    | ProcessRows
    | SendMark
    | AdvanceWatermark
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
