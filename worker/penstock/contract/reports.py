"""What an engine tells its keeper, and keepers each other; see :mod:`control`."""

from enum import StrEnum

from penstock.contract.codec import Message
from penstock.contract.commands import StageSplits
from penstock.contract.ids import Attempt, Epoch, Incarnation, Ordinal, TaskId, Term, Version
from penstock.contract.manifest import TaskManifest
from penstock.contract.plan import PhysicalPlan


class EngineHello(Message, tag="EngineHello"):
    """First words of an engine: who it is, where it listens, and the plan it compiled."""

    ordinal: Ordinal
    incarnation: Incarnation
    flight: str
    plan: PhysicalPlan


# How the reason of a Broken begins where a stream broke: that follows from what happened elsewhere.
STREAM_BROKE = "stream: "


class Broken(Message, tag="Broken"):
    """``attempt`` cannot go on here: a stream broke or a task failed. ``fatal`` fails the job.

    Said by an engine to its keeper, which repeats it in heartbeats until a Reset to a higher
    attempt. A failing :class:`Enumerate` is said with the attempt that it named.
    """

    attempt: Attempt
    reason: str
    fatal: bool = False


class EngineStatus(Message, tag="EngineStatus"):
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


class Heartbeat(Message, tag="Heartbeat"):
    """All that a leader must know of a member, repeated by its keeper.

    ``sequence`` rises by one: a late one is dropped. ``replaces`` is the engine that died here
    before this one. ``fingerprint`` is the plan's. ``injected`` is the newest epoch whose Inject
    reached the engine under the envelope's term, ``undecided`` one injected or acknowledged here
    of which neither Commit nor Abort was heard (0: none). ``pod`` is the uid of the pod that the
    worker runs in, empty on one machine. ``lost`` is how the engine before this one ended, until
    this one runs; ``draining``: the worker was told to end, so its end is no surprise.
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
    pod: str = ""
    lost: "EngineLost | None" = None
    draining: bool = False


class Cause(StrEnum):
    """Why a life is over: only what died counts towards the limit of restarts."""

    DIED = "died"  # its process ended unasked, or was silent for so long that it was ended
    ORDERED = "ordered"  # somebody had asked for it: a leader, an operator, its own keeper
    UNKNOWN = "unknown"  # it is gone, and nobody who could know it has said why


# Begins the reason of a job whose code does not load: the user's to mend, not worth a retry.
DOES_NOT_LOAD = "the job does not load"
# Is in the text of a death of which the kernel says that memory ran out.
OUT_OF_MEMORY = "the kernel ended it because memory ran out"
# Are in what a system call says that found no room on a volume, however it is wrapped on its way.
NO_ROOM = ("No space left on device", "Disk quota exceeded")
# Is in the reason of a job whose engines died more often than its limit of restarts allows.
RESTARTS_EXHAUSTED = "restart.attempts allows"


class EngineLost(Message, tag="EngineLost"):
    """An engine died or fell silent: said by its keeper, and repeated until another one lives.

    ``fatal``: the job cannot start here (its code does not load), so it fails with ``reason``.
    ``pod`` as in :class:`Heartbeat`. ``incarnation`` is the newest life that was announced, and
    ``died`` the one that ended, which may have done so before its first word. The first line of
    ``reason`` says how it ended; what was in flight and its last words follow.
    """

    ordinal: Ordinal
    incarnation: Incarnation
    reason: str
    fatal: bool = False
    pod: str = ""
    cause: Cause = Cause.UNKNOWN
    died: Incarnation = Incarnation("")


class TaskAck(Message, tag="TaskAck"):
    """A task's snapshot of ``epoch`` is stored and its output prepared. Repeated until decided.

    ``term`` is the barrier's: an aborted number may recur under a higher one.
    """

    attempt: Attempt
    term: Term
    epoch: Epoch
    manifest: TaskManifest


class EpochFailed(Message, tag="EpochFailed"):
    """A step of ``epoch`` failed before the swap: abort this epoch and nothing else."""

    attempt: Attempt
    term: Term
    epoch: Epoch
    task: TaskId
    reason: str


class PublishFailed(Message, tag="PublishFailed"):
    """A handle could not be published; the member retries, and says why meanwhile.

    ``fatal``: retrying cannot help; the job fails with ``reason``, its output still committed.
    """

    attempt: Attempt
    epoch: Epoch
    reason: str
    fatal: bool = False


class Splits(Message, tag="Splits"):
    """Answer to :class:`Enumerate`: the first state of every split, by source stage of ``plan``."""

    attempt: Attempt
    splits: tuple["StageSplits", ...]
    plan: str


class CheckpointWanted(Message, tag="CheckpointWanted"):
    """Ask for an epoch soon: an ingest sender waits for its end to be committed."""

    attempt: Attempt


class Suspect(Message, tag="Suspect"):
    """Asked by one keeper of another: does ``leader`` refuse your dials too? Answer ``keeper``."""

    leader: str
    keeper: str


class Confirm(Message, tag="Confirm"):
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
