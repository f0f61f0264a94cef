"""What a test sees of rows and of state: all of it, also what Python has no value for."""

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.inprocess.shown_rows import shown_rows
from penstock.testing import ListSource, run

NINE = dt.datetime(2026, 1, 1, 9)  # noqa: DTZ001  columns without a zone take these
MINUTE = dt.timedelta(minutes=1)
LEFT = {"k": "string", "v": "int64", "at": "timestamp[us]"}
RIGHT = {"other": "string", "w": "int64", "then": "timestamp[us]"}
FAR_US = 1 << 60


def _rows_of_two_sources(job: ps.Job) -> tuple[ps.Stream, ps.Stream]:
    left = job.source("left", ps.parquet("x"), columns=LEFT, event_time="at")
    return left, job.source("right", ps.parquet("x"), columns=RIGHT, event_time="then")


def _state(step: Any) -> Any:
    job = ps.Job()
    left, right = _rows_of_two_sources(job)
    step(left, right).sink("out", ps.discard())
    right.sink("read", ps.discard())
    with run(job) as t:
        t.push("left", [{"k": "a", "v": i, "at": NINE + i * MINUTE} for i in range(3)])
        t.push("right", [{"other": "a", "w": 7, "then": NINE}])
        return t.state("own")


def test_all_rows_of_a_key_that_top_keeps_are_shown_the_best_one_first() -> None:
    kept = _state(lambda left, right: left.key_by("k").top("own", 2, by="v"))
    assert {key: [row["v"] for row in rows] for key, rows in kept.items()} == {"a": [2, 1]}


def test_all_open_windows_of_a_join_are_shown_by_key_and_start() -> None:
    kept = _state(lambda left, right: left.join("own", right, on={"k": "other"}, within="1m"))
    rows = {key: (row["left_rows"], row["right_rows"]) for key, row in kept.items()}
    assert rows == {("a", NINE): (1, 1), ("a", NINE + MINUTE): (1, 0), ("a", NINE + 2 * MINUTE): (1, 0)}


def test_all_that_a_join_by_an_interval_keeps_of_a_key_is_shown() -> None:
    kept = _state(lambda left, right: left.join_interval("own", right, on={"k": "other"}, lower="-10m", upper="10m"))
    assert list(kept) == ["a"]
    assert sum(row["rows"] for row in kept["a"]) == 4
    assert {row["side"] for row in kept["a"]} == {"left", "right"}


def test_the_table_of_a_join_is_shown_by_its_key() -> None:
    kept = _state(
        lambda left, right: left.join_table("own", right, on={"k": "other"}, as_of="now", load_until="1970-01-01")
    )
    assert kept == {"a": {"w": 7, "then": NINE}}


def test_a_time_beyond_those_of_python_is_shown_in_a_result_and_in_state() -> None:
    columns = {"k": "string", "at": "timestamp[us]"}
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns=columns)
    rows.sink("out", ps.discard())
    rows.key_by("k").latest("own", by="at").sink("newest", ps.discard())
    with run(job, inputs={"rows": ListSource([{"k": "a", "at": FAR_US}], columns=columns)}) as t:
        t.run()
        assert t.result()["out"] == [{"k": "a", "at": np.datetime64(FAR_US, "us")}]
        assert t.result()["out"].to_arrow()["at"].cast(pa.int64()).to_pylist() == [FAR_US]
        assert t.state("own") == {"a": {"at": np.datetime64(FAR_US, "us")}}


NOT_UTF8 = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        (pa.array([FAR_US], pa.timestamp("us", "Europe/Berlin")), np.datetime64(FAR_US, "us")),
        (pa.array([1 << 30], pa.date32()), np.datetime64(1 << 30, "D")),
        (pa.array([1 << 60], pa.duration("s")), np.timedelta64(1 << 60, "s")),
        (pa.array([1001], pa.time64("ns")), np.timedelta64(1001, "ns")),
        (
            pa.array([[FAR_US]], pa.list_(pa.timestamp("us"))),
            "<a list<item: timestamp[us]> that Python cannot represent>",
        ),
        (NOT_UTF8, "<a string that Python cannot represent>"),
    ],
    ids=lambda each: str(getattr(each, "type", "")),
)
def test_a_value_that_python_does_not_have_is_shown_and_no_other_one_changes(column: pa.Array, shown: Any) -> None:
    both = pa.concat_arrays([pa.nulls(1, column.type), column])
    batch = pa.record_batch({"n": [1, 2], "x": both})
    for rows in (batch, pa.Table.from_batches([batch.slice(0, 1), batch.slice(1)])):
        assert shown_rows(rows) == [{"n": 1, "x": None}, {"n": 2, "x": shown}]
    assert type(shown_rows(batch)[1]["x"]) is type(shown)
