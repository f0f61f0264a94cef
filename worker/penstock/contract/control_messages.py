"""What keepers say to each other, and what a keeper and its engine say to each other.

::

    keeper ── EngineLaunch, a file ──> engine
    leader ── Command ──> member ── Command ──> engine
           <── Report ───        <── EngineReport ──

Every message travels in an :class:`Envelope` with the term of its sender, and a receiver refuses a
lower term. Everything is level-triggered: :class:`Heartbeat` repeats all that a leader must know,
and the leader repeats each command until a heartbeat shows its effect. So the next message repairs
a lost one, and a repeated one does no harm. Data never travels here.
"""

from enum import StrEnum

from penstock.contract.codec import ABSENT, Absent, Message
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
from penstock.contract.latest import Leader, Member, SinkRestore
from penstock.contract.manifest import BlobRef, SinkHandle, SplitState, StepRows, TaskManifest
from penstock.contract.plan import Assignment, PhysicalPlan


class StageSplits(Message, tag="StageSplits"):
    """The splits of one source stage, in the order in which they are dealt out."""

    stage: StageIndex
    splits: tuple[SplitState, ...]


class Announce(Message, tag="Announce"):
    """A new term begins. Confirm ``epoch``: publish it and go forward; abort only newer epochs.

    The engine drops checkpoints above ``epoch`` that lower terms began, as after ``Abort``.
    """

    leader: Leader
    attempt: Attempt
    epoch: Epoch
    version: Version
    published_through: Epoch


class Enumerate(Message, tag="Enumerate"):
    """List the splits of these stages' sources, which no checkpoint has.

    The leader asks one member before an attempt: the first one, or one of a job that has changed.
    """

    attempt: Attempt
    stages: tuple[StageIndex, ...]


class Reset(Message, tag="Reset"):
    """Go back to ``epoch`` (0: to no state): discard all newer state, build tasks, report ready.

    ``root`` names the checkpoint to load. Its table may have another version than ``assignment``;
    each task loads what its share of ``assignment`` needs. ``splits`` are the first states of
    sources that the checkpoint does not have. An engine ignores a Reset to its present attempt.
    """

    attempt: Attempt
    epoch: Epoch
    root: BlobRef | None
    assignment: Assignment
    members: tuple[Member, ...]
    splits: tuple["StageSplits", ...] = ()


class Publish(Message, tag="Publish"):
    """Publish these handles of a committed epoch. A handle that is already published is no error.

    ``sinks`` says for which sinks a restore wants something else. It is left out when there are none, because older
    workers refuse fields that they do not know.
    """

    attempt: Attempt
    epoch: Epoch
    handles: tuple[SinkHandle, ...]
    sinks: tuple[SinkRestore, ...] | Absent = ABSENT


class PublishWhole(Message, tag="PublishWhole"):
    """Publish the output of whole sinks: ``handles`` of all their tasks. One member gets this for each epoch.

    ``sinks`` is as in :class:`Publish`.
    """

    attempt: Attempt
    epoch: Epoch
    handles: tuple[SinkHandle, ...]
    sinks: tuple[SinkRestore, ...] | Absent = ABSENT


class Start(Message, tag="Start"):
    """All engines are ready and the old output is visible: sources seek, and streams open."""

    attempt: Attempt


class Inject(Message, tag="Inject"):
    """Put the barrier of ``epoch`` into the sources; ``kind`` as in ``BarrierKind``."""

    attempt: Attempt
    epoch: Epoch
    version: Version
    kind: int
    committed: Epoch


class Expedite(Message, tag="Hurry"):
    """Somebody waits for ``epoch``: write its state at full speed. Its loss costs only time.

    Its tag is the name that it had first, because tags are part of the wire format.
    """

    attempt: Attempt
    epoch: Epoch


class Commit(Message, tag="Commit"):
    """``epoch`` is committed: sinks publish it; a rescale goes forward to ``version``."""

    attempt: Attempt
    epoch: Epoch
    version: Version


class Abort(Message, tag="Abort"):
    """``epoch`` will never be committed under this term.

    Tasks forget its barrier, and carry its handles into the next epoch. Only barriers of this term
    and number are meant, because a higher term may use the number again.
    """

    attempt: Attempt
    epoch: Epoch


class Prepare(Message, tag="Prepare"):
    """Rescale, step 1: the proposed table. Joiners build tasks; others pre-load from ``root``.

    ``members`` are those of both tables. A joiner takes ``attempt``. When its tasks wait for input,
    it reports ready, running and prepared. ``splits`` are as in :class:`Reset`.
    """

    attempt: Attempt
    assignment: Assignment
    members: tuple[Member, ...]
    epoch: Epoch
    root: BlobRef | None
    splits: tuple["StageSplits", ...] = ()


class CancelRescale(Message, tag="CancelRescale"):
    """``version`` is given up: release held records to the old owners, and report prepared 0."""

    attempt: Attempt
    version: Version


class Adopt(Message, tag="Adopt"):
    """Rescale, step 4: ``version`` is committed with ``epoch``. Load the last delta and resume.

    It confirms ``epoch`` as :class:`Commit` does. Tasks that leave report resumed at once.
    """

    attempt: Attempt
    version: Version
    epoch: Epoch
    root: BlobRef


class Settled(Message, tag="Settled"):
    """All tasks have resumed under ``version``: tasks that leave may end their streams."""

    attempt: Attempt
    version: Version


class EndStreams(Message, tag="EndStreams"):
    """The final epoch is published: sources send end of stream."""

    attempt: Attempt


class Shutdown(Message, tag="Shutdown"):
    """End this engine and not its successor: the job is closed, or the engine is no member."""

    incarnation: Incarnation
    reason: str


Command = (
    Announce
    | Enumerate
    | Reset
    | Publish
    | PublishWhole
    | Start
    | Inject
    | Expedite
    | Commit
    | Abort
    | Prepare
    | CancelRescale
    | Adopt
    | Settled
    | EndStreams
    | Shutdown
)


class EngineHello(Message, tag="EngineHello"):
    """First words of an engine: who it is, where it listens, and the plan it compiled."""

    ordinal: Ordinal
    incarnation: Incarnation
    flight: str
    plan: PhysicalPlan


# How the reason of a Broken begins where a stream broke: that follows from what happened elsewhere.
STREAM_BROKE = "stream: "


class Broken(Message, tag="Broken"):
    """``attempt`` cannot continue here: a stream broke or a task failed. ``fatal`` fails the job.

    An engine tells its keeper, which repeats it in heartbeats until a Reset to a higher attempt.
    When :class:`Enumerate` fails, ``attempt`` is the one that it named. ``failures`` is above zero when
    code of the user's or ours raised and may raise again: how often that has happened to this engine.
    It counts towards the limit of restarts.
    """

    attempt: Attempt
    reason: str
    fatal: bool = False
    failures: int = 0


class EngineStatus(Message, tag="EngineStatus"):
    """The state of an engine. It tells its keeper after each change, and repeats it while it lives.

    - ``attempt``: the last Reset (or joiner's Prepare) taken; all other fields are about it and
      begin at zero with it. ``ready``, ``running``: that attempt once reached, 0 before.
    - ``prepared``: the proposed version whose table is loaded, 0 after :class:`CancelRescale`;
      ``resumed``: the version under which all tasks here run (Reset's own to begin with);
      ``settled``: the version whose :class:`Settled` was done; ``left``: leaving tasks ended.
    - ``published``: the newest committed epoch all of whose handles known here are published.
    - ``exhausted``: every source task here has read all its splits, under ``resumed``; True where
      there are none. ``ended``: :class:`EndStreams` was done.
    - ``skipped``: rows of the restored epoch that targets refused and a restore has left out, by sink.
    - ``whole``: the newest epoch of whole sinks that was published here, see :class:`PublishWhole`.
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
    skipped: tuple[StepRows, ...] | Absent = ABSENT
    whole: Epoch | Absent = ABSENT


class Heartbeat(Message, tag="Heartbeat"):
    """All that a leader must know of a member. Its keeper repeats it.

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
    """Why an engine's life ended. Only ``DIED`` counts towards the limit of restarts."""

    DIED = "died"  # its process ended by itself, or was silent for too long and was ended
    ORDERED = "ordered"  # a leader, an operator or its own keeper had asked for it
    STORAGE = "storage"  # a new engine could not make its files: a later start may succeed
    UNKNOWN = "unknown"  # it is gone, and nobody who could know has told the reason


# Begins the reason of a job whose code does not load. The user must mend it; a retry does not help.
DOES_NOT_LOAD = "the job does not load"
# The text of a death contains it when the kernel says that memory ran out.
OUT_OF_MEMORY = "the kernel ended it because memory ran out"
# The error of a system call contains one of them when a volume is full, however it is wrapped.
NO_ROOM = ("No space left on device", "Disk quota exceeded")
# The reason of a job contains it when there were more failures than its limit of restarts allows.
RESTARTS_EXHAUSTED = "restart.attempts allows"


class EngineLost(Message, tag="EngineLost"):
    """An engine died or fell silent. Its keeper repeats it until another engine lives.

    ``fatal``: the job cannot start here (its code does not load), so it fails with ``reason``.
    ``pod`` as in :class:`Heartbeat`. ``incarnation`` is the newest life that was announced, and
    ``died`` the one that ended, which may have done so before its first word. The first line of
    ``reason`` says how it ended; what was in flight and its last lines follow.
    """

    ordinal: Ordinal
    incarnation: Incarnation
    reason: str
    fatal: bool = False
    pod: str = ""
    cause: Cause = Cause.UNKNOWN
    died: Incarnation = Incarnation("")


class TaskAck(Message, tag="TaskAck"):
    """A task's snapshot of ``epoch`` is stored and its output is prepared.

    It is repeated until the epoch is decided. ``term`` is that of the barrier, because a higher
    term may use an aborted number again.
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
    """A handle could not be published. The member retries, and reports the reason meanwhile.

    ``fatal``: a retry cannot help. The job fails with ``reason``, and its output stays committed.
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
EngineReport = EngineHello | EngineStatus | TaskAck | EpochFailed | Broken | PublishFailed | Splits | CheckpointWanted
Report = Heartbeat | EngineLost | TaskAck | EpochFailed | PublishFailed | Splits | CheckpointWanted | Suspect | Confirm


class Envelope(Message, tag="Envelope"):
    """A command or report with the job, the sender's term and its ordinal."""

    job_uid: JobUid
    term: Term
    sender: Ordinal
    body: Command | Report


class MembersFile(Message, tag="MembersFile"):
    """What ``Latest.members`` names: all that a new leader needs to go on with an attempt.

    ``members`` in order of ordinals, joiners of a proposed table included. ``proposed`` holds once
    ``Latest.version`` is its version; ``assignment`` until then. ``splits`` are the first states
    of sources that no checkpoint knows. ``plan`` is the fingerprint of the plan that all run.
    """

    attempt: Attempt
    members: tuple[Member, ...]
    assignment: Assignment
    proposed: Assignment | None = None
    splits: tuple["StageSplits", ...] = ()
    plan: str = ""


# --- The file that a keeper writes for an engine ----------------------------------------------


class EnginePlace(Message, tag="EnginePlace"):
    """Where an engine's Flight server listens, and where peers dial it; port 0: any free one.

    ``ingest_port`` is that of senders of a pushed source, at the same host; 0: they are heard at
    a Unix socket, in a folder that only this user may enter.
    ``advertised`` None: peers dial ``host``. ``trust`` is the folder of the job's certificates and
    ``certificate_host`` the name in them; None: no TLS, for the loopback address only. There
    ``secret`` keeps other users of the machine out: workers show each other that they know it.
    """

    host: str = "127.0.0.1"
    port: int = 0
    advertised: str | None = None
    ingest_port: int = 0
    trust: str | None = None
    certificate_host: str = ""
    secret: str = ""

    def __repr__(self) -> str:
        """Show everything but the secret."""
        shown = [n for n in self.__struct_fields__ if n != "secret"]
        return f"EnginePlace({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


class EngineLaunch(Message, tag="EngineLaunch"):
    """One life of one worker's engine. Written by the keeper, read once by the engine.

    - ``socket``: the keeper's end, as ``fd:N``: a connected stream socket that is inherited.
    - ``job_file``: the resolved job, JSON; ``storage``: the directory of the job's checkpoints,
      shared by all workers; ``scratch``: a local folder of this life alone, to be emptied.
    - ``place``: where the engine's Flight server listens.
    - ``page``: the file in which the engine says what it works on, see ``cluster/in_flight``;
      empty: nobody reads it.
    - ``heartbeat_interval_s``: how often EngineStatus is repeated; it is the sign of life.
    """

    job_uid: JobUid
    job: str
    namespace: str
    ordinal: Ordinal
    incarnation: Incarnation
    socket: str
    job_file: str
    storage: str
    scratch: str
    heartbeat_interval_s: float
    place: EnginePlace = EnginePlace()
    page: str = ""
