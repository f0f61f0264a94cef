"""Map, filter and flat map whose functions have types."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.contract.graph import MAIN, Call
from penstock.model.declared.function_types import CallShape, FunctionTypes
from penstock.steps.base import with_hidden
from penstock.steps.compiled.choice import compiled
from penstock.steps.stateless import UserFunctionStep
from penstock.steps.typed.compiled_calls import beginning, emitted_by_both, kept_by_both, mapped_by_both
from penstock.steps.typed.emitted_records import EmittedRecords, EmittedRows, Schemas
from penstock.steps.typed.record_calls import TypedCalls, check_returns_nothing
from penstock.steps.typed.record_reader import RecordReader
from penstock.steps.typed.record_writer import RecordWriter
from penstock.steps.typed.undo_log import UndoLog
from penstock.steps.user_calls import CallAnswer, CallResult, RecordCaller, RecordCalls

Function = Callable[..., Any]
Begin = Callable[[pa.RecordBatch, bool], RecordCalls[Any]]


class TypedMapStep(UserFunctionStep):
    """Emits the record that the function returns for each record."""

    def __init__(
        self, name: str, call: Call, function: Function, types: FunctionTypes, schemas: tuple[pa.Schema, pa.Schema]
    ) -> None:
        """Read rows of ``schemas[0]``, and emit rows of ``schemas[1]``.

        Raises ConfigError for columns that do not fit.
        """
        assert types.main is not None, "a map gives records"
        reader, writer = RecordReader(types.record, schemas[0]), RecordWriter(types.main, schemas[1])

        def one(record: Any) -> Any:
            return writer.values(function(record))

        def by_python(part: pa.RecordBatch) -> TypedCalls[pa.RecordBatch]:
            return TypedCalls(reader.read(part), one, writer.batch, UndoLog())

        machine = compiled(call.compiled, function, CallShape.MAP, types)
        begin = beginning(machine, by_python, lambda calls, python: mapped_by_both(calls, python, writer))
        super().__init__(name, lambda place: RecordCaller(place, call, begin))

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        return with_hidden(result.value, None if bounds is None else result.accepted(bounds))

    def _parent_in(self, result: CallResult[Any], row: int) -> int | None:
        return row


class TypedFilterStep(UserFunctionStep):
    """Keeps the rows for which the function returns True."""

    def __init__(self, name: str, call: Call, function: Function, types: FunctionTypes, schema: pa.Schema) -> None:
        """Read rows of ``schema``. Raises ConfigError for columns that do not fit."""
        reader = RecordReader(types.record, schema)

        def one(record: Any) -> bool:
            kept = function(record)
            if not isinstance(kept, bool):
                raise TypeError(f"the function returned {type(kept).__name__}; it must return a bool")
            return kept

        def combine(results: Sequence[bool]) -> pa.Array:
            return pa.array(results, pa.bool_())

        def by_python(part: pa.RecordBatch) -> TypedCalls[pa.Array]:
            return TypedCalls(reader.read(part), one, combine, UndoLog())

        machine = compiled(call.compiled, function, CallShape.FILTER, types)
        begin = beginning(machine, by_python, kept_by_both)
        super().__init__(name, lambda place: RecordCaller(place, call, begin))

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        return result.accepted(with_hidden(rows, bounds)).filter(result.value)

    def _parent_in(self, result: CallResult[Any], row: int) -> int | None:
        return int(np.flatnonzero(result.value)[row])


class EmittingStep(UserFunctionStep):
    """A step whose function emits records: any number for each record, to several outputs."""

    def __init__(self, name: str, call: Call, begin: Begin) -> None:
        """Begin each slice by ``begin``. The value of its calls is what :meth:`EmittedRecords.take` returns."""
        super().__init__(name, lambda place: RecordCaller(place, call, begin))
        self._output = MAIN  # whose rows are being emitted

    def _emit_answer(self, rows: pa.RecordBatch, bounds: pa.Array | None, answer: CallAnswer[Any]) -> None:
        for output in answer.results[0].value if answer.results else ():
            self._output, self._emit = output, self._outputs[output]
            super()._emit_answer(rows, bounds, answer)

    def _emitted(self, rows: pa.RecordBatch, bounds: pa.Array | None, result: CallResult[Any]) -> pa.RecordBatch:
        emitted, parents = self._rows_of(result)
        kept = None if bounds is None else result.accepted(bounds).take(pa.array(parents, pa.int64()))
        return with_hidden(emitted, kept)

    def _parent_in(self, result: CallResult[Any], row: int) -> int | None:
        return int(self._rows_of(result)[1][row])

    def _rows_of(self, result: CallResult[Mapping[str, EmittedRows]]) -> EmittedRows:
        return result.value[self._output]


class TypedFlatMapStep(EmittingStep):
    """Emits the records that the function emits for each record."""

    def __init__(self, name: str, call: Call, function: Function, types: FunctionTypes, schemas: Schemas) -> None:
        """Read rows of ``schemas[""]``, and emit rows of the other schemas, by output.

        Raises ConfigError for columns that do not fit.
        """
        reader, log = RecordReader(types.record, schemas[""]), UndoLog()
        emitted = EmittedRecords(outputs_of(types), schemas, log)
        out = emitted.out

        def one(record: Any) -> None:
            check_returns_nothing(function(record, out), "out")
            emitted.record += 1

        def by_python(part: pa.RecordBatch) -> TypedCalls[Mapping[str, EmittedRows]]:
            emitted.record = 0
            return TypedCalls(reader.read(part), one, lambda _: emitted.take(), log)

        machine = compiled(call.compiled, function, CallShape.FLAT_MAP, types)
        begin = beginning(machine, by_python, lambda calls, python: emitted_by_both(calls, python, emitted))
        super().__init__(name, call, begin)


def outputs_of(types: FunctionTypes) -> dict[str, Any]:
    """Return the records of the outputs of a function that emits, the main one first."""
    assert types.main is not None, "a function that emits has a main output"
    return {MAIN: types.main, **dict(types.sides)}
