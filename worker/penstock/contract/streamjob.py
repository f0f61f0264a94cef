"""The StreamJob (``penstock.dev/v1alpha1``): every field of ``spec``, one class for each concern.

The same file is an object in a cluster and the argument of ``penstock run`` on one machine.
``RULES`` are relations between fields, as the API server checks them (CEL). The classes check them
when they are built, with the same messages; a property test compares the two. Only the API server
checks a relation about a *change* (``oldSelf``).
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from penstock.base import limits
from penstock.contract.call_types import Reference
from penstock.contract.declared_graph import DeclaredGraph
from penstock.contract.graph import StepName
from penstock.contract.latest import ANY_STATE, SinkRestore, Unpublished
from penstock.contract.schema import (
    DNS_LABEL,
    Change,
    Duration,
    Field,
    Fields,
    LongText,
    ObjectName,
    Rule,
    SnapshotPath,
    document,
    object_row,
    row_of,
)
from penstock.contract.schemes import Choices, SchemeChoice
from penstock.contract.settings import (
    Autoscaling,
    CheckpointSettings,
    CheckpointVolume,
    EnvVar,
    Image,
    LocalVolume,
    Named,
    PeriodicSnapshots,
    Placement,
    PodTemplate,
    PullPolicy,
    Replay,
    Resources,
    RestartSettings,
    Security,
    ShuffleSettings,
    StateSettings,
    Workers,
)

KIND = "StreamJob"
SCRIPT_CHARS_MAX = 64 * 1024


class UpgradeMode(StrEnum):
    """The state from which an upgraded job continues."""

    LAST_CHECKPOINT = "LastCheckpoint"
    SAVEPOINT = "Savepoint"
    STATELESS = "Stateless"


class AllUnpublished(StrEnum):
    """What a restore does about committed output of all sinks that are not named."""

    FAIL = "Fail"
    DROP = "Drop"


class DeletionPolicy(StrEnum):
    """What happens to the checkpoints when the job is deleted."""

    RETAIN = "Retain"
    SAVEPOINT = "Savepoint"
    PURGE = "Purge"


@dataclass(frozen=True, slots=True)
class Job(Fields):
    """What runs."""

    ONE_OF = ("entrypoint", "script", "graph")

    entrypoint: Annotated[Reference | None, Field("entrypoint", "package.module:function that builds the job")] = None
    script: Annotated[
        str | None,
        Field("script", "source of a small job; it defines job(params)", length_max=SCRIPT_CHARS_MAX),
    ] = None
    graph: Annotated[DeclaredGraph | None, Field("graph", "declarative steps")] = None
    args: Annotated[tuple[LongText, ...], Field("args", "arguments for the entrypoint", length_max=256)] = ()
    parameters: Annotated[
        dict[str, LongText],
        Field("parameters", "parameters of the job; ${name} in a text of job.graph stands for one"),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upgrade(Fields):
    """How a change of the job is rolled out."""

    mode: Annotated[UpgradeMode, Field("mode", "the state from which the changed job continues")] = (
        UpgradeMode.LAST_CHECKPOINT
    )
    rollback: Annotated[
        bool,
        Field(
            "rollback",
            "go back to the last stable spec when the new one is not stable by its deadline",
        ),
    ] = False
    stable_deadline_s: Annotated[
        Duration,
        Field("stableDeadline", "time in which the job must run and complete one checkpoint"),
    ] = 600.0
    savepoint_deadline_s: Annotated[
        Duration, Field("savepointDeadline", "time for the savepoint before the change")
    ] = 600.0


RESTORE_ONE = Rule(
    "[has(self.snapshotRef), has(self.path), has(self.empty)].filter(given, given).size() <= 1",
    "only one of snapshotRef, path and empty may be given",
)
RESTORE_NEWEST = Rule(
    "has(self.snapshotRef) || has(self.path) || has(self.empty)"
    " || (has(self.dropState) && size(self.dropState) > 0)"
    " || self.allowNonRestoredState || self.unpublished == 'Drop'"
    " || (has(self.unpublishedSinks) && size(self.unpublishedSinks) > 0)",
    "without snapshotRef, path and empty the newest checkpoint is restored: say what to give"
    " up of it with dropState, allowNonRestoredState: true, unpublishedSinks or unpublished: Drop",
)
RESTORE_DROP = Rule(
    "!(self.allowNonRestoredState && has(self.dropState) && size(self.dropState) > 0)",
    "give dropState or allowNonRestoredState, not both: dropState gives up the state of the"
    " named steps, allowNonRestoredState all state that no step takes",
    path=".dropState",
)
RESTORE_EMPTY = Rule(
    "!has(self.empty) || (self.empty && self.allowOutputReplay)",
    "empty: true reads all input again and writes all output again: it needs allowOutputReplay: true",
    path=".empty",
)
RESTORE_ONCE = Rule(
    "self.nonce != oldSelf.nonce || self == oldSelf",
    "a restore happens once per nonce: change nonce too",
    path=".nonce",
)


@dataclass(frozen=True, slots=True)
class RestoreFrom(Fields):
    """An explicit restore: it happens once per ``nonce``.

    Without ``snapshot_ref``, ``path`` and ``empty`` the newest checkpoint is restored.
    """

    RULES = (RESTORE_ONE, RESTORE_NEWEST, RESTORE_DROP, RESTORE_EMPTY, RESTORE_ONCE)

    nonce: Annotated[str, Field("nonce", "another text asks for another restore", change=Change.RESTART)]
    snapshot_ref: Annotated[
        ObjectName | None, Field("snapshotRef", "name of a StreamSnapshot in the same namespace")
    ] = None
    path: Annotated[SnapshotPath | None, Field("path", "directory of a savepoint or checkpoint")] = None
    empty: Annotated[bool | None, Field("empty", "true: begin without state, and read all input again")] = None
    drop_state: Annotated[
        tuple[StepName, ...],
        Field(
            "dropState",
            "steps whose stored state is given up: the step is gone, or it begins empty",
            unique=True,
        ),
    ] = ()
    allow_non_restored_state: Annotated[
        bool, Field("allowNonRestoredState", "give up all stored state that no step takes")
    ] = False
    allow_output_replay: Annotated[
        bool,
        Field(
            "allowOutputReplay",
            "restore to before output that is visible; that output is written again: at least once",
        ),
    ] = False
    unpublished: Annotated[
        AllUnpublished,
        Field(
            "unpublished",
            "what happens with committed output that cannot be published, of each sink that unpublishedSinks does not"
            " name",
        ),
    ] = AllUnpublished.FAIL
    unpublished_sinks: Annotated[
        dict[str, Annotated[str, Field(pattern="|".join(Unpublished), rule="Fail, Publish, Skip or Drop")]],
        Field(
            "unpublishedSinks",
            "the same for single sinks: {sink: Fail}; Publish where the target has lost its marker (rows may be"
            " there twice), Skip to leave out the rows that the target refuses, Drop to give the output up",
            length_max=limits.LOST_OUTPUT_MAX,
        ),
    ] = field(default_factory=dict)

    @property
    def newest(self) -> bool:
        """Say whether the newest checkpoint is restored."""
        return self.snapshot_ref is None and self.path is None and self.empty is None

    @property
    def dropped(self) -> tuple[str, ...]:
        """Return the steps whose state is given up, as in :class:`penstock.contract.latest.Restore`."""
        return (ANY_STATE,) if self.allow_non_restored_state else self.drop_state

    @property
    def drops_unpublished(self) -> bool:
        """Say whether output is given up of each sink that is not named."""
        return self.unpublished is AllUnpublished.DROP

    @property
    def sinks(self) -> tuple[SinkRestore, ...]:
        """Return what happens with the unpublished output of the sinks that are named."""
        return tuple(SinkRestore(sink, Unpublished(how)) for sink, how in self.unpublished_sinks.items())

    def __post_init__(self) -> None:
        """Refuse two origins, and a loss of state or output that nobody asked for."""
        given = (self.snapshot_ref, self.path, self.empty)
        RESTORE_ONE.refuse(sum(x is not None for x in given) > 1)
        drops = bool(self.dropped or self.unpublished_sinks) or self.drops_unpublished
        RESTORE_NEWEST.refuse(self.newest and not drops)
        RESTORE_DROP.refuse(self.allow_non_restored_state and bool(self.drop_state))
        said = self.empty is None or (self.empty and self.allow_output_replay)
        RESTORE_EMPTY.refuse(not said)


@dataclass(frozen=True, slots=True)
class Checkpoint(CheckpointSettings):
    """When and where checkpoints are taken."""

    volume: Annotated[
        CheckpointVolume | None,
        Field(
            "volume",
            "where checkpoints live in a cluster: a volume that all workers can write",
            immutable=True,
            cluster=True,
            cluster_required=True,
            change=Change.REFUSE,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class State(StateSettings):
    """How keyed state is kept, and on which local disk."""

    volume: Annotated[
        LocalVolume | None,
        Field(
            "volume",
            "local disk of each worker, for state that does not fit its memory",
            cluster=True,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChoice(Fields):
    """Which scheme deals out the rows of a step that has several."""

    step: Annotated[StepName, Field("step", "a step whose rows have several schemes")]
    use: Annotated[StepName, Field("use", "the scheme that holds from now on")]


REPLICAS_HAVE_GROUPS = Rule(
    "self.replicas <= self.maxKeyGroups",
    "replicas must not exceed maxKeyGroups: a worker without key groups would do nothing",
    path=".replicas",
)
REPLICAS_BOUNDED = Rule(
    "!has(self.maxReplicas) || self.replicas <= self.maxReplicas",
    "replicas must not exceed maxReplicas",
    path=".replicas",
)
BOUND_HAS_GROUPS = Rule(
    "!has(self.maxReplicas) || self.maxReplicas <= self.maxKeyGroups",
    "maxReplicas must not exceed maxKeyGroups",
    path=".maxReplicas",
)
ONE_SCALER = Rule(
    "!(has(self.autoscaling) && has(self.maxReplicas))",
    "autoscaling and maxReplicas are both there: maxReplicas bounds kubectl scale and an HPA,"
    " autoscaling has bounds of its own",
    path=".autoscaling",
)
AUTOSCALING_HAS_GROUPS = Rule(
    "!has(self.autoscaling) || self.autoscaling.maxReplicas <= self.maxKeyGroups",
    "autoscaling.maxReplicas must not exceed maxKeyGroups",
    path=".autoscaling.maxReplicas",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Fields):
    """All of ``spec``. A run on one machine ignores the fields for clusters."""

    RULES = (
        REPLICAS_HAVE_GROUPS,
        REPLICAS_BOUNDED,
        BOUND_HAS_GROUPS,
        ONE_SCALER,
        AUTOSCALING_HAS_GROUPS,
    )

    image: Annotated[
        Image | None,
        Field(
            "image",
            "image of the workers, by tag or by digest",
            cluster=True,
            cluster_required=True,
            change=Change.RESTART,
        ),
    ] = None
    image_pull_policy: Annotated[
        PullPolicy | None,
        Field("imagePullPolicy", "when the image is pulled", cluster=True, change=Change.RESTART),
    ] = None
    image_pull_secrets: Annotated[
        tuple[Named, ...],
        Field(
            "imagePullSecrets",
            "secrets for the image's registry",
            key="name",
            cluster=True,
            change=Change.RESTART,
        ),
    ] = ()
    job: Annotated[Job, Field("job", "what runs", change=Change.RESTART)]
    replicas: Annotated[Workers, Field("replicas", "number of workers", change=Change.SCALE)] = 1
    max_replicas: Annotated[
        Workers | None,
        Field(
            "maxReplicas",
            "upper bound for kubectl scale and an HPA",
            cluster=True,
            change=Change.IGNORE,
        ),
    ] = None
    max_key_groups: Annotated[
        int,
        Field(
            "maxKeyGroups",
            "number of key groups; state is assigned and moved by key group",
            minimum=1,
            maximum=limits.KEY_GROUPS_MAX,
            immutable=True,
            change=Change.REFUSE,
        ),
    ] = limits.KEY_GROUPS_DEFAULT
    partition: Annotated[
        tuple[PartitionChoice, ...],
        Field(
            "partition",
            "the schemes of steps that have several; the running job goes over to another one in a moment",
            key="step",
            length_max=limits.SCHEMES_MAX,
            change=Change.SCALE,
        ),
    ] = ()
    rebalance_nonce: Annotated[
        int | None,
        Field(
            "rebalanceNonce",
            "another number moves key groups, so that the tasks of the running job have equal load",
            cluster=True,
            change=Change.SCALE,
        ),
    ] = None
    suspend: Annotated[
        bool,
        Field("suspend", "take a savepoint, then run no workers", cluster=True, change=Change.SCALE),
    ] = False
    restart_nonce: Annotated[
        int | None,
        Field(
            "restartNonce",
            "another number restarts the job without any other change",
            cluster=True,
            change=Change.RESTART,
        ),
    ] = None
    restart: Annotated[
        RestartSettings,
        Field(
            "restart",
            "how often the job starts again after an engine has died or an own source or sink has raised, as in"
            " Flink's failure-rate and exponential-delay strategies",
            change=Change.RESTART,
        ),
    ] = RestartSettings()
    upgrade: Annotated[
        Upgrade,
        Field("upgrade", "how a change of the job is rolled out", cluster=True, change=Change.IGNORE),
    ] = Upgrade()
    restore: Annotated[
        RestoreFrom | None,
        Field(
            "restore",
            "an explicit restore, once for each nonce; of the newest checkpoint unless another is named",
            change=Change.IGNORE,  # the nonce alone asks for a restore; the others say which one
        ),
    ] = None
    checkpoint: Annotated[
        Checkpoint,
        Field(
            "checkpoint",
            "when checkpoints are taken and where they live",
            cluster_required=True,
            change=Change.RESTART,
        ),
    ] = Checkpoint()
    state: Annotated[State, Field("state", "how keyed state is kept", change=Change.RESTART)] = State()
    shuffle: Annotated[ShuffleSettings, Field("shuffle", "buffers and credit between tasks", change=Change.RESTART)] = (
        ShuffleSettings()
    )
    placement: Annotated[Placement, Field("placement", "where tasks run", cluster=True, change=Change.RESTART)] = (
        Placement()
    )
    autoscaling: Annotated[
        Autoscaling | None,
        Field(
            "autoscaling",
            "the built-in autoscaler; off when left out, refused beside an HPA",
            cluster=True,
            change=Change.IGNORE,
        ),
    ] = None
    snapshots: Annotated[
        PeriodicSnapshots | None,
        Field(
            "snapshots",
            "periodic savepoints; each is a StreamSnapshot with the label penstock.dev/periodic",
            cluster=True,
            change=Change.IGNORE,
        ),
    ] = None
    replay: Annotated[
        Replay | None,
        Field("replay", "a SparkApplication that feeds the job", cluster=True, change=Change.IGNORE),
    ] = None
    deletion_policy: Annotated[
        DeletionPolicy,
        Field(
            "deletionPolicy",
            "what happens to the checkpoints when the job is deleted",
            cluster=True,
            change=Change.IGNORE,
        ),
    ] = DeletionPolicy.RETAIN
    deletion_deadline_s: Annotated[
        Duration,
        Field(
            "deletionDeadline",
            "time for the savepoint before deletion",
            cluster=True,
            change=Change.IGNORE,
        ),
    ] = 300.0
    env: Annotated[
        tuple[EnvVar, ...],
        Field("env", "environment of the engine", key="name", cluster=True, change=Change.RESTART),
    ] = ()
    resources: Annotated[
        Resources,
        Field(
            "resources",
            "resources of a worker, as Kubernetes spells them",
            cluster=True,
            change=Change.RESTART,
        ),
    ] = Resources()
    service_account_name: Annotated[
        ObjectName | None,
        Field(
            "serviceAccountName",
            "service account of the workers; without it the operator makes one",
            cluster=True,
            change=Change.RESTART,
        ),
    ] = None
    pod_template: Annotated[
        PodTemplate | None,
        Field(
            "podTemplate",
            "merged into the workers' pods; list items are matched by name, never by position",
            cluster=True,
            change=Change.RESTART,
        ),
    ] = None
    security: Annotated[
        Security,
        Field(
            "security",
            "security of the connections of workers",
            cluster=True,
            change=Change.RESTART,
        ),
    ] = Security()

    def __post_init__(self) -> None:
        """Check the relations between fields; each message shows the values of both."""
        replicas, bound, groups = self.replicas, self.max_replicas, self.max_key_groups
        shown = {"replicas": replicas, "maxReplicas": bound, "maxKeyGroups": groups}
        REPLICAS_HAVE_GROUPS.refuse(replicas > groups, shown)
        REPLICAS_BOUNDED.refuse(bound is not None and replicas > bound, shown)
        BOUND_HAS_GROUPS.refuse(bound is not None and bound > groups, shown)
        if self.autoscaling is not None:
            ONE_SCALER.refuse(bound is not None)
            most = self.autoscaling.max_replicas
            shown = {"autoscaling.maxReplicas": most, "maxKeyGroups": groups}
            AUTOSCALING_HAS_GROUPS.refuse(most > groups, shown)

    @property
    def choices(self) -> Choices:
        """Return the schemes that are asked for."""
        return tuple(SchemeChoice(each.step, each.use) for each in self.partition)


@dataclass(frozen=True, slots=True)
class StreamJob:
    """One object: its name and namespace, and the spec."""

    name: str
    spec: Spec
    namespace: str = "default"


SPEC = object_row(Spec, "spec", "what you want")
_NAME = row_of(
    Annotated[
        str,
        Field(
            "name",
            "name of the job",
            pattern=DNS_LABEL,
            rule="a lower-case letter, then letters, digits and -",
            length_max=limits.JOB_NAME_CHARS_MAX,
        ),
    ]
)
STREAM_JOB = document(KIND, "a stream job", _NAME, SPEC, StreamJob)
