"""The calls of a function with types for the records of a slice, with the state of their keys."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from penstock.model.arrays import Int32s
from penstock.steps.compiled.frames import CompiledCalls
from penstock.steps.typed.compiled_calls import CompiledTypedCalls, PythonRecords, emitted_by_both
from penstock.steps.typed.emitted_records import EmittedRecords, EmittedRows
from penstock.steps.typed.lifetime import RecordLives
from penstock.steps.typed.record_calls import TypedCalls, check_returns_nothing
from penstock.steps.typed.record_reader import Records
from penstock.steps.typed.state_rows import StateRows

Arm = Callable[[Int32s], None]


class KeyedTypedCalls(TypedCalls[Mapping[str, EmittedRows]]):
    """The calls of a function with types for records with state."""

    def __init__(
        self,
        function: Callable[..., Any],
        records: Records,
        state: tuple[StateRows, Int32s, RecordLives | None],
        emitted: EmittedRecords,
        arm: Arm,
    ) -> None:
        """Call ``function`` for each of ``records``. ``state`` has the row of each record's key, and its lifetime."""
        self._rows, self._all_rows, self._lives = state
        self._arm = arm
        super().__init__(records, self._one, self._take, self._rows.log)
        self._places: Sequence[int] = self._all_rows.tolist()
        self._function = function
        self._emitted = emitted
        emitted.record = 0

    def _call_row(self, row: int, record: Any) -> None:
        place = self._places[row]
        self._rows.at(place)
        if self._lives is None:
            self._one(record)
            return
        self._lives.begin(row, place)
        self._one(record)
        self._lives.renew(row, place)

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
        self._rows.may_be_empty(self._places[row])

    def store(self) -> None:
        """Queue the timers that the records have set, and store what they have written."""
        self._arm(self._all_rows)
        self._rows.store()


class KeyedCompiledCalls(CompiledTypedCalls[Mapping[str, EmittedRows]]):
    """The calls of a compiled function for records with state."""

    def __init__(
        self, machine: CompiledCalls, rows: Int32s, python: PythonRecords[Any], emitted: EmittedRecords, arm: Arm
    ) -> None:
        """Run the records whose keys have these state rows."""
        self._arm, self._all_rows = arm, rows
        super().__init__(machine, len(rows), python, lambda: emitted_by_both(machine, python, emitted))
        self._keyed = python

    def store(self) -> None:
        """Queue timers, store what Python has written, and delete the keys of which only failed records are known."""
        self._arm(self._all_rows)
        calls, failed = self._keyed.calls, self._keyed.failed
        if failed and isinstance(calls, KeyedTypedCalls):
            by_python = np.array(sorted({*self._keyed.done, *failed}), np.intp)
            calls.kept_later(failed, np.delete(np.arange(self._rows, dtype=np.int32), by_python))
        super().store()
