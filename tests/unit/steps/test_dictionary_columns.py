"""Columns that are dictionaries of numbers and times: as keys, as what ranks rows, and in what is kept."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.testing import ListSource, run

NINE = dt.datetime(2026, 1, 1, 9)  # noqa: DTZ001  columns without a zone take these
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [5, None, 7],
    pa.timestamp("us"): [NINE, None, NINE + dt.timedelta(1)],
    pa.string(): ["a", None, "b"],
}
OTHER = {"w": "int64", "then": "timestamp[us]"}
Build = Callable[[Any, Any], Any]

STEPS: dict[str, Build] = {
    "window": lambda rows, _: rows.key_by("k").window("own", "1m", n=ps.count()),
    "sliding window": lambda rows, _: rows.key_by("k").window("own", ps.sliding("2m", "2m"), n=ps.count()),
    "session": lambda rows, _: rows.key_by("k").window("own", ps.session("1m"), n=ps.count()),
    "aggregate": lambda rows, _: rows.key_by("k").aggregate("own", n=ps.count()),
    "top": lambda rows, _: rows.key_by("k").top("own", 2, by="v"),
    "join": lambda rows, other: rows.join("own", other, on={"v": "w"}, within="1m"),
    "join by an interval": lambda rows, other: rows.join_interval("own", other, on={"v": "w"}, lower="0s", upper="0s"),
}


def _run(kind: pa.DataType, build: Build) -> tuple[list[Any], Any]:
    """Return the values of ``k`` in the rows of a step, and what the step keeps before its input ends."""
    column = pa.array(VALUES[kind], kind).dictionary_encode()
    schema = pa.schema([("k", column.type), ("v", pa.int64()), ("at", pa.timestamp("us"))])
    batch = pa.RecordBatch.from_arrays(
        [column, pa.array([1, 2, 3]), pa.array([NINE] * 3, pa.timestamp("us"))], schema=schema
    )
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns=schema, event_time="at")
    other = job.source("other", ps.parquet("x"), columns=OTHER, event_time="then")
    other.sink("read", ps.discard())
    build(rows, other).sink("out", ps.discard())
    source = ListSource([batch], columns=schema, ends=False)
    pairs = ListSource(
        [{"w": n, "then": NINE} for n in (1, 2, 3)], columns={"w": "int64", "then": "timestamp[us]"}, ends=False
    )
    with run(job, inputs={"rows": source, "other": pairs}) as t:
        t.run()
        state = t.state("own")
        t.watermark("rows", NINE + dt.timedelta(days=2))
        t.watermark("other", NINE + dt.timedelta(days=2))
        t.checkpoint()
        assert t.rows("out").to_arrow().schema.field("k").type == column.type
        return [row["k"] for row in t.rows("out")], state


@pytest.mark.parametrize("kind", list(VALUES), ids=str)
@pytest.mark.parametrize("step", list(STEPS))
def test_a_dictionary_comes_out_as_it_was(kind: pa.DataType, step: str) -> None:
    found, state = _run(kind, STEPS[step])
    assert set(found) == set(VALUES[kind])
    assert len(state) == 3


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us")], ids=str)
def test_rows_may_be_ranked_by_a_dictionary(kind: pa.DataType) -> None:
    found, _ = _run(kind, lambda rows, _: rows.key_by("v").latest("own", by="k"))
    assert found == VALUES[kind]
