"""What happens to a task, and what a task wants done: the language of :class:`TaskCore`.

Events are facts, in the past tense or as the command that arrived; actions are orders to the
shell, which reports the outcome of those that can fail as another event. Payloads are opaque.
The tables at ``EVENTS`` and ``ACTIONS`` are the whole vocabulary.
"""

from dataclasses import dataclass
from typing import Any

from penstock.contract.assignment import Assignment
from penstock.contract.ids import ChannelId, Epoch, KeyGroup, SplitId, Term, Version
from penstock.contract.keygroups import Share
from penstock.contract.manifest import (
    RootManifest,
    SinkHandle,
    SplitState,
    StateFile,
    TaskManifest,
)
from penstock.model.elements import Barrier, Control, Data, LatencyMarker

# --- Events: life of a task ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Build:
    """Begin: load what the checkpoint says. Answered by Load or, for a joiner, by nothing."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The state of ``version`` asked for by Load is there."""

    version: Version


@dataclass(frozen=True, slots=True)
class Started:
    """All workers are READY and old output is visible: sources may read, rows may flow."""


@dataclass(frozen=True, slots=True)
class ResetTo:
    """The attempt is over: drop everything newer than ``epoch``. The last event of a core."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EndAll:
    """The final epoch is published: end the streams."""


# --- Events: input ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrived:
    """An element was taken from a channel for which ``reads`` was true."""

    channel: ChannelId
    element: Data[Any] | Control


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing to read, or the flush interval has passed: coalesced watermarks may go out."""


@dataclass(frozen=True, slots=True)
class RowsRead:
    """A source read rows of ``split``; ``data.max_ts`` is their largest event time."""

    split: SplitId
    data: Data[Any]


@dataclass(frozen=True, slots=True)
class SplitEmpty:
    """A split was asked and had nothing now."""

    split: SplitId


@dataclass(frozen=True, slots=True)
class SplitEnded:
    """A bounded split has no more rows, ever."""

    split: SplitId


@dataclass(frozen=True, slots=True)
class Waited:
    """The task could not read for a while (credit, upload, full sink): splits were not silent."""


@dataclass(frozen=True, slots=True)
class Injected:
    """The leader's barrier reached a source task, between two batches."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class TimerDue:
    """A processing-time timer of a key group is due."""

    group: KeyGroup


# --- Events: output --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows for one receiver: ``old`` under the assignment that holds, ``new`` under the next.

    Both are the same in ordinary life. None: the receiver has no place in that version
    (broadcast and round-robin edges).
    """

    old: ChannelId | None
    new: ChannelId | None
    data: Data[Any]


@dataclass(frozen=True, slots=True)
class Produced:
    """Rows that leave, in order."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class PeerVersion:
    """The receiver of an output channel announced in its credit that it has loaded ``version``."""

    channel: ChannelId
    version: Version


# --- Events: checkpoints ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parts:
    """What the shell has made durable for a snapshot."""

    files: tuple[StateFile, ...] = ()
    splits: tuple[SplitState, ...] = ()
    handles: tuple[SinkHandle, ...] = ()
    lists: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """The snapshot asked for under (term, epoch) is durable and its output prepared."""

    term: Term
    epoch: Epoch
    parts: Parts


@dataclass(frozen=True, slots=True)
class StoreFailed:
    """The snapshot could not be stored; ``handles`` are those of sinks that did prepare."""

    term: Term
    epoch: Epoch
    reason: str
    handles: tuple[SinkHandle, ...] = ()


@dataclass(frozen=True, slots=True)
class Committed:
    """``epoch`` is committed; the assignment that holds is ``version``."""

    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Aborted:
    """(term, epoch) will never be committed."""

    term: Term
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Announced:
    """A new term leads: ``epoch`` is committed under ``version``, and all newer ones are off."""

    term: Term
    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Published:
    """All output of ``epoch`` asked for by Publish is visible."""

    epoch: Epoch


# --- Events: rescale -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposed:
    """Step 1: the table of the next version; ``root`` is the checkpoint to pre-load from."""

    assignment: Assignment
    root: RootManifest | None


@dataclass(frozen=True, slots=True)
class Preloaded:
    """The files of Preload are near, or the try failed; both are fine."""

    version: Version


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The proposed ``version`` is off."""

    version: Version


@dataclass(frozen=True, slots=True)
class Adopting:
    """Step 4: ``version`` is committed with ``root``; load what was gained and resume."""

    version: Version
    root: RootManifest


@dataclass(frozen=True, slots=True)
class Settled:
    """All have resumed under ``version``: streams that it does not have may end."""

    version: Version


Event = (
    Build
    | Loaded
    | Started
    | ResetTo
    | EndAll
    | Arrived
    | Quiet
    | RowsRead
    | SplitEmpty
    | SplitEnded
    | Waited
    | Injected
    | TimerDue
    | Produced
    | PeerVersion
    | Stored
    | StoreFailed
    | Committed
    | Aborted
    | Announced
    | Published
    | Proposed
    | Preloaded
    | Cancelled
    | Adopting
    | Settled
)

# --- Actions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """Make these key groups, files and split states the task's own, then say Loaded(version)."""

    version: Version
    share: Share
    files: tuple[StateFile, ...]
    splits: tuple[SplitState, ...]
    watermark_us: int | None = None


@dataclass(frozen=True, slots=True)
class Preload:
    """Bring these files near before they are needed, then say Preloaded(version)."""

    version: Version
    files: tuple[StateFile, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """Report that the task is built and waits for Started."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Report that the proposed ``version`` is known here and its files are near."""

    version: Version


@dataclass(frozen=True, slots=True)
class Process:
    """Run the rows through the task's steps; what leaves comes back as Produced."""

    origin: ChannelId | SplitId
    data: Data[Any]


@dataclass(frozen=True, slots=True)
class Mark:
    """Pass a latency marker on to one receiver, or measure it where the rows end."""

    origin: ChannelId
    marker: LatencyMarker


@dataclass(frozen=True, slots=True)
class Advance:
    """Tell the steps the task's watermark; what they emit comes back as Produced."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Fire:
    """Run the due processing-time timers of a key group."""

    group: KeyGroup


@dataclass(frozen=True, slots=True)
class Send:
    """Put an element behind everything else on a channel; wait for credit if it is data."""

    channel: ChannelId
    element: Data[Any] | Control


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Cut now, on the task's thread; store beside processing; then say Stored or StoreFailed.

    The files must hold every change since epoch ``since``, whatever was cut in between.
    """

    barrier: Barrier
    since: Epoch
    watermark_us: int | None


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
class Confirm:
    """Changes up to ``epoch`` are safe: forget that they were dirty; readers may acknowledge."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Publish:
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
class Finished:
    """The task has sent its last element and heard the last one of every input."""


Action = (
    Load
    | Preload
    | Ready
    | Prepared
    | Process
    | Mark
    | Advance
    | Fire
    | Send
    | Snapshot
    | Ack
    | Failed
    | Confirm
    | Publish
    | Forget
    | Discard
    | CloseSplits
    | DropGroups
    | AnnounceVersion
    | Resumed
    | Finished
)
