"""The function of a join gets both rows of a pair, per record and per batch, and an error shows the pair."""

from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock.base.errors import ConfigError, UserCodeError
from penstock.testing import ListSource

NOON = datetime(2026, 1, 1, 12)  # noqa: DTZ001  as Arrow gives times without a zone
LEFT = {"id": "int64", "at": "timestamp[us]", "n": "int64"}
RIGHT = {"n": "int64", "order": "int64", "at": "timestamp[us]"}
OUTPUT = {"text": "string"}
LEFTS = [{"id": 1, "at": NOON, "n": 5}, {"id": None, "at": NOON, "n": None}, {"id": 2, "at": NOON, "n": 6}]
RIGHTS = [{"order": 1, "at": NOON + timedelta(seconds=1), "n": 7}, {"order": 3, "at": NOON, "n": 8}]
EXPECTED = ["1/5 1/7", "2/6 -", "- 3/8", "None/None -"]


def text(row: dict[str, Any] | None, key: str) -> str:
    return "-" if row is None else f"{row[key]}/{row['n']}"


def of_records(left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, str]:
    return {"text": f"{text(left, 'id')} {text(right, 'order')}"}


def of_batches(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    assert left.schema.names == list(LEFT)
    assert right.schema.names == list(RIGHT)
    assert left.num_rows == right.num_rows
    rows = zip(left.to_pylist(), right.to_pylist(), strict=True)
    missing = zip(pc.is_null(left["at"]).to_pylist(), pc.is_null(right["at"]).to_pylist(), strict=True)
    pairs = [(None if no_l else a, None if no_r else b) for (a, b), (no_l, no_r) in zip(rows, missing, strict=True)]
    return pa.RecordBatch.from_pydict({"text": [of_records(a, b)["text"] for a, b in pairs]})


def fails(left: dict[str, Any], right: dict[str, Any]) -> dict[str, str]:
    raise ValueError(f"no {left['n']}")


def joined(function: Any, how: str = "full", columns: Any = OUTPUT, **more: Any) -> list[str]:
    job = ps.Job()
    orders = job.source("orders", ListSource(LEFTS, columns=LEFT), columns=LEFT, event_time="at")
    payments = job.source("payments", ListSource(RIGHTS, columns=RIGHT), columns=RIGHT, event_time="at")
    both = orders.join("both", payments, function, on={"id": "order"}, within="1m", how=how, columns=columns, **more)  # type: ignore[arg-type]
    both.sink("out", ps.discard())
    return [row["text"] for row in ps.run(job, collect=True)["out"]]


def test_a_function_per_record_gets_two_rows_and_none_for_a_missing_one() -> None:
    assert sorted(joined(of_records, per="record")) == sorted(EXPECTED)


def test_a_function_per_batch_gets_two_batches_of_pairs() -> None:
    assert sorted(joined(of_batches)) == sorted(EXPECTED)


def test_an_error_shows_step_and_pair() -> None:
    with pytest.raises(UserCodeError) as caught:
        joined(fails, "inner", per="record")
    assert "no 5" in str(caught.value)
    assert "both" in str(caught.value)
    assert "left.n" in str(caught.value)


def test_columns_must_be_declared() -> None:
    with pytest.raises(ConfigError, match="step 'both': columns are missing"):
        joined(of_batches, columns=None)


def test_the_time_may_be_a_key_of_an_interval_join() -> None:
    job = ps.Job()
    orders = job.source("orders", ListSource(LEFTS, columns=LEFT), columns=LEFT, event_time="at")
    right = ListSource(RIGHTS, columns=RIGHT)
    payments = job.source("payments", right, columns=RIGHT, event_time="at", out_of_orderness="1m")
    both = orders.join_interval(
        "both",
        payments,
        of_records,
        on={"at": "at"},
        lower="0s",
        upper="0s",
        how="full",
        columns=OUTPUT,
        per="record",
    )
    both.sink("out", ps.discard())
    found = sorted(row["text"] for row in ps.run(job, collect=True)["out"])
    assert found == ["- 1/7", "1/5 3/8", "2/6 3/8", "None/None 3/8"]


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_each_result_has_the_time_of_its_pair(batch_rows: int | None) -> None:
    job = ps.Job()
    orders = job.source("orders", ListSource(LEFTS, columns=LEFT), columns=LEFT, event_time="at")
    right = ListSource(RIGHTS, columns=RIGHT)
    payments = job.source("payments", right, columns=RIGHT, event_time="at", out_of_orderness="1m")
    both = orders.join_interval(
        "both",
        payments,
        of_records,
        on={"id": "order"},
        lower="0s",
        upper="1m",
        how="full",
        event_time="time",
        columns=OUTPUT,
        per="record",
        batch_rows=batch_rows,
    )
    both.sink("out", ps.discard())
    found = {row["text"]: (row["time"] - NOON).total_seconds() for row in ps.run(job, collect=True)["out"]}
    assert found == dict.fromkeys(EXPECTED, 0) | {"1/5 1/7": 1}
