"""What keepers, and a keeper and its engine, say to each other.

Every message travels in an :class:`Envelope` with the term of its sender; a receiver refuses a
lower term. Reports are level-triggered: :class:`Heartbeat` repeats all that a new leader must
know, so that a lost message is repaired by the next heartbeat. Data never travels here.
"""

from dataclasses import dataclass

from penstock.contract.assignment import Assignment
from penstock.contract.ids import (
    Attempt,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
    Term,
    Version,
)
from penstock.contract.latest import Leader, Member
from penstock.contract.manifest import BlobRef, SinkHandle, SplitState, TaskManifest
from penstock.contract.plan import PhysicalPlan

# --- Leader to member, and on to the engine --------------------------------------------------


@dataclass(frozen=True, slots=True)
class Announce:
    """A new term begins: confirm ``epoch`` (publish, go forward), abort only newer ones."""

    leader: Leader
    attempt: Attempt
    epoch: Epoch
    version: Version
    published_through: Epoch


@dataclass(frozen=True, slots=True)
class Enumerate:
    """List the splits of every source: asked of one member, before the very first attempt."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Reset:
    """Go back to ``epoch`` (0: to nothing): discard all newer state, build tasks, say Ready.

    ``root`` names the checkpoint to load; ``splits`` are the first states of a job without one.
    """

    attempt: Attempt
    epoch: Epoch
    root: BlobRef | None
    assignment: Assignment
    members: tuple[Member, ...]
    splits: tuple[SplitState, ...] = ()


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish these handles of a committed epoch; done ones are no error."""

    attempt: Attempt
    epoch: Epoch
    handles: tuple[SinkHandle, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """All are READY and the old output is visible: sources seek, streams open."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Inject:
    """Put the barrier of ``epoch`` into the sources; ``kind`` as in ``BarrierKind``."""

    attempt: Attempt
    epoch: Epoch
    version: Version
    kind: int
    committed: Epoch


@dataclass(frozen=True, slots=True)
class Commit:
    """``epoch`` is committed: sinks publish it; a rescale goes forward to ``version``."""

    attempt: Attempt
    epoch: Epoch
    version: Version


@dataclass(frozen=True, slots=True)
class Abort:
    """``epoch`` will never be committed under this term: carry its handles, forget its barrier."""

    attempt: Attempt
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Prepare:
    """Rescale, step 1: the proposed table; joiners build tasks, gainers pre-load from ``root``."""

    attempt: Attempt
    assignment: Assignment
    members: tuple[Member, ...]
    epoch: Epoch
    root: BlobRef | None


@dataclass(frozen=True, slots=True)
class CancelRescale:
    """The proposed ``version`` is off: release what is held to the old owners."""

    attempt: Attempt
    version: Version


@dataclass(frozen=True, slots=True)
class Adopt:
    """Rescale, step 4: version is committed; load the last delta from ``root`` and resume."""

    attempt: Attempt
    version: Version
    epoch: Epoch
    root: BlobRef


@dataclass(frozen=True, slots=True)
class Settled:
    """All have resumed under ``version``: leaving tasks may end their streams."""

    attempt: Attempt
    version: Version


@dataclass(frozen=True, slots=True)
class EndStreams:
    """The final epoch is published: sources send end of stream."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Shutdown:
    """End the engine: the job is finished, stopped, or this worker is no longer needed."""

    reason: str


Command = (
    Announce
    | Enumerate
    | Reset
    | Publish
    | Start
    | Inject
    | Commit
    | Abort
    | Prepare
    | CancelRescale
    | Adopt
    | Settled
    | EndStreams
    | Shutdown
)

# --- Engine to keeper, and on to the leader ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class EngineHello:
    """First words of an engine: who it is, where it listens, and the plan it compiled."""

    ordinal: Ordinal
    incarnation: Incarnation
    flight: str
    plan: PhysicalPlan


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """All that the leader must know of a member, repeated; ``phase`` as in ``protocol.member``.

    ``ready`` and ``running`` are attempts, ``prepared``, ``resumed`` versions, ``published`` the
    newest epoch this member has published; ``exhausted`` says that every source task here has
    read all its splits; ``left`` that its leaving tasks have ended.
    """

    ordinal: Ordinal
    incarnation: Incarnation
    keeper: str
    flight: str
    attempt: Attempt
    ready: Attempt
    running: Attempt
    version: Version
    prepared: Version
    resumed: Version
    published: Epoch
    exhausted: bool
    left: bool
    sequence: int


@dataclass(frozen=True, slots=True)
class TaskAck:
    """A task's snapshot of ``epoch`` is stored and its output prepared. Repeated until decided."""

    attempt: Attempt
    epoch: Epoch
    manifest: TaskManifest


@dataclass(frozen=True, slots=True)
class EpochFailed:
    """A step of ``epoch`` failed before the swap: abort this epoch and nothing else."""

    attempt: Attempt
    epoch: Epoch
    task: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """This attempt cannot go on here: a stream broke or a task failed. ``fatal`` fails the job."""

    attempt: Attempt
    ordinal: Ordinal
    reason: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """A handle could not be published; the member retries, and says why meanwhile."""

    epoch: Epoch
    reason: str


@dataclass(frozen=True, slots=True)
class Splits:
    """Answer to :class:`Enumerate`: the first state of every split, by source stage."""

    attempt: Attempt
    splits: tuple["StageSplits", ...]


@dataclass(frozen=True, slots=True)
class StageSplits:
    """The splits of one source stage, in the order in which they are dealt out."""

    stage: StageIndex
    splits: tuple[SplitState, ...]


@dataclass(frozen=True, slots=True)
class CheckpointWanted:
    """Ask for an epoch soon: an ingest sender waits for its end to be committed."""

    attempt: Attempt


Report = (
    EngineHello
    | Heartbeat
    | TaskAck
    | EpochFailed
    | Broken
    | PublishFailed
    | Splits
    | CheckpointWanted
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A command or report with the job, the sender's term and its ordinal."""

    job_uid: JobUid
    term: Term
    sender: Ordinal
    body: Command | Report


@dataclass(frozen=True, slots=True)
class MembersFile:
    """What ``Latest.members`` names: the members of an attempt, in order of ordinals."""

    attempt: Attempt
    members: tuple[Member, ...]


__all__ = [
    "Abort",
    "Adopt",
    "Announce",
    "Broken",
    "CancelRescale",
    "CheckpointWanted",
    "Command",
    "Commit",
    "EndStreams",
    "EngineHello",
    "Enumerate",
    "Envelope",
    "EpochFailed",
    "Heartbeat",
    "Inject",
    "MembersFile",
    "Prepare",
    "Publish",
    "PublishFailed",
    "Report",
    "Reset",
    "Settled",
    "Shutdown",
    "Splits",
    "StageSplits",
    "Start",
    "TaskAck",
]
