"""The schema of a state with types. For rows of older files, its columns have the first values of added fields.

The cells of the state write the first values of its fields, as for a new key, into a table of one row. So each kind of
field has one place that knows its first value.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.values import replace
from penstock.model.arrays import Int32s
from penstock.model.declared.state_types import StateType
from penstock.model.table_columns import BYTES, NO_TIMER, Value
from penstock.steps.base import ChildState, StateSchema, TimerColumn
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.entry_tables import children_of
from penstock.steps.typed.lifetime import EXPIRES
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog


def evolving_schema(
    name: str,
    keys: tuple[tuple[str, pa.DataType], ...],
    state: StateType,
    timers: tuple[TimerColumn, ...] = (),
) -> StateSchema:
    """Return the schema of a step's state, of which the fields ``timers`` fire. Each field must have a cell."""
    renamed = tuple((f.name, f.renamed) for f in state.fields if f.renamed is not None)
    children, columns = children_of(state), _columns(state)
    own = {column.name for column in columns}
    # Times that were stored while no function was called for them: the first microsecond asks which one is next.
    columns += tuple(Value(timer.name, "int64", added=NO_TIMER + 1) for timer in timers if timer.name not in own)
    if state.ttl_us is not None:
        columns = (*columns, Value(EXPIRES, "int64", added=NO_TIMER))
        timers = (*timers, TimerColumn(EXPIRES, state.time))
    return StateSchema(name, keys, columns, timers=timers, children=children, evolves=True, renamed=renamed)


def _columns(state: StateType) -> tuple[Value, ...]:
    table = _OneRow(state.columns)
    rows, bound = StateRows(state, UndoLog()), BoundTable(table, np.zeros(1, np.int32))  # type: ignore[arg-type]
    rows.bind(bound)
    rows.look(0)
    rows.proxy.clear()
    bound.store()
    return tuple(_column(column, table.value(column)) for column in state.columns)


def _column(column: Value, first: int | float | bytes | None) -> Value:
    """Return a column with its first value. In a text with a default, null is this default."""
    if column.absent is None or not isinstance(first, bytes):
        return replace(column, added=first)
    return replace(column, absent=first)


class _OneRow:
    """The part of a :class:`penstock.steps.base.KeyedState` that cells use, with one row of a new key."""

    def __init__(self, columns: tuple[Value, ...]) -> None:
        fixed = (c for c in columns if c.dtype != BYTES)
        self._fixed = {c.name: np.zeros((1, c.width) if c.width > 1 else 1, c.dtype) for c in fixed}
        self._bytes: dict[str, pa.Array] = {c.name: pa.nulls(1, pa.binary()) for c in columns if c.dtype == BYTES}

    def value(self, column: Value) -> int | float | bytes | None:
        """Return the value of a column; None of one that is wide."""
        found: Any = self._bytes[column.name] if column.dtype == BYTES else self._fixed[column.name]
        return None if column.width > 1 else found[0].as_py() if column.dtype == BYTES else found[0].item()

    def column(self, name: str) -> Any:
        return self._fixed[name]

    def read_bytes(self, name: str, rows: Int32s) -> pa.Array:
        return self._bytes[name].take(pa.array(rows))

    def write_bytes(self, name: str, _: Int32s, values: pa.Array) -> None:
        self._bytes[name] = values

    def child(self, name: str) -> ChildState | None:
        """Return nothing: a field with entries begins without any, and so its table is not touched."""
        return None
