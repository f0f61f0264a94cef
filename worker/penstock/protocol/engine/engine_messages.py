"""The events of an engine's core, and the actions that it orders. The shell acts in their order."""

from dataclasses import dataclass
from typing import TypeAlias

from penstock.contract.control_messages import (
    Adopt,
    Command,
    Enumerate,
    Prepare,
    Reset,
    StageSplits,
)
from penstock.contract.ids import Attempt, ChannelId, Epoch, Ordinal, TaskId, Term, Version
from penstock.contract.latest import Member, SinkRestore
from penstock.contract.manifest import BlobRef, Origin, RootManifest, SinkHandle
from penstock.contract.plan import Assignment
from penstock.model.elements import Barrier
from penstock.protocol.task import task_messages as ev

Loading: TypeAlias = Reset | Prepare | Adopt  # orders for which a manifest is read first

# --- Events -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OrderReceived:
    """The keeper passed an order on. ``wall_us`` is now, for the age of a barrier."""

    term: Term
    order: Command
    wall_us: int


@dataclass(frozen=True, slots=True)
class OutputClaimed:
    """The output folder belongs to this job, as ``order`` needs it."""

    order: Reset | Prepare
    root: RootManifest | None


@dataclass(frozen=True, slots=True)
class ManifestRead:
    """The manifest for ``order``. None: the file is gone, and the member prepares without it."""

    order: Loading
    root: RootManifest | None


Event: TypeAlias = OrderReceived | OutputClaimed | ManifestRead

# --- Actions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListSplits:
    """List the splits of the sources of some stages, and report them."""

    order: Enumerate


@dataclass(frozen=True, slots=True)
class EndTasks:
    """Give ``order`` to all tasks here, wait until they have ended, and forget them."""

    order: ev.ResetTo


@dataclass(frozen=True, slots=True)
class RetireTasks:
    """Wait for tasks whose work has ended, and forget them."""

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class DropTasks:
    """Forget tasks of a cancelled table. They end by themselves."""

    tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class ResetStreams:
    """Close every stream. Streams of ``attempt`` are held until OpenStreams."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class ClaimOutput:
    """Take the output folder. Answered by :class:`OutputClaimed`. ``root``: the checkpoint to load."""

    order: Reset | Prepare
    root: RootManifest | None

    @property
    def fresh(self) -> bool:
        """Return whether the job has no checkpoint yet."""
        return self.order.root is None

    @property
    def origin(self) -> Origin | None:
        """Return the savepoint from which the job has just started."""
        return None if self.root is None else self.root.origin


@dataclass(frozen=True, slots=True)
class ReadManifest:
    """Read the manifest ``ref``. Answered by :class:`ManifestRead`.

    ``optional``: the answer is None when the file is gone. It may have been collected after the
    rescale was cancelled. The adoption of a version reads all that it needs.
    """

    order: Loading
    ref: BlobRef
    optional: bool


@dataclass(frozen=True, slots=True)
class MakeTasks:
    """Make these tasks and start to load them. ``joining``: they run from the commit on."""

    tasks: tuple[TaskId, ...]
    assignment: Assignment
    root: RootManifest | None
    splits: tuple[StageSplits, ...]
    joining: bool


@dataclass(frozen=True, slots=True)
class OpenStreams:
    """Admit these channels, and dial those that begin here. Receivers have loaded ``version``."""

    members: dict[Ordinal, Member]
    channels: tuple[ChannelId, ...]
    version: Version


@dataclass(frozen=True, slots=True)
class ForgetStreams:
    """Forget channels that a settled version does not have. A later version may have them again."""

    channels: tuple[ChannelId, ...]


@dataclass(frozen=True, slots=True)
class TellTasks:
    """Put an event into the inbox of every task here."""

    event: ev.Event


@dataclass(frozen=True, slots=True)
class InjectBarrier:
    """Give a barrier to the source tasks here."""

    barrier: Barrier


@dataclass(frozen=True, slots=True)
class SweepStaging:
    """Remove the output that earlier attempts have staged."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class ClearStaging:
    """Remove all staged files of the job, which ends. Then call ``cleared`` of the core. All output is visible.

    Workers that left in a rescale did not remove their files, because they got no later commit.
    """

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class PublishFor:
    """Make output that the leader names visible, or do what ``sinks`` says of it. Then call ``published`` of the core.

    It is that of lost workers, or with ``whole`` that of whole sinks.
    """

    attempt: Attempt
    epoch: Epoch
    handles: tuple[SinkHandle, ...]
    sinks: tuple[SinkRestore, ...] = ()
    whole: bool = False


@dataclass(frozen=True, slots=True)
class WatchInputs:
    """Watch from now on for input that is in no checkpoint."""

    root: RootManifest | None
    splits: tuple[StageSplits, ...]


Action: TypeAlias = (
    ListSplits
    | EndTasks
    | RetireTasks
    | DropTasks
    | ResetStreams
    | ClaimOutput
    | ReadManifest
    | MakeTasks
    | OpenStreams
    | ForgetStreams
    | TellTasks
    | InjectBarrier
    | SweepStaging
    | ClearStaging
    | PublishFor
    | WatchInputs
)
