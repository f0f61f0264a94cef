"""The parts of ``spec``, one class for each concern: of workers first, then those of a cluster only.

The parts of workers configure them on one machine and in a cluster. The others are about pods, volumes
and what the operator does. Units are last in the names of attributes. ``limits`` has the defaults and
their reasons. A relation between two fields is checked when the value is built.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from penstock.base import limits
from penstock.base.units import RESOURCE_PATTERN, resource_amount
from penstock.contract.schema import (
    PATH_CHARS_MAX,
    Change,
    Duration,
    Field,
    Fields,
    Kind,
    LongText,
    ObjectName,
    Plain,
    Quantity,
    Rule,
)


@dataclass(frozen=True, slots=True)
class CheckpointSettings(Fields):
    """When checkpoints begin, how long one may take, and how many are kept."""

    interval_s: Annotated[
        Duration,
        Field(
            "interval",
            "time from start to start; longer after a checkpoint that took more than half of it",
            minimum="100ms",
        ),
    ] = limits.CHECKPOINT_INTERVAL_S_DEFAULT
    timeout_s: Annotated[Duration, Field("timeout", "a checkpoint that takes longer is aborted", minimum="1s")] = (
        limits.CHECKPOINT_TIMEOUT_S_DEFAULT
    )
    min_pause_s: Annotated[
        Duration,
        Field("minPause", "least time from the end of one checkpoint to the start of the next"),
    ] = 0.0
    retain: Annotated[int, Field("retain", "checkpoints kept", minimum=1, maximum=limits.RETAINED_CHECKPOINTS_MAX)] = (
        limits.RETAINED_CHECKPOINTS_DEFAULT
    )


class StateBackend(StrEnum):
    """Where keyed state lives: in memory with a spill to disk, or on disk with a cache."""

    HYBRID = "hybrid"
    ROCKSDB = "rocksdb"


@dataclass(frozen=True, slots=True)
class StateSettings(Fields):
    """How keyed state is kept; what does not fit ``memory_bytes`` lives on local disk."""

    backend: Annotated[
        StateBackend,
        Field("backend", "hybrid: in memory, and on disk what does not fit; rocksdb: on disk"),
    ] = StateBackend.HYBRID
    memory_bytes: Annotated[Quantity, Field("memory", "budget of one worker", minimum="16Mi")] = (
        limits.STATE_MEMORY_BYTES_DEFAULT
    )


class CompressionMode(StrEnum):
    """When batches between workers are compressed: never, with LZ4, or where that is faster."""

    NONE = "none"
    LZ4 = "lz4"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class CompressionSettings(Fields):
    """When batches between workers are compressed."""

    mode: Annotated[
        CompressionMode,
        Field(
            "mode",
            "none: never; lz4: where rows look compressible; auto: where they do and sending is faster that way",
        ),
    ] = CompressionMode.NONE
    entropy_threshold: Annotated[
        float,
        Field(
            "entropyThreshold",
            "bits per byte; rows with more are not compressed",
            minimum=0,
            maximum=8,
        ),
    ] = 6.5


WATERMARKS_APART = Rule(
    "quantity(string(self.highWatermark)).isGreaterThan(quantity(string(self.lowWatermark)))",
    "highWatermark must be above lowWatermark",
    path=".highWatermark",
)
BUFFER_FITS = Rule(
    "!quantity(string(self.bufferBytes)).isGreaterThan(quantity(string(self.highWatermark)))",
    "bufferBytes must not exceed highWatermark",
    path=".bufferBytes",
)


@dataclass(frozen=True, slots=True)
class ShuffleSettings(Fields):
    """Buffers and credit of every channel between two tasks.

    A receiver grants nothing above the high watermark until it is down to the low one.
    """

    RULES = (WATERMARKS_APART, BUFFER_FITS)

    buffer_bytes: Annotated[Quantity, Field("bufferBytes", "size at which a buffer is sent", minimum=1)] = (
        limits.OUTPUT_BUFFER_BYTES_DEFAULT
    )
    flush_interval_s: Annotated[
        Duration,
        Field("flushInterval", "age of its first row at which a buffer is sent, however full it is"),
    ] = limits.OUTPUT_FLUSH_INTERVAL_S_DEFAULT
    high_watermark_bytes: Annotated[
        Quantity,
        Field(
            "highWatermark",
            "queued bytes at which a receiver grants no more credit; a slow step is bounded"
            " by 0.25 s of its work instead",
        ),
    ] = limits.CHANNEL_CREDIT_BYTES_DEFAULT
    low_watermark_bytes: Annotated[
        Quantity,
        Field(
            "lowWatermark",
            "queued bytes at which the receiver grants credit again",
            rule="below highWatermark",
        ),
    ] = limits.CHANNEL_LOW_WATERMARK_BYTES_DEFAULT
    compression: Annotated[CompressionSettings, Field("compression", "compression of links between workers")] = (
        CompressionSettings()
    )

    def __post_init__(self) -> None:
        """Refuse watermarks without a gap, and a buffer larger than the high watermark."""
        high, low, buffer = self.high_watermark_bytes, self.low_watermark_bytes, self.buffer_bytes
        shown = {"highWatermark": f"{high} bytes", "lowWatermark": f"{low} bytes"}
        WATERMARKS_APART.refuse(high <= low, shown)
        BUFFER_FITS.refuse(buffer > high, {**shown, "bufferBytes": buffer})


BACKOFF_IN_ORDER = Rule(
    "self.initial.contains('d') || self.max.contains('d') || duration(self.initial) <= duration(self.max)",
    "backoff.initial must not exceed backoff.max",
    path=".initial",
)


@dataclass(frozen=True, slots=True)
class BackoffSettings(Fields):
    """The wait before a restart: ``initial_s``, doubled with each restart up to ``max_s``."""

    RULES = (BACKOFF_IN_ORDER,)

    initial_s: Annotated[
        Duration, Field("initial", "wait before the second restart; the first restart is immediate")
    ] = limits.RESTART_BACKOFF_FIRST_S
    max_s: Annotated[Duration, Field("max", "longest wait")] = limits.RESTART_BACKOFF_MAX_S

    def __post_init__(self) -> None:
        """Refuse a first wait that is longer than the longest one."""
        shown = {"backoff.initial": f"{self.initial_s:g} s", "backoff.max": f"{self.max_s:g} s"}
        BACKOFF_IN_ORDER.refuse(self.initial_s > self.max_s, shown)


@dataclass(frozen=True, slots=True)
class RestartSettings(Fields):
    """The number of restarts within ``window_s``. One more failure fails the job."""

    attempts: Annotated[
        int,
        Field(
            "attempts",
            "restarts within the window; one more failure fails the job, and with 0 the first one does",
            minimum=0,
            maximum=limits.RESTART_ATTEMPTS_MAX,
        ),
    ] = limits.RESTART_ATTEMPTS_DEFAULT
    window_s: Annotated[
        Duration,
        Field(
            "window",
            "older failures do not count; a commit between two of them does not reset the count",
            minimum="1s",
        ),
    ] = limits.RESTART_WINDOW_S_DEFAULT
    backoff: Annotated[BackoffSettings, Field("backoff", "wait before a restart, doubled with each one")] = (
        BackoffSettings()
    )


# --- What only a cluster uses -----------------------------------------------------------------

RESERVED_ENV = "PENSTOCK_"
VOLUME_BYTES = 10 * 1024**3

Image = Annotated[str, Field(pattern=r"[!-~]+", rule="no spaces", length_max=1024)]
Workers = Annotated[int, Field(minimum=1, maximum=limits.WORKERS_MAX)]
Amount = Annotated[str, Field(pattern=RESOURCE_PATTERN, rule="an amount like 500m or 2Gi", length_max=32)]


class PlacementStrategy(StrEnum):
    """Spread the tasks of a step over nodes first, or fill a node with a whole pipeline first."""

    OPERATOR_FIRST = "OperatorFirst"
    PARALLELISM_FIRST = "ParallelismFirst"


class PullPolicy(StrEnum):
    """When the image is pulled, as Kubernetes spells it."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


@dataclass(frozen=True, slots=True)
class Named(Fields):
    """A reference by name in the same namespace."""

    name: Annotated[ObjectName, Field("name", "name of a Secret")]


@dataclass(frozen=True, slots=True)
class ClaimTemplate(Fields):
    """A ReadWriteMany claim for checkpoints that the operator makes."""

    storage_class_name: Annotated[
        ObjectName | None,
        Field("storageClassName", "storage class of the claim; the cluster's default when left out"),
    ] = None
    size_bytes: Annotated[Quantity, Field("size", "size of the volume", minimum="1Mi")] = VOLUME_BYTES


@dataclass(frozen=True, slots=True)
class CheckpointVolume(Fields):
    """Where checkpoints live."""

    ONE_OF = ("claimName", "claimTemplate")

    claim_name: Annotated[ObjectName | None, Field("claimName", "an existing ReadWriteMany claim")] = None
    claim_template: Annotated[
        ClaimTemplate | None,
        Field("claimTemplate", "a ReadWriteMany claim that the operator makes"),
    ] = None


@dataclass(frozen=True, slots=True)
class LocalVolume(Fields):
    """Local disk of each worker."""

    storage_class_name: Annotated[
        ObjectName | None,
        Field("storageClassName", "storage class of the disk; the node's own disk when left out"),
    ] = None
    size_bytes: Annotated[Quantity, Field("size", "size of the volume", minimum="1Mi")] = VOLUME_BYTES


@dataclass(frozen=True, slots=True)
class Placement(Fields):
    """Where tasks run."""

    strategy: Annotated[
        PlacementStrategy,
        Field(
            "strategy",
            "OperatorFirst: spread the tasks of each step over nodes; ParallelismFirst: fill a"
            " node with a whole pipeline first",
        ),
    ] = PlacementStrategy.OPERATOR_FIRST
    nodes: Annotated[
        tuple[ObjectName, ...],
        Field("nodes", "nodes that may be used; all when empty", length_max=1000, unique=True),
    ] = ()


@dataclass(frozen=True, slots=True)
class KeyRef(Fields):
    """A key of a Secret or ConfigMap."""

    name: Annotated[ObjectName, Field("name", "name of the object")]
    key: Annotated[str, Field("key", "key in the object")]
    optional: Annotated[bool, Field("optional", "no error when the object or the key does not exist")] = False


@dataclass(frozen=True, slots=True)
class EnvFrom(Fields):
    """Where the value of an environment variable comes from."""

    ONE_OF = ("secretKeyRef", "configMapKeyRef")

    secret_key_ref: Annotated[KeyRef | None, Field("secretKeyRef", "a key of a Secret")] = None
    config_map_key_ref: Annotated[KeyRef | None, Field("configMapKeyRef", "a key of a ConfigMap")] = None


ENV_ONE_VALUE = Rule(
    "!(has(self.value) && has(self.valueFrom))",
    "value and valueFrom are both there: a variable has one value",
    path=".valueFrom",
)
ENV_RESERVED = Rule(
    f"!self.name.startsWith('{RESERVED_ENV}')",
    f"names that begin with {RESERVED_ENV} belong to the operator",
    path=".name",
)


@dataclass(frozen=True, slots=True)
class EnvVar(Fields):
    """An environment variable of the engine."""

    RULES = (ENV_ONE_VALUE, ENV_RESERVED)

    name: Annotated[str, Field("name", "its name", pattern=r"[A-Za-z_][A-Za-z0-9_]*")]
    value: Annotated[str | None, Field("value", "its value", length_min=0, length_max=32 * 1024)] = None
    value_from: Annotated[EnvFrom | None, Field("valueFrom", "where the value comes from")] = None

    def __post_init__(self) -> None:
        """Refuse two values, and names that belong to the operator."""
        ENV_ONE_VALUE.refuse(self.value is not None and self.value_from is not None)
        ENV_RESERVED.refuse(self.name.startswith(RESERVED_ENV))


REQUESTS_FIT = Rule(
    "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits)"
    " || !quantity(string(self.requests[name])).isGreaterThan("
    "quantity(string(self.limits[name]))))",
    "requests must not exceed limits",
    path=".requests",
)


@dataclass(frozen=True, slots=True)
class Resources(Fields):
    """Requests and limits as Kubernetes spells them."""

    RULES = (REQUESTS_FIT,)

    requests: Annotated[dict[str, Amount], Field("requests", "amounts that are reserved", length_max=32)] = field(
        default_factory=dict
    )
    limits: Annotated[dict[str, Amount], Field("limits", "largest amounts that are allowed", length_max=32)] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        """Refuse a request above its limit. The patterns of the amounts were checked before."""
        both = self.requests.keys() & self.limits.keys()
        above = (resource_amount(self.requests[n]) > resource_amount(self.limits[n]) for n in sorted(both))
        REQUESTS_FIT.refuse(any(above))


@dataclass(frozen=True, slots=True)
class PodMetadata(Fields):
    """Labels and annotations of the pods, besides the operator's own."""

    labels: Annotated[dict[str, LongText], Field("labels", "labels of the pods")] = field(default_factory=dict)
    annotations: Annotated[
        dict[str, Annotated[str, Field(length_max=64 * 1024)]],
        Field("annotations", "annotations of the pods"),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodTemplate(Fields):
    """A part of a pod; ``spec`` is plain data, as Kubernetes spells it."""

    metadata: Annotated[
        PodMetadata | None,
        Field("metadata", "labels and annotations of the pods besides the operator's own"),
    ] = None
    spec: Annotated[Plain, Field("spec", "a PodSpec of Kubernetes; it is checked when pods are made", Kind.OPEN)] = None


EGRESS_MAX = 100
_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
CIDR = rf"{_OCTET}([.]{_OCTET}){{3}}/(3[0-2]|[12]?[0-9])|[0-9a-fA-F:]{{2,39}}/(12[0-8]|1[01][0-9]|[1-9]?[0-9])"


@dataclass(frozen=True, slots=True)
class Egress(Fields):
    """Addresses and a port that workers may connect to, by TCP."""

    cidr: Annotated[
        str,
        Field("cidr", "the addresses, like 10.20.0.0/16", pattern=CIDR, rule="addresses like 10.20.0.0/16 or fd00::/8"),
    ]
    port: Annotated[int, Field("port", "the port", minimum=1, maximum=65_535)]


@dataclass(frozen=True, slots=True)
class Security(Fields):
    """Security of what workers send and receive."""

    mtls: Annotated[bool, Field("mtls", "mutual TLS between workers")] = True
    egress: Annotated[
        tuple[Egress, ...],
        Field(
            "egress",
            "what workers may connect to beside each other, names and ports 443 and 6443: brokers, databases, stores",
            length_max=EGRESS_MAX,
            change=Change.IGNORE,
        ),
    ] = ()


BOUNDS_IN_ORDER = Rule(
    "self.minReplicas <= self.maxReplicas",
    "maxReplicas must be at least minReplicas",
    path=".maxReplicas",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaling(Fields):
    """Bounds and target of the built-in autoscaler."""

    RULES = (BOUNDS_IN_ORDER,)

    min_replicas: Annotated[Workers, Field("minReplicas", "lower bound")] = 1
    max_replicas: Annotated[Workers, Field("maxReplicas", "upper bound")]
    target_busy: Annotated[
        float,
        Field(
            "targetBusy",
            "share of time that tasks of the busiest step should work",
            minimum=0.1,
            maximum=0.95,
        ),
    ] = 0.7
    cooldown_s: Annotated[
        Duration,
        Field(
            "cooldown",
            "least time between two changes; workers are taken away after three times as long without a busier time",
        ),
    ] = 120.0

    def __post_init__(self) -> None:
        """Refuse a lower bound above the upper bound."""
        shown = {"maxReplicas": self.max_replicas, "minReplicas": self.min_replicas}
        BOUNDS_IN_ORDER.refuse(self.max_replicas < self.min_replicas, shown)


@dataclass(frozen=True, slots=True)
class PeriodicSnapshots(Fields):
    """Savepoints that the operator takes periodically."""

    every_s: Annotated[
        Duration,
        Field("every", "how often; after missed periods only one savepoint is taken", minimum="1m"),
    ]
    keep: Annotated[
        int,
        Field(
            "keep",
            "number of the newest complete savepoints that are kept; older ones are removed with their"
            " files, unless a StreamJob restores from them or a StreamSnapshot names their folder (`path`)",
            minimum=1,
            maximum=limits.PERIODIC_SNAPSHOTS_MAX,
        ),
    ] = limits.PERIODIC_SNAPSHOTS_DEFAULT


class OperatorFlavour(StrEnum):
    """The Spark operator that runs a replay."""

    KUBEFLOW = "kubeflow"
    APACHE = "apache"


REPLAY_LASTS = Rule(
    "!has(self.duration) || has(self.rate)",
    "a duration needs a rate: together they give the number of rows, the same for every try",
    path=".duration",
)


@dataclass(frozen=True, slots=True)
class Replay(Fields):
    """A SparkApplication that pushes a dataset into the job.

    With a duration it ends after ``rate * duration_s`` rows, so that every try ends at the same row.
    """

    RULES = (REPLAY_LASTS,)

    dataset: Annotated[str, Field("dataset", "path of the dataset", length_max=PATH_CHARS_MAX)]
    image: Annotated[Image, Field("image", "image with Spark and penstock_spark")]
    rate: Annotated[int | None, Field("rate", "rows per second; as fast as possible when left out", minimum=1)] = None
    duration_s: Annotated[
        Duration | None,
        Field("duration", "time after which the replay ends; left out, it ends with the dataset"),
    ] = None
    flavour: Annotated[OperatorFlavour, Field("flavour", "the Spark operator that runs the SparkApplication")] = (
        OperatorFlavour.KUBEFLOW
    )

    def __post_init__(self) -> None:
        """Refuse a duration without a rate: each try would end at another row."""
        REPLAY_LASTS.refuse(self.duration_s is not None and self.rate is None)

    @property
    def rows(self) -> int | None:
        """Return the largest number of rows that are pushed; None: all rows of the dataset."""
        if self.rate is None or self.duration_s is None:
            return None
        return round(self.rate * self.duration_s)
