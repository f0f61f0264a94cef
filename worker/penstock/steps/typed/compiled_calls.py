"""Calls a compiled function for the records of a slice: machine code runs them, and Python those that it gives back.

    machine: record, record, record ──> gives one back, undone ──> Python: the same function ──> machine: record, ...

The same function gives the same result in both modes, so it does not matter who runs a record. What both have
emitted is put in the order of the records at the end.
"""

from collections.abc import Callable, Mapping
from itertools import repeat
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.contract.graph import MAIN
from penstock.model.arrays import Int32s
from penstock.steps.compiled.frames import CompiledCalls, CompiledRecords
from penstock.steps.typed.emitted_records import EmittedRecords, EmittedRows
from penstock.steps.typed.record_calls import TypedCalls
from penstock.steps.typed.record_writer import RecordWriter
from penstock.steps.user_calls import RecordCalls

T = TypeVar("T")


class PythonRecords(Generic[T]):
    """The records of a slice that Python runs. ``begin`` makes its calls when the first one comes."""

    def __init__(self, begin: Callable[[], TypedCalls[T]]) -> None:
        """Run no record yet."""
        self._begin = begin
        self.calls: TypedCalls[T] | None = None
        self.done: list[int] = []  # rows for which the function returned
        self.results: list[Any] = []  # what it returned for them
        self.failed: list[int] = []

    def run(self, row: int) -> None:
        """Call the function for the record of a row. Raises what it raises."""
        if self.calls is None:
            self.calls = self._begin()
        result = self.calls.run_one(row)
        self.done.append(row)
        self.results.append(result)

    def undo(self, row: int) -> None:
        """Take back what the record of a row has done; its call has raised."""
        assert self.calls is not None, "a call has raised"
        self.calls.undo(row)
        self.failed.append(row)


class CompiledTypedCalls(Generic[T]):
    """The :class:`~penstock.steps.user_calls.RecordCalls` of a compiled function."""

    def __init__(self, machine: CompiledCalls, rows: int, python: PythonRecords[Any], combine: Callable[[], T]) -> None:
        """Run ``rows`` records. ``combine`` gives what all of them have made."""
        self._machine, self._python = machine, python
        self._rows = rows
        self._at = 0
        self._combine = combine

    def run(self, results: list[Any]) -> None:
        """Run the records; add None for each. Raises what the function raises for a record."""
        while self._at < self._rows:
            row = self._machine.next_for_python()
            until = self._rows if row is None else row
            results.extend(repeat(None, until - self._at))
            self._at = until
            if row is not None:
                self._at += 1
                self._python.run(row)
                results.append(None)

    def undo(self, row: int) -> None:
        """Take back all that the record has written and emitted."""
        self._python.undo(row)

    def undo_with_later(self, rows: list[int]) -> list[int]:
        """Raise AssertionError: each result was checked when it was made."""
        raise AssertionError("results of a function with types fit their columns")

    def call_again(self, row: int) -> Any:
        """Raise AssertionError, as :meth:`undo_with_later` does."""
        raise AssertionError("no record of a function with types is called again")

    def combine(self, results: list[Any]) -> T:
        """Return what all records have made."""
        return self._combine()

    def store(self) -> None:
        """Store what Python has written. Machine code writes to the columns themselves."""
        if self._python.calls is not None:
            self._python.calls.store()


def beginning(
    compiled: CompiledRecords | None,
    by_python: Callable[[pa.RecordBatch], TypedCalls[T]],
    by_both: Callable[[CompiledCalls, PythonRecords[T]], T],
) -> Callable[[pa.RecordBatch, bool], RecordCalls[T]]:
    """Return what begins the calls for a slice of records without state.

    ``by_both`` gives what machine code and Python have made of a slice. Without machine code, Python runs all records.
    """

    def begin(part: pa.RecordBatch, _: bool) -> RecordCalls[T]:
        if compiled is None or not compiled.reads(part):
            return by_python(part)
        machine, python = compiled.begin(part), PythonRecords(lambda: by_python(part))
        return CompiledTypedCalls(machine, part.num_rows, python, lambda: by_both(machine, python))

    return begin


def emitted_by_both(
    machine: CompiledCalls, python: PythonRecords[Any], emitted: EmittedRecords
) -> Mapping[str, EmittedRows]:
    """Return what was emitted to each output, and for each row the number of its record among the accepted ones."""
    own = emitted.take() if python.done else {}
    done = np.asarray(python.done, np.int32)
    taken = {}
    for output in machine.outputs:
        batch, numbers = own.get(output, (None, ()))
        own_rows = done[np.asarray(numbers, np.int32)]
        batch, rows = _in_order(machine.take(output), (batch, own_rows), emitted.schema(output))
        before = np.searchsorted(python.failed, rows) if python.failed else 0
        taken[output] = batch, rows - before
    return taken


def mapped_by_both(machine: CompiledCalls, python: PythonRecords[Any], writer: RecordWriter) -> pa.RecordBatch:
    """Return the records that a map has returned."""
    own = writer.batch(python.results) if python.done else None
    return _in_order(machine.take(MAIN), (own, np.asarray(python.done, np.int32)), writer.schema)[0]


def kept_by_both(machine: CompiledCalls, python: PythonRecords[Any]) -> pa.Array:
    """Return for each accepted record whether a filter keeps it."""
    kept = machine.kept
    kept[python.done] = python.results
    return pa.array(np.delete(kept, python.failed) if python.failed else kept)


def _in_order(
    compiled: tuple[pa.RecordBatch, Int32s], python: tuple[pa.RecordBatch | None, Int32s], schema: pa.Schema
) -> tuple[pa.RecordBatch, Int32s]:
    """Put rows of both modes in the order of their records. Rows of one record stay as they were emitted."""
    (batch, rows), (own, own_rows) = compiled, python
    if batch.schema != schema:
        batch = batch.cast(schema)
    if own is None or not own.num_rows:
        return batch, rows
    both = np.concatenate([rows, own_rows])
    order = np.argsort(both, kind="stable")
    return pa.concat_batches([batch, own]).take(pa.array(order)), both[order]
