"""Converts states of keys by a function of the user, from an object of the earlier class to one of the class.

The objects are plain values: rings, lists, sets and timers are lists, maps are dicts. An aggregate is a tuple of how
many values it has taken, and of what is kept of them, so it can be handed over as it is.
"""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.user_code import user_line
from penstock.model.arrays import Int32s
from penstock.model.declared.function_types import function_place
from penstock.model.declared.state_types import StateType
from penstock.model.table_columns import NO_TIMER
from penstock.steps.base import KeyedState, StateSchema
from penstock.steps.keyed import KeyColumns
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.evolving_schema import evolving_schema
from penstock.steps.typed.lifetime import EXPIRES
from penstock.steps.typed.state_contents import StateContents, state_objects
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog


class StateMigration:
    """Converts the states of one step."""

    def __init__(
        self,
        step: str,
        keys: KeyColumns,
        states: tuple[StateType, StateType],
        function: Callable[..., Any],
        timers: Iterable[str] = (),
    ) -> None:
        """Convert the first of ``states`` to the second, of which functions are called for ``timers``."""
        self._before, self._now = states
        self._step, self._keys, self._function = step, keys, function
        self.old: StateSchema = evolving_schema(step, keys.fields, self._before)
        rows = (StateRows(state, UndoLog()) for state in states)
        (self._old_rows, self._old), (self._rows, self._contents) = (
            (each, StateContents(state, each)) for state, each in zip(states, rows, strict=True)
        )
        self._rows.call_for(timers)

    def convert(self, old: KeyedState, rows: Int32s, new: KeyedState) -> None:
        """Give the keys of ``rows`` their state in ``new``. Raises StateError if the function fails."""
        self._old_rows.bind(BoundTable(old, rows))
        contents = pa.RecordBatch.from_arrays(self._old.arrays(rows), schema=pa.schema(self._old.fields))
        columns = self._keys.codec.columns(old.keys_of(rows))
        places = new.rows(self._keys.codec.keys(columns))
        self._rows.bind(BoundTable(new, places))
        objects = state_objects(self._before, contents, as_kept=True)
        for number, (place, each) in enumerate(zip(places.tolist(), objects, strict=True)):
            try:
                made = self._function(each)
                if type(made) is not self._now.python:
                    raise TypeError(f"it returned {made!r}, which is no {self._now.name}")
                self._contents.put(place, made)
            except Exception as error:  # of the user's function, or of a value that a field cannot keep
                raise StateError(self._failed(error, columns, number)) from error
        self._rows.store()
        if self._now.ttl_us is not None:
            self._expire(old, rows, new, places)

    def _expire(self, old: KeyedState, rows: Int32s, new: KeyedState, places: Int32s) -> None:
        """Keep the times at which keys are forgotten. A key without one is forgotten after its next change."""
        same = self._before.ttl_us is not None and self._before.time is self._now.time
        new.column(EXPIRES)[places] = old.column(EXPIRES)[rows] if same else NO_TIMER

    def _failed(self, error: Exception, columns: list[pa.Array], row: int) -> str:
        names = (name for name, _ in self._keys.fields)
        key = ", ".join(f"{n}={c[row].as_py()!r}" for n, c in zip(names, columns, strict=True))
        return (
            f"step {self._step!r}: {function_place(self._function)} cannot migrate the state of the key ({key}): "
            f"{user_line(error)}"
        )
