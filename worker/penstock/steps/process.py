"""The process step: calls a user function with keyed rows and the state of their keys.

A function per batch takes ``(batch, state)``, see :class:`BatchState`. A function per record takes
``(record, values)`` and returns records; ``values`` is a dict with the state of the key, see
:class:`RecordState`. Changes of the state are stored only after the function has returned. A call
that raises changes nothing.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.contract.graph import Call
from penstock.model.arrays import Int32s
from penstock.steps.base import StateSchema, least_bound, with_hidden
from penstock.steps.kept_records import kept_records
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.refusals import Refusals, split_refusals
from penstock.steps.state_values import BatchState, RecordRules, record_rules, state_field
from penstock.steps.stateless import (
    UserFunctionStep,
    caller_of,
    from_records,
    returned_records,
)
from penstock.steps.user_calls import CallResult, as_batch, one_batch, records_of


class ProcessStep(UserFunctionStep):
    """Calls a user function with keyed rows and their state."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        call: Call,
        function: Callable[..., Any],
        schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        """Call ``function`` with state columns ``schemas[0]``; it returns rows of ``schemas[1]``.

        Raises ConfigError for a state column whose type cannot be stored.
        """
        super().__init__(name, caller_of(call, self._batches, self._records))
        self._keys = keys
        self._function = function
        self._output = schemas[1]
        self._fields = {f.name: state_field(name, f) for f in schemas[0]}
        self._rules = record_rules(self._fields)
        values = tuple(field.value for field in self._fields.values())
        self._schema = StateSchema(name, keys.fields, values)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._state = state(self._schema)

    def _state_of(self, part: pa.RecordBatch) -> BatchState:
        rows = self._state.rows(self._keys.codec.keys(self._keys.of(part)))
        return BatchState(self._state, self._fields, rows)

    def _batches(self, part: pa.RecordBatch) -> tuple[pa.RecordBatch, Refusals]:
        state = self._state_of(part)
        returned, refusals = split_refusals(self._function(part, state), part.num_rows)
        value = as_batch(one_batch(returned), self._output)
        state.store()
        return value, refusals

    def _records(self, part: pa.RecordBatch, undo: bool) -> "KeyedRecordCalls":
        state = self._state_of(part), self._rules
        return KeyedRecordCalls(self._function, part, state, self._combine, undo=undo)

    def _combine(self, results: Sequence[list[Any]]) -> pa.RecordBatch:
        return from_records((row for rows in results for row in rows), self._output)

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        if bounds is None:
            return result.value
        least = least_bound(result.accepted(bounds), result.value.num_rows)
        return with_hidden(result.value, least)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows and their state columns."""
        keys = self._keys.codec.columns(self._state.keys_of(rows))
        names = [name for name, _ in self._keys.fields]
        for name, field in self._fields.items():
            names.append(name)
            keys.append(pa.array(field.read(self._state, rows), field.type))
        return pa.RecordBatch.from_arrays(keys, names=names)

    @property
    def contents_schema(self) -> pa.Schema:
        """Return the key columns and the state columns with their types."""
        states = [pa.field(name, field.type) for name, field in self._fields.items()]
        return pa.schema([pa.field(name, kind) for name, kind in self._keys.fields] + states)

    def load_contents(self, rows: pa.RecordBatch) -> None:
        """Store the state of new keys.

        Raises ValueError for a value that cannot be stored, and for a key that has a row already.
        """
        before = self._state.about_keys()
        state = self._state_of(rows)
        if state.keys < rows.num_rows or self._state.about_keys() - before < rows.num_rows:
            names = ", ".join(name for name, _ in self._keys.fields)
            raise ValueError(f"a key is there twice, here or in an earlier row: each key ({names}) has one row")
        order = pa.array(np.argsort(state.index))
        for name in self._fields:
            state[name] = rows.column(name).take(order)
        state.store()

    def counters(self) -> dict[str, int]:
        """Count keys and dead letters."""
        return {**super().counters(), "keys": self._state.about_keys()}


class KeyedRecordCalls:
    """The :class:`RecordCalls` of a function that changes the state of the keys.

    All calls change dicts in memory. The state is stored once, after the last call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        part: pa.RecordBatch,
        state: tuple[BatchState, RecordRules],
        combine: Callable[[Sequence[Any]], Any],
        *,
        undo: bool,
    ) -> None:
        """Read the state of the keys of ``part`` as dicts. ``undo``: calls may be undone."""
        self.combine = combine
        self._function = function
        self._state, self._rules = state
        self._values = self._state.records(self._rules)
        self._part = part
        self._keys: list[int] = self._state.index.tolist()
        self._left = zip(records_of(part), self._keys, strict=True)
        # The state of its key before each row, if calls may be undone.
        self._before: list[dict[str, Any]] | None = [] if undo else None

    def run(self, results: list[Any]) -> None:
        """Call the function for one record after the other."""
        function, values, before, append = self._function, self._values, self._before, results.append
        if before is None:
            for record, key in self._left:
                append(kept_records(returned_records(function(record, values[key]))))
            return
        for record, key in self._left:
            before.append(dict(values[key]))
            append(kept_records(returned_records(function(record, values[key]))))

    def undo(self, row: int) -> None:
        """Restore the state that the row's key had before the row."""
        assert self._before is not None, "a row that cannot be undone fails the job"
        self._values[self._keys[row]].restore(self._before[row])

    def undo_with_later(self, rows: list[int]) -> list[int]:
        """Undo each key back to its first row among ``rows``; return the key's later rows."""
        first: dict[int, int] = {}
        for row in rows:
            first.setdefault(self._keys[row], row)
        for row in first.values():
            self.undo(row)
        return [row for row, key in enumerate(self._keys) if row > first.get(key, row)]

    def call_again(self, row: int) -> list[Any]:
        """Call the function once more for a row, with the current state of its key.

        It gets the record as it came, whatever the first call has made of it.
        """
        assert self._before is not None, "a row that cannot be undone fails the job"
        values = self._values[self._keys[row]]
        self._before[row] = dict(values)
        [record] = records_of(self._part.slice(row, 1))
        return kept_records(returned_records(self._function(record, values)))

    def store(self) -> None:
        """Store the state of all keys."""
        self._state.take_records(self._values, self._rules.first)
        self._state.store()
