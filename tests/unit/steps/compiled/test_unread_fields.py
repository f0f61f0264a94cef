"""A value that is none of its field is an error of its row, also if the compiled function does not read that field."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.base.errors import Where
from penstock.contract.call_types import CompileChoice
from penstock.contract.graph import DEAD_LETTER, MAIN, Call, OnError, Per
from penstock.model.declared.function_types import CallShape, function_types
from penstock.steps.compiled import choice
from penstock.steps.typed.plain_steps import TypedMapStep


@ps.record
class Inner:
    n: int
    kind: ps.Enum["A", "B"]  # noqa: F821


@ps.record
class Row:
    a: int
    b: int
    kind: ps.Enum["A", "B"]  # noqa: F821
    other: ps.Enum["A", "B"] | None  # noqa: F821
    at: ps.Time
    inner: Inner | None
    items: list[int]
    named: dict[str, ps.Enum["A", "B"]]  # noqa: F821


@ps.record
class Made:
    a: int


def read_one(r: Row) -> Made:
    return Made(r.a)


def read_in_a_branch(r: Row) -> Made:
    if r.a < 0 and r.kind == "A" and r.b > 0:
        return Made(0)
    return Made(r.a)


COLUMNS: dict[str, pa.DataType] = {
    "a": pa.int64(),
    "b": pa.int64(),
    "kind": pa.string(),
    "other": pa.string(),
    "at": pa.timestamp("s"),
    "inner": pa.struct({"n": pa.int64(), "kind": pa.string()}),
    "items": pa.list_(pa.int64()),
    "named": pa.map_(pa.string(), pa.string()),
}
GOOD: dict[str, Any] = {
    "a": 1,
    "b": 2,
    "kind": "A",
    "other": None,
    "at": 5,
    "inner": {"n": 1, "kind": "B"},
    "items": [1],
    "named": [("x", "A")],
}
BAD: list[tuple[str, Any]] = [
    ("b", None),
    ("kind", "C"),
    ("kind", None),
    ("other", "C"),
    ("at", 2**62),
    ("at", None),
    ("inner", {"n": None, "kind": "A"}),
    ("inner", {"n": 1, "kind": "C"}),
    ("items", [1, None]),
    ("items", None),
    ("named", [("x", "C")]),
]


def run(function: Callable[[Row], Made], batch: pa.RecordBatch, mode: CompileChoice) -> tuple[list[Any], list[Any]]:
    types = function_types(function, CallShape.MAP, {})
    assert types is not None
    call = Call("f", Per.RECORD, None, (), OnError.DEAD_LETTER, mode)
    step = TypedMapStep("map", call, function, types, (batch.schema, pa.schema({"a": pa.int64()})))
    step.where = lambda _: Where("rows")
    out: list[Any] = []
    bad: list[Any] = []
    step.bind(
        {
            MAIN: lambda made: out.extend(made.column("a").to_pylist()),
            DEAD_LETTER: lambda letters: bad.extend(letters.column("error").to_pylist()),
        }
    )
    step.on_batch(batch)
    return out, bad


@pytest.mark.parametrize("function", [read_one, read_in_a_branch])
@pytest.mark.parametrize(("column", "value"), BAD)
def test_both_modes_refuse_the_same_rows(function: Callable[[Row], Made], column: str, value: Any) -> None:
    rows = [GOOD | {"a": 1}, GOOD | {"a": 2, column: value}, GOOD | {"a": 3, "other": "B", "inner": None}]
    arrays = [pa.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(COLUMNS))
    compiled, python = (run(function, batch, mode) for mode in (CompileChoice.REQUIRE, CompileChoice.NEVER))
    assert python[0] == [1, 3]
    assert compiled == python


def test_good_rows_are_run_by_machine_code() -> None:
    types = function_types(read_in_a_branch, CallShape.MAP, {})
    assert types is not None
    machine = choice.compiled(CompileChoice.REQUIRE, read_in_a_branch, CallShape.MAP, types)
    assert machine is not None
    arrays = [pa.array([GOOD[name]] * 3, kind) for name, kind in COLUMNS.items()]
    batch = pa.RecordBatch.from_arrays(arrays, schema=pa.schema(COLUMNS))
    assert machine.reads(batch)
    assert machine.begin(batch).next_for_python() is None
