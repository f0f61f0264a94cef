"""The state of a function: an object that shows one row of a state table at a time.

    StateRows(type, log)
    bind(table) ──> at(row) ──> the function reads and writes ``proxy`` ──> at(row) ... ──> store()

``proxy`` has a property for each field, ``clear()``, and the methods of the user's class. It is one object:
:meth:`StateRows.at` moves it to another row. Every write goes through the log, so also the first
values of a new key are undone with the record that has met the key first.
"""

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import numpy as np

from penstock.model.declared.field_kinds import BEGUN
from penstock.model.declared.state_types import StateType
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.entry_cells import TimersCell
from penstock.steps.typed.field_cells import TimerCell, field_cell
from penstock.steps.typed.undo_log import UndoLog
from penstock.steps.typed.value_cells import Cursor

_SHARED = (FunctionType, property, classmethod, staticmethod)


class StateRows:
    """The rows of one state table, one at a time."""

    def __init__(self, state: StateType, log: UndoLog) -> None:
        """Show rows of ``state``. Each kind of its fields must have a cell."""
        self.log = log
        self._cursor = Cursor(log)
        self.cells = {each.name: field_cell(state, each, self._cursor) for each in state.fields}
        self._begins = state.begins
        self._begun: Any = memoryview(b"")
        self._cleared: dict[int, bool] = {}
        self._maybe_empty: set[int] = set()
        self._lives: Callable[[int], bool] = lambda row: False
        self.proxy = _proxy(state, {name: cell.shown() for name, cell in self.cells.items()}, self._clear)

    def bind(self, table: BoundTable) -> None:
        """Show the rows of a table from now on. Called for each batch."""
        self._table = table
        self._cleared, self._maybe_empty = {}, set()
        if self._begins:
            self._begun = table.fixed(BEGUN)
        for cell in self.cells.values():
            cell.bind(table)

    def keep_while(self, lives: Callable[[int], bool]) -> None:
        """Keep a row of which nothing else is kept, too, while this says that its key lives."""
        self._lives = lives

    def call_for(self, names: Iterable[str]) -> None:
        """Note that functions are called at the times of these fields: tables have their timer columns."""
        for name in names:
            cell = self.cells[name]
            if isinstance(cell, TimersCell):
                cell.fires = True

    def at(self, row: int) -> None:
        """Move to a row, and give a new key its first values."""
        self._cursor.row = row
        if self._begins and not self._begun[row]:
            self._first_values(row)

    def look(self, row: int) -> None:
        """Move to a row, and leave it as it is."""
        self._cursor.row = row

    def kept(self) -> None:
        """Note that a record of the key has succeeded."""
        if self._maybe_empty:
            self._maybe_empty.discard(self._cursor.row)

    def take_cleared(self, row: int) -> bool:
        """Return whether a function has cleared the key of a row since the last call of this method."""
        cleared = self._cleared.get(row, False)
        if cleared:
            self._cursor.log.write(self._cleared, row, False)
        return cleared

    def has_first_values(self) -> bool:
        """Return whether the fields of the row have their first values, whatever its timers are."""
        return all(cell.is_first() for cell in self.cells.values() if not isinstance(cell, TimerCell | TimersCell))

    def kept_rows(self, rows: Iterable[int]) -> None:
        """Note that a later record of each of these keys has succeeded."""
        self._maybe_empty.difference_update(rows)

    def may_be_empty(self, row: int) -> None:
        """Note that a record of the key was undone, or only looked. :meth:`store` deletes it if nothing is kept."""
        self._maybe_empty.add(row)

    def _first_values(self, row: int) -> None:
        for cell in self.cells.values():
            cell.reset()
        if self._begins:
            self._cursor.log.write(self._begun, row, 1)

    def forget(self) -> None:
        """Give the fields of the row their first values, but leave the timers as they are."""
        for cell in self.cells.values():
            if not isinstance(cell, TimerCell | TimersCell):
                cell.reset()
        self._maybe_empty.add(self._cursor.row)

    def _clear(self) -> None:
        row = self._cursor.row
        self._first_values(row)
        self._cleared.setdefault(row, False)
        self._cursor.log.write(self._cleared, row, True)

    def store(self) -> None:
        """Store texts, and delete the keys of which nothing is kept: no value, no timer, and no life."""
        self._table.store()
        cleared = {row for row, cleared in self._cleared.items() if cleared}
        deleted = [row for row in sorted(cleared | self._maybe_empty) if self.is_first(row) and not self._lives(row)]
        if deleted:
            self._table.state.delete(np.array(deleted, np.int32))

    def is_first(self, row: int) -> bool:
        """Move to a row, and return whether its fields, timers too, have their first values."""
        self._cursor.row = row
        if self._begins and not self._begun[row]:
            return True
        return all(cell.is_first() for cell in self.cells.values())


def _proxy(state: StateType, shown: dict[str, property], clear: Any) -> Any:
    """Make the object that functions get. It has no attribute but those of the user's class."""
    shared = {n: v for n, v in vars(state.python).items() if isinstance(v, _SHARED) and not n.startswith("__")}

    def spelled(proxy: Any) -> str:
        return f"{state.name}({', '.join(f'{name}={getattr(proxy, name)!r}' for name in shown)})"

    own = {"__slots__": (), "__repr__": spelled, "clear": lambda _: clear()}
    return type(state.name, (), {**shared, **shown, **own})()
