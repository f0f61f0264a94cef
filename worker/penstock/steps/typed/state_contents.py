"""The state of a function with types as columns of Arrow, and back: for a look at it, and for export and import.

field                     column
------------------------  -----------------------------------------------------------
one value                 that of a record's field
Ring, List, Set, Timers   a list, the first or oldest entry first
Map                       a map, rising by key
Timer, ClockTimer         timestamp[us], null if it is not set
Aggregate                 how many values it has taken, and what is kept of them (a sum of 128 bits is a decimal)
"""

from typing import Any

import pyarrow as pa

from penstock.model.arrays import Int32s
from penstock.model.declared.field_kinds import (
    AggregateField,
    FieldKind,
    ListField,
    MapField,
    RingField,
    ScalarField,
    SetField,
    TimerField,
    TimersField,
    field_text,
    has_high,
    kept_total,
)
from penstock.model.declared.state_types import KeptField, StateType
from penstock.model.declared.value_kinds import (
    DECIMAL_DIGITS_MAX,
    DecimalNumber,
    Instant,
    Item,
    Listed,
    Mapped,
    Tuple,
    Whole,
)
from penstock.steps.typed.aggregate_cell import AggregateCell, aggregated
from penstock.steps.typed.arrow_types import arrow_of
from penstock.steps.typed.entry_cells import EntriesCell, arrow_form
from penstock.steps.typed.field_cells import RingCell
from penstock.steps.typed.record_reader import UnfitError, item_reader
from penstock.steps.typed.state_rows import StateRows


def contents_item(kind: FieldKind) -> Item:
    """Return the kind of the values of a field's column."""
    match kind:
        case ScalarField(value, nullable):
            return Item(value, nullable)
        case RingField(ring):
            return Item(Listed(Item(ring)))
        case ListField(item):
            return Item(Listed(item))
        case SetField(key):
            return Item(Listed(Item(key)))
        case MapField(key, item):
            return Item(Mapped(key, item))
        case TimerField():
            return Item(Instant(), nullable=True)
        case TimersField():
            return Item(Listed(Item(Instant())))
        case AggregateField():
            total = DecimalNumber(DECIMAL_DIGITS_MAX, 0) if has_high(kind) else kept_total(kind)
            return Item(Tuple((Item(Whole()), Item(total))))


def state_objects(state: StateType, contents: pa.RecordBatch, *, as_kept: bool = False) -> list[Any]:
    """Return what :class:`StateContents` shows as objects of the user's class.

    Rings, lists, sets and timers are lists, maps are dicts, and an aggregate is its value; ``as_kept`` it is a tuple,
    as the column has it.
    """
    read = _read if as_kept else _values
    columns = [read(each, contents.column(each.name)) for each in state.fields]
    names = [each.name for each in state.fields]
    return [state.python(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]


def _values(field: KeptField, column: pa.Array) -> list[Any]:
    kind, values = field.kind, _read(field, column)
    return [aggregated(kind, *each) for each in values] if isinstance(kind, AggregateField) else values


def _read(field: KeptField, column: pa.Array) -> list[Any]:
    """Return the values of a field. Raises ValueError for those that the field cannot keep."""
    read = item_reader(contents_item(field.kind), column.type)
    if read is None:
        raise ValueError(f"column {field.name!r} has type {column.type}, and the field is {field_text(field.kind)}")
    try:
        return read(column)
    except UnfitError as error:
        raise ValueError(f"column {field.name!r}: {error}") from None


class StateContents:
    """Shows the fields of state rows as arrays, and writes them."""

    def __init__(self, state: StateType, rows: StateRows) -> None:
        """Show ``state`` by ``rows``."""
        self._rows = rows
        self._state = state
        self.fields = [pa.field(each.name, arrow_of(contents_item(each.kind).kind)) for each in state.fields]

    def arrays(self, rows: Int32s) -> list[pa.Array]:
        """Return an array for each field, with a value for each of the rows that are bound."""
        found: list[list[Any]] = [[] for _ in self._state.fields]
        for row in rows.tolist():
            self._rows.look(row)
            for field, values in zip(self._state.fields, found, strict=True):
                values.append(self._shown(field))
        return [pa.array(values, field.type) for values, field in zip(found, self.fields, strict=True)]

    def _shown(self, field: KeptField) -> Any:
        cell = self._rows.cells[field.name]
        if isinstance(cell, EntriesCell):
            return cell.export()
        if isinstance(cell, RingCell):
            return list(cell)
        if isinstance(cell, AggregateCell):
            return arrow_form(cell.export())
        return arrow_form(getattr(self._rows.proxy, field.name))

    def load(self, rows: Int32s, contents: pa.RecordBatch) -> None:
        """Write the fields of rows that are bound: row i of ``contents`` has those of ``rows[i]``.

        Raises ValueError for a value that a field cannot keep.
        """
        columns = [_read(each, contents.column(each.name)) for each in self._state.fields]
        for number, row in enumerate(rows.tolist()):
            self._rows.log.begin()
            self._rows.at(row)
            for field, values in zip(self._state.fields, columns, strict=True):
                try:
                    self._write(field, values[number])
                except OverflowError as error:  # more entries than the field has room for
                    raise ValueError(str(error)) from None

    def put(self, row: int, state: Any) -> None:
        """Write the fields of a row that is bound: those of an object of the user's class.

        Raises an error of the field for a value that it cannot keep.
        """
        self._rows.log.begin()
        self._rows.at(row)
        for field in self._state.fields:
            self._write(field, getattr(state, field.name))

    def _write(self, field: KeptField, value: Any) -> None:
        cell = self._rows.cells[field.name]
        if isinstance(cell, AggregateCell) and value is None:
            cell.reset()
        elif isinstance(cell, EntriesCell | AggregateCell):
            cell.load(value)
        elif isinstance(cell, RingCell):
            cell.clear()
            for each in value or ():
                cell.append(each)
        else:
            setattr(self._rows.proxy, field.name, value)
