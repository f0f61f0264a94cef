"""What a running job and its workers tell people: shown and exported.

The CLI shows it, and the supervisor and the leader serve it. Counters are cumulative since the
attempt began. Two of them make a rate.
"""

from collections.abc import Iterable
from enum import StrEnum

from penstock.base import limits
from penstock.base.values import replace
from penstock.contract.balance import Balance
from penstock.contract.codec import Message, TolerantMessage
from penstock.contract.ids import Attempt, Incarnation, Ordinal
from penstock.contract.latest import LostRows
from penstock.contract.schemes import Choices, said

# --- The files of an input --------------------------------------------------------------------
# The set of files is fixed when a job first starts. A later look at the folder gives an InputSeen.


class InputSeen(TolerantMessage, tag="InputSeen"):
    """One look at the folder of an input. ``files`` are in the checkpoint; ``unread`` came later.

    ``passed`` counts entries of the folder that are no input: sub-folders, hidden files and files
    with another ending. ``unread_names`` and ``passed_names`` are the first few names. ``step`` is
    the source step.
    """

    path: str
    files: int
    unread: int = 0
    unread_names: tuple[str, ...] = ()
    passed: int = 0
    passed_names: tuple[str, ...] = ()
    step: str = ""

    def of(self, step: str) -> "InputSeen":
        """Name the step whose input this is."""
        return replace(self, step=step)


def unread_text(seen: InputSeen) -> str:
    """Return a text about the files that are not read; it is empty when all files are read."""
    if not seen.unread:
        return ""
    files = "1 file is" if seen.unread == 1 else f"{seen.unread:,} files are"
    return (
        f"input of {seen.step}: {files} not in the checkpoint and not read:"
        f" {named(seen.unread_names, seen.unread)} (in {seen.path}; the set of files is fixed when"
        " a job first starts)"
    )


def passed_text(seen: InputSeen) -> str:
    """Return a text about entries of the folder that are no input; it is empty without them."""
    if not seen.passed:
        return ""
    return f"input of {seen.step}: passed over: {named(seen.passed_names, seen.passed)}"


def named(names: tuple[str, ...], count: int) -> str:
    """Join the first names, and add how many of ``count`` are not among them."""
    more = count - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")


# --- Jobs and workers -------------------------------------------------------------------------


class JobState(StrEnum):
    """The state for people, as in the status of a StreamJob."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESCALING = "Rescaling"
    RESTARTING = "Restarting"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    FINISHED = "Finished"
    FAILED = "Failed"


SPLITS_SHOWN = 4  # in a terminal
WORKER_UP = "up"  # keeper and engine run
ENDED = frozenset({JobState.STOPPED, JobState.FINISHED, JobState.FAILED})


class WorkerStatus(TolerantMessage, tag="WorkerStatus"):
    """One worker: process ids of keeper and engine (None: not running) and whether it leads.

    ``metrics`` is the address where Prometheus finds it, empty while it starts. In a cluster
    ``pod`` is its pod's uid, ``incarnation`` the newest life of its engine that was announced, and
    ``silent_s`` for how long its keeper has said nothing.
    """

    ordinal: int
    state: str
    keeper_pid: int | None = None
    engine_pid: int | None = None
    leader: bool = False
    restarts: int = 0
    metrics: str = ""
    pod: str = ""
    incarnation: str = ""
    silent_s: float = 0.0


class StepStatus(TolerantMessage, tag="StepStatus"):
    """One step over all its tasks.

    ``busy``, ``blocked`` are shares (0..1) of the last second: working, waiting for credit;
    ``busy_s``, ``blocked_s``, ``idle_s`` are the seconds that its tasks, added up, have spent at
    work, waiting for credit, and waiting for anything else since the attempt began.
    ``watermark_us`` is the lowest of its tasks; None where there is no event time. ``late_rows``
    came too late for their window, ``untimed_rows`` have no event time: both are in no window. ``shed_rows`` were not
    sent, because too many were outstanding. ``splits`` are the splits of a source, and ``pending_rows`` and
    ``pending_bytes`` what is there and not read; None if one of the splits does not know. ``varies``: its results
    depend on the clock, or on when rows came, so after a rollback they may be others. ``waits_s`` is for how
    long a lookup has had no answer of its table, None while it has, and ``because`` why.
    """

    name: str
    tasks: int
    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    dead_rows: int = 0
    busy: float = 0.0
    blocked: float = 0.0
    queue_bytes: int = 0
    state_keys: int = 0
    watermark_us: int | None = None
    blocked_s: float = 0.0
    busy_s: float = 0.0
    idle_s: float = 0.0
    untimed_rows: int = 0
    varies: bool = False
    shed_rows: int = 0
    splits: int = 0
    pending_rows: int | None = None
    pending_bytes: int | None = None
    waits_s: float | None = None
    because: str = ""


class SplitStatus(TolerantMessage, tag="SplitStatus"):
    """How much a split of the source ``step`` has left to read: what is there now. None: not known."""

    step: str
    split: str
    pending_rows: int | None = None
    pending_bytes: int | None = None


def most_pending(splits: Iterable[SplitStatus]) -> tuple[SplitStatus, ...]:
    """Return the splits that have most left to read, at most ``SPLITS_TOLD_MAX``, by their names."""
    most = sorted(splits, key=lambda s: (-(s.pending_rows or 0), -(s.pending_bytes or 0), s.step, s.split))
    return tuple(sorted(most[: limits.SPLITS_TOLD_MAX], key=lambda s: (s.step, s.split)))


class CheckpointStatus(TolerantMessage, tag="CheckpointStatus"):
    """The newest committed epoch: its time, its new bytes, and the time from barrier to commit."""

    epoch: int
    time_us: int
    bytes: int
    duration_s: float
    path: str


class CommittedRows(TolerantMessage, tag="CommittedRows"):
    """Rows that a source has read or a sink has written up to the newest committed epoch.

    ``rows`` is since the job first started, ``before`` when this run began; None: not known,
    because the run began from another checkpoint.
    """

    step: str
    rows: int
    before: int | None = None


class SinkStatus(TolerantMessage, tag="SinkStatus"):
    """One sink and the guarantee of its output: the lowest level on its path. ``why`` says why it is no better.

    ``because`` says why its committed output cannot be published, and ``since_us`` since when; empty and None while it
    can. No epoch starts before the one before it is published. ``full_s`` is for how long it has had no room for rows
    where it has waited longest; None while it has.
    """

    name: str
    guarantee: str
    because: str = ""
    since_us: int | None = None
    why: str = ""
    full_s: float | None = None


class UnlistedSource(TolerantMessage, tag="UnlistedSource"):
    """A source whose splits cannot be listed, since when (microseconds since 1970) and why. The job waits for it."""

    name: str
    because: str
    since_us: int


class RequestAnswer(TolerantMessage, tag="RequestAnswer"):
    """The result of a request; ``ok`` is None while it is under way."""

    id: str
    kind: str
    ok: bool | None
    text: str


class DeathStatus(TolerantMessage, tag="DeathStatus"):
    """An engine of ``worker`` that ended unasked, as death ``number`` of this run.

    It was number ``count`` within the window. The first line of ``text`` says how it ended. The
    others hold the rows in flight and its last lines of output.
    """

    worker: int
    number: int
    count: int
    text: str


class RestartStatus(TolerantMessage, tag="RestartStatus"):
    """Deaths of engines: ``count`` within the last ``window_s``, of all the ``newest``.

    One more than ``limit`` within the window fails the job.
    """

    count: int
    limit: int
    window_s: float
    newest: tuple[DeathStatus, ...] = ()


class Load(TolerantMessage, tag="Load"):
    """How busy a job was: two shares (0..1) for each window of ``window_s``, oldest first.

    ``busy`` is that of the busiest step, over all its tasks on all workers, and ``blocked`` that
    of the step that waited most for credit; both have one length. ``step`` is the busiest of the
    newest window. All windows are of one attempt and one version, after they had settled.
    """

    window_s: float
    busy: tuple[float, ...]
    blocked: tuple[float, ...]
    step: str


class JobStatus(TolerantMessage, tag="JobStatus"):
    """A whole job at one moment. ``time_us`` is when; ``failure`` says why it is not running.

    ``listening_s`` is for how long whoever wrote this has listened to the workers: only then does
    a worker's absence from ``workers`` mean that it is silent. ``failed_checkpoints`` counts those
    since the newest that was committed under this leader. ``load`` is measured in a cluster only;
    None until one window is full. ``committed`` is there at the end of a run on one machine.
    ``inputs`` is what was last seen of the folders that sources read. ``restarts``: None while no
    engine has died of late. ``unread``: why the leader cannot read what is wanted, empty when it can.
    ``uncommitted_s`` is for how long its leader has committed nothing; None without a leader. ``splits`` are those with
    most left to read. ``lost_rows`` is what was given up of the output of sinks, on request.
    ``unlisted`` are the sources for whose splits it waits.
    ``left_out`` names the parts that were too much for the object that the status is kept in.
    ``schemes`` has the scheme that holds of each step with several. ``balance`` is what came of the last request to
    deal key groups out by load.
    """

    job: str
    uid: str
    state: JobState
    time_us: int
    wanted_workers: int = 0
    term: int = 0
    attempt: int = 0
    version: int = 0
    published_through: int = 0
    workers: tuple[WorkerStatus, ...] = ()
    steps: tuple[StepStatus, ...] = ()
    checkpoint: CheckpointStatus | None = None
    sinks: tuple[SinkStatus, ...] = ()
    answers: tuple[RequestAnswer, ...] = ()
    failure: str | None = None
    address: str = ""
    listening_s: float = 0.0
    failed_checkpoints: int = 0
    load: Load | None = None
    committed: tuple[CommittedRows, ...] = ()
    inputs: tuple[InputSeen, ...] = ()
    restarts: RestartStatus | None = None
    unread: str = ""
    uncommitted_s: float | None = None
    checkpoint_interval_s: float = 0.0
    splits: tuple[SplitStatus, ...] = ()
    lost_rows: tuple[LostRows, ...] = ()
    schemes: Choices = ()
    balance: Balance | None = None
    unlisted: tuple[UnlistedSource, ...] = ()
    left_out: tuple[str, ...] = ()


def left_out_text(status: JobStatus) -> str:
    """Name the parts that the status does not have because it would be too large; empty when it has all."""
    return f"not told, because the status would be too large: {', '.join(status.left_out)}" if status.left_out else ""


def late_text(status: JobStatus) -> str:
    """Return for how long a job at work has committed nothing; it is empty while that is usual.

    A job can run and get nowhere: an address that swallows all packets looks like a slow one at first.
    """
    waited_s, interval_s = status.uncommitted_s, status.checkpoint_interval_s
    at_work = status.state in {JobState.RUNNING, JobState.RESCALING}
    late_s = limits.CHECKPOINT_LATE_INTERVALS * interval_s + limits.CHECKPOINT_LATE_S
    if not at_work or waited_s is None or waited_s < late_s:
        return ""
    return f"nothing committed for {waited_s:.0f} s (a checkpoint is due every {interval_s:g} s)"


def held_up_texts(status: JobStatus) -> list[str]:
    """Say of each sink that cannot publish or has no room, and each lookup without an answer, since when, and why."""
    waiting = [
        f"step {step.name!r} has waited {step.waits_s:.0f} s for its table: {step.because}"
        for step in status.steps
        if step.waits_s is not None
    ]
    return waiting + [text for sink in status.sinks if (text := _held_up_text(sink, status.time_us))]


def _held_up_text(sink: SinkStatus, time_us: int) -> str:
    """Say why a sink holds the job up; empty where it does not. Without publication it may have no room, too."""
    if sink.since_us is not None:
        since_s = max(0, time_us - sink.since_us) // 1_000_000
        return (
            f"sink {sink.name!r} cannot publish for {since_s} s, and no checkpoint is taken meanwhile: {sink.because}"
        )
    return full_text(sink)


def full_text(sink: SinkStatus) -> str:
    """Say for how long a sink has had no room, and why that may be; empty while it has, or had until just now."""
    if sink.full_s is None or sink.full_s < limits.SINK_FULL_TOLD_S:
        return ""
    return (
        f"sink {sink.name!r} has taken no rows for {sink.full_s:.0f} s: it has not yet stored or sent those before; a"
        " target that is slow or away, or a full disk, does this"
    )


def unlisted_texts(status: JobStatus) -> list[str]:
    """Say of each source that cannot be listed since when, and why."""
    return [
        f"source {source.name!r} could not be listed for {max(0, status.time_us - source.since_us) // 1_000_000} s, and"
        f" the job waits for it: {source.because}"
        for source in status.unlisted
    ]


def guarantee_text(status: JobStatus) -> str:
    """Name the guarantee of each sink, and why it is below exactly-once; empty without sinks."""
    said = [f"{sink.name} {sink.guarantee}" + (f" ({sink.why})" if sink.why else "") for sink in status.sinks]
    return f"guarantees: {', '.join(said)}" if said else ""


def schemes_text(status: JobStatus) -> str:
    """Name the scheme of each step that has several; empty when there is none."""
    return f"schemes: {said(status.schemes)}" if status.schemes else ""


def balance_text(status: JobStatus) -> str:
    """Say what came of the last request to balance; empty when there was none."""
    return "" if status.balance is None else f"balance: {status.balance}"


def varying_text(status: JobStatus) -> str:
    """Name the steps whose results may be others after a rollback; empty when there is none."""
    steps = ", ".join(step.name for step in status.steps if step.varies)
    return f"results that are not committed may be others after a rollback: {steps}" if steps else ""


def pending_text(status: JobStatus) -> str:
    """Name the splits with most left to read; empty while none is known to have any."""
    counts = ((s, s.pending_rows, "rows") if s.pending_rows else (s, s.pending_bytes, "bytes") for s in status.splits)
    most = sorted((-count, s.step, s.split, unit) for s, count, unit in counts if count)
    more = f" and {len(most) - SPLITS_SHOWN} more splits" if len(most) > SPLITS_SHOWN else ""
    shown = ", ".join(f"{step} {split} {-count:,} {unit}" for count, step, split, unit in most[:SPLITS_SHOWN])
    return f"pending: {shown}{more}" if most else ""


def lost_texts(status: JobStatus) -> list[str]:
    """Say of each sink which output was given up on request."""
    return [f"sink {lost.sink!r}: up to {lost.rows:,} rows of epoch {lost.epoch} given up" for lost in status.lost_rows]


class EngineProgress(Message, tag="EngineProgress"):
    """Counters of one engine: ``steps`` of its own tasks only, in the order of the plan.

    ``inputs`` are told by one engine of a job, ``splits`` by the engine that reads them: those with most left to read.
    ``unlisted`` is told by the engine that lists the splits of a new job.
    Said about once a second, beside the reports of the protocol. If one is lost, the next one says all.
    """

    attempt: Attempt
    steps: tuple[StepStatus, ...] = ()
    sinks: tuple[SinkStatus, ...] = ()
    inputs: tuple[InputSeen, ...] = ()
    splits: tuple[SplitStatus, ...] = ()
    unlisted: tuple[UnlistedSource, ...] = ()


class CheckpointDone(Message, tag="CheckpointDone"):
    """A checkpoint that this keeper committed as leader: new bytes, barrier to commit."""

    epoch: int
    bytes: int
    duration_s: float


class WorkerReport(Message, tag="WorkerReport"):
    """A keeper to whoever restarts workers: which lives are up here.

    ``incarnation`` is the newest announced life of the engine (empty: none yet), ``keeper_life``
    that of the keeper's process. A process is ended only while the life it is known by is the
    newest announced. ``metrics`` is where Prometheus finds this worker, ``trouble`` why its
    newest checkpoint as leader failed, until one succeeds, and ``failed_checkpoints`` how many have
    since then. ``pod`` is the pod's uid in a cluster. ``unready`` is why its engine ended before it
    was ready, until one is. ``engine_deaths`` counts those that ended unasked.
    ``checkpoint_interval_s`` is the job's; ``uncommitted_s`` for how long this worker has led the
    open job without a commit, None while it does not lead. ``unread`` is why it cannot read what is
    wanted, empty when it can.
    """

    ordinal: Ordinal
    keeper_life: str
    keeper_pid: int
    incarnation: Incarnation
    engine_pid: int | None
    address: str
    engine_restarts: int = 0
    progress: EngineProgress | None = None
    checkpoint: CheckpointDone | None = None
    metrics: str = ""
    trouble: str | None = None
    pod: str = ""
    failed_checkpoints: int = 0
    unready: str | None = None
    engine_deaths: int = 0
    checkpoint_interval_s: float = 0.0
    uncommitted_s: float | None = None
    unread: str = ""
