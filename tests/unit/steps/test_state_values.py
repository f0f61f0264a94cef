"""State as user functions get it: only declared columns, in their types, equal in any batch."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, UserCodeError
from penstock.contract.graph import Call, OnError, Per
from penstock.keyed_state.hot import HotTable
from penstock.steps.base import StateSchema
from penstock.steps.keyed import KeyColumns
from penstock.steps.process import ProcessStep
from penstock.steps.state_values import BatchState, record_rules, state_field
from penstock.steps.stateless import FlatMapStep, MapStep

ROWS = pa.record_batch({"k": ["a", "a"], "n": [1, 2]})
STATE = pa.schema([("x", pa.int64()), ("text", pa.string()), ("at", pa.timestamp("us", "Europe/Berlin"))])
GIVEN = pa.schema([("k", pa.string()), ("n", pa.int64())])
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def run(per: Per, function: Any, batches: list[pa.RecordBatch] | None = None) -> list[Any]:
    keys = KeyColumns(ROWS.schema, ["k"], 16)
    step = ProcessStep("own", keys, Call("f", per), function, (STATE, GIVEN))
    step.open(HotTable)
    out: list[Any] = []
    step.bind({"main": lambda batch: out.extend(batch.to_pylist())})
    for batch in batches or [ROWS]:
        step.on_batch(batch)
    return out


def refusal(function: Any, per: Per = Per.RECORD) -> str:
    with pytest.raises(UserCodeError) as error:
        run(per, function)
    return str(error.value)


def test_a_lossy_state_value_is_refused_with_step_record_column_and_value() -> None:
    def function(record: Any, state: Any) -> list[Any]:
        state["x"] += 0.6
        return []

    text = refusal(function)
    assert text.startswith("step 'own': ValueError: state column 'x' cannot hold 0.6 as int64: it is no whole number")
    assert "{'k': 'a', 'n': 1}" in text, "the record is shown"
    assert "test_state_values.py" in text, "so is the user's line"


def test_a_lossy_output_value_is_refused_with_step_record_column_and_value() -> None:
    def function(record: Any, state: Any) -> list[Any]:
        return [{"k": "a", "n": 1.7}]

    text = "step 'own': ValueError: column 'n' cannot hold 1.7 as int64: it is no whole number"
    assert refusal(function) == f"{text}\nrecord: {{'k': 'a', 'n': 1}}"


def test_a_lossy_output_batch_is_refused_with_the_row_at_fault() -> None:
    def function(batch: pa.RecordBatch, state: Any) -> pa.RecordBatch:
        halves = [n / 2 for n in batch["n"].to_pylist()]
        return pa.record_batch({"k": batch["k"], "n": halves})

    text = "step 'own': ValueError: column 'n' cannot hold 0.5 as int64: it is no whole number"
    assert refusal(function, Per.BATCH) == f"{text}\nrecord: {{'k': 'a', 'n': 1}}"


@pytest.mark.parametrize("kind", [MapStep, FlatMapStep])
@pytest.mark.parametrize("per", list(Per))
def test_functions_without_state_must_return_their_declared_columns(kind: Any, per: Per) -> None:
    def function(rows: Any) -> Any:
        if per is Per.BATCH:
            return pa.record_batch({"k": rows["k"], "n": [n + 0.7 for n in rows["n"].to_pylist()]})
        record = {"k": rows["k"], "n": rows["n"] + 0.7}
        return record if kind is MapStep else [record]

    step = kind("own", Call("f", per), function, GIVEN)
    step.bind({"main": lambda _: None})
    with pytest.raises(UserCodeError, match=r"column 'n' cannot hold 1\.7 as int64"):
        step.on_batch(ROWS)


def test_an_undeclared_name_is_refused_where_it_is_used() -> None:
    def uses(use: Any) -> str:
        return refusal(lambda record, state: use(state))

    near = "unknown state column 'tex': did you mean 'text'?"
    assert near in uses(lambda state: state["tex"])
    assert near in uses(lambda state: state.get("tex", 0))
    assert near in uses(lambda state: state.setdefault("tex", 0))
    assert near in uses(lambda state: state.pop("tex", 0))
    assert near in uses(lambda state: state.update(tex=5))
    assert near in uses(lambda state: state.__setitem__("tex", 5))
    assert near in uses(lambda state: state.__delitem__("tex"))


def test_none_is_refused_for_a_column_that_begins_as_zero() -> None:
    def function(record: Any, state: Any) -> list[Any]:
        state["text"] = state["at"] = None
        state["x"] = None
        return []

    assert "state column 'x' cannot hold None" in refusal(function)


def test_a_cleared_key_begins_anew_at_once_and_is_deleted() -> None:
    seen: list[Any] = []

    def function(record: Any, state: Any) -> list[Any]:
        seen.append(dict(state))
        state["x"], state["text"], state["at"] = record["n"], "there", NOON
        if record["n"] == 2:
            state.clear()
        return []

    run(Per.RECORD, function, [ROWS, ROWS])
    new = {"x": 0, "text": None, "at": None}
    assert seen == [new, {"x": 1, "text": "there", "at": NOON}] * 2


def test_stored_times_keep_their_type_and_time_zone() -> None:
    seen: list[Any] = []

    def record_function(record: Any, state: Any) -> list[Any]:
        seen.append(state["at"])
        state["at"] = NOON
        seen.append(state["at"])
        return []

    run(Per.RECORD, record_function, [ROWS.slice(0, 1), ROWS.slice(1)])
    assert seen == [None, NOON, NOON, NOON]
    assert {str(time.tzinfo) for time in seen[1:]} == {"Europe/Berlin"}

    def batch_function(batch: pa.RecordBatch, state: BatchState) -> pa.RecordBatch:
        state["at"] = [NOON]
        return pa.RecordBatch.from_pylist([{"k": str(state["at"].type), "n": len(state["at"])}], GIVEN)

    assert run(Per.BATCH, batch_function)[0]["k"] == "timestamp[us, tz=Europe/Berlin]"


def test_a_stored_array_is_a_copy() -> None:
    def function(batch: pa.RecordBatch, state: BatchState) -> pa.RecordBatch:
        x = state["x"]
        state["x"] = x
        x += 1
        return pa.record_batch({"k": ["a"], "n": state["x"]})

    assert [row["n"] for row in run(Per.BATCH, function, [ROWS, ROWS])] == [0, 0]


def test_a_masked_value_is_null_and_not_what_is_behind_the_mask() -> None:
    def function(_: pa.RecordBatch, state: BatchState) -> None:
        state["x"] = np.ma.array([7], mask=[True])

    assert "state column 'x' cannot hold null" in refusal(function, Per.BATCH)


def test_a_function_that_returns_no_iterable_of_records_is_an_error() -> None:
    assert "the function returned None; it must return an iterable of records" in refusal(lambda *_: None)
    assert "the function returned one dict; it must return an iterable" in refusal(lambda record, _: record)


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.float16(), pa.month_day_nano_interval()])
def test_a_state_column_that_cannot_be_stored_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ConfigError, match=r"step 'own': state column 'x' cannot be of type"):
        state_field("own", pa.field("x", kind))


@pytest.mark.parametrize("on_error", list(OnError))
def test_a_row_that_cannot_be_made_into_a_record_is_a_bad_row(on_error: OnError) -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    texts = pa.concat_arrays([pa.array(["a", "b"]), bad, pa.array(["c", "d"])])
    rows = pa.record_batch({"k": texts, "n": list(range(5))})

    def function(record: Any) -> Any:
        return record

    step = MapStep("own", Call("f", Per.RECORD, on_error=on_error), function, GIVEN)
    out: list[Any] = []
    letters: list[pa.RecordBatch] = []
    step.bind({"main": lambda batch: out.extend(batch.to_pylist()), "dead-letter": letters.append})
    why = "column 'k' (string) cannot be read as a Python value: 'utf-8' codec can't decode byte 0xff"
    if on_error is OnError.FAIL:
        with pytest.raises(UserCodeError) as error:
            step.on_batch(rows)
        assert why in str(error.value)
        assert "record: {'k': <a string that Python cannot represent>, 'n': 2}" in str(error.value)
        return
    step.on_batch(rows)
    assert [row["n"] for row in out] == [0, 1, 3, 4]
    assert letters[0].column("n").to_pylist() == [2]
    assert why in letters[0].column("error")[0].as_py()


def test_a_stored_time_of_the_day_that_python_would_cut_is_refused_by_column() -> None:
    field = state_field("own", pa.field("at", pa.time64("ns")))
    table = HotTable(StateSchema("own", KeyColumns(ROWS.schema, ["k"], 16).fields, (field.value,)))
    state = BatchState(table, {"at": field}, np.zeros(1, np.int32))
    state["at"] = pa.array([1001], pa.time64("ns"))
    with pytest.raises(ValueError, match=r"state column 'at' cannot be read .*: 00:00:00\.000001001 is finer than us"):
        state.records(record_rules({"at": field}))
