"""The ``status`` of a StreamJob: what the operator says of a job.

``state`` is one word for people; programs read the conditions. Each condition has fixed reasons
(``REASONS``): they are part of the interface, and messages are not. What changes from second to
second is not here but in a ConfigMap. Times are RFC 3339 texts, as the API server writes them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from penstock.base.limits import RETAINED_CHECKPOINTS_MAX, SAVEPOINTS_UNDER_WAY_MAX
from penstock.contract.cluster_settings import OperatorFlavour
from penstock.contract.paths import PATH_CHARS_MAX
from penstock.contract.reader import carried, plain_object, read_known
from penstock.contract.schema import (
    Count,
    Duration,
    Field,
    Fields,
    Message,
    Plain,
    Time,
    object_row,
)

CONDITIONS_MAX = 16
RETAINED_MAX = RETAINED_CHECKPOINTS_MAX + SAVEPOINTS_UNDER_WAY_MAX

Word = Annotated[str, Field(length_max=64)]


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
    ConditionType.SNAPSHOTS_TAKEN: (Reason.COMPLETED, Reason.NONE_YET, Reason.SNAPSHOT_FAILED),
    ConditionType.INPUT_COMPLETE: (Reason.ALL_KNOWN, Reason.FILES_NOT_READ, Reason.NOT_LISTED),
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
            "the condition: Ready, Accepted, Progressing, Checkpointing, Stalled, and others",
            pattern=r"[A-Z][A-Za-z]*",
            length_max=64,
        ),
    ]
    status: Annotated[Truth, Field("status", "whether the condition holds")]
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
        Count, Field("observedGeneration", "the generation of spec that the condition is about")
    ] = 0


Conditions = Annotated[
    tuple[Condition, ...],
    Field(
        "conditions",
        "conditions for programs, one of each type",
        key="type",
        length_max=CONDITIONS_MAX,
    ),
]


@dataclass(frozen=True, slots=True)
class AssignmentStatus(Fields):
    """The committed assignment of key groups."""

    version: Annotated[Count, Field("version", "rises with every rescale")]
    workers: Annotated[Count, Field("workers", "workers that own key groups")]


@dataclass(frozen=True, slots=True)
class LastCompleted(Fields):
    """The newest committed epoch."""

    epoch: Annotated[Count, Field("epoch", "its number")]
    time: Annotated[Time, Field("time", "when it was committed")]
    bytes: Annotated[Count, Field("bytes", "new bytes on the volume")] = 0
    duration_s: Annotated[Duration, Field("duration", "time from its barrier to its commit")] = 0.0
    path: Annotated[
        str, Field("path", "its folder on the checkpoint volume", length_max=PATH_CHARS_MAX)
    ] = ""


@dataclass(frozen=True, slots=True)
class CheckpointSummary(Fields):
    """The newest checkpoint, and those that failed since."""

    last_completed: Annotated[
        LastCompleted | None, Field("lastCompleted", "the newest committed one")
    ] = None
    failures: Annotated[Count, Field("failures", "failed checkpoints in a row since then")] = 0
    retained: Annotated[
        tuple[Count, ...], Field("retained", "epochs whose files are kept", length_max=RETAINED_MAX)
    ] = ()


@dataclass(frozen=True, slots=True)
class SinkSummary(Fields):
    """A sink, and the guarantee of its output."""

    name: Annotated[str, Field("name", "name of the step")]
    guarantee: Annotated[
        Word, Field("guarantee", "exactly-once, effectively-once, at-least-once or none")
    ]


@dataclass(frozen=True, slots=True)
class LastFailure(Fields):
    """Why the job last rolled back or failed; ``worker`` is a pod's name where one is known."""

    time: Annotated[Time, Field("time", "when it happened")]
    reason: Annotated[Word, Field("reason", "why, in one word")]
    message: Annotated[Message, Field("message", "why, for people")]
    worker: Annotated[str | None, Field("worker", "the pod in which the failure began")] = None


@dataclass(frozen=True, slots=True)
class RestartSummary(Fields):
    """Deaths of engines within the window."""

    count: Annotated[Count, Field("count", "deaths within the window of spec.restart")]
    limit: Annotated[
        Count, Field("limit", "restarts that are allowed; one death more fails the job")
    ]
    window_s: Annotated[Duration, Field("window", "the window of spec.restart")]
    last: Annotated[
        Message,
        Field(
            "last",
            "how the newest one ended, which rows were in flight, and the last lines of its log",
        ),
    ] = ""
    worker: Annotated[str | None, Field("worker", "the pod of that engine")] = None


@dataclass(frozen=True, slots=True)
class Pending(Fields):
    """The target of an operation. It is written before anything is done about it."""

    action: Annotated[Word, Field("action", "the operation")]
    generation: Annotated[Count, Field("generation", "the generation of spec that it leads to")]
    since: Annotated[Time, Field("since", "when it was decided")]
    deadline: Annotated[Time | None, Field("deadline", "when it is given up")] = None
    replicas: Annotated[Count | None, Field("replicas", "number of workers that it leads to")] = (
        None
    )
    snapshot: Annotated[
        str | None, Field("snapshot", "the savepoint or request that it waits for")
    ] = None


@dataclass(frozen=True, slots=True)
class RestoreStatus(Fields):
    """The last restore that was carried out."""

    nonce: Annotated[str, Field("nonce", "the nonce of spec.restore that asked for it")]
    time: Annotated[Time, Field("time", "when it was carried out")]
    replayed: Annotated[bool, Field("replayed", "whether output may be repeated since then")] = (
        False
    )
    lost_output: Annotated[
        tuple[Count, ...], Field("lostOutput", "epochs whose output was dropped on request")
    ] = ()


@dataclass(frozen=True, slots=True)
class LastStable(Fields):
    """The last spec that ran and completed a checkpoint: a rollback goes back to it."""

    generation: Annotated[Count, Field("generation", "its generation")]
    digest: Annotated[str, Field("digest", "its hash; a rollback goes back to it", length_max=128)]


@dataclass(frozen=True, slots=True)
class SparkApplicationStatus(Fields):
    """The replay that feeds the job."""

    name: Annotated[str, Field("name", "name of the SparkApplication")]
    flavour: Annotated[OperatorFlavour, Field("flavour", "the Spark operator that runs it")]
    state: Annotated[Word, Field("state", "its state, as Spark's operator spells it")]
    message: Annotated[Message, Field("message", "why it failed")] = ""
    rows: Annotated[
        Count, Field("rows", "rows of the replay that the job last reported as taken")
    ] = 0


@dataclass(frozen=True, slots=True)
class AutoscalingStatus(Fields):
    """What the autoscaler has chosen, and all that it remembers: any operator goes on from here.

    ``undone``: workers that it had asked for did not come.
    """

    replicas: Annotated[Count, Field("replicas", "number of workers that it wants")]
    time: Annotated[Time, Field("time", "since when it wants this number")]
    message: Annotated[Message, Field("message", "why it wants this number")] = ""
    undone: Annotated[bool, Field("undone", "more workers were wanted and did not come")] = False
    busy: Annotated[
        float | None,
        Field("busy", "share of its time that the busiest step works", minimum=0, maximum=1),
    ] = None
    step: Annotated[str | None, Field("step", "the busiest step, measured over all its tasks")] = (
        None
    )


@dataclass(frozen=True, slots=True)
class PeriodicStatus(Fields):
    """The savepoints by the clock."""

    time: Annotated[Time, Field("time", "the newest period for which a savepoint was asked")]
    name: Annotated[str, Field("name", "its StreamSnapshot")]


@dataclass(frozen=True, slots=True)
class StreamJobStatus(Fields):
    """All of ``status``. ``term`` and ``attempt`` are those of the last swap."""

    observed_generation: Annotated[
        Count, Field("observedGeneration", "the generation of spec that this status is about")
    ] = 0
    state: Annotated[StreamJobState, Field("state", "the state in one word, for people")] = (
        StreamJobState.PENDING
    )
    reason: Annotated[
        Word,
        Field(
            "reason",
            "the most important reason why the job stalls, is not accepted, or is not ready",
        ),
    ] = ""
    conditions: Conditions = ()
    desired_replicas: Annotated[
        Count | None,
        Field(
            "desiredReplicas", "number of wanted workers, from spec.replicas or from the autoscaler"
        ),
    ] = None
    replicas: Annotated[Count, Field("replicas", "number of pods that exist")] = 0
    ready_replicas: Annotated[Count, Field("readyReplicas", "number of pods that are ready")] = 0
    selector: Annotated[
        str, Field("selector", "label selector of the pods, as a text", length_max=1024)
    ] = ""
    leader: Annotated[str | None, Field("leader", "the pod that coordinates the job")] = None
    term: Annotated[Count | None, Field("term", "rises with every new leader")] = None
    attempt: Annotated[
        Count | None, Field("attempt", "rises with every rollback to a checkpoint")
    ] = None
    assignment: Annotated[
        AssignmentStatus | None, Field("assignment", "the committed assignment of key groups")
    ] = None
    checkpoint: Annotated[
        CheckpointSummary | None, Field("checkpoint", "the state of checkpoints")
    ] = None
    sinks: Annotated[
        tuple[SinkSummary, ...],
        Field("sinks", "the sinks and the guarantee of their output", key="name", length_max=256),
    ] = ()
    last_failure: Annotated[
        LastFailure | None, Field("lastFailure", "why the job last rolled back or failed")
    ] = None
    restarts: Annotated[
        RestartSummary | None,
        Field("restarts", "recent deaths of engines; absent when there were none"),
    ] = None
    pending: Annotated[
        Pending | None, Field("pending", "the operation under way, written before it begins")
    ] = None
    restore: Annotated[
        RestoreStatus | None, Field("restore", "the last restore that was carried out")
    ] = None
    last_stable: Annotated[
        LastStable | None, Field("lastStable", "the last spec that ran and completed a checkpoint")
    ] = None
    spark_application: Annotated[
        SparkApplicationStatus | None, Field("sparkApplication", "the replay that feeds the job")
    ] = None
    autoscaling: Annotated[
        AutoscalingStatus | None,
        Field("autoscaling", "what the autoscaler has chosen; absent where spec.replicas counts"),
    ] = None
    snapshots: Annotated[
        PeriodicStatus | None,
        Field("snapshots", "periodic savepoints; absent without spec.snapshots"),
    ] = None

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of a type; None: not judged yet."""
        return next((c for c in self.conditions if c.type == kind), None)


STATUS = object_row(StreamJobStatus, "status", "what the operator last saw")


def read_status(plain: Plain) -> StreamJobStatus:
    """Build the status from an object's ``status``; none yet is that of a new job.

    Another version of the operator may have written it, and an operator must be able to work with
    any status: see :func:`penstock.contract.reader.read_known`.
    """
    return read_known(StreamJobStatus, STATUS, plain)


def status_plain(status: StreamJobStatus) -> dict[str, Plain]:
    """Spell a status as its object holds it; :func:`read_status` reads the same value back.

    Texts that are too long for the schema are clipped. None is left out.
    """
    return plain_object(STATUS, status)


def carried_status(old: Plain, status: StreamJobStatus) -> dict[str, Plain]:
    """Spell a status to be written over ``old``: what another version has written there stays.

    Fields that this version does not know are carried as they are. Those of a part of the status
    are carried for as long as the known fields of the part stay the same.
    """
    return carried(STATUS, old, status_plain(status))
