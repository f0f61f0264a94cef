"""A compiled function and the same function in Python: equal output, state, errors and places, for drawn programs."""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from penstock.base.errors import Where
from penstock.contract.call_types import CompileChoice
from penstock.contract.graph import DEAD_LETTER, MAIN, Call, OnError, Per
from penstock.keyed_state.hot import HotTable
from penstock.model.declared.function_types import CallShape, FunctionTypes, function_types
from penstock.steps.compiled import choice
from penstock.steps.keyed import KeyColumns
from penstock.steps.typed.process_input import InputFunction
from penstock.steps.typed.process_step import TypedProcessStep
from tests.property import typed_programs
from tests.support.long_tests import count

PROGRAMS = count(80, 100_000)
PARTS = 4  # so that no test process has all of them while the others have nothing left
INPUT = pa.schema(
    {
        "key": pa.string(),
        "a": pa.int64(),
        "b": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "t": pa.string(),
        "c": pa.string(),
        "flag": pa.bool_(),
        "at": pa.timestamp("us"),
    }
)
MADE = pa.schema(
    {"n": pa.int64(), "x": pa.float64(), "t": pa.string(), "m": pa.int64(), "c": pa.string(), "flag": pa.bool_()}
)
FOLDER = Path(tempfile.mkdtemp(prefix="programs"))


class Run:
    """A step that runs a program in one of the two modes, and all that it does."""

    def __init__(self, program: Any, types: FunctionTypes, mode: CompileChoice) -> None:
        call = Call("program", Per.RECORD, None, (), OnError.DEAD_LETTER, mode)
        keys = KeyColumns(INPUT, ["key"], 4)
        own = InputFunction(keys, call, program, types, INPUT)
        self.step = TypedProcessStep("program", [own], types, {MAIN: MADE})
        self.step.where = lambda row: Where(f"row {row}")
        self.tables: list[HotTable] = []
        self.step.open(self._open)
        self.made: list[Any] = []
        self.step.bind({MAIN: self._emitted, DEAD_LETTER: lambda bad: self.made.append(_exact(bad))})

    def _open(self, schema: Any) -> HotTable:
        self.tables.append(HotTable(schema))
        return self.tables[-1]

    def _emitted(self, batch: pa.RecordBatch) -> None:
        self.made.append((_exact(batch), [self.step.parent(row) for row in range(batch.num_rows)]))

    def state(self) -> dict[str, Any]:
        """Return the state of each key, bit for bit."""
        keys = self.step._keys.codec.keys([pa.array(["k", "l"])])
        rows = self.tables[0].found(keys)
        contents = self.step.contents(rows[rows >= 0])
        return {values[0]: values for values in zip(*map(_column, contents.columns), strict=True)}


def _column(column: pa.Array) -> list[Any]:
    """Return the values of a column; of floats their bytes, so -0.0 and NaN are told apart."""
    if pa.types.is_floating(column.type):
        return [None if v is None else v.hex() for v in column.to_pylist()]
    return [repr(value) for value in column.to_pylist()]


def _exact(batch: pa.RecordBatch) -> list[list[Any]]:
    return [_column(column) for column in batch.columns]


def check(source: str, batches: list[list[dict[str, Any]]], number: int) -> bool:
    """Compare both modes of one program. Returns whether it is compiled."""
    program = typed_programs.load(source, FOLDER, number)
    types = function_types(program, CallShape.PROCESS, {})
    assert types is not None
    refusal = choice.refusal(program, CallShape.PROCESS, types)
    if refusal is not None:
        assert f"program_{number}.py:" in refusal, "a refusal names file and line"
        return False
    runs = [Run(program, types, mode) for mode in (CompileChoice.REQUIRE, CompileChoice.NEVER)]
    for rows in batches:
        for run in runs:
            run.step.on_batch(pa.RecordBatch.from_pylist(rows, INPUT))
        assert runs[0].made == runs[1].made
        assert runs[0].state() == runs[1].state()
    return True


@pytest.mark.parametrize("part", range(PARTS))
@settings(max_examples=PROGRAMS // PARTS, deadline=None, suppress_health_check=list(HealthCheck))
@given(source=typed_programs.sources(), batches=st.lists(typed_programs.ROWS, min_size=1, max_size=2))
def test_a_compiled_program_does_what_python_does(part: int, source: str, batches: list[list[dict[str, Any]]]) -> None:
    compiled = check(source, batches, part)
    event("compiled" if compiled else "refused")
