"""The table of a StreamJob's ``spec``: every field with its type, meaning, default and rule.

The reader, the documentation and the CRD schema are made from these rows.
"""

from penstock.base import limits
from penstock.base.settings import (
    BackoffSettings,
    CheckpointSettings,
    CompressionMode,
    CompressionSettings,
    RestartSettings,
    ShuffleSettings,
    StateBackend,
    StateSettings,
)
from penstock.base.units import RESOURCE_PATTERN
from penstock.contract import streamjob as sj
from penstock.contract import streamjob_rules as rules
from penstock.contract.graph_fields import GRAPH, NAME, NAME_RULE, REFERENCE, REFERENCE_RULE
from penstock.contract.paths import PATH, PATH_RULE
from penstock.contract.schema import (
    OBJECT_NAME,
    OBJECT_NAME_RULE,
    Kind,
    Row,
    boolean,
    choice,
    duration,
    group,
    integer,
    listing,
    number,
    object_name,
    quantity,
    text,
    text_map,
    texts,
)

SCRIPT_CHARS_MAX = 64 * 1024
VOLUME_SIZE = "10Gi"
PATH_CHARS_MAX = 4096
IMAGE = r"[!-~]+"
IMAGE_RULE = "no spaces"


def _checkpoint(
    *,
    volume: sj.CheckpointVolume | None,
    interval_s: float,
    timeout_s: float,
    min_pause_s: float,
    retain: int,
) -> sj.Checkpoint:
    return sj.Checkpoint(CheckpointSettings(interval_s, timeout_s, min_pause_s, retain), volume)


def _state(*, backend: StateBackend, memory_bytes: int, volume: sj.LocalVolume | None) -> sj.State:
    return sj.State(StateSettings(backend, memory_bytes), volume)


def _key_ref(name: str, meaning: str) -> Row:
    return group(
        name,
        meaning,
        sj.KeyRef,
        object_name("name", "name of the object", required=True),
        text("key", "key in it", required=True),
        boolean("optional", "no error when it is not there", default=False),
    )


def _image(name: str, meaning: str, **more: object) -> Row:
    return text(name, meaning, pattern=IMAGE, rule=IMAGE_RULE, length_max=1024, **more)


def _amounts(name: str, meaning: str) -> Row:
    return text_map(
        name,
        meaning,
        pattern=RESOURCE_PATTERN,
        rule="an amount like 500m or 2Gi",
        length_max=32,
        item_length_max=32,
    )


JOB = group(
    "job",
    "what runs",
    sj.Job,
    text(
        "entrypoint",
        "package.module:function that builds the job",
        pattern=REFERENCE,
        rule=REFERENCE_RULE,
    ),
    text("script", "source of a small job; it defines job(params)", length_max=SCRIPT_CHARS_MAX),
    GRAPH,
    texts("args", "arguments for the entrypoint", length_max=256, item_length_max=4096),
    text_map("parameters", "parameters of the job; ${name} in texts of job.graph"),
    required=True,
    one_of=("entrypoint", "script", "graph"),
)
UPGRADE = group(
    "upgrade",
    "how a change of the job is rolled out",
    sj.Upgrade,
    choice(
        "mode",
        "the state from which the changed job continues",
        sj.UpgradeMode,
        default="LastCheckpoint",
    ),
    boolean(
        "rollback",
        "go back to the last stable spec when the new one is not stable by its deadline",
        default=False,
    ),
    duration(
        "stableDeadline",
        "time in which the job must run and complete one checkpoint",
        default="10m",
    ),
    duration("savepointDeadline", "time for the savepoint before the change", default="10m"),
    default={},
    cluster=True,
)
RESTORE = group(
    "restore",
    "an explicit restore, once for each nonce; of the newest checkpoint unless another is named",
    sj.RestoreFrom,
    text("nonce", "another text asks for another restore", required=True),
    object_name("snapshotRef", "name of a StreamSnapshot in the same namespace"),
    text(
        "path",
        "directory of a savepoint or checkpoint",
        pattern=PATH,
        rule=PATH_RULE,
        length_max=PATH_CHARS_MAX,
    ),
    boolean("empty", "true: begin without state, and read all input again"),
    texts(
        "dropState",
        "steps whose stored state is given up: the step is gone, or it begins empty",
        pattern=NAME,
        rule=NAME_RULE,
        item_length_max=63,
        unique=True,
    ),
    boolean("allowNonRestoredState", "give up all stored state that no step takes", default=False),
    boolean(
        "allowOutputReplay",
        "restore to before output that is visible; that output is written again: at least once",
        default=False,
    ),
    choice(
        "unpublished",
        "what happens with committed output that cannot be published",
        sj.Unpublished,
        default="Fail",
    ),
    rules=rules.RESTORE,
)
CHECKPOINT = group(
    "checkpoint",
    "when checkpoints are taken and where they live",
    _checkpoint,
    duration(
        "interval",
        "time from start to start; longer after a checkpoint that took more than half of it",
        default="10s",
        minimum="100ms",
    ),
    duration("timeout", "a checkpoint that takes longer is aborted", default="10m", minimum="1s"),
    duration(
        "minPause",
        "least time from the end of one checkpoint to the start of the next",
        default="0s",
    ),
    integer(
        "retain",
        "checkpoints kept",
        default=limits.RETAINED_CHECKPOINTS_DEFAULT,
        minimum=1,
        maximum=limits.RETAINED_CHECKPOINTS_MAX,
    ),
    group(
        "volume",
        "where checkpoints live in a cluster: a volume that all workers can write",
        sj.CheckpointVolume,
        object_name("claimName", "an existing ReadWriteMany claim"),
        group(
            "claimTemplate",
            "a ReadWriteMany claim that the operator makes",
            sj.ClaimTemplate,
            object_name("storageClassName", "its storage class; the cluster's when left out"),
            quantity(
                "size", "its size", default=VOLUME_SIZE, minimum="1Mi", attribute="size_bytes"
            ),
        ),
        one_of=("claimName", "claimTemplate"),
        immutable=True,
        cluster=True,
        cluster_required=True,
    ),
    default={},
    cluster_required=True,
)
RESTART = group(
    "restart",
    "how often the job starts again after an engine has died, as in Flink's failure-rate "
    "and exponential-delay strategies",
    RestartSettings,
    integer(
        "attempts",
        "restarts within the window; one more death fails the job, and with 0 the first death does",
        default=limits.RESTART_ATTEMPTS_DEFAULT,
        minimum=0,
        maximum=limits.RESTART_ATTEMPTS_MAX,
    ),
    duration(
        "window",
        "older deaths do not count; a commit between two deaths does not reset the count",
        default="10m",
        minimum="1s",
    ),
    group(
        "backoff",
        "wait before a restart, doubled with each one",
        BackoffSettings,
        duration(
            "initial", "before the second restart; the first restart is immediate", default="200ms"
        ),
        duration("max", "at most", default="30s"),
        default={},
        rules=rules.BACKOFF,
    ),
    default={},
)
STATE = group(
    "state",
    "how keyed state is kept",
    _state,
    choice(
        "backend",
        "hybrid: in memory, and on disk what does not fit; rocksdb: on disk",
        StateBackend,
        default="hybrid",
    ),
    quantity(
        "memory", "budget of one worker", default="1Gi", minimum="16Mi", attribute="memory_bytes"
    ),
    group(
        "volume",
        "local disk of each worker, for state that does not fit its memory",
        sj.LocalVolume,
        object_name("storageClassName", "its storage class; the node's own disk when left out"),
        quantity("size", "its size", default=VOLUME_SIZE, minimum="1Mi", attribute="size_bytes"),
        cluster=True,
    ),
    default={},
)
SHUFFLE = group(
    "shuffle",
    "buffers and credit between tasks",
    ShuffleSettings,
    quantity("bufferBytes", "size at which a buffer is sent", default="1Mi", minimum=1),
    duration(
        "flushInterval",
        "age of its first row at which a buffer is sent, however full it is",
        default="5ms",
    ),
    quantity(
        "highWatermark",
        "queued bytes at which a receiver grants no more credit; a slow step is bounded by 0.25 s of its work instead",
        default="8Mi",
        attribute="high_watermark_bytes",
    ),
    quantity(
        "lowWatermark",
        "queued bytes at which the receiver grants credit again",
        default="4Mi",
        attribute="low_watermark_bytes",
        rule="below highWatermark",
    ),
    group(
        "compression",
        "compression of links between workers",
        CompressionSettings,
        choice(
            "mode",
            "none: never; lz4: where rows look compressible; auto: where they do and sending is faster that way",
            CompressionMode,
            default="none",
        ),
        number(
            "entropyThreshold",
            "bits per byte; rows with more are not compressed",
            default=6.5,
            minimum=0,
            maximum=8,
        ),
        default={},
    ),
    default={},
    rules=rules.SHUFFLE,
)
PLACEMENT = group(
    "placement",
    "where tasks run",
    sj.Placement,
    choice(
        "strategy",
        "spread steps, or keep pipelines together",
        sj.PlacementStrategy,
        default="OperatorFirst",
    ),
    texts(
        "nodes",
        "nodes that may be used; all when empty",
        length_max=1000,
        pattern=OBJECT_NAME,
        rule=OBJECT_NAME_RULE,
        unique=True,
    ),
    default={},
    cluster=True,
)
AUTOSCALING = group(
    "autoscaling",
    "the built-in autoscaler; off when left out, refused beside an HPA",
    sj.Autoscaling,
    integer("minReplicas", "lower bound", default=1, minimum=1, maximum=limits.WORKERS_MAX),
    integer("maxReplicas", "upper bound", required=True, minimum=1, maximum=limits.WORKERS_MAX),
    number(
        "targetBusy",
        "share of time that tasks of the busiest step should work",
        default=0.7,
        minimum=0.1,
        maximum=0.95,
    ),
    duration(
        "cooldown",
        "least time between two changes; workers are taken away after three times as long without a busier time",
        default="2m",
    ),
    cluster=True,
    rules=rules.AUTOSCALING,
)
SNAPSHOTS = group(
    "snapshots",
    "savepoints by the clock; each is a StreamSnapshot with the label penstock.dev/periodic",
    sj.PeriodicSnapshots,
    duration(
        "every",
        "how often; after missed periods only one savepoint is taken",
        required=True,
        minimum="1m",
    ),
    integer(
        "keep",
        "number of the newest complete savepoints that are kept; older ones are removed with their "
        "files, unless a StreamJob restores from them",
        default=limits.PERIODIC_SNAPSHOTS_DEFAULT,
        minimum=1,
        maximum=limits.PERIODIC_SNAPSHOTS_MAX,
    ),
    cluster=True,
)
REPLAY = group(
    "replay",
    "a SparkApplication that feeds the job",
    sj.Replay,
    text("dataset", "path of the dataset", required=True, length_max=PATH_CHARS_MAX),
    _image("image", "image with Spark and penstock_spark", required=True),
    integer("rate", "rows per second; as fast as possible when left out", minimum=1),
    duration("duration", "time after which the replay ends; left out, it ends with the dataset"),
    choice("flavour", "whose SparkApplication", sj.OperatorFlavour, default="kubeflow"),
    cluster=True,
    rules=(rules.REPLAY_LASTS,),
)
ENV = listing(
    "env",
    "environment of the engine",
    sj.EnvVar,
    text("name", "its name", required=True, pattern=r"[A-Za-z_][A-Za-z0-9_]*"),
    text("value", "its value", length_min=0, length_max=32 * 1024),
    group(
        "valueFrom",
        "where the value comes from",
        sj.EnvFrom,
        _key_ref("secretKeyRef", "a key of a Secret"),
        _key_ref("configMapKeyRef", "a key of a ConfigMap"),
        one_of=("secretKeyRef", "configMapKeyRef"),
    ),
    key="name",
    cluster=True,
    rules=rules.ENV,
)
POD_TEMPLATE = group(
    "podTemplate",
    "merged into the workers' pods; list items are matched by name, never by position",
    dict,
    group(
        "metadata",
        "labels and annotations of the pods besides the operator's own",
        dict,
        text_map("labels", "labels of the pods"),
        text_map("annotations", "annotations of the pods", item_length_max=64 * 1024),
    ),
    Row("spec", Kind.OPEN, "a PodSpec, as Kubernetes spells it; checked when pods are made"),
    cluster=True,
)

SPEC = group(
    "spec",
    "what you want",
    sj.Spec,
    _image(
        "image",
        "worker image, by digest where given",
        cluster=True,
        cluster_required=True,
    ),
    choice("imagePullPolicy", "when the image is pulled", sj.PullPolicy, cluster=True),
    listing(
        "imagePullSecrets",
        "secrets for the image's registry",
        sj.Named,
        object_name("name", "name of a Secret", required=True),
        key="name",
        cluster=True,
    ),
    JOB,
    integer("replicas", "workers", default=1, minimum=1, maximum=limits.WORKERS_MAX),
    integer(
        "maxReplicas",
        "upper bound for kubectl scale and an HPA",
        minimum=1,
        maximum=limits.WORKERS_MAX,
        cluster=True,
    ),
    integer(
        "maxKeyGroups",
        "key groups; state is owned and moved in these",
        default=limits.KEY_GROUPS_DEFAULT,
        minimum=1,
        maximum=limits.KEY_GROUPS_MAX,
        immutable=True,
    ),
    boolean("suspend", "take a savepoint, then run no workers", default=False, cluster=True),
    integer("restartNonce", "another number restarts without another change", cluster=True),
    RESTART,
    UPGRADE,
    RESTORE,
    CHECKPOINT,
    STATE,
    SHUFFLE,
    PLACEMENT,
    AUTOSCALING,
    SNAPSHOTS,
    REPLAY,
    choice(
        "deletionPolicy",
        "what happens to the checkpoints when the job is deleted",
        sj.DeletionPolicy,
        default="Retain",
        cluster=True,
    ),
    duration(
        "deletionDeadline", "time for the savepoint before deletion", default="5m", cluster=True
    ),
    ENV,
    group(
        "resources",
        "resources of a worker, as Kubernetes spells them",
        sj.Resources,
        _amounts("requests", "what is reserved"),
        _amounts("limits", "what is allowed at most"),
        default={},
        cluster=True,
        rules=rules.RESOURCES,
    ),
    object_name(
        "serviceAccountName",
        "account of the workers; one of the operator's making when left out",
        cluster=True,
    ),
    POD_TEMPLATE,
    group(
        "security",
        "security of the connections between workers",
        sj.Security,
        boolean("mtls", "mutual TLS between workers", default=True),
        default={},
        cluster=True,
    ),
    required=True,
    rules=rules.SPEC,
)
