"""Relations between the fields of a StreamJob, as the API server checks them (CEL).

The values of ``streamjob`` check the same when they are built and say it in the same words; a
property test compares the two. What is about a *change* (``oldSelf``) only the API server sees.
"""

from penstock.contract.schema import Rule

RESERVED_ENV = "PENSTOCK_"

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
SPEC = (
    REPLICAS_HAVE_GROUPS,
    REPLICAS_BOUNDED,
    BOUND_HAS_GROUPS,
    ONE_SCALER,
    AUTOSCALING_HAS_GROUPS,
)

AUTOSCALING = (
    Rule(
        "self.minReplicas <= self.maxReplicas",
        "maxReplicas must be at least minReplicas",
        path=".maxReplicas",
    ),
)
SHUFFLE = (
    Rule(
        "quantity(string(self.highWatermark)).isGreaterThan(quantity(string(self.lowWatermark)))",
        "highWatermark must be above lowWatermark",
        path=".highWatermark",
    ),
    Rule(
        "!quantity(string(self.bufferBytes)).isGreaterThan(quantity(string(self.highWatermark)))",
        "bufferBytes must not exceed highWatermark",
        path=".bufferBytes",
    ),
)
BACKOFF = (
    Rule(
        "duration(self.initial) <= duration(self.max)",
        "backoff.initial must not exceed backoff.max",
        path=".initial",
    ),
)
RESTORE_EMPTY = Rule(
    "!has(self.empty) || (self.empty && self.allowOutputReplay)",
    "empty: true reads all input again and writes all output again: it needs"
    " allowOutputReplay: true",
    path=".empty",
)
RESTORE_ONE = Rule(
    "[has(self.snapshotRef), has(self.path), has(self.empty)].filter(given, given).size() <= 1",
    "snapshotRef, path and empty: only one of them says from where",
)
RESTORE_NEWEST = Rule(
    "has(self.snapshotRef) || has(self.path) || has(self.empty)"
    " || (has(self.dropState) && size(self.dropState) > 0)"
    " || self.allowNonRestoredState || self.unpublished == 'Drop'",
    "none of snapshotRef, path, empty is there, so the newest checkpoint is meant: say what is"
    " given up of it by dropState, allowNonRestoredState: true or unpublished: Drop",
)
RESTORE_DROP = Rule(
    "!(self.allowNonRestoredState && has(self.dropState) && size(self.dropState) > 0)",
    "dropState names the state that is given up, allowNonRestoredState gives up all that no step"
    " takes: say one of them",
    path=".dropState",
)
RESTORE = (
    RESTORE_ONE,
    RESTORE_NEWEST,
    RESTORE_DROP,
    RESTORE_EMPTY,
    Rule(
        "self.nonce != oldSelf.nonce || self == oldSelf",
        "a restore happens once per nonce: change nonce too",
        path=".nonce",
    ),
)
REPLAY_LASTS = Rule(
    "!has(self.duration) || has(self.rate)",
    "a duration needs a rate: together they say how many rows are pushed, the same at every try",
    path=".duration",
)
ENV = (
    Rule(
        "!(has(self.value) && has(self.valueFrom))",
        "value and valueFrom are both there: a variable has one value",
        path=".valueFrom",
    ),
    Rule(
        f"!self.name.startsWith('{RESERVED_ENV}')",
        f"names that begin with {RESERVED_ENV} belong to the operator",
        path=".name",
    ),
)
RESOURCES = (
    Rule(
        "!has(self.requests) || !has(self.limits) || self.requests.all(name, !(name in self.limits)"
        " || !quantity(string(self.requests[name])).isGreaterThan("
        "quantity(string(self.limits[name]))))",
        "requests must not exceed limits",
        path=".requests",
    ),
)

STEP = (
    Rule(
        "!(has(self.keyBy) && size(self.keyBy) > 0 && has(self.partition))",
        "keyBy and partition are both there: keyed rows go to the owner of their key",
        path=".partition",
    ),
    Rule(
        "has(self.partitionFunction) == (has(self.partition) && self.partition == 'custom')",
        "partition: custom and partitionFunction belong together",
        path=".partitionFunction",
    ),
    Rule(
        "has(self.keyBy) && size(self.keyBy) > 0"
        " || !has(self.aggregate) && !has(self.window) && !has(self.process)",
        "a step that keeps state needs keyBy",
        path=".keyBy",
    ),
)
COMPUTE = (
    Rule(
        "has(self.column) || self.function == 'count'",
        "every function but count needs a column",
        path=".column",
    ),
)
