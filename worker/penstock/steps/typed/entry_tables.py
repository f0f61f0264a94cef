"""The entries of lists, maps, sets and timers for the rows of one batch: what was read, and what will be stored.

Each such field has a child table, as :mod:`penstock.model.declared.field_kinds` says. A function reads and writes
plain dicts, one for each row: an entry that is not there has the value ``GONE``. Where a key has few entries, those of
all keys of the batch are read at once; else an entry is read when it is needed, and of a list those behind
it too. The entries that have changed are stored together at the end of the batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Int32s
from penstock.model.declared.field_kinds import (
    LENGTH,
    FieldKind,
    ListField,
    MapField,
    ScalarField,
    SetField,
    TimersField,
    columns_of,
)
from penstock.model.declared.state_types import KeptField, StateType
from penstock.model.declared.value_kinds import (
    Choice,
    DecimalNumber,
    Floating,
    Instant,
    Item,
    ValueKind,
    Whole,
)
from penstock.model.table_columns import Value
from penstock.steps.base import ChildSchema, ChildState
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.enum_text import enum_texts
from penstock.steps.typed.undo_log import UndoLog
from penstock.steps.typed.value_cells import Cursor, value_cell

GONE: Any = type("Gone", (), {"__slots__": (), "__repr__": lambda _: "GONE"})()
VALUE = "value"  # how the columns of a value begin
FEW = 64  # entries of a key that are read with those of all other keys
READ_AHEAD = 64  # items of a list that are read at once


def children_of(state: StateType) -> tuple[ChildSchema, ...]:
    """List the child tables of the fields of a state that have entries."""
    return tuple(_child(f) for f in state.fields if isinstance(f.kind, ListField | MapField | SetField | TimersField))


def _child(field: KeptField) -> ChildSchema:
    return ChildSchema(field.name, entry_form(field.kind).subkey, _value_columns(field.kind), field.renamed)


def _value_columns(kind: FieldKind) -> tuple[Value, ...]:
    item = _item(kind)
    return () if item is None else columns_of(VALUE, ScalarField(item.kind, item.nullable))


def _item(kind: FieldKind) -> Item | None:
    match kind:
        case ListField(item):
            return item
        case MapField(_, value):
            return value
        case _:
            return None


def key_kind(kind: FieldKind) -> ValueKind:
    """Return the kind of the subkeys of a field."""
    match kind:
        case MapField(key) | SetField(key):
            return key
        case TimersField():
            return Instant()
        case _:
            return Whole()


@dataclass(frozen=True, slots=True)
class EntryForm:
    """How entries are kept: the Arrow type of their subkeys, both ways, and the value, None where there is none.

    ``kept`` gives what a subkey is kept as; entries are in its order.
    """

    subkey: pa.DataType
    shown: Callable[[Any], Any]
    kept: Callable[[Any], Any]
    item: Item | None

    def read(self, state: ChildState, rows: Int32s) -> list[Any]:
        """Return the values of rows of a child table; without a value it is True."""
        if self.item is None or not len(rows):
            return [True] * len(rows)
        cursor, cell, _ = self._bound(state, rows)
        values = []
        for cursor.row in rows.tolist():
            values.append(cell.get())
        return values

    def write(self, state: ChildState, rows: Int32s, values: list[Any]) -> None:
        """Store the values of rows of a child table."""
        if self.item is not None:
            cursor, cell, table = self._bound(state, rows)
            for cursor.row, value in zip(rows.tolist(), values, strict=True):
                cell.put(value)
            table.store()

    def _bound(self, state: ChildState, rows: Int32s) -> tuple[Cursor, Any, BoundTable]:
        assert self.item is not None, "these entries have values"
        table, cursor = BoundTable(state, rows), Cursor(UndoLog())
        cell = value_cell(VALUE, self.item, None, cursor)  # each entry was written: none reads as a first value
        cell.bind(table)
        return cursor, cell, table


def entry_form(kind: FieldKind) -> EntryForm:
    """Return how the entries of a field are kept."""
    item, key = _item(kind), key_kind(kind)
    match key:
        case Choice(values):
            texts = tuple(enum_texts(values).values())
            return EntryForm(pa.int16(), texts.__getitem__, lambda text: text.code, item)
        case Floating(bits):
            return EntryForm(pa.float64() if bits == 64 else pa.float32(), _same, _same, item)
        case Instant():
            return EntryForm(pa.int64(), _same, _same, item)
        case DecimalNumber(digits, scale):
            return EntryForm(pa.decimal128(digits, scale), _same, _same, item)
        case _:
            assert isinstance(key.arrow, str), "lists and records are no keys"
            return EntryForm(pa.type_for_alias(key.arrow), _same, _same, item)


def _same(value: Any) -> Any:
    return value


class BoundEntries:
    """The entries of one field for the rows of one batch. Valid until the next call of ``state.rows``."""

    def __init__(self, table: BoundTable, field: str, form: EntryForm) -> None:
        """Show the child table ``field``."""
        self._table = table
        self._lengths = field + LENGTH
        self._state = table.child(field)
        self._form = form
        self._now: dict[int, dict[Any, Any]] = {}
        self._stored: dict[int, dict[Any, Any]] = {}
        self._whole: set[int] = set()
        self._orders: dict[int, list[Any]] = {}  # by row: a heap of known subkeys; some are gone
        self._ahead: dict[int, tuple[int, Any]] = {}  # by row: so many of the first entries were read, up to a subkey

    def at(self, row: int, key: Any, ahead: int = 1) -> dict[Any, Any]:
        """Return the entries of a row, in which ``key`` has a value now, which may be ``GONE``.

        With ``ahead`` above 1, as many numbers from ``key`` on are read together.
        """
        found = self._of(row)
        if key not in found:
            if row in self._whole:
                found[key] = GONE
            else:
                self._read(row, [key] if ahead == 1 else range(key, key + ahead))
        return found

    def missing(self, row: int, key: Any) -> dict[Any, Any]:
        """Return the entries of a row, in which ``key`` has a value now. The caller knows that it is not stored."""
        found = self._of(row)
        found.setdefault(key, GONE)
        return found

    def keys(self, row: int) -> list[Any]:
        """Return the subkeys of a row that are there, in order; all its entries are read."""
        found = self._of(row)
        if row not in self._whole:
            self._read_whole(np.array([row], np.int32))
        return sorted((key for key, value in found.items() if value is not GONE), key=self._form.kept)

    def first(self, row: int) -> Any:
        """Return the first subkey of a row, None if it has none. Subkeys are numbers, and new ones were noted."""
        found = self._of(row)
        order = self._orders.get(row)
        if order is None:
            order = self._orders[row] = [key for key, value in found.items() if value is not GONE]
            heapify(order)
        while True:
            while order and found[order[0]] is GONE:
                heappop(order)
            if row in self._whole or (order and row in self._ahead and order[0] <= self._ahead[row][1]):
                return order[0] if order else None
            self._read_ahead(row, order)

    def note(self, row: int, key: Any) -> None:
        """Note that a subkey was put."""
        if row in self._orders:
            heappush(self._orders[row], key)

    def _read_ahead(self, row: int, order: list[Any]) -> None:
        """Read some more of the first entries of a row."""
        most = 2 * self._ahead[row][0] if row in self._ahead else FEW
        rows = self._state.first(row, most)
        keys = [self._form.shown(key) for key in self._state.subkeys_of(rows).to_pylist()]
        self._take([row] * len(keys), keys, self._form.read(self._state, rows))
        for key in keys:
            heappush(order, key)
        if len(keys) < most:
            self._whole.add(row)
        else:
            self._ahead[row] = most, keys[-1]

    def _of(self, row: int) -> dict[Any, Any]:
        if not self._now:  # nothing of this field was written yet
            rows = self._table.rows
            self._now = {row: {} for row in rows.tolist()}
            self._stored = {row: {} for row in rows.tolist()}
            self._read_whole(rows[self._table.state.column(self._lengths)[rows] <= FEW])
        return self._now[row]

    def _read_whole(self, parents: Int32s) -> None:
        """Read all entries of rows."""
        ends, rows = self._state.entries(parents)
        keys = [self._form.shown(key) for key in self._state.subkeys_of(rows).to_pylist()]
        above = np.repeat(parents, np.diff(ends)).tolist()
        self._take(above, keys, self._form.read(self._state, rows))
        self._whole.update(parents.tolist())

    def _read(self, row: int, keys: Any) -> None:
        """Read some entries of a row."""
        keys = [key for key in keys if key not in self._now[row]]
        rows = self._state.find(np.full(len(keys), row, np.int32), self._packed(keys))
        here = np.flatnonzero(rows >= 0)
        values = dict(zip(here.tolist(), self._form.read(self._state, rows[here]), strict=True))
        self._take([row] * len(keys), keys, [values.get(i, GONE) for i in range(len(keys))])

    def _take(self, rows: list[int], keys: list[Any], values: list[Any]) -> None:
        """Note what was read; what the batch has written stays."""
        for row, key, value in zip(rows, keys, values, strict=True):
            self._stored[row][key] = value
            self._now[row].setdefault(key, value)

    def _packed(self, keys: list[Any]) -> pa.Array:
        return pa.array([self._form.kept(key) for key in keys], self._form.subkey)

    def store(self) -> None:
        """Store the entries that have changed."""
        gone: list[tuple[int, Any]] = []
        put: list[tuple[int, Any, Any]] = []
        for row, entries in self._now.items():
            stored = self._stored[row]
            for key, value in entries.items():
                if value is not stored.get(key, GONE):
                    if value is GONE:
                        gone.append((row, key))
                    else:
                        put.append((row, key, value))
        if gone:
            parents = np.array([row for row, _ in gone], np.int32)
            self._state.delete(self._state.find(parents, self._packed([key for _, key in gone])))
        if put:
            parents = np.array([row for row, _, _ in put], np.int32)
            rows = self._state.rows(parents, self._packed([key for _, key, _ in put]))
            self._form.write(self._state, rows, [value for _, _, value in put])
