"""What workers tell about themselves for people: shown, exported, never decided upon."""

from penstock.contract.codec import Message
from penstock.contract.ids import Attempt, Incarnation, Ordinal
from penstock.contract.inputs import InputSeen
from penstock.contract.status import SinkStatus, StepStatus


class EngineProgress(Message, tag="EngineProgress"):
    """Counters of one engine: ``steps`` of its own tasks only, in the order of the plan.

    ``inputs`` are told by one engine of a job. Said about once a second, beside the reports of the
    protocol. A lost one does no harm.
    """

    attempt: Attempt
    steps: tuple[StepStatus, ...] = ()
    sinks: tuple[SinkStatus, ...] = ()
    inputs: tuple[InputSeen, ...] = ()


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
    open job without a commit, None while it does not lead.
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
