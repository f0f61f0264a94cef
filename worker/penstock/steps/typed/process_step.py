"""The process step whose function has types: records, the state of their keys as a row, ``out.emit``.

For each slice of rows:

    read the records ──> rows of their keys in the state's table ──> KeyedTypedCalls ──> take ──> store
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.contract.graph import Call
from penstock.model.arrays import Int32s
from penstock.model.declared.function_types import CallShape, FunctionTypes
from penstock.steps.base import StateSchema
from penstock.steps.compiled.choice import compiled
from penstock.steps.compiled.frames import CompiledCalls
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.typed.added_fields import evolving_columns
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.compiled_calls import CompiledTypedCalls, PythonRecords, emitted_by_both
from penstock.steps.typed.emitted_records import EmittedRecords, EmittedRows, Schemas
from penstock.steps.typed.entry_tables import children_of
from penstock.steps.typed.field_cells import check_cells
from penstock.steps.typed.plain_steps import EmittingStep, outputs_of
from penstock.steps.typed.record_calls import TypedCalls, check_returns_nothing
from penstock.steps.typed.record_reader import RecordReader, Records
from penstock.steps.typed.state_contents import StateContents
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog
from penstock.steps.user_calls import RecordCalls


class TypedProcessStep(EmittingStep):
    """Calls a function with records of keys, and the state of each key."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        call: Call,
        typed: tuple[Callable[..., Any], FunctionTypes],
        schemas: Schemas,
    ) -> None:
        """Call a function with its types. Read rows of ``schemas[""]``, and emit rows of the other schemas, by output.

        Raises ConfigError for columns that do not fit, and for a state that cannot be kept.
        """
        self._function, types = typed
        assert types.state is not None, "a process has a state"
        check_cells(types.state)
        super().__init__(name, call, self._begin)
        self._keys = keys
        self._reader = RecordReader(types.record, schemas[""])
        self._compiled = compiled(call.compiled, self._function, CallShape.PROCESS, types)
        self._log = UndoLog()
        self._emitted_records = EmittedRecords(outputs_of(types), schemas, self._log)
        self._rows = StateRows(types.state, self._log)
        self._contents = StateContents(types.state, self._rows)
        columns, children = evolving_columns(types.state), children_of(types.state)
        self._schema = StateSchema(name, keys.fields, columns, children=children, evolves=True)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._state = state(self._schema)

    def _state_rows(self, part: pa.RecordBatch) -> Int32s:
        """Return the state row of each row's key."""
        return self._state.rows(self._keys.codec.keys(self._keys.of(part)))

    def _begin(self, part: pa.RecordBatch, _: bool) -> RecordCalls[Mapping[str, EmittedRows]]:
        if self._compiled is None or not self._compiled.reads(part):
            records = self._reader.read(part)  # first: an error of it leaves no new key
            return self._python_calls(records, self._state_rows(part))
        rows = self._state_rows(part)
        machine = self._compiled.begin(part, self._state, rows)
        python = PythonRecords(lambda: self._python_calls(self._reader.read(part), rows))
        return KeyedCompiledCalls(machine, rows, python, self._emitted_records)

    def _python_calls(self, records: Records, rows: Int32s) -> "KeyedTypedCalls":
        self._rows.bind(BoundTable(self._state, rows))
        return KeyedTypedCalls(self._function, records, (self._rows, rows), self._emitted_records)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows and the fields of their states."""
        keys = self._keys.codec.columns(self._state.keys_of(rows))
        self._rows.bind(BoundTable(self._state, rows))
        return pa.RecordBatch.from_arrays([*keys, *self._contents.arrays(rows)], schema=self.contents_schema)

    @property
    def contents_schema(self) -> pa.Schema:
        """Return the key columns and the fields of the state with their types."""
        return pa.schema([*(pa.field(name, kind) for name, kind in self._keys.fields), *self._contents.fields])

    def load_contents(self, rows: pa.RecordBatch) -> None:
        """Store the state of new keys.

        Raises ValueError for a value that cannot be stored, and for a key that has a row already.
        """
        before = self._state.about_keys()
        places = self._state_rows(rows)
        self._rows.bind(BoundTable(self._state, places))
        if self._state.about_keys() - before < rows.num_rows:
            names = ", ".join(name for name, _ in self._keys.fields)
            raise ValueError(f"a key is there twice, here or in an earlier row: each key ({names}) has one row")
        self._contents.load(places, rows)
        self._rows.store()

    def counters(self) -> dict[str, int]:
        """Count keys and dead letters."""
        return {**super().counters(), "keys": self._state.about_keys()}


class KeyedTypedCalls(TypedCalls[Mapping[str, EmittedRows]]):
    """The calls of a function with types for records with state."""

    def __init__(
        self,
        function: Callable[..., Any],
        records: Records,
        state: tuple[StateRows, Int32s],
        emitted: EmittedRecords,
    ) -> None:
        """Call ``function`` for each of ``records``. ``state`` has the row of each record's key."""
        self._rows, places = state
        super().__init__(records, self._one, self._take, self._rows.log)
        self._places: Sequence[int] = places.tolist()
        self._function = function
        self._emitted = emitted
        emitted.record = 0

    def _call_row(self, row: int, record: Any) -> None:
        self._rows.at(self._places[row])
        self._one(record)

    def _one(self, record: Any) -> None:
        check_returns_nothing(self._function(record, self._rows.proxy, self._emitted.out), "out")
        self._rows.kept()
        self._emitted.record += 1

    def kept_later(self, failed: Sequence[int], kept: Int32s) -> None:
        """Note which keys have a record that was kept after one that failed. ``kept`` are rows that others have run."""
        places = np.asarray(self._places)
        last = {self._places[row]: row for row in failed}
        later = [place for place, row in last.items() if np.any(places[kept[np.searchsorted(kept, row) :]] == place)]
        self._rows.kept_rows(later)

    def _take(self, _: Sequence[Any]) -> Mapping[str, EmittedRows]:
        return self._emitted.take()

    def undo(self, row: int) -> None:
        """Take back all that the record has written and emitted. A key that it would have begun is not kept."""
        super().undo(row)
        self._rows.undone(self._places[row])

    def store(self) -> None:
        """Store what the records have written."""
        self._rows.store()


class KeyedCompiledCalls(CompiledTypedCalls[Mapping[str, EmittedRows]]):
    """The calls of a compiled function for records with state."""

    def __init__(
        self, machine: CompiledCalls, rows: Int32s, python: PythonRecords[Any], emitted: EmittedRecords
    ) -> None:
        """Run the records whose keys have these state rows."""
        super().__init__(machine, len(rows), python, lambda: emitted_by_both(machine, python, emitted))
        self._keyed = python

    def store(self) -> None:
        """Store what Python has written, and delete the keys of which only records that failed are known."""
        calls, failed = self._keyed.calls, self._keyed.failed
        if failed and isinstance(calls, KeyedTypedCalls):
            by_python = np.array(sorted({*self._keyed.done, *failed}), np.intp)
            calls.kept_later(failed, np.delete(np.arange(self._rows, dtype=np.int32), by_python))
        super().store()
