"""What keepers, and a keeper and its engine, say to each other.

Every message travels in an :class:`Envelope` with the term of its sender; a receiver refuses a
lower term. Everything is level-triggered: :class:`Heartbeat` repeats all that a leader must know,
and the leader repeats each command until a heartbeat shows its effect, so a lost message is
repaired by the next one and a repeated one does no harm. Data never travels here.
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
    """A new term begins: confirm ``epoch`` (publish, go forward), abort only newer ones.

    The engine drops what is in flight above ``epoch`` under lower terms, as after ``Abort``.
    """

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
    """Go back to ``epoch`` (0: to nothing): discard all newer state, build tasks, say ready.

    ``root`` names the checkpoint to load; its table may be of another version than
    ``assignment``, and every task takes what its share of ``assignment`` needs. ``splits`` are the
    first states of a job without a checkpoint. A Reset to the attempt already taken is ignored.
    """

    attempt: Attempt
    epoch: Epoch
    root: BlobRef | None
    assignment: Assignment
    members: tuple[Member, ...]
    splits: tuple["StageSplits", ...] = ()


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
    """``epoch`` will never be committed under this term: carry its handles, forget its barrier.

    Only barriers of this term and number are meant: the number may recur under a higher term.
    """

    attempt: Attempt
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Prepare:
    """Rescale, step 1: the proposed table; joiners build tasks, gainers pre-load from ``root``.

    ``members`` are those of both tables. A joiner takes ``attempt``; when its tasks wait for
    input it reports ready and running as well as prepared. ``splits`` as in :class:`Reset`.
    """

    attempt: Attempt
    assignment: Assignment
    members: tuple[Member, ...]
    epoch: Epoch
    root: BlobRef | None
    splits: tuple["StageSplits", ...] = ()


@dataclass(frozen=True, slots=True)
class CancelRescale:
    """``version`` is off: release what is held to the old owners, and report prepared 0."""

    attempt: Attempt
    version: Version


@dataclass(frozen=True, slots=True)
class Adopt:
    """Rescale, step 4: ``version`` is committed with ``epoch``: load the last delta and resume.

    It confirms ``epoch`` as :class:`Commit` does. Leaving tasks report resumed at once.
    """

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
    """End this one engine: the job is closed, or it is no member (any more). Not its successor."""

    incarnation: Incarnation
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
class Broken:
    """``attempt`` cannot go on here: a stream broke or a task failed. ``fatal`` fails the job.

    Said by an engine to its keeper, which repeats it in heartbeats until a Reset to a higher
    attempt. A failing :class:`Enumerate` is said with the attempt that it named.
    """

    attempt: Attempt
    reason: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """Where an engine stands: said to its keeper when it changes, and repeated for its life.

    - ``attempt``: the last Reset (or joiner's Prepare) taken; all other fields are about it and
      begin at zero with it. ``ready``, ``running``: that attempt once reached, 0 before.
    - ``prepared``: the proposed version whose table is loaded, 0 after :class:`CancelRescale`;
      ``resumed``: the version under which all tasks here run (Reset's own to begin with);
      ``settled``: the version whose :class:`Settled` was done; ``left``: leaving tasks ended.
    - ``published``: the newest committed epoch all of whose handles known here are published.
    - ``exhausted``: every source task here has read all its splits, under ``resumed``; True where
      there are none. ``ended``: :class:`EndStreams` was done.
    """

    attempt: Attempt = Attempt(0)
    ready: Attempt = Attempt(0)
    running: Attempt = Attempt(0)
    prepared: Version = Version(0)
    resumed: Version = Version(0)
    settled: Version = Version(0)
    published: Epoch = Epoch(0)
    exhausted: bool = False
    left: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """All that a leader must know of a member, repeated by its keeper.

    ``sequence`` rises by one: a late one is dropped. ``replaces`` is the engine that died here
    before this one. ``fingerprint`` is the plan's. ``injected`` is the newest epoch whose Inject
    reached the engine under the envelope's term, ``undecided`` one injected or acknowledged here
    of which neither Commit nor Abort was heard (0: none).
    """

    ordinal: Ordinal
    incarnation: Incarnation
    keeper: str
    flight: str
    sequence: int
    fingerprint: str
    status: EngineStatus
    injected: Epoch = Epoch(0)
    undecided: Epoch = Epoch(0)
    broken: Broken | None = None
    replaces: Incarnation | None = None


@dataclass(frozen=True, slots=True)
class EngineLost:
    """An engine died or fell silent: said by its keeper, and repeated until another one lives.

    ``fatal``: the job cannot start here (its code does not load), so it fails with ``reason``.
    """

    ordinal: Ordinal
    incarnation: Incarnation
    reason: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class TaskAck:
    """A task's snapshot of ``epoch`` is stored and its output prepared. Repeated until decided.

    ``term`` is the barrier's: an aborted number may recur under a higher one.
    """

    attempt: Attempt
    term: Term
    epoch: Epoch
    manifest: TaskManifest


@dataclass(frozen=True, slots=True)
class EpochFailed:
    """A step of ``epoch`` failed before the swap: abort this epoch and nothing else."""

    attempt: Attempt
    term: Term
    epoch: Epoch
    task: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """A handle could not be published; the member retries, and says why meanwhile.

    ``fatal``: retrying cannot help; the job fails with ``reason``, its output still committed.
    """

    attempt: Attempt
    epoch: Epoch
    reason: str
    fatal: bool = False


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


@dataclass(frozen=True, slots=True)
class Suspect:
    """Asked by one keeper of another: does ``leader`` refuse your dials too? Answer ``keeper``."""

    leader: str
    keeper: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """Answer to :class:`Suspect`: it does. Silence means that it does not."""

    leader: str


# What an engine says to its keeper, and what a keeper says to the leader.
EngineReport = (
    EngineHello
    | EngineStatus
    | TaskAck
    | EpochFailed
    | Broken
    | PublishFailed
    | Splits
    | CheckpointWanted
)
Report = (
    Heartbeat
    | EngineLost
    | TaskAck
    | EpochFailed
    | PublishFailed
    | Splits
    | CheckpointWanted
    | Suspect
    | Confirm
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
    """What ``Latest.members`` names: all that a new leader needs to go on with an attempt.

    ``members`` in order of ordinals, joiners of a proposed table included. ``proposed`` holds once
    ``Latest.version`` is its version; ``assignment`` until then. ``splits`` are the first states
    of a job without a checkpoint.
    """

    attempt: Attempt
    members: tuple[Member, ...]
    assignment: Assignment
    proposed: Assignment | None = None
    splits: tuple["StageSplits", ...] = ()


__all__ = [
    "Abort",
    "Adopt",
    "Announce",
    "Broken",
    "CancelRescale",
    "CheckpointWanted",
    "Command",
    "Commit",
    "Confirm",
    "EndStreams",
    "EngineHello",
    "EngineLost",
    "EngineReport",
    "EngineStatus",
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
    "Suspect",
    "TaskAck",
]
