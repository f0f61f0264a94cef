"""The events of a task, and its actions: the language of :class:`TaskCore`.

An event is a fact, or a command that arrived. An action is an order to the shell, which performs
actions in their order. The shell reports the outcome of an action that can fail as another event.
Payloads are opaque.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.base.values import hot_dataclass
from penstock.contract.ids import ChannelId, Epoch, SplitId, Term, Version
from penstock.contract.keygroups import Share
from penstock.contract.manifest import (
    CopyDigest,
    GroupRows,
    GroupsTime,
    RootManifest,
    SinkHandle,
    SplitState,
    StateFile,
    TaskManifest,
)
from penstock.contract.plan import Assignment
from penstock.model.elements import Barrier, Control, Data, LatencyMarker

# --- Events: life of a task ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Build:
    """Begin: load the state of the checkpoint. A task that joins only pre-loads it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state of ``version`` that LoadState asked for is loaded."""

    version: Version


@dataclass(frozen=True, slots=True)
class Started:
    """All workers are READY and old output is visible: sources may read, rows may flow."""


@dataclass(frozen=True, slots=True)
class ResetTo:
    """The attempt is over: discard what is newer than ``epoch``. The last event of a core."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EndAll:
    """The final epoch is published: end the streams."""


# --- Events: input ---------------------------------------------------------------------------


@hot_dataclass
class ElementReceived:
    """An element was taken from a channel for which ``reads`` was true."""

    channel: ChannelId
    element: Data[Any] | Control


@hot_dataclass
class InputIdle:
    """There is no input, or the flush interval has passed. Marks that wait may be sent."""


@hot_dataclass
class RowsRead:
    """A source has read rows of ``split``. ``data.max_ts`` is their largest event time."""

    split: SplitId
    data: Data[Any]


@hot_dataclass
class SplitEmpty:
    """A split was asked for rows and had none. ``max_ts`` is the event time that the split has reached."""

    split: SplitId
    max_ts: int | None = None


@dataclass(frozen=True, slots=True)
class SplitEnded:
    """A bounded split has no more rows, ever."""

    split: SplitId


@hot_dataclass
class ReadBlocked:
    """The task could not read for a while (credit, upload, full sink). That is no silence."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A barrier reached a source task, from the leader or in band, between two batches."""

    barrier: Barrier


# --- Events: output --------------------------------------------------------------------------


@hot_dataclass
class RoutedRows:
    """Rows for one receiver: ``old`` under the assignment that holds, ``new`` under the next.

    Both are the same outside a rescale. None: that version does not have the receiver (broadcast
    and round-robin edges).
    """

    old: ChannelId | None
    new: ChannelId | None
    data: Data[Any]


@hot_dataclass
class Produced:
    """Rows that leave, in order."""

    pieces: tuple[RoutedRows, ...]


@hot_dataclass
class Fired:
    """The steps have fired one slice and have reached ``time_us``. Its rows have been given back as Produced."""

    time_us: int


@hot_dataclass
class FireOn:
    """The steps may fire their next slice: there is time for it between two elements of input."""


@hot_dataclass
class ClockReached:
    """By the clock of this machine, something of the steps is due. It depends on no input."""


@hot_dataclass
class AnswersCame:
    """Answers have come for which rows of the steps wait."""


@dataclass(frozen=True, slots=True)
class PeerVersion:
    """The receiver of an output channel has announced in its credit that it loaded ``version``."""

    channel: ChannelId
    version: Version


@dataclass(frozen=True, slots=True)
class Paced:
    """The window of each output channel, which bounds the held rows."""

    windows: Mapping[ChannelId, int]


# --- Events: checkpoints ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SnapshotParts:
    """What the shell has made durable for a snapshot."""

    files: tuple[StateFile, ...] = ()
    splits: tuple[SplitState, ...] = ()
    handles: tuple[SinkHandle, ...] = ()
    lists: tuple[str, ...] = ()
    copies: tuple[CopyDigest, ...] = ()
    load: tuple[GroupRows, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotStored:
    """The snapshot of (term, epoch) is durable, and its output is prepared."""

    term: Term
    epoch: Epoch
    parts: SnapshotParts


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The snapshot could not be stored. ``handles`` are those of sinks that have prepared output."""

    term: Term
    epoch: Epoch
    reason: str
    handles: tuple[SinkHandle, ...] = ()


@dataclass(frozen=True, slots=True)
class Expedited:
    """Somebody waits for ``epoch``, which may not have begun here yet."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochCommitted:
    """``epoch`` is committed, and the assignment that holds is ``version``."""

    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Aborted:
    """(term, epoch) will never be committed."""

    term: Term
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class TermAnnounced:
    """A new term has begun: ``epoch`` is committed under ``version``; newer epochs are aborted."""

    term: Term
    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Published:
    """All output of ``epoch`` that PublishOutput named is visible."""

    epoch: Epoch


# --- Events: rescale -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposed:
    """Step 1: the table of the next version. ``root`` is the checkpoint to pre-load from."""

    assignment: Assignment
    root: RootManifest | None


@dataclass(frozen=True, slots=True)
class Preloaded:
    """The files of Preload are fetched, or the try has failed. Both are harmless."""

    version: Version


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The proposed ``version`` is cancelled."""

    version: Version


@dataclass(frozen=True, slots=True)
class RescaleCommitted:
    """Step 4: ``version`` is committed with ``root``. Load the gained state and resume."""

    version: Version
    root: RootManifest


@dataclass(frozen=True, slots=True)
class RescaleSettled:
    """All have resumed under ``version``: the streams that it does not have may end."""

    version: Version


Event = (
    Build
    | Loaded
    | Started
    | ResetTo
    | EndAll
    | ElementReceived
    | InputIdle
    | RowsRead
    | SplitEmpty
    | SplitEnded
    | ReadBlocked
    | Injected
    | Produced
    | Fired
    | FireOn
    | ClockReached
    | AnswersCame
    | PeerVersion
    | SnapshotStored
    | StoreFailed
    | Expedited
    | EpochCommitted
    | Aborted
    | TermAnnounced
    | Published
    | Proposed
    | Preloaded
    | Cancelled
    | RescaleCommitted
    | RescaleSettled
    | Paced
)

# --- Actions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadState:
    """Load these key groups, files and split states into the task. Answered by Loaded(version).

    ``watermark_us``: the event time of the task. ``fired``: the times up to which windows and timers
    of these groups may have fired, by the tasks that had them. ``migrated`` names the steps whose files hold an earlier
    state, which must be converted.
    """

    version: Version
    share: Share
    files: tuple[StateFile, ...]
    splits: tuple[SplitState, ...]
    watermark_us: int | None = None
    fired: tuple[GroupsTime, ...] = ()
    migrated: tuple[str, ...] = ()


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
    """Tell the steps the time that the task has heard, and let them fire one slice of what is due.

    Rows that they emit come back as Produced. Answered by Fired, before anything else is done.
    """

    time_us: int


@dataclass(frozen=True, slots=True)
class AdvanceAside:
    """Tell the steps how far an edge has come that does not hold the task's time back. They emit nothing by it."""

    edge: int
    time_us: int


@hot_dataclass
class AdvanceClock:
    """Let the steps fire one slice of what is due by the clock. Rows that they emit come back as Produced."""


@hot_dataclass
class TakeAnswers:
    """Let the steps take the answers that have come. Rows that leave by them come back as Produced."""


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
    | AdvanceAside
    | AdvanceClock
    | TakeAnswers
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
