"""What a change of each field of ``spec`` does to a running job: one table, and the digest of it.

A field has the class of its longest row. ``ignore``: nothing is restarted, the operator alone
reads it. ``scale``: the number of workers changes, no worker restarts. ``restart``: all workers
end and start anew from the last checkpoint. ``refuse``: the change is not taken, and the last
good spec goes on.
"""

import hashlib
import json
from collections.abc import Iterator
from enum import StrEnum
from functools import cache, lru_cache

from penstock.contract.codec import parsed, to_plain
from penstock.contract.reader import Origin, Reader
from penstock.contract.schema import Kind, Plain, Row
from penstock.contract.streamjob_fields import SPEC
from penstock_operator.api.plain import at


class ChangeClass(StrEnum):
    """What a changed field does."""

    IGNORE = "ignore"
    SCALE = "scale"
    RESTART = "restart"
    REFUSE = "refuse"


CLASSES: dict[str, ChangeClass] = {
    "image": ChangeClass.RESTART,
    "imagePullPolicy": ChangeClass.RESTART,
    "imagePullSecrets": ChangeClass.RESTART,
    "job": ChangeClass.RESTART,
    "replicas": ChangeClass.SCALE,
    "maxReplicas": ChangeClass.IGNORE,
    "maxKeyGroups": ChangeClass.REFUSE,
    "suspend": ChangeClass.SCALE,
    "restartNonce": ChangeClass.RESTART,
    "restart": ChangeClass.RESTART,
    "upgrade": ChangeClass.IGNORE,
    "restore": ChangeClass.IGNORE,  # it says how; a new nonce says that
    "restore.nonce": ChangeClass.RESTART,
    "checkpoint": ChangeClass.RESTART,
    "checkpoint.volume": ChangeClass.REFUSE,
    "state": ChangeClass.RESTART,
    "shuffle": ChangeClass.RESTART,
    "placement": ChangeClass.RESTART,
    "autoscaling": ChangeClass.IGNORE,
    "snapshots": ChangeClass.IGNORE,
    "replay": ChangeClass.IGNORE,
    "deletionPolicy": ChangeClass.IGNORE,
    "deletionDeadline": ChangeClass.IGNORE,
    "env": ChangeClass.RESTART,
    "resources": ChangeClass.RESTART,
    "serviceAccountName": ChangeClass.RESTART,
    "podTemplate": ChangeClass.RESTART,
    "security": ChangeClass.RESTART,
}


def leaves(row: Row = SPEC, path: str = "") -> Iterator[tuple[str, Row]]:
    """List the fields that hold values, with their paths below ``spec``; lists are values."""
    for field in row.fields:
        here = f"{path}.{field.name}" if path else field.name
        if field.kind is Kind.OBJECT and field.fields and here != "job.graph":
            yield from leaves(field, here)
        else:
            yield here, field


def class_of(path: str) -> ChangeClass:
    """Return the class of a field, that of its longest row. Raises KeyError when no row fits."""
    while path not in CLASSES:
        path, dot, _ = path.rpartition(".")
        if not dot:
            raise KeyError(path)
    return CLASSES[path]


def digest_of(spec: Plain) -> str:
    """Return a hash of all that restarts the workers; equal values however they are spelt.

    What is left out and what is written as the default are equal, and so are 60s and 1m: neither
    a new default in the schema nor a formatted file restarts a job.
    """
    return _digest_of(json.dumps(spec, sort_keys=True))


@lru_cache(1024)
def _digest_of(text: str) -> str:
    return _hash(values_of(parsed(text), ChangeClass.RESTART))


def without_nonce(spec: Plain) -> str:
    """Return the digest of what restarts the workers, spec.restartNonce apart."""
    fields = spec if isinstance(spec, dict) else {}
    return digest_of({name: value for name, value in fields.items() if name != "restartNonce"})


def refused(old: Plain, new: Plain) -> list[str]:
    """List the fields that changed and never may."""
    before, after = values_of(old, ChangeClass.REFUSE), values_of(new, ChangeClass.REFUSE)
    return sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))


def values_of(spec: Plain, wanted: ChangeClass) -> dict[str, Plain]:
    """Return the values of one class that are not defaults, by their paths, as they are meant."""
    found: dict[str, Plain] = {}
    for path, row, default in _rows(wanted):
        value = _meant(row, at(spec, *path.split(".")))
        if value is not None and value != default:
            found[path] = value
    return found


@cache
def _rows(wanted: ChangeClass) -> tuple[tuple[str, Row, Plain], ...]:
    return tuple(
        (path, row, _meant(row, row.default)) for path, row in leaves() if class_of(path) is wanted
    )


def _meant(row: Row, plain: Plain) -> Plain:
    if plain is None or row.kind in {Kind.OPEN, Kind.OBJECT, Kind.LIST}:
        return plain
    reader = Reader(Origin())
    value = reader.read(row, plain, row.name)
    if reader.problems:
        return plain
    meant: Plain = to_plain(value)
    return meant


def _hash(values: dict[str, Plain]) -> str:
    data = json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()[:16]
