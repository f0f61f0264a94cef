"""One input of a process step: the function that is called for its rows.

read the records ──> rows of their keys in the state's table ──> KeyedTypedCalls ──> take ──> queue timers, store
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.contract.graph import DEAD_LETTER, Call
from penstock.model.arrays import Int32s
from penstock.model.declared.function_types import CallShape, FunctionTypes
from penstock.steps.base import BOUND_COLUMN, NO_BOUND, Emit, with_hidden
from penstock.steps.compiled.choice import compiled
from penstock.steps.keyed import KeyColumns
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.compiled_calls import PythonRecords
from penstock.steps.typed.emitted_records import EmittedRecords, EmittedRows, Schemas
from penstock.steps.typed.keyed_calls import KeyedCompiledCalls, KeyedTypedCalls
from penstock.steps.typed.plain_steps import EmittingStep, outputs_of
from penstock.steps.typed.record_reader import RecordReader, Records
from penstock.steps.typed.shared_states import SharedStates
from penstock.steps.user_calls import RecordCalls


@dataclass(frozen=True, slots=True)
class InputFunction:
    """A function with types, and the rows that it is called for.

    ``schema`` are the columns of these rows, and ``time`` names that of event time. ``letters`` is the output that gets
    the rows for which the function raises.
    """

    keys: KeyColumns
    call: Call
    function: Callable[..., Any]
    types: FunctionTypes
    schema: pa.Schema
    time: str | None = None
    letters: str = DEAD_LETTER


class ProcessInput(EmittingStep):
    """Calls a function with records of keys, and the state of each key."""

    def __init__(self, name: str, own: InputFunction, states: SharedStates, schemas: Schemas, *, timed: bool) -> None:
        """Emit rows of ``schemas``, by output. ``timed``: rows that are emitted have the hidden bound column.

        Raises ConfigError for columns that do not fit.
        """
        super().__init__(name, own.call, self._begin)
        self._states, self._own, self._timed = states, own, timed
        self._function = states.ctx.given(own.function) if own.types.ctx else own.function
        self._reader = RecordReader(own.types.record, own.schema)
        self._compiled = compiled(own.call.compiled, self._function, CallShape.PROCESS, own.types)
        self._emitted_records = EmittedRecords(outputs_of(own.types), schemas, states.log)

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        letters = outputs.get(self._own.letters)
        super().bind(outputs if letters is None else {**outputs, DEAD_LETTER: letters})

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Call the function for the rows, and emit its results in order."""
        if self._timed and batch.schema.get_field_index(BOUND_COLUMN) < 0:  # only the other input has event time
            batch = with_hidden(batch, pa.array(np.full(batch.num_rows, NO_BOUND, np.int64)))
        super().on_batch(batch)

    def _begin(self, part: pa.RecordBatch, _: bool) -> RecordCalls[Mapping[str, EmittedRows]]:
        self._states.ctx.time = self._states.clock.now_us()
        if self._compiled is None or not self._compiled.reads(part):
            records = self._reader.read(part)  # first: an error of it leaves no new key
            return self._python_calls(part, records, self._states.rows_of(self._own.keys, part))
        rows = self._states.rows_of(self._own.keys, part)
        machine = self._compiled.begin(part, self._states.table, rows)
        python = PythonRecords(lambda: self._python_calls(part, self._reader.read(part), rows))
        return KeyedCompiledCalls(machine, rows, python, self._emitted_records, self._states.arm)

    def _python_calls(self, part: pa.RecordBatch, records: Records, rows: Int32s) -> KeyedTypedCalls:
        states = self._states
        states.rows.bind(table := BoundTable(states.table, rows))
        kept = states.rows, rows, states.lives(self._own.keys, part, table, self._own.time)
        return KeyedTypedCalls(self._function, records, kept, self._emitted_records, states.arm)
