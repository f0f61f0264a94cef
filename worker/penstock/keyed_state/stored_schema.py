"""The schema of stored rows: how it is written, whether a table can take it over, and the rows as the table has them.

Each block of a state file has the schema of the state that wrote it. A state that does not evolve reads blocks of
its own schema only. One that evolves (a state with types) finds its columns by name::

    stored column ── the state has one of that name: of the same type ──> its values
                  ── the state has none ────────────────────────────────> left out
    a column without stored values ─────────────────────────────────────> ``Value.added`` in every row

Whether the types of fields fit is decided before any file is read (``protocol.state_evolution``). Here it is only
checked that kernels can read the columns.
"""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import PeerError, StateError
from penstock.contract.codec import parsed
from penstock.model.arrays import fixed, text
from penstock.model.keys import Keys
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import StateSchema

FORMAT = 1
META = b"penstock"
VALUE = "value:"
FRAME = {
    "group": pa.uint16(),
    "deleted": pa.bool_(),
    "hash": pa.uint64(),
    "key": pa.large_binary(),
}
_DTYPES = (BYTES, *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float32", "float64")


def described(schema: StateSchema, max_key_groups: int) -> bytes:
    """Return the stored form of a state's schema. Files of a state that does not evolve have exactly these bytes."""
    return json.dumps(_plain(schema, max_key_groups), sort_keys=True).encode()


def _plain(schema: StateSchema, max_key_groups: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "state": schema.name,
        "keys": [[name, str(kind)] for name, kind in schema.keys],
        "values": [[v.name, v.dtype, v.width] for v in schema.stored],
        "timed": schema.timed,
        "max_key_groups": max_key_groups,
    }


def stored_schema(block: pa.RecordBatch) -> bytes:
    """Return the schema of the state that wrote a block, as :func:`described` gives it."""
    found: bytes = (block.schema.metadata or {}).get(META, b"")
    return found


def check_schema(block: pa.RecordBatch, schema: StateSchema, max_key_groups: int, origin: str) -> None:
    """Raise StateError, showing both, when a table cannot take over the rows of a block. ``origin`` begins the text."""
    stored, wanted = stored_schema(block), described(schema, max_key_groups)
    values = schema.stored if stored == wanted else _evolved(stored, schema, max_key_groups)
    if values is None:
        raise StateError(
            f"{origin}: stored state does not fit: stored {stored.decode(errors='replace')}, "
            f"the job has {wanted.decode()}"
        )
    kinds = dict(zip(block.schema.names, block.schema.types, strict=True))
    if len(kinds) < block.num_columns or kinds != FRAME | {VALUE + value.name: _type(value) for value in values}:
        raise StateError(f"{origin}: a block has columns {kinds}, its schema says otherwise")
    groups = fixed(block.column("group"), np.uint16)
    if len(groups) and groups.max() >= max_key_groups:
        raise StateError(f"{origin}: key group {groups.max()} of {max_key_groups}")


def _evolved(stored: bytes, schema: StateSchema, max_key_groups: int) -> tuple[Value, ...] | None:
    """Return the stored columns if a state that evolves takes them over, else None."""
    if not schema.evolves:
        return None
    wanted = _plain(schema, max_key_groups)
    try:
        had = parsed(stored)
        values = tuple(Value(name, dtype, width) for name, dtype, width in had["values"])
    except (PeerError, KeyError, TypeError, ValueError):
        return None
    own = {value.name: value for value in schema.stored}
    fits = all(own.get(value.name, value) == value and value.dtype in _DTYPES for value in values)
    return values if fits and had | {"values": []} == wanted | {"values": []} else None


def _type(value: Value) -> pa.DataType:
    """Return the type of the stored column of a value."""
    if value.dtype == BYTES:
        return pa.large_binary()
    plain = pa.from_numpy_dtype(np.dtype(value.dtype))
    return plain if value.width == 1 else pa.list_(plain, value.width)


def loadable(block: pa.RecordBatch, schema: StateSchema) -> tuple[Keys, npt.NDArray[np.bool_], dict[str, Any]]:
    """Return keys, which rows are deleted, and values, as :meth:`HotTable.load` takes them."""
    groups = fixed(block.column("group"), np.uint16).astype(np.int32)
    keys = Keys(text(block.column("key")), fixed(block.column("hash"), np.uint64), groups)
    deleted = np.asarray(block.column("deleted").to_numpy(zero_copy_only=False), np.bool_)
    return keys, deleted, {value.name: _values(block, value) for value in schema.stored}


def _values(block: pa.RecordBatch, value: Value) -> Any:
    place = block.schema.get_field_index(VALUE + value.name)
    if place < 0:
        return _added(value, block.num_rows)
    column = block.column(place)
    return column if value.dtype == BYTES else _numbers(column, value)


def _added(value: Value, rows: int) -> Any:
    """Return the values of rows that were stored before the column was there."""
    if value.dtype == BYTES:
        return pa.repeat(pa.scalar(value.added, pa.large_binary()), rows)
    shape = rows if value.width == 1 else (rows, value.width)
    return np.full(shape, value.added or 0, value.dtype)


def _numbers(column: pa.Array, value: Value) -> npt.NDArray[Any]:
    if value.width == 1:
        if pa.types.is_boolean(column.type):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        return fixed(column, value.dtype)
    return fixed(column.flatten(), value.dtype).reshape(-1, value.width)
