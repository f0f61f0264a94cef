"""The ``status`` of a StreamJob: what the operator says of a job, as values.

``state`` is one word for people; programs read the conditions. Each condition has fixed reasons
(``REASONS``): they are part of the interface, and messages are not. What changes from second to
second is not here but in a ConfigMap. Times are RFC 3339 texts, as the API server writes them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from penstock.contract.schema import Count, Field, Fields, Message, Time
from penstock.contract.status import SinkStatus
from penstock.contract.streamjob import OperatorFlavour

CONDITIONS_MAX = 16


class StreamJobState(StrEnum):
    """The state of a job in one word, for people."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESCALING = "Rescaling"
    UPGRADING = "Upgrading"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RESTARTING = "Restarting"
    FAILED = "Failed"
    FINISHED = "Finished"
    DELETING = "Deleting"


class ConditionType(StrEnum):
    """What is judged. Good when True, but for Stalled; Progressing is neither.

    InputComplete is False while an input has files that the job will not read. Complete is True
    once all input was read and all output is published, as of a Job of Kubernetes. Secured is False
    where workers do not check each other's certificates.
    """

    READY = "Ready"
    ACCEPTED = "Accepted"
    PROGRESSING = "Progressing"
    CHECKPOINTING = "Checkpointing"
    STALLED = "Stalled"
    INPUT_COMPLETE = "InputComplete"
    SNAPSHOTS_TAKEN = "SnapshotsTaken"
    COMPLETE = "Complete"
    SECURED = "Secured"


class Truth(StrEnum):
    """The status of a condition, as Kubernetes spells it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a condition is what it is; ``REASONS`` says which reason belongs to which."""

    # Ready
    RUNNING = "Running"
    PENDING = "Pending"
    STARTING = "Starting"
    RESCALING = "Rescaling"
    UPGRADING = "Upgrading"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RESTARTING = "Restarting"
    FAILED = "Failed"
    FINISHED = "Finished"
    DELETING = "Deleting"
    WORKERS_NOT_READY = "WorkersNotReady"
    CHECKPOINT_STALE = "CheckpointStale"
    CHECKPOINT_FAILING = "CheckpointFailing"
    # Accepted: what CEL cannot see
    VALID = "Valid"
    SPEC_INVALID = "SpecInvalid"
    POD_TEMPLATE_INVALID = "PodTemplateInvalid"
    IMAGE_MISSING = "ImageMissing"
    VOLUME_NOT_READ_WRITE_MANY = "VolumeNotReadWriteMany"
    RESTORE_NOT_FOUND = "RestoreNotFound"
    AUTOSCALER_CONFLICT = "AutoscalerConflict"
    REPLAY_UNAVAILABLE = "ReplayUnavailable"
    # Progressing
    IDLE = "Idle"
    DEPLOYING = "Deploying"
    RESUMING = "Resuming"
    RESTORING = "Restoring"
    ROLLING_BACK = "RollingBack"
    WAITING_FOR_OLD = "WaitingForOldObjects"
    # Checkpointing
    COMPLETED = "Completed"
    NONE_YET = "NoneYet"
    FAILING = "Failing"
    # SnapshotsTaken
    SNAPSHOT_FAILED = "SnapshotFailed"
    # Stalled: a person must act
    NOT_STALLED = "NotStalled"
    NAME_TAKEN = "NameTaken"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CRASH_LOOP = "CrashLoop"
    ENGINE_OUT_OF_MEMORY = "EngineOutOfMemory"
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    SERVICE_ACCOUNT_MISSING = "ServiceAccountMissing"
    POD_REFUSED = "PodRefused"
    OBJECT_REFUSED = "ObjectRefused"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_READ_ONLY = "ClaimReadOnly"
    VOLUME_FULL = "VolumeFull"
    JOB_INVALID = "JobInvalid"
    JOB_FAILED = "JobFailed"
    SAVEPOINT_FAILED = "SavepointFailed"
    UPGRADE_FAILED = "UpgradeFailed"
    ROLLED_BACK = "RolledBack"
    RESTORE_FAILED = "RestoreFailed"
    METADATA_MISSING = "MetadataMissing"
    FORMAT_NEWER = "FormatNewer"
    OUTPUT_UNPUBLISHED = "OutputUnpublished"
    REPLAY_FAILED = "ReplayFailed"
    WAITING_FOR_WORKERS = "WaitingForWorkers"
    # InputComplete
    ALL_KNOWN = "AllKnown"
    FILES_NOT_READ = "FilesNotRead"
    NOT_LISTED = "NotListed"
    # Complete
    NOT_FINISHED = "NotFinished"
    # Secured
    MUTUAL_TLS = "MutualTLS"
    MUTUAL_TLS_OFF = "MutualTLSOff"
    NOT_ACCEPTED = "NotAccepted"


_OPERATIONS: Final = (
    Reason.DEPLOYING,
    Reason.UPGRADING,
    Reason.ROLLING_BACK,
    Reason.RESCALING,
    Reason.SUSPENDING,
    Reason.RESUMING,
    Reason.RESTORING,
    Reason.RESTARTING,
    Reason.DELETING,
    Reason.WAITING_FOR_OLD,
)
REASONS: Final[dict[ConditionType, tuple[Reason, ...]]] = {
    ConditionType.READY: (
        *(Reason(state) for state in StreamJobState),
        Reason.WORKERS_NOT_READY,
        Reason.CHECKPOINT_STALE,
        Reason.CHECKPOINT_FAILING,
    ),
    ConditionType.ACCEPTED: (
        Reason.VALID,
        Reason.SPEC_INVALID,
        Reason.POD_TEMPLATE_INVALID,
        Reason.IMAGE_MISSING,
        Reason.VOLUME_NOT_READ_WRITE_MANY,
        Reason.RESTORE_NOT_FOUND,
        Reason.AUTOSCALER_CONFLICT,
        Reason.REPLAY_UNAVAILABLE,
    ),
    ConditionType.PROGRESSING: (Reason.IDLE, *_OPERATIONS),
    ConditionType.CHECKPOINTING: (
        Reason.COMPLETED,
        Reason.NONE_YET,
        Reason.FAILING,
        Reason.SUSPENDED,
        Reason.FINISHED,
    ),
    ConditionType.STALLED: (
        Reason.NOT_STALLED,
        Reason.NAME_TAKEN,
        Reason.IMAGE_PULL_FAILED,
        Reason.CRASH_LOOP,
        Reason.ENGINE_OUT_OF_MEMORY,
        Reason.UNSCHEDULABLE,
        Reason.QUOTA_EXCEEDED,
        Reason.SERVICE_ACCOUNT_MISSING,
        Reason.POD_REFUSED,
        Reason.OBJECT_REFUSED,
        Reason.CLAIM_MISSING,
        Reason.CLAIM_READ_ONLY,
        Reason.VOLUME_FULL,
        Reason.JOB_INVALID,
        Reason.JOB_FAILED,
        Reason.SAVEPOINT_FAILED,
        Reason.UPGRADE_FAILED,
        Reason.ROLLED_BACK,
        Reason.RESTORE_FAILED,
        Reason.METADATA_MISSING,
        Reason.FORMAT_NEWER,
        Reason.OUTPUT_UNPUBLISHED,
        Reason.REPLAY_FAILED,
        Reason.WAITING_FOR_WORKERS,
    ),
    ConditionType.SNAPSHOTS_TAKEN: (
        Reason.COMPLETED,
        Reason.NONE_YET,
        Reason.SNAPSHOT_FAILED,
    ),
    ConditionType.INPUT_COMPLETE: (
        Reason.ALL_KNOWN,
        Reason.FILES_NOT_READ,
        Reason.NOT_LISTED,
    ),
    ConditionType.COMPLETE: (Reason.FINISHED, Reason.NOT_FINISHED),
    ConditionType.SECURED: (Reason.MUTUAL_TLS, Reason.MUTUAL_TLS_OFF, Reason.NOT_ACCEPTED),
}


@dataclass(frozen=True, slots=True)
class Condition(Fields):
    """One judgement; ``last_transition_time`` moves only when ``status`` does.

    ``reason`` is a :class:`Reason`. It is kept as a text, because an operator may meet the reasons
    of a newer one.
    """

    type: Annotated[
        str,
        Field(
            "type",
            "what is judged: Ready, Accepted, Progressing, Checkpointing, Stalled, and others",
            pattern=r"[A-Z][A-Za-z]*",
            length_max=64,
        ),
    ]
    status: Annotated[Truth, Field("status", "whether it is so")]
    reason: Annotated[
        str,
        Field(
            "reason",
            "why, in one word of a fixed list",
            pattern=r"[A-Z][A-Za-z0-9]*",
            length_max=64,
        ),
    ]
    message: Annotated[Message, Field("message", "why, for people")]
    last_transition_time: Annotated[Time, Field("lastTransitionTime", "when status last changed")]
    observed_generation: Annotated[
        Count, Field("observedGeneration", "the generation of spec that was judged")
    ] = 0


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        "conditions",
        "judgements for programs, one of each type",
        key="type",
        length_max=CONDITIONS_MAX,
    ),
]


@dataclass(frozen=True, slots=True)
class AssignmentStatus:
    """The committed assignment of key groups: its version, and over how many workers."""

    version: int
    workers: int


@dataclass(frozen=True, slots=True)
class LastCompleted:
    """The newest committed epoch: when, its new bytes, from barrier to commit, and its folder."""

    epoch: int
    time: str
    bytes: int = 0
    duration_s: float = 0.0
    path: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """The newest checkpoint, how many in a row have failed since, and the epochs that are kept."""

    last_completed: LastCompleted | None = None
    failures: int = 0
    retained: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LastFailure:
    """Why the job last rolled back or failed; ``worker`` is a pod's name where one is known."""

    time: str
    reason: str
    message: str
    worker: str | None = None


@dataclass(frozen=True, slots=True)
class RestartSummary:
    """Deaths of engines within the window: ``count``, and the ``limit`` of restarts after them.

    ``last`` says of the newest how it ended, what was in flight, its last words; ``worker`` is the
    pod's name.
    """

    count: int
    limit: int
    window_s: float
    last: str = ""
    worker: str | None = None


@dataclass(frozen=True, slots=True)
class Pending:
    """The target of an operation, written before anything is done about it.

    ``snapshot`` is the savepoint or request that it waits for; after ``deadline`` it is given up.
    """

    action: str
    generation: int
    since: str
    deadline: str | None = None
    replicas: int | None = None
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class RestoreStatus:
    """The last restore that was carried out. ``replayed``: output may be repeated since it.

    ``lost_output`` are the epochs whose unpublished output was dropped on request.
    """

    nonce: str
    time: str
    replayed: bool = False
    lost_output: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LastStable:
    """The last spec that ran and completed a checkpoint: a rollback goes back to it."""

    generation: int
    digest: str


@dataclass(frozen=True, slots=True)
class SparkApplicationStatus:
    """The replay: its object's name, the state as Spark's operator spells it, rows pushed."""

    name: str
    flavour: OperatorFlavour
    state: str
    message: str = ""
    rows: int = 0


@dataclass(frozen=True, slots=True)
class AutoscalingStatus:
    """What the autoscaler has chosen, and all that it remembers: any operator goes on from here.

    ``replicas`` are wanted since ``time``, because of ``message``. ``undone``: because workers
    that it had asked for did not come. ``busy`` (0..1) is the share of ``step``, the busiest.
    """

    replicas: int
    time: str
    message: str = ""
    undone: bool = False
    busy: float | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class PeriodicStatus:
    """Of the savepoints by the clock: the newest period that one was asked for, and its object."""

    time: str
    name: str


@dataclass(frozen=True, slots=True)
class StreamJobStatus:
    """All of ``status``. ``replicas`` are pods that exist; ``selector`` finds them, as a text.

    ``reason`` is the one of all conditions' reasons that matters most: why the job stalls, why its
    spec is not taken, why it is not ready. ``desired_replicas`` are wanted: by ``spec.replicas``,
    or by the autoscaler. ``leader`` is a pod's name; ``term`` and ``attempt`` are those of the last
    swap.
    """

    observed_generation: int = 0
    state: StreamJobState = StreamJobState.PENDING
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    desired_replicas: int | None = None
    replicas: int = 0
    ready_replicas: int = 0
    selector: str = ""
    leader: str | None = None
    term: int | None = None
    attempt: int | None = None
    assignment: AssignmentStatus | None = None
    checkpoint: CheckpointSummary | None = None
    sinks: tuple[SinkStatus, ...] = ()
    last_failure: LastFailure | None = None
    restarts: RestartSummary | None = None
    pending: Pending | None = None
    restore: RestoreStatus | None = None
    last_stable: LastStable | None = None
    spark_application: SparkApplicationStatus | None = None
    autoscaling: AutoscalingStatus | None = None
    snapshots: PeriodicStatus | None = None

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of a type; None: not judged yet."""
        return next((c for c in self.conditions if c.type == kind), None)
