"""What a change of ``spec`` does to a running job, and the digest of all fields that restart workers.

Each field says what its change does: see ``change=`` in :mod:`penstock.contract.streamjob`.
"""

import hashlib
import json
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from penstock.contract.codec import parsed, to_plain
from penstock.contract.reader import Origin, Reader
from penstock.contract.schema import Change, FieldRow, Kind, Plain
from penstock.contract.streamjob import SPEC
from penstock_operator.api.plain import at


class Changing(NamedTuple):
    """A field, and what its change does."""

    path: str
    row: FieldRow
    change: Change


def changes(row: FieldRow = SPEC, path: str = "", above: Change | None = None) -> Iterator[Changing]:
    """List the fields that hold a value, with their paths below ``spec``. A list is a value."""
    for field in row.fields:
        here = f"{path}.{field.name}" if path else field.name
        change = field.change or above
        if field.kind is Kind.OBJECT and field.fields and here != "job.graph":
            yield from changes(field, here, change)
        else:
            assert change is not None, f"spec.{here} does not say what a change does"
            yield Changing(here, field, change)


def digest_of(spec: Plain) -> str:
    """Return a hash of all fields that restart the workers.

    The spelling of a value does not matter: 60s and 1m have one hash. A field that is left out and
    one that has its default have one hash, too. So a file that is formatted again restarts no job.
    """
    return _digest_of(json.dumps(spec, sort_keys=True))


@lru_cache(1024)
def _digest_of(text: str) -> str:
    return _hash(values_of(parsed(text), Change.RESTART))


def without_nonce(spec: Plain) -> str:
    """Return the digest of all fields that restart the workers, without spec.restartNonce."""
    fields = spec if isinstance(spec, dict) else {}
    return digest_of({name: value for name, value in fields.items() if name != "restartNonce"})


def refused(old: Plain, new: Plain) -> list[str]:
    """List the fields that have changed although they must not change."""
    before, after = values_of(old, Change.REFUSE), values_of(new, Change.REFUSE)
    return sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))


def values_of(spec: Plain, wanted: Change) -> dict[str, Plain]:
    """Return the values of all fields whose change does what ``wanted`` says, by path, without defaults.

    A value is read by its row: 60s is 60.0.
    """
    found: dict[str, Plain] = {}
    for path, row, default in _rows(wanted):
        value = _meant(row, at(spec, *path.split(".")))
        if value is not None and value != default:
            found[path] = value
    return found


@cache
def _rows(wanted: Change) -> tuple[tuple[str, FieldRow, Plain], ...]:
    fields = (each for each in changes() if each.change is wanted)
    return tuple((each.path, each.row, _meant(each.row, each.row.default)) for each in fields)


def _meant(row: FieldRow, plain: Plain) -> Plain:
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
