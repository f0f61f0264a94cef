"""What restarts the workers of a job, as it is hashed: a digest that changes restarts every job.

One line for each field that is not the default, with its value as it is meant. The number 10 for
10.0 would be another digest.
"""

import json
from collections.abc import Callable

from penstock.contract.schema import Change, Plain
from penstock_operator.api.classes import changes, digest_of, values_of

ALL: Plain = {
    "image": "example/worker:1",
    "imagePullPolicy": "Always",
    "imagePullSecrets": [{"name": "registry"}],
    "job": {"entrypoint": "jobs:count", "args": ["a"], "parameters": {"input": "data"}},
    "restartNonce": 2,
    "restart": {"attempts": 3, "window": "60s", "backoff": {"initial": "1s", "max": "5s"}},
    "restore": {"nonce": "1", "path": "a/b"},
    "checkpoint": {"interval": "1m", "timeout": "90s", "minPause": "1s", "retain": 4},
    "state": {
        "backend": "rocksdb",
        "memory": "64Mi",
        "volume": {"storageClassName": "fast", "size": "20Gi"},
    },
    "shuffle": {
        "bufferBytes": "64Ki",
        "flushInterval": "9ms",
        "highWatermark": 4194304,
        "lowWatermark": "1Mi",
        "compression": {"mode": "auto", "entropyThreshold": 7},
    },
    "placement": {"strategy": "ParallelismFirst", "nodes": ["n1"]},
    "env": [{"name": "A", "value": "1"}],
    "resources": {"requests": {"cpu": 1}, "limits": {"memory": "2Gi"}},
    "serviceAccountName": "words",
    "podTemplate": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"nodeName": "n1"},
    },
    "security": {"mtls": False},
}


def test_what_restarts_the_workers(golden: Callable[[str, str], None]) -> None:
    values = values_of(ALL, Change.RESTART)
    lines = [f"{path}: {json.dumps(value)}" for path, value in sorted(values.items())]
    golden("digest.txt", "\n".join([*lines, digest_of(ALL)]) + "\n")


def test_every_field_that_restarts_is_written_above() -> None:
    paths = {each.path for each in changes() if each.change is Change.RESTART}
    assert paths - values_of(ALL, Change.RESTART).keys() == {"job.script", "job.graph"}
