"""The StreamJob (``penstock.dev/v1alpha1``) as values, one class per concern, units in the names.

Read by ``streamjob_read`` by the table of ``streamjob_fields``. The same file is an object in a
cluster and the argument of ``penstock run`` on one machine.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.settings import (
    CheckpointSettings,
    RestartSettings,
    ShuffleSettings,
    StateSettings,
)
from penstock.base.units import resource_amount
from penstock.contract import streamjob_rules as rules
from penstock.contract.declared import DeclaredGraph
from penstock.contract.latest import ANY_STATE
from penstock.contract.schema import Plain

KIND = "StreamJob"


class UpgradeMode(StrEnum):
    """From what an upgraded job continues."""

    LAST_CHECKPOINT = "LastCheckpoint"
    SAVEPOINT = "Savepoint"
    STATELESS = "Stateless"


class Unpublished(StrEnum):
    """What a restore does about committed output that can never be published."""

    FAIL = "Fail"
    DROP = "Drop"


class DeletionPolicy(StrEnum):
    """What becomes of checkpoints when the job is deleted."""

    RETAIN = "Retain"
    SAVEPOINT = "Savepoint"
    PURGE = "Purge"


class PlacementStrategy(StrEnum):
    """Spread the tasks of a step over nodes first, or fill a node with a whole pipeline first."""

    OPERATOR_FIRST = "OperatorFirst"
    PARALLELISM_FIRST = "ParallelismFirst"


class PullPolicy(StrEnum):
    """When the image is pulled, as Kubernetes spells it."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class OperatorFlavour(StrEnum):
    """Whose SparkApplication object a replay is."""

    KUBEFLOW = "kubeflow"
    APACHE = "apache"


@dataclass(frozen=True, slots=True)
class Job:
    """What runs: exactly one of an entrypoint, a script, a graph. Parameters are texts."""

    entrypoint: str | None = None
    script: str | None = None
    graph: DeclaredGraph | None = None
    args: tuple[str, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Named:
    """A reference by name in the same namespace."""

    name: str


@dataclass(frozen=True, slots=True)
class Upgrade:
    """How a change of the job is rolled out; not stable by the deadline: rolled back if asked."""

    mode: UpgradeMode = UpgradeMode.LAST_CHECKPOINT
    rollback: bool = False
    stable_deadline_s: float = 600.0
    savepoint_deadline_s: float = 600.0


@dataclass(frozen=True, slots=True)
class RestoreFrom:
    """An explicit restore: it happens once per ``nonce``; ``empty`` begins without state.

    Without ``snapshot_ref``, ``path`` and ``empty`` it is of the newest checkpoint.
    """

    nonce: str
    snapshot_ref: str | None = None
    path: str | None = None
    empty: bool | None = None
    drop_state: tuple[str, ...] = ()
    allow_non_restored_state: bool = False
    allow_output_replay: bool = False
    unpublished: Unpublished = Unpublished.FAIL

    @property
    def newest(self) -> bool:
        """Say whether the newest checkpoint is meant."""
        return self.snapshot_ref is None and self.path is None and self.empty is None

    @property
    def dropped(self) -> tuple[str, ...]:
        """Return whose state is given up, as :class:`penstock.contract.latest.Restore` has it."""
        return (ANY_STATE,) if self.allow_non_restored_state else self.drop_state

    def __post_init__(self) -> None:
        """Refuse two origins, and to give up more than somebody has said."""
        given = (self.snapshot_ref, self.path, self.empty)
        rules.RESTORE_ONE.refuse(sum(x is not None for x in given) > 1)
        drops = bool(self.dropped) or self.unpublished is Unpublished.DROP
        rules.RESTORE_NEWEST.refuse(self.newest and not drops)
        rules.RESTORE_DROP.refuse(self.allow_non_restored_state and bool(self.drop_state))
        said = self.empty is None or (self.empty and self.allow_output_replay)
        rules.RESTORE_EMPTY.refuse(not said)


@dataclass(frozen=True, slots=True)
class ClaimTemplate:
    """A claim for checkpoints that the operator makes; ReadWriteMany."""

    storage_class_name: str | None = None
    size_bytes: int = 10 * 1024**3


@dataclass(frozen=True, slots=True)
class CheckpointVolume:
    """Where checkpoints live: an existing claim, or a template; immutable."""

    claim_name: str | None = None
    claim_template: ClaimTemplate | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """When and where checkpoints are taken."""

    settings: CheckpointSettings = field(default_factory=CheckpointSettings)
    volume: CheckpointVolume | None = None


@dataclass(frozen=True, slots=True)
class LocalVolume:
    """Local disk of each worker for state that does not fit its memory."""

    storage_class_name: str | None = None
    size_bytes: int = 10 * 1024**3


@dataclass(frozen=True, slots=True)
class State:
    """How keyed state is kept, and on which local disk."""

    settings: StateSettings = field(default_factory=StateSettings)
    volume: LocalVolume | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Where tasks go. ``nodes`` are node names that may be used, all when empty."""

    strategy: PlacementStrategy = PlacementStrategy.OPERATOR_FIRST
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """Bounds and targets of the built-in autoscaler; ``target_busy`` is a share, 0..1."""

    min_replicas: int = 1
    max_replicas: int = 1
    target_busy: float = 0.7
    cooldown_s: float = 120.0

    def __post_init__(self) -> None:
        """Refuse bounds that cross."""
        if self.max_replicas < self.min_replicas:
            raise ConfigError(
                f"maxReplicas ({self.max_replicas}) must be at least "
                f"minReplicas ({self.min_replicas})"
            )


@dataclass(frozen=True, slots=True)
class PeriodicSnapshots:
    """Savepoints that the operator has taken every ``every_s``; the newest ``keep`` are kept."""

    every_s: float
    keep: int = limits.PERIODIC_SNAPSHOTS_DEFAULT


@dataclass(frozen=True, slots=True)
class Replay:
    """A SparkApplication that pushes a dataset into the job at ``rate`` rows per second.

    ``duration_s`` ends it after ``rate * duration_s`` rows, so that every try ends at the same one.
    """

    dataset: str
    image: str
    rate: int | None = None
    duration_s: float | None = None
    flavour: OperatorFlavour = OperatorFlavour.KUBEFLOW

    def __post_init__(self) -> None:
        """Refuse an end that no try would find again."""
        rules.REPLAY_LASTS.refuse(self.duration_s is not None and self.rate is None)

    @property
    def rows(self) -> int | None:
        """Return how many rows are pushed at most; None: all."""
        if self.rate is None or self.duration_s is None:
            return None
        return round(self.rate * self.duration_s)


@dataclass(frozen=True, slots=True)
class KeyRef:
    """A key of a Secret or ConfigMap."""

    name: str
    key: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class EnvFrom:
    """Where the value of an environment variable comes from."""

    secret_key_ref: KeyRef | None = None
    config_map_key_ref: KeyRef | None = None


@dataclass(frozen=True, slots=True)
class EnvVar:
    """An environment variable of the engine."""

    name: str
    value: str | None = None
    value_from: EnvFrom | None = None

    def __post_init__(self) -> None:
        """Refuse two values, and names of the operator's own."""
        two_values, reserved = rules.ENV
        two_values.refuse(self.value is not None and self.value_from is not None)
        reserved.refuse(self.name.startswith(rules.RESERVED_ENV))


@dataclass(frozen=True, slots=True)
class Resources:
    """Requests and limits as Kubernetes spells them."""

    requests: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a request above its limit; every amount has been read by its pattern."""
        both = self.requests.keys() & self.limits.keys()
        above = (
            resource_amount(self.requests[n]) > resource_amount(self.limits[n])
            for n in sorted(both)
        )
        rules.RESOURCES[0].refuse(any(above))


@dataclass(frozen=True, slots=True)
class Security:
    """mTLS between workers; off only by hand."""

    mtls: bool = True


@dataclass(frozen=True, slots=True)
class Spec:
    """All of ``spec``. Local runs ignore what only a cluster can do.

    ``pod_template`` is plain data: ``metadata`` (``labels``, ``annotations``) and a free ``spec``.
    """

    job: Job
    image: str | None = None
    image_pull_policy: PullPolicy | None = None
    image_pull_secrets: tuple[Named, ...] = ()
    replicas: int = 1
    max_replicas: int | None = None
    max_key_groups: int = limits.KEY_GROUPS_DEFAULT
    suspend: bool = False
    restart_nonce: int | None = None
    restart: RestartSettings = RestartSettings()
    upgrade: Upgrade = Upgrade()
    restore: RestoreFrom | None = None
    checkpoint: Checkpoint = Checkpoint()
    state: State = State()
    shuffle: ShuffleSettings = field(default_factory=ShuffleSettings)
    placement: Placement = Placement()
    autoscaling: Autoscaling | None = None
    snapshots: PeriodicSnapshots | None = None
    replay: Replay | None = None
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    deletion_deadline_s: float = 300.0
    env: tuple[EnvVar, ...] = ()
    resources: Resources = Resources()
    service_account_name: str | None = None
    pod_template: Plain = None
    security: Security = Security()

    def __post_init__(self) -> None:
        """Check the relations between fields; each message names both."""
        if self.replicas > self.max_key_groups:
            raise ConfigError(
                f"replicas ({self.replicas}) must not exceed maxKeyGroups ({self.max_key_groups}): "
                "a worker without key groups would do nothing"
            )
        if self.max_replicas is not None and self.replicas > self.max_replicas:
            raise ConfigError(
                f"replicas ({self.replicas}) must not exceed maxReplicas ({self.max_replicas})"
            )
        if self.max_replicas is not None and self.max_replicas > self.max_key_groups:
            raise ConfigError(
                f"maxReplicas ({self.max_replicas}) must not exceed "
                f"maxKeyGroups ({self.max_key_groups})"
            )
        self._check_autoscaling()

    def _check_autoscaling(self) -> None:
        if self.autoscaling is None:
            return
        rules.ONE_SCALER.refuse(self.max_replicas is not None)
        if self.autoscaling.max_replicas > self.max_key_groups:
            raise ConfigError(
                f"autoscaling.maxReplicas ({self.autoscaling.max_replicas}) must not exceed "
                f"maxKeyGroups ({self.max_key_groups})"
            )


@dataclass(frozen=True, slots=True)
class StreamJob:
    """One object: its name and namespace, and the spec."""

    name: str
    spec: Spec
    namespace: str = "default"
