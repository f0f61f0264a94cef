"""The schema of stored rows: how it is written, whether a table can take it over, and the rows as the table has them.

Each block of a state file has the schema of the state that wrote it. A state that does not evolve reads blocks of
its own schema only. One that evolves (a state with types) finds its columns by the names of fields, and earlier names::

    stored column ── the state has one of that name ── of the same kind ──────────> its values
                 │                                 ├─ of a wider kind of number ──> the same numbers
                 │                                 ├─ of a ring with other room ──> its newest values
                 │                                 └─ of another kind ────────────> refused
                 └─ the state has none ───────────────────────────────────────────> left out
    ``f.set`` of a field that was there without None ─────────────────────────────> 1
    another column without stored values ─────────────────────────────────────────> ``Value.added`` in every row

Whether the types of fields fit is decided before any file is read (``protocol.state_evolution``). Here it is only
checked that kernels can read the columns.
"""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import PeerError, StateError
from penstock.base.limits import RING_WIDTH_MAX
from penstock.contract.codec import parsed
from penstock.model.arrays import fixed, text
from penstock.model.declared.field_kinds import HEAD, LENGTH, SET
from penstock.model.keys import Keys
from penstock.model.table_columns import BYTES, Value
from penstock.protocol.state_evolution import widens_number
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
    plain = {
        "format": FORMAT,
        "state": schema.name,
        "keys": [[name, str(kind)] for name, kind in schema.keys],
        "values": [[v.name, v.dtype, v.width] for v in schema.stored],
        "timed": schema.timed,
        "max_key_groups": max_key_groups,
    }
    absent = {v.name: v.absent.hex() for v in schema.stored if v.absent is not None}
    return plain | {"absent": absent} if schema.evolves and absent else plain


def stored_schema(block: pa.RecordBatch) -> bytes:
    """Return the schema of the state that wrote a block, as :func:`described` gives it."""
    found: bytes = (block.schema.metadata or {}).get(META, b"")
    return found


class StoredColumns:
    """The columns of a block, found by the names that a schema has for them now."""

    def __init__(self, values: tuple[Value, ...], renamed: tuple[tuple[str, str], ...] = ()) -> None:
        """Find ``values``. ``renamed`` has earlier names of fields, of which none is stored under its present name."""
        self.values = {value.name: value for value in values}
        fields = {value.name.partition(".")[0] for value in values}
        self._earlier = {field: earlier for field, earlier in renamed if field not in fields}

    def stored_name(self, column: str) -> str:
        """Return the name under which a column is stored, if it is."""
        field, dot, part = column.partition(".")
        return self._earlier.get(field, field) + dot + part

    def get(self, column: str) -> Value | None:
        """Return the stored column, None if there is none."""
        return self.values.get(self.stored_name(column))

    def has_value(self, column: str) -> bool:
        """Return whether there are stored columns of the value that ``column`` says to be there."""
        name = self.stored_name(column).removesuffix(SET)
        return any(each == name or each.startswith(name + ".") for each in self.values)


def check_schema(block: pa.RecordBatch, schema: StateSchema, max_key_groups: int, origin: str) -> StoredColumns:
    """Return the columns of a block whose rows a table can take over.

    Else raises StateError that shows both schemas. ``origin`` begins its text.
    """
    stored, wanted = stored_schema(block), described(schema, max_key_groups)
    same = stored == wanted
    columns = StoredColumns(schema.stored) if same else _evolved(stored, schema, max_key_groups)
    if columns is None:
        raise StateError(
            f"{origin}: stored state does not fit: stored {stored.decode(errors='replace')}, "
            f"the job has {wanted.decode()}"
        )
    kinds = dict(zip(block.schema.names, block.schema.types, strict=True))
    had = FRAME | {VALUE + name: _type(value) for name, value in columns.values.items()}
    if len(kinds) < block.num_columns or kinds != had:
        raise StateError(f"{origin}: a block has columns {kinds}, its schema says otherwise")
    groups = fixed(block.column("group"), np.uint16)
    if len(groups) and groups.max() >= max_key_groups:
        raise StateError(f"{origin}: key group {groups.max()} of {max_key_groups}")
    return columns


def _evolved(stored: bytes, schema: StateSchema, max_key_groups: int) -> StoredColumns | None:
    """Return the stored columns if a state that evolves takes them over, else None."""
    if not schema.evolves:
        return None
    try:
        had = parsed(stored)
        absent = {name: bytes.fromhex(default) for name, default in had.get("absent", {}).items()}
        values = tuple(Value(name, dtype, width, absent=absent.get(name)) for name, dtype, width in had["values"])
        columns = StoredColumns(values, schema.renamed)
    except (AttributeError, PeerError, LookupError, TypeError, ValueError):
        return None
    wanted, free = _plain(schema, max_key_groups), {"values": None, "absent": None}
    if had.get("state") == schema.was:
        wanted["state"] = schema.was
    fits = all(map(_is_sound, values)) and all(_fits(value, columns, schema) for value in schema.stored)
    return columns if fits and had | free == wanted | free else None


def _is_sound(value: Value) -> bool:
    return value.dtype in _DTYPES and isinstance(value.width, int) and 1 <= value.width <= RING_WIDTH_MAX


def _fits(value: Value, stored: StoredColumns, schema: StateSchema) -> bool:
    had = stored.get(value.name)
    if had is None:
        return True
    same_room = had.width == value.width or value.name in _rings(schema)
    return same_room and (had.dtype == value.dtype or widens_number(had.dtype, value.dtype))


def _rings(schema: StateSchema) -> set[str]:
    """Return the columns of rings, each of which has two columns beside it."""
    names = {value.name for value in schema.values}
    return {name for name in names if name + HEAD in names}


def _type(value: Value) -> pa.DataType:
    """Return the type of the stored column of a value."""
    if value.dtype == BYTES:
        return pa.large_binary()
    plain = pa.from_numpy_dtype(np.dtype(value.dtype))
    return plain if value.width == 1 else pa.list_(plain, value.width)


def loadable(
    block: pa.RecordBatch, schema: StateSchema, stored: StoredColumns
) -> tuple[Keys, npt.NDArray[np.bool_], dict[str, Any]]:
    """Return keys, which rows are deleted, and values, as :meth:`HotTable.load` takes them.

    ``stored`` is what :func:`check_schema` has returned.
    """
    groups = fixed(block.column("group"), np.uint16).astype(np.int32)
    keys = Keys(text(block.column("key")), fixed(block.column("hash"), np.uint64), groups)
    deleted = np.asarray(block.column("deleted").to_numpy(zero_copy_only=False), np.bool_)
    values = {value.name: _values(block, value, stored) for value in schema.stored}
    for ring in _rings(schema):
        width = next(value.width for value in schema.values if value.name == ring)
        had = stored.get(ring)
        if had is not None and had.width != width:
            values |= _resized(ring, width, [values[ring + part] for part in ("", HEAD, LENGTH)])
    return keys, deleted, values


def _values(block: pa.RecordBatch, value: Value, stored: StoredColumns) -> Any:
    had = stored.get(value.name)
    if had is None:
        there = value.name.endswith(SET) and stored.has_value(value.name)
        return np.ones(block.num_rows, value.dtype) if there else _added(value, block.num_rows)
    column = block.column(VALUE + had.name)
    if value.dtype != BYTES:
        return _numbers(column, had).astype(value.dtype, copy=False)
    if had.absent is not None and had.absent != value.absent and column.null_count:
        return column.fill_null(pa.scalar(had.absent, pa.large_binary()))
    return column


def _added(value: Value, rows: int) -> Any:
    """Return the values of rows that were stored before the column was there."""
    if value.dtype == BYTES:
        return pa.repeat(pa.scalar(value.added, pa.large_binary()), rows)
    shape = rows if value.width == 1 else (rows, value.width)
    return np.full(shape, 0 if value.added is None else value.added, value.dtype)


def _resized(ring: str, width: int, stored: list[npt.NDArray[Any]]) -> dict[str, Any]:
    """Return the columns of a ring that gets other room: the newest values, from the first place on."""
    values, heads, lengths = stored
    values = values.reshape(len(values), -1)
    kept = np.minimum(lengths, width)
    places = np.arange(width)
    from_ = (heads + lengths - kept)[:, None] + places
    taken = np.take_along_axis(values, from_ % values.shape[1], axis=1)
    taken[places >= kept[:, None]] = 0
    return {ring: taken[:, 0] if width == 1 else taken, ring + HEAD: np.zeros_like(heads), ring + LENGTH: kept}


def _numbers(column: pa.Array, value: Value) -> npt.NDArray[Any]:
    if value.width == 1:
        if pa.types.is_boolean(column.type):
            return np.asarray(column.to_numpy(zero_copy_only=False))
        return fixed(column, value.dtype)
    return fixed(column.flatten(), value.dtype).reshape(-1, value.width)
