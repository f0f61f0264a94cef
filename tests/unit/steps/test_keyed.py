"""Running aggregates and keyed user functions over real tables."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, UserCodeError
from penstock.contract.graph import Call, Compute, Function, OnError, Per
from penstock.keyed_state.hot import HotTable
from penstock.steps.keyed import KeyColumns, RunningAggregate
from penstock.steps.process import ProcessStep
from penstock.steps.state_values import BatchState

ROWS = pa.record_batch(
    {
        "k": ["a", "b", "a", None, "a", None],
        "x": [1, 5, None, 7, -3, 2],
        "f": [0.5, float("nan"), 1.5, -0.0, None, 4.0],
        "d": pa.array([3, 1, 2, None, 9, 4], pa.int32()).cast(pa.date32()),
    }
)


def aggregate(output: dict[str, pa.DataType], *compute: Compute) -> list[dict[str, Any]]:
    schema = pa.schema([("k", pa.string()), *output.items()])
    keys = KeyColumns(ROWS.schema, ["k"], 16)
    step = RunningAggregate("sums", keys, compute, (ROWS.schema, schema), HotTable)
    out: list[pa.RecordBatch] = []
    step.bind({"main": out.append})
    step.on_batch(ROWS.slice(0, 4))
    step.on_batch(ROWS.slice(4))
    return [row for batch in out for row in batch.to_pylist()]


def test_counts_run_in_input_order_and_null_is_a_key() -> None:
    rows = aggregate({"n": pa.int64()}, Compute("n", Function.COUNT))
    assert [(r["k"], r["n"]) for r in rows] == [
        ("a", 1), ("b", 1), ("a", 2), (None, 1), ("a", 3), (None, 2),
    ]  # fmt: skip


def test_nulls_are_skipped_and_a_key_without_values_gives_null() -> None:
    output = {"n": pa.int64(), "s": pa.int64(), "mean": pa.float64(), "min": pa.int64()}
    rows = aggregate(
        output,
        Compute("n", Function.COUNT, "x"),
        Compute("s", Function.SUM, "x"),
        Compute("mean", Function.MEAN, "x"),
        Compute("min", Function.MIN, "x"),
    )
    assert [tuple(r.values())[1:] for r in rows] == [
        (1, 1, 1.0, 1), (1, 5, 5.0, 5), (1, 1, 1.0, 1),
        (1, 7, 7.0, 7), (2, -2, -1.0, -3), (2, 9, 4.5, 2),
    ]  # fmt: skip


def test_types_come_back_and_nan_is_the_largest() -> None:
    rows = aggregate(
        {"max": pa.float64(), "day": pa.date32(), "last": pa.int64()},
        Compute("max", Function.MAX, "f"),
        Compute("day", Function.MIN, "d"),
        Compute("last", Function.LAST, "x"),
    )
    assert [r["max"] for r in rows][::2] == [0.5, 1.5, 1.5]
    assert np.isnan(rows[1]["max"])
    first = dt.date(1970, 1, 1)
    assert [r["day"] for r in rows][:4] == [
        first + dt.timedelta(3), first + dt.timedelta(1), first + dt.timedelta(2), None,
    ]  # fmt: skip
    assert [r["last"] for r in rows] == [1, 5, 1, 7, -3, 2]


def test_a_sum_beyond_64_bits_is_an_error_with_its_row() -> None:
    schema = pa.schema([("k", pa.string()), ("s", pa.int64())])
    given = pa.record_batch({"k": ["a", "a"], "x": [2**63 - 1, 1]})
    keys = KeyColumns(given.schema, ["k"], 16)
    compute = (Compute("s", Function.SUM, "x"),)
    step = RunningAggregate("sums", keys, compute, (given.schema, schema), HotTable)
    step.bind({"main": lambda _: None})
    with pytest.raises(UserCodeError, match=r"'sums': .*'x' leaves 64 bits\nrecord: \{'k': 'a', 'x': 1\}"):
        step.on_batch(given)


def test_a_sum_of_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="sum of column 'k' needs a number"):
        aggregate({"s": pa.int64()}, Compute("s", Function.SUM, "k"))


STATE = pa.schema([("total", pa.int64()), ("seen", pa.string()), ("flag", pa.bool_())])
GIVEN = pa.schema([("k", pa.string()), ("total", pa.int64())])


def process(per: Per, function: Any, on_error: OnError = OnError.FAIL) -> tuple[ProcessStep, list[Any]]:
    keys = KeyColumns(ROWS.schema, ["k"], 16)
    step = ProcessStep("own", keys, Call("f", per, None, (), on_error), function, (STATE, GIVEN))
    step.open(HotTable)
    out: list[Any] = []
    step.bind({"main": lambda b: out.extend(b.to_pylist()), "dead-letter": lambda b: None})
    return step, out


def test_a_batch_function_reads_and_writes_one_value_per_key() -> None:
    def add(batch: pa.RecordBatch, state: BatchState) -> pa.RecordBatch:
        total = state["total"]
        values = batch.column("x").fill_null(0).to_numpy()
        np.add.at(total, state.index, values)
        state["total"] = total
        state["seen"] = [f"{s or ''}+" for s in state["seen"].to_pylist()]
        state["flag"] = ~state["flag"]
        return pa.record_batch({"k": batch.column("k"), "total": total[state.index]})

    step, out = process(Per.BATCH, add)
    step.on_batch(ROWS)
    step.on_batch(ROWS.slice(0, 2))
    assert [r["total"] for r in out] == [-2, 5, -2, 9, -2, 9, -1, 10]
    rows = step._state.rows(step._keys.codec.keys([pa.array(["a", "b", None, "new"])]))
    assert step._state.read_bytes("seen", rows).cast(pa.string()).to_pylist() == [
        "++", "++", "+", None,
    ]  # fmt: skip


def test_a_record_function_gets_a_dict_that_it_may_change() -> None:
    def add(record: dict[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
        values["total"] += record["x"] or 0
        values["seen"] = record["k"]
        return [{"k": record["k"], "total": values["total"]}]

    step, out = process(Per.RECORD, add)
    step.on_batch(ROWS)
    assert [r["total"] for r in out] == [1, 5, 1, 7, -2, 9]


def test_a_call_that_raises_changes_no_state() -> None:
    def add(record: dict[str, Any], values: dict[str, Any]) -> list[dict[str, Any]]:
        values["total"] += record["x"] or 0
        if record["x"] == 5:
            raise ValueError("five")
        return [{"k": record["k"], "total": values["total"]}]

    step, out = process(Per.RECORD, add, OnError.DEAD_LETTER)
    step.on_batch(ROWS)
    step.on_batch(ROWS.slice(0, 1))
    assert [r["total"] for r in out] == [1, 1, 7, -2, 9, -1]


def test_deleted_keys_begin_anew() -> None:
    def forget(batch: pa.RecordBatch, state: BatchState) -> pa.RecordBatch:
        total = state["total"] + 1
        state["total"] = total
        state.delete(total >= 2)
        return pa.record_batch({"k": batch.column("k"), "total": total[state.index]})

    step, out = process(Per.BATCH, forget)
    for _ in range(3):
        step.on_batch(ROWS.slice(0, 1))
    assert [r["total"] for r in out] == [1, 2, 1]


def test_the_error_of_an_unknown_state_column_names_similar_columns() -> None:
    def wrong(batch: pa.RecordBatch, state: BatchState) -> Any:
        return state["totl"]

    step, _ = process(Per.BATCH, wrong)
    with pytest.raises(UserCodeError, match="did you mean 'total'"):
        step.on_batch(ROWS)


def test_a_state_column_of_a_nested_type_is_refused() -> None:
    keys = KeyColumns(ROWS.schema, ["k"], 16)
    nested = pa.schema([("l", pa.list_(pa.int64()))])
    with pytest.raises(ConfigError, match="state column 'l'"):
        ProcessStep("own", keys, Call("f"), lambda b, s: b, (nested, GIVEN))
