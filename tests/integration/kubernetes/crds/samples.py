"""Valid objects, and one invalid object for each possible error."""

import json
from typing import Any

API = "penstock.dev/v1alpha1"
Plain = dict[str, Any]

STEPS: list[Plain] = [
    {
        "name": "lines",
        "source": {
            "parquet": {"path": "${input}", "rate": "${rate}"},
            "columns": [{"name": "line", "type": "string"}],
            "eventTime": {"column": "ts", "outOfOrderness": "30s"},
        },
    },
    {"name": "words", "split": {"column": "line"}},
    {
        "name": "counts",
        "keyBy": ["word"],
        "window": {"size": "1m", "compute": [{"name": "n", "function": "count"}]},
    },
    {"name": "out", "sink": {"parquet": {"path": "${output}"}}},
]
FULL: Plain = {
    "image": "registry.example/penstock@sha256:" + "a" * 64,
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": [{"name": "registry"}],
    "job": {"entrypoint": "jobs:words", "args": ["x"], "parameters": {"input": "in", "rate": 0}},
    "replicas": 2,
    "maxReplicas": 8,
    "maxKeyGroups": 128,
    "partition": [{"step": "work", "use": "hot"}],
    "rebalanceNonce": 1,
    "suspend": False,
    "restartNonce": -7,
    "upgrade": {"mode": "Savepoint", "rollback": True, "stableDeadline": "1h30m"},
    "restore": {"nonce": "1", "snapshotRef": "before", "unpublished": "Drop", "unpublishedSinks": {"out": "Skip"}},
    "checkpoint": {
        "interval": "1.5s",
        "timeout": "5m",
        "minPause": "0",
        "retain": 5,
        "volume": {"claimTemplate": {"storageClassName": "nfs", "size": "20Gi"}},
    },
    "state": {"backend": "rocksdb", "memory": "512Mi", "volume": {"size": "1.5Gi"}},
    "restart": {
        "attempts": 0,
        "window": "1h",
        "backoff": {"initial": "1s", "max": "1m"},
    },
    "shuffle": {
        "bufferBytes": 65536,
        "flushInterval": "500us",
        "highWatermark": "4Mi",
        "lowWatermark": 1048576,
        "compression": {"mode": "auto", "entropyThreshold": 6},
    },
    "placement": {"strategy": "ParallelismFirst", "nodes": ["node-1", "node-2.example"]},
    "snapshots": {"every": "1h30m", "keep": 3},
    "replay": {"dataset": "/data/words", "image": "spark:4", "rate": 1000, "duration": "5m"},
    "deletionPolicy": "Savepoint",
    "deletionDeadline": "10m",
    "env": [
        {"name": "MODE", "value": ""},
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ],
    "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": 1}},
    "serviceAccountName": "words",
    "podTemplate": {
        "metadata": {"labels": {"team": "a"}},
        "spec": {"containers": [{"name": "engine", "anything": [1, {"x": []}]}]},
    },
    "security": {"mtls": False, "egress": [{"cidr": "10.20.0.0/16", "port": 9092}, {"cidr": "fd00::/8", "port": 5432}]},
}


def job(spec: Plain | None = None, name: str = "words") -> Plain:
    """Return a StreamJob: the least that a cluster takes, changed as a merge patch says."""
    least: Plain = {
        "image": "penstock:1",
        "job": {"entrypoint": "jobs:words"},
        "checkpoint": {"volume": {"claimName": "checkpoints"}},
    }
    return object_of("StreamJob", merged(least, spec or {}), name)


def graph_job(steps: list[Plain], parameters: Plain | None = None) -> Plain:
    """Return a StreamJob of declarative steps."""
    graph = {"entrypoint": None, "graph": {"steps": steps}, "parameters": parameters or {}}
    return job({"job": graph})


def snapshot(spec: Plain) -> Plain:
    """Return a StreamSnapshot."""
    return object_of("StreamSnapshot", spec, "before")


def object_of(kind: str, spec: Plain, name: str) -> Plain:
    """Return an object of ours."""
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def merged(old: Plain, patch: Plain) -> Plain:
    """Apply a merge patch: null removes."""
    new: Plain = json.loads(json.dumps(old))
    for name, value in patch.items():
        if isinstance(value, dict) and isinstance(new.get(name), dict):
            new[name] = merged(new[name], value)
        elif value is None:
            new.pop(name, None)
        else:
            new[name] = value
    return new


BUCKET: Plain = {
    "region": "eu-central-1",
    "endpoint": "https://minio.example:9000",
    "accessKey": "secret:lake/key",
    "secretKey": "secret:lake/secret",
    "sessionToken": "env:TOKEN",
}
BROKERS: Plain = {
    "bootstrapServers": "a.example:9092,b.example:9092",
    "clientFile": "/etc/kafka/client.properties",
    "registry": "https://registry.example",
    "registryUser": "me",
    "registryPassword": "secret:registry/password",
    "format": "avro",
}
WORD: Plain = {"columns": [{"name": "word", "type": "string"}]}
# Every connector with most of its options: sources, and the sinks behind the first one.
CONNECTORS: list[Plain] = [
    {
        "name": "orders",
        "source": {
            "kafka": {
                **BROKERS,
                "topic": "orders",
                "startup": "2026-01-31T08:00:00Z",
                "until": "latest",
                "discoverEvery": 30,
                "onError": "dead-letter",
                "readerSchema": "{}",
            },
            **WORD,
        },
    },
    {
        "name": "objects",
        "source": {"s3": {**BUCKET, "url": "s3://lake/words", "format": "json", "follow": 1.5}, **WORD},
    },
    {
        "name": "versions",
        "source": {"delta": {**BUCKET, "table": "s3://lake/table", "follow": 2, "skipChangeCommits": True}, **WORD},
    },
    *(
        {"name": f"to-{name}", "inputs": ["orders"], "sink": {name: options}}
        for name, options in {
            "kafka": {**BROKERS, "topic": "out", "keyColumn": "word", "delivery": "at-least-once", "subject": "out"},
            "postgres": {
                "uri": "postgresql://me@db.example:5432/shop?sslmode=require",
                "table": "shop.words",
                "keyColumns": "word",
                "password": "secret:db/password",
            },
            "s3": {**BUCKET, "url": "s3://lake/out", "format": "parquet", "partitionBy": "word", "rollBytes": "16Mi"},
            "delta": {**BUCKET, "table": "s3://lake/out", "rollBytes": "16Mi"},
            "iceberg": {
                **BUCKET,
                "catalog": "https://catalog.example/iceberg",
                "table": "shop.words",
                "warehouse": "lake",
                "credential": "secret:catalog/credential",
                "scope": "PRINCIPAL_ROLE:ALL",
                "oauth2Server": "https://login.example/token",
            },
        }.items()
    ),
    *({"name": f"no-{name}", "inputs": [name], "sink": {"discard": {}}} for name in ("objects", "versions")),
]
PARAMETERS = {"input": "in", "output": "out", "rate": 0}
GOOD: dict[str, Plain] = {
    "the least": job(),
    "everything": object_of("StreamJob", FULL, "a" * 40),
    "a graph": graph_job(STEPS, PARAMETERS),
    "a function with timers": graph_job(
        [
            STEPS[0],
            {
                "name": "seen",
                "keyBy": ["line"],
                "process": {
                    "function": "m:f",
                    "onTimer": [{"timer": "idle", "function": "m:g"}],
                    "ttl": {"after": "7d", "time": "clock"},
                },
            },
            {"name": "out", "sink": {"discard": {}}},
        ],
        PARAMETERS,
    ),
    "schemes": graph_job(
        [
            STEPS[0],
            {
                "name": "work",
                "partition": "custom",
                "partitionSchemes": {"even": "m:f", "hot": "m:g"},
                "use": "even",
                "map": {"function": "m:h"},
            },
            {"name": "out", "sink": {"plugin": {"kind": "lines", "options": {"folder": "out"}}}},
        ],
        PARAMETERS,
    ),
    "connectors": graph_job(CONNECTORS),
    "a script": job({"job": {"entrypoint": None, "script": "def job(p): ..."}}),
    "autoscaling": job({"autoscaling": {"minReplicas": 2, "maxReplicas": 2}}),
    "null is left out": {**job(), "spec": {**job()["spec"], "replay": None, "replicas": None}},
    "a whole float": job({"replicas": 2.0}),
    "days": job({"checkpoint": {"interval": "1d12h"}, "restart": {"backoff": {"initial": "0.5d", "max": "2d"}}}),
    "a restore of the newest checkpoint": job({"restore": {"nonce": "1", "dropState": ["count"]}}),
    "a restore that drops whatever has no step": job(
        {"restore": {"nonce": "1", "path": "apps/a/savepoints/s", "allowNonRestoredState": True}}
    ),
    "the least amounts": job({"resources": {"limits": {"cpu": ".5", "memory": "1e9"}}}),
}


def _step(**step: Any) -> Plain:
    return graph_job([{"name": "a", **step}])


_N = {"name": "n", "function": "count"}
# What is wrong -> (the object, words that the API server says; the reader may say it otherwise).
BAD: dict[str, tuple[Plain, str]] = {
    "days that are none": (job({"checkpoint": {"interval": "0d"}}), "must be at least"),
    # relations between fields, in CEL
    "no job": (
        job({"job": {"entrypoint": None}}),
        'spec.job: Invalid value: "object": exactly one of entrypoint, script, graph is needed',
    ),
    "two jobs": (
        job({"job": {"script": "x"}}),
        "exactly one of entrypoint, script, graph is needed",
    ),
    "more replicas than groups": (
        job({"replicas": 9, "maxKeyGroups": 8}),
        'spec.replicas: Invalid value: "object": replicas must not exceed maxKeyGroups: '
        "a worker without key groups would do nothing",
    ),
    "more replicas than allowed": (
        job({"replicas": 9, "maxReplicas": 8}),
        'spec.replicas: Invalid value: "object": replicas must not exceed maxReplicas',
    ),
    "a bound above the groups": (
        job({"maxReplicas": 9, "maxKeyGroups": 8}),
        "maxReplicas must not exceed maxKeyGroups",
    ),
    "two scalers": (
        job({"maxReplicas": 3, "autoscaling": {"maxReplicas": 3}}),
        "autoscaling and maxReplicas are both there: maxReplicas bounds kubectl scale and an HPA,"
        " autoscaling has bounds of its own",
    ),
    "scaling above the groups": (
        job({"maxKeyGroups": 8, "autoscaling": {"maxReplicas": 9}}),
        "autoscaling.maxReplicas must not exceed maxKeyGroups",
    ),
    "scaling bounds that cross": (
        job({"autoscaling": {"minReplicas": 3, "maxReplicas": 2}}),
        "maxReplicas must be at least minReplicas",
    ),
    "watermarks that meet": (
        job({"shuffle": {"highWatermark": "4Mi", "lowWatermark": "4096Ki"}}),
        "highWatermark must be above lowWatermark",
    ),
    "a first wait above the longest": (
        job({"restart": {"backoff": {"initial": "31s"}}}),
        "backoff.initial must not exceed backoff.max",
    ),
    "a buffer above the window": (
        job({"shuffle": {"bufferBytes": "9Mi"}}),
        "bufferBytes must not exceed highWatermark",
    ),
    "a restore from nothing named": (
        job({"restore": {"nonce": "1"}}),
        "without snapshotRef, path and empty the newest checkpoint is restored",
    ),
    "a restore from two": (
        job({"restore": {"nonce": "1", "snapshotRef": "a", "path": "b"}}),
        "only one of snapshotRef, path and empty may be given",
    ),
    "a restore that drops what it names and all": (
        job({"restore": {"nonce": "1", "dropState": ["a"], "allowNonRestoredState": True}}),
        "give dropState or allowNonRestoredState, not both",
    ),
    "a restore without state, and without leave to repeat output": (
        job({"restore": {"nonce": "1", "empty": True}}),
        "empty: true reads all input again and writes all output again: it needs allowOutputReplay: true",
    ),
    "a restore that is not empty": (
        job({"restore": {"nonce": "1", "empty": False, "allowOutputReplay": True}}),
        "empty: true reads all input again and writes all output again: it needs allowOutputReplay: true",
    ),
    "a replay that ends at another row at every try": (
        job({"replay": {"dataset": "/d", "image": "spark:4", "duration": "5m"}}),
        'spec.replay.duration: Invalid value: "object": a duration needs a rate: together they give '
        "the number of rows, the same for every try",
    ),
    "two volumes": (
        job({"checkpoint": {"volume": {"claimTemplate": {}}}}),
        "exactly one of claimName, claimTemplate is needed",
    ),
    "two values of a variable": (
        job(
            {
                "env": [
                    {
                        "name": "A",
                        "value": "",
                        "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}},
                    }
                ]
            }
        ),
        "value and valueFrom are both there: a variable has one value",
    ),
    "two sources of a value": (
        job({"env": [{"name": "A", "valueFrom": {}}]}),
        "exactly one of secretKeyRef, configMapKeyRef is needed",
    ),
    "a reserved variable": (
        job({"env": [{"name": "PENSTOCK_ROLE", "value": "x"}]}),
        "names that begin with PENSTOCK_ belong to the operator",
    ),
    "a request above its limit": (
        job({"resources": {"requests": {"memory": "1.5Gi"}, "limits": {"memory": "1500Mi"}}}),
        "requests must not exceed limits",
    ),
    "a step of two kinds": (
        _step(split={"column": "c"}, sink={"parquet": {"path": "p"}}),
        "exactly one of source, map, flatMap, filter, split, aggregate, window, session, windowAll, countWindow, join, "
        "distinct, latest, top, process, connect, enrich, lookup, side, sink",
    ),
    "a source of two kinds": (
        _step(source={"parquet": {"path": "p"}, "generator": {}}),
        "exactly one of parquet, json, csv, kafka, s3, delta, iceberg, generator, ingest",
    ),
    "files of an S3 sink that are too small": (
        _step(sink={"s3": {"url": "s3://lake/words", "rollBytes": "1Ki"}}),
        "must be at least 64Ki",
    ),
    "files of an S3 sink that are too large": (
        _step(sink={"s3": {"url": "s3://lake/words", "rollBytes": "65Mi"}}),
        "must be at most 64Mi",
    ),
    "a sink of no kind": (
        _step(sink={}),
        "exactly one of parquet, json, csv, kafka, postgres, s3, delta, iceberg, discard, plugin",
    ),
    "keyed and dealt out": (
        _step(keyBy=["k"], partition="broadcast", split={"column": "c"}),
        "keyBy and partition are both there: keyed rows go to the owner of their key",
    ),
    "custom without its function": (
        _step(partition="custom", split={"column": "c"}),
        "partition: custom needs partitionFunction or partitionSchemes, and they need it",
    ),
    "schemes that are not custom": (
        _step(partition="broadcast", partitionSchemes={"even": "m:f"}, use="even", split={"column": "c"}),
        "partition: custom needs partitionFunction or partitionSchemes, and they need it",
    ),
    "a function and schemes": (
        _step(
            partition="custom",
            partitionFunction="m:f",
            partitionSchemes={"even": "m:f"},
            use="even",
            split={"column": "c"},
        ),
        "partition: custom needs partitionFunction or partitionSchemes, and they need it",
    ),
    "no scheme at first": (
        _step(partition="custom", partitionSchemes={"even": "m:f"}, split={"column": "c"}),
        "use names the scheme of partitionSchemes that holds at first",
    ),
    "a scheme that is not there": (
        _step(partition="custom", partitionSchemes={"even": "m:f"}, use="hot", split={"column": "c"}),
        "use names the scheme of partitionSchemes that holds at first",
    ),
    "state without keys": (
        _step(keyBy=[], aggregate={"compute": [_N]}),
        "a step that keeps state needs keyBy",
    ),
    "duplicates without keys": (_step(distinct={}), "a step that keeps state needs keyBy"),
    "two inputs without keys": (
        _step(keyBy=[], connect={"right": ["other"], "leftFunction": "m:f", "rightFunction": "m:g"}),
        "a step that keeps state needs keyBy",
    ),
    "no call at once": (
        _step(keyBy=["k"], enrich={"function": "m:f", "capacity": 0}),
        "should be greater than or equal to 1",
    ),
    "an attempt that lasts no time": (
        _step(keyBy=["k"], enrich={"function": "m:f", "timeout": "0s"}),
        "must be at least 1ms",
    ),
    "answers without keys": (_step(keyBy=[], enrich={"function": "m:f"}), "a step that keeps state needs keyBy"),
    "a lookup without keys": (
        _step(
            keyBy=[],
            lookup={
                "postgres": {"uri": "postgresql://db/x", "table": "t"},
                "columns": [{"name": "c", "type": "string"}],
            },
        ),
        "a step that keeps state needs keyBy",
    ),
    "a lookup in no table": (
        _step(keyBy=["k"], lookup={"columns": [{"name": "c", "type": "string"}]}),
        "exactly one of postgres, plugin",
    ),
    "two inputs and one function": (
        _step(keyBy=["k"], connect={"right": ["other"], "leftFunction": "m:f"}),
        "rightFunction",
    ),
    "a timer without its function": (
        _step(keyBy=["k"], process={"function": "m:f", "onTimer": [{"timer": "idle"}]}),
        "function",
    ),
    "keys that are forgotten at once": (
        _step(keyBy=["k"], process={"function": "m:f", "ttl": {"after": "0s"}}),
        "after",
    ),
    "no best row": (_step(keyBy=["k"], top={"count": 0, "by": "c"}), "should be greater than or equal to 1"),
    "a sum of nothing": (
        _step(keyBy=["k"], aggregate={"compute": [{"name": "s", "function": "sum"}]}),
        "every function but count needs a column",
    ),
    "a join without times": (
        _step(keyBy=["k"], join={"right": ["other"], "lower": "-5m"}),
        "a join needs within, or lower and upper",
    ),
    "a join of windows and an interval": (
        _step(keyBy=["k"], join={"right": ["other"], "within": "1m", "lower": "-5m", "upper": "5m"}),
        "a join needs within, or lower and upper",
    ),
    "a join of a table and an interval": (
        _step(keyBy=["k"], join={"right": ["other"], "asOf": "event", "lower": "-5m", "upper": "5m"}),
        "a join needs within, or lower and upper, or asOf",
    ),
    "a window without a result": (_step(keyBy=["k"], window={"size": "1m"}), "a window has either compute or whole"),
    "a session with two kinds of results": (
        _step(
            keyBy=["k"],
            session={
                "gap": "1m",
                "compute": [_N],
                "whole": {"function": "jobs:f", "columns": [{"name": "n", "type": "int64"}]},
            },
        ),
        "a window has either compute or whole",
    ),
    "an end of an interval that is no duration": (
        _step(keyBy=["k"], join={"right": ["other"], "lower": "-", "upper": "5m"}),
        "lower",
    ),
    # bounds of durations and quantities, in CEL
    "too often": (job({"checkpoint": {"interval": "99ms"}}), "must be at least 100ms"),
    "a short time-out": (job({"checkpoint": {"timeout": "999ms"}}), "must be at least 1s"),
    "little memory": (job({"state": {"memory": "15Mi"}}), "must be at least 16Mi"),
    "no buffer": (job({"shuffle": {"bufferBytes": 0}}), "must be at least 1"),
    "a small claim": (
        job({"checkpoint": {"volume": {"claimName": None, "claimTemplate": {"size": "1"}}}}),
        "must be at least 1Mi",
    ),
    "a window of no length": (
        _step(keyBy=["k"], window={"size": "0s", "compute": [_N]}),
        "must be at least 1us",
    ),
    # the name
    "a long name": (job(name="a" * 41), "name must be at most 40 characters"),
    "a name with a dot": (
        job(name="a.b"),
        "name does not fit: a lower-case letter, then letters, digits and -",
    ),
    "a name that begins with a digit": (job(name="1a"), "name does not fit"),
    # what the schema alone says
    "no image": (job({"image": None}), "spec.image: Required value"),
    "no checkpoint volume": (
        job({"checkpoint": {"volume": None}}),
        "spec.checkpoint.volume: Required value",
    ),
    "no worker": (job({"replicas": 0}), "should be greater than or equal to 1"),
    "too many workers": (job({"replicas": 1025}), "should be less than or equal to 1024"),
    "a misspelt field": (job({"replicaz": 1}), 'unknown field "spec.replicaz"'),
    "a number as a duration": (job({"checkpoint": {"interval": 10}}), "must be of type string"),
    "no duration": (
        job({"checkpoint": {"interval": "10 s"}}),
        "must be a duration: numbers with the units d, h, m, s, ms or us",
    ),
    "a duration without a unit": (job({"deletionDeadline": "300"}), "must be a duration: "),
    "an empty duration": (job({"checkpoint": {"interval": ""}}), "should be at least 1 chars"),
    "no quantity": (job({"state": {"memory": "64MB"}}), "should match"),
    "a negative quantity": (job({"state": {"memory": -1}}), "greater than or equal to 0"),
    "an unknown mode": (job({"upgrade": {"mode": "savepoint"}}), 'supported values: "LastCheck'),
    "a variable twice": (job({"env": [{"name": "A"}, {"name": "A"}]}), "Duplicate value"),
    "a node twice": (job({"placement": {"nodes": ["a", "a"]}}), "Duplicate value"),
    "a step twice": (
        graph_job([{"name": "a", "split": {"column": "c"}}] * 2),
        "Duplicate value",
    ),
    "a hidden column": (_step(split={"column": "__x"}), "should match"),
    "a reference without a function": (job({"job": {"entrypoint": "jobs"}}), "should match"),
    "a fraction of a worker": (job({"replicas": 1.5}), "must be of type integer"),
    "a negative amount": (job({"resources": {"limits": {"cpu": "-1"}}}), "should match"),
    "addresses that are none": (job({"security": {"egress": [{"cidr": "10.0.0.256/8", "port": 1}]}}), "should match"),
    "addresses without a port": (job({"security": {"egress": [{"cidr": "10.0.0.0/8"}]}}), "port: Required value"),
    "a boolean parameter": (job({"job": {"parameters": {"x": True}}}), "must be of type"),
    "an empty image": (job({"image": ""}), "should be at least 1 chars"),
    "a pod template that is a list": (job({"podTemplate": {"spec": []}}), "must be of type object"),
    "a pod template with a name": (
        job({"podTemplate": {"metadata": {"name": "x"}}}),
        'unknown field "spec.podTemplate.metadata.name"',
    ),
    "too large a number": (job({"restartNonce": 2**63}), "must be of type integer"),
    "too many arguments": (job({"job": {"args": ["x"] * 257}}), "must have at most 256 items"),
    # snapshots
    "a snapshot of nothing": (snapshot({}), "exactly one of jobRef, path is needed"),
    "a snapshot of two": (
        snapshot({"jobRef": "a", "path": "b"}),
        "exactly one of jobRef, path is needed",
    ),
    "a checkpoint to dispose of": (
        snapshot({"jobRef": "a", "type": "Checkpoint", "disposeOnDelete": True}),
        "disposeOnDelete is for savepoints that this object asks for",
    ),
    "another's files to dispose of": (
        snapshot({"path": "a", "disposeOnDelete": True}),
        "disposeOnDelete is for savepoints that this object asks for",
    ),
    "an impatient snapshot": (snapshot({"jobRef": "a", "deadline": "0s"}), "must be at least 1s"),
}
# What may not change -> (an object, a merge patch of it, words that the API server says).
CHANGES: dict[str, tuple[Plain, Plain, str]] = {
    "key groups": (job(), {"spec": {"maxKeyGroups": 512}}, "maxKeyGroups is immutable"),
    "another claim": (
        job(),
        {"spec": {"checkpoint": {"volume": {"claimName": "other"}}}},
        "volume is immutable",
    ),
    "a claim for a template": (
        job(),
        {"spec": {"checkpoint": {"volume": {"claimName": None, "claimTemplate": {}}}}},
        "volume is immutable",
    ),
    "another restore of the same nonce": (
        job({"restore": {"nonce": "1", "path": "a"}}),
        {"spec": {"restore": {"path": "b"}}},
        "a restore happens once per nonce: change nonce too",
    ),
    "another job of a snapshot": (
        snapshot({"jobRef": "a"}),
        {"spec": {"jobRef": "b"}},
        "jobRef is immutable",
    ),
    "other files of a snapshot": (
        snapshot({"path": "a"}),
        {"spec": {"path": "b"}},
        "path is immutable",
    ),
    "another type of a snapshot": (
        snapshot({"jobRef": "a"}),
        {"spec": {"type": "Checkpoint"}},
        "type is immutable",
    ),
}
