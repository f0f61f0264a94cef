"""The ``status`` of a StreamJob: what the operator says about a job.

``state`` is one word for people; programs read the conditions. Each condition has fixed reasons
(``REASONS``): they are part of the interface, and messages are not. What changes from second to
second is not here but in a ConfigMap. Times are RFC 3339 texts, as the API server writes them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from penstock.base.limits import RETAINED_CHECKPOINTS_MAX, SAVEPOINTS_UNDER_WAY_MAX
from penstock.contract.reader import carried, plain_object, read_known
from penstock.contract.schema import (
    PATH_CHARS_MAX,
    Count,
    Duration,
    Field,
    Fields,
    MessageText,
    Plain,
    Time,
    object_row,
)
from penstock.contract.settings import OperatorFlavour

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
    """What is judged. A condition is good when it is True, with two exceptions.

    Stalled is True when a person must act, and Progressing is neither good nor bad. InputComplete
    is False while an input has files that the job will not read. Complete is True once all input
    was read and all output is published, as in a Job of Kubernetes. Secured is False where workers
    do not check each other's certificates. Partitioned is False while spec.partition asks for a scheme
    that the job does not have, and Unknown until the schemes that it asks for hold. Balanced is Unknown until
    the request of spec.rebalanceNonce is done, then True: its message says what moved.
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
    PARTITIONED = "Partitioned"
    BALANCED = "Balanced"


class Truth(StrEnum):
    """The status of a condition, as Kubernetes spells it."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Reason(StrEnum):
    """Why a condition is what it is. A reason names the conditions that may have it."""

    conditions: tuple[ConditionType, ...]

    def __new__(cls, word: str, *conditions: ConditionType) -> "Reason":
        """Make the text ``word``, and keep its conditions."""
        reason = str.__new__(cls, word)
        reason._value_ = word
        reason.conditions = conditions
        return reason

    PENDING = "Pending", ConditionType.READY
    STARTING = "Starting", ConditionType.READY
    RUNNING = "Running", ConditionType.READY
    RESCALING = "Rescaling", ConditionType.READY, ConditionType.PROGRESSING
    UPGRADING = "Upgrading", ConditionType.READY, ConditionType.PROGRESSING
    SUSPENDING = "Suspending", ConditionType.READY, ConditionType.PROGRESSING
    SUSPENDED = "Suspended", ConditionType.READY, ConditionType.CHECKPOINTING
    RESTARTING = "Restarting", ConditionType.READY, ConditionType.PROGRESSING
    FAILED = "Failed", ConditionType.READY
    FINISHED = "Finished", ConditionType.READY, ConditionType.CHECKPOINTING, ConditionType.COMPLETE
    DELETING = "Deleting", ConditionType.READY, ConditionType.PROGRESSING
    WORKERS_NOT_READY = "WorkersNotReady", ConditionType.READY
    CHECKPOINT_STALE = "CheckpointStale", ConditionType.READY
    CHECKPOINT_FAILING = "CheckpointFailing", ConditionType.READY
    VALID = "Valid", ConditionType.ACCEPTED
    SPEC_INVALID = "SpecInvalid", ConditionType.ACCEPTED
    POD_TEMPLATE_INVALID = "PodTemplateInvalid", ConditionType.ACCEPTED
    IMAGE_MISSING = "ImageMissing", ConditionType.ACCEPTED
    VOLUME_NOT_READ_WRITE_MANY = "VolumeNotReadWriteMany", ConditionType.ACCEPTED
    RESTORE_NOT_FOUND = "RestoreNotFound", ConditionType.ACCEPTED
    AUTOSCALER_CONFLICT = "AutoscalerConflict", ConditionType.ACCEPTED
    REPLAY_UNAVAILABLE = "ReplayUnavailable", ConditionType.ACCEPTED
    IDLE = "Idle", ConditionType.PROGRESSING
    DEPLOYING = "Deploying", ConditionType.PROGRESSING
    RESUMING = "Resuming", ConditionType.PROGRESSING
    RESTORING = "Restoring", ConditionType.PROGRESSING
    ROLLING_BACK = "RollingBack", ConditionType.PROGRESSING
    WAITING_FOR_OLD = "WaitingForOldObjects", ConditionType.PROGRESSING
    COMPLETED = "Completed", ConditionType.CHECKPOINTING, ConditionType.SNAPSHOTS_TAKEN
    NONE_YET = "NoneYet", ConditionType.CHECKPOINTING, ConditionType.SNAPSHOTS_TAKEN
    FAILING = "Failing", ConditionType.CHECKPOINTING
    SNAPSHOT_FAILED = "SnapshotFailed", ConditionType.SNAPSHOTS_TAKEN
    NOT_STALLED = "NotStalled", ConditionType.STALLED
    NAME_TAKEN = "NameTaken", ConditionType.STALLED
    IMAGE_PULL_FAILED = "ImagePullFailed", ConditionType.STALLED
    CRASH_LOOP = "CrashLoop", ConditionType.STALLED
    ENGINE_OUT_OF_MEMORY = "EngineOutOfMemory", ConditionType.STALLED
    UNSCHEDULABLE = "Unschedulable", ConditionType.STALLED
    QUOTA_EXCEEDED = "QuotaExceeded", ConditionType.STALLED
    SERVICE_ACCOUNT_MISSING = "ServiceAccountMissing", ConditionType.STALLED
    POD_REFUSED = "PodRefused", ConditionType.STALLED
    OBJECT_REFUSED = "ObjectRefused", ConditionType.STALLED
    CLAIM_MISSING = "ClaimMissing", ConditionType.STALLED
    CLAIM_READ_ONLY = "ClaimReadOnly", ConditionType.STALLED
    VOLUME_FULL = "VolumeFull", ConditionType.STALLED
    JOB_INVALID = "JobInvalid", ConditionType.STALLED
    JOB_FAILED = "JobFailed", ConditionType.STALLED
    SAVEPOINT_FAILED = "SavepointFailed", ConditionType.STALLED
    UPGRADE_FAILED = "UpgradeFailed", ConditionType.STALLED
    ROLLED_BACK = "RolledBack", ConditionType.STALLED
    RESTORE_FAILED = "RestoreFailed", ConditionType.STALLED
    METADATA_MISSING = "MetadataMissing", ConditionType.STALLED
    FORMAT_NEWER = "FormatNewer", ConditionType.STALLED
    OUTPUT_UNPUBLISHED = "OutputUnpublished", ConditionType.STALLED
    SOURCE_UNAVAILABLE = "SourceUnavailable", ConditionType.STALLED
    REPLAY_FAILED = "ReplayFailed", ConditionType.STALLED
    NO_LEADER = "NoLeader", ConditionType.STALLED
    WAITING_FOR_WORKERS = "WaitingForWorkers", ConditionType.STALLED
    ALL_KNOWN = "AllKnown", ConditionType.INPUT_COMPLETE
    FILES_NOT_READ = "FilesNotRead", ConditionType.INPUT_COMPLETE
    NOT_LISTED = "NotListed", ConditionType.INPUT_COMPLETE
    NOT_FINISHED = "NotFinished", ConditionType.COMPLETE
    MUTUAL_TLS = "MutualTLS", ConditionType.SECURED
    MUTUAL_TLS_OFF = "MutualTLSOff", ConditionType.SECURED
    NOT_ACCEPTED = "NotAccepted", ConditionType.SECURED
    SCHEMES_HOLD = "SchemesHold", ConditionType.PARTITIONED
    SCHEMES_WANTED = "SchemesWanted", ConditionType.PARTITIONED
    SCHEME_REFUSED = "SchemeRefused", ConditionType.PARTITIONED
    KEY_GROUPS_MOVED = "KeyGroupsMoved", ConditionType.BALANCED
    NOTHING_MOVED = "NothingMoved", ConditionType.BALANCED
    BALANCE_WANTED = "BalanceWanted", ConditionType.BALANCED


REASONS: Final[dict[ConditionType, tuple[Reason, ...]]] = {
    kind: tuple(reason for reason in Reason if kind in reason.conditions) for kind in ConditionType
}


@dataclass(frozen=True, slots=True)
class Condition(Fields):
    """One condition. ``last_transition_time`` changes only when ``status`` changes.

    ``reason`` is a :class:`Reason`, kept as a text: an operator may read the status that a newer
    operator wrote.
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
    message: Annotated[MessageText, Field("message", "why, for people")]
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
    path: Annotated[str, Field("path", "its folder on the checkpoint volume", length_max=PATH_CHARS_MAX)] = ""


@dataclass(frozen=True, slots=True)
class CheckpointSummary(Fields):
    """The newest checkpoint, and those that failed since."""

    last_completed: Annotated[LastCompleted | None, Field("lastCompleted", "the newest committed one")] = None
    failures: Annotated[Count, Field("failures", "failed checkpoints in a row since then")] = 0
    retained: Annotated[
        tuple[Count, ...], Field("retained", "epochs whose files are kept", length_max=RETAINED_MAX)
    ] = ()


@dataclass(frozen=True, slots=True)
class SinkSummary(Fields):
    """A sink, the guarantee of its output, and why it cannot publish when it cannot."""

    name: Annotated[str, Field("name", "name of the step")]
    guarantee: Annotated[
        Word, Field("guarantee", "the lowest on its path: exactly-once, effectively-once, at-least-once or none")
    ]
    since: Annotated[
        Time | None, Field("since", "since when committed output cannot be published; no checkpoint is taken meanwhile")
    ] = None
    because: Annotated[MessageText | None, Field("because", "why it cannot be published")] = None
    why: Annotated[MessageText | None, Field("why", "why its guarantee is below exactly-once")] = None


@dataclass(frozen=True, slots=True)
class UnlistedSourceSummary(Fields):
    """A source whose splits (files, partitions) cannot be listed. The job waits for it before its first row."""

    name: Annotated[str, Field("name", "name of the step")]
    since: Annotated[Time, Field("since", "since when it cannot be listed")]
    because: Annotated[MessageText, Field("because", "why, and what to do")]


@dataclass(frozen=True, slots=True)
class LastFailure(Fields):
    """Why the job last rolled back or failed; ``worker`` is a pod's name where one is known."""

    time: Annotated[Time, Field("time", "when it happened")]
    reason: Annotated[Word, Field("reason", "why, in one word")]
    message: Annotated[MessageText, Field("message", "why, for people")]
    worker: Annotated[str | None, Field("worker", "the pod in which the failure began")] = None


@dataclass(frozen=True, slots=True)
class RestartSummary(Fields):
    """Deaths of engines, and failures of own sources and sinks, within the window."""

    count: Annotated[Count, Field("count", "failures within the window of spec.restart")]
    limit: Annotated[Count, Field("limit", "restarts that are allowed; one failure more fails the job")]
    window_s: Annotated[Duration, Field("window", "the window of spec.restart")]
    last: Annotated[
        MessageText,
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
    replicas: Annotated[Count | None, Field("replicas", "number of workers that it leads to")] = None
    snapshot: Annotated[str | None, Field("snapshot", "the savepoint or request that it waits for")] = None


@dataclass(frozen=True, slots=True)
class LostRowsStatus(Fields):
    """Committed rows of a sink that were given up on request."""

    sink: Annotated[str, Field("sink", "the sink")]
    epoch: Annotated[Count, Field("epoch", "the epoch of that output")]
    rows: Annotated[Count, Field("rows", "so many at most: some of them may have been visible")]


@dataclass(frozen=True, slots=True)
class RestoreStatus(Fields):
    """The last restore that was carried out."""

    nonce: Annotated[str, Field("nonce", "the nonce of spec.restore that asked for it")]
    time: Annotated[Time, Field("time", "when it was carried out")]
    replayed: Annotated[bool, Field("replayed", "whether output may be repeated since then")] = False
    lost_output: Annotated[tuple[Count, ...], Field("lostOutput", "epochs whose output was dropped on request")] = ()
    lost_rows: Annotated[
        tuple[LostRowsStatus, ...], Field("lostRows", "how many rows of which sink were given up with it")
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
    message: Annotated[MessageText, Field("message", "why it failed")] = ""
    rows: Annotated[Count, Field("rows", "rows of the replay that the job last reported as taken")] = 0


@dataclass(frozen=True, slots=True)
class AutoscalingStatus(Fields):
    """What the autoscaler has chosen, and all that it remembers.

    Another operator can therefore continue from here.
    """

    replicas: Annotated[Count, Field("replicas", "number of workers that it wants")]
    time: Annotated[Time, Field("time", "since when it wants this number")]
    message: Annotated[MessageText, Field("message", "why it wants this number")] = ""
    undone: Annotated[bool, Field("undone", "more workers were wanted and did not come")] = False
    busy: Annotated[
        float | None,
        Field("busy", "share of its time that the busiest step works", minimum=0, maximum=1),
    ] = None
    step: Annotated[str | None, Field("step", "the busiest step, measured over all its tasks")] = None


@dataclass(frozen=True, slots=True)
class PeriodicStatus(Fields):
    """The newest periodic savepoint."""

    time: Annotated[Time, Field("time", "the newest period for which a savepoint was asked")]
    name: Annotated[str, Field("name", "its StreamSnapshot")]


@dataclass(frozen=True, slots=True)
class StreamJobStatus(Fields):
    """All of ``status``. ``term`` and ``attempt`` are those of the last swap."""

    observed_generation: Annotated[
        Count, Field("observedGeneration", "the generation of spec that this status is about")
    ] = 0
    state: Annotated[StreamJobState, Field("state", "the state in one word, for people")] = StreamJobState.PENDING
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
        Field("desiredReplicas", "number of wanted workers, from spec.replicas or from the autoscaler"),
    ] = None
    replicas: Annotated[Count, Field("replicas", "number of pods that exist")] = 0
    ready_replicas: Annotated[Count, Field("readyReplicas", "number of pods that are ready")] = 0
    selector: Annotated[str, Field("selector", "label selector of the pods, as a text", length_max=1024)] = ""
    leader: Annotated[str | None, Field("leader", "the pod that coordinates the job")] = None
    term: Annotated[Count | None, Field("term", "rises with every new leader")] = None
    attempt: Annotated[Count | None, Field("attempt", "rises with every rollback to a checkpoint")] = None
    assignment: Annotated[AssignmentStatus | None, Field("assignment", "the committed assignment of key groups")] = None
    checkpoint: Annotated[CheckpointSummary | None, Field("checkpoint", "the state of checkpoints")] = None
    sinks: Annotated[
        tuple[SinkSummary, ...],
        Field("sinks", "the sinks and the guarantee of their output", key="name", length_max=256),
    ] = ()
    unlisted_sources: Annotated[
        tuple[UnlistedSourceSummary, ...],
        Field("unlistedSources", "sources that cannot be listed; the job waits for them", key="name", length_max=256),
    ] = ()
    last_failure: Annotated[LastFailure | None, Field("lastFailure", "why the job last rolled back or failed")] = None
    restarts: Annotated[
        RestartSummary | None,
        Field("restarts", "recent failures; absent when there were none"),
    ] = None
    pending: Annotated[Pending | None, Field("pending", "the operation under way, written before it begins")] = None
    restore: Annotated[RestoreStatus | None, Field("restore", "the last restore that was carried out")] = None
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
    """Build the status from an object's ``status``. Without one it is the status of a new job.

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
