"""Event time is a column of one type and one name: what changes that is refused where the time is needed."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.graph import Input, Step
from penstock.graph.flow import Flow, input_flow

COLUMNS = {"k": "string", "at": "timestamp[us]", "b": "timestamp[us]"}


def source(job: ps.Job, name: str, event_time: str | None = "at") -> ps.Stream:
    return job.source(name, ps.parquet("none"), columns=COLUMNS, event_time=event_time)


def windowed(stream: ps.Stream, name: str = "w") -> ps.Stream:
    return stream.key_by("k").window(name, "1m", n=ps.count())


async def answer(row: dict[str, Any]) -> dict[str, Any]:
    return row


def refused(build: Callable[[ps.Job], Any]) -> str:
    job = ps.Job()
    build(job).sink("out", ps.discard())
    rows: list[Any] = []
    with pytest.raises(ConfigError) as raised:
        ps.run(job, inputs={step.name: rows for step in job.draft.steps if not step.inputs})
    return str(raised.value)


@pytest.mark.parametrize("kind", ["timestamp[ms]", "timestamp[s]", "timestamp[ns]", "int64", "string", "date32"])
def test_a_function_that_changes_the_type_of_the_time_takes_it_away(kind: str) -> None:
    columns = {**COLUMNS, "at": kind}

    def other(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    said = refused(lambda job: windowed(source(job, "a").map("m", other, columns=columns)))
    assert "step 'w': a window needs event time, and its rows have none: step 'm' gives 'at' the type" in said


def test_a_join_says_it_too() -> None:
    def build(job: ps.Job) -> ps.Stream:
        left = source(job, "a").map("m", lambda batch: batch, columns={**COLUMNS, "at": "int64"})
        return left.join_interval("j", source(job, "c"), on="k", lower="-1m", upper="1m")

    assert "a join needs event time, and the rows of its left side have none: step 'm' gives 'at'" in refused(build)


def test_a_time_keeps_its_zone() -> None:
    job = ps.Job()
    rows = job.source("a", ps.parquet("none"), columns={**COLUMNS, "at": "timestamp[us, tz=UTC]"}, event_time="at")
    zone = {**COLUMNS, "at": "timestamp[us, tz=Europe/Berlin]"}
    windowed(rows.map("m", lambda batch: batch, columns=zone)).sink("out", ps.discard())
    ps.run(job, inputs={"a": []})


@pytest.mark.parametrize("other", ["b", None])
def test_streams_with_different_times_have_none_together(other: str | None) -> None:
    said = refused(lambda job: windowed(source(job, "one").union(source(job, "two", other))))
    told = "none" if other is None else f"'{other}'"
    assert f"its inputs have different ones (one has 'at', two has {told})" in said


def test_a_step_that_needs_no_time_takes_them() -> None:
    job = ps.Job()
    both = source(job, "one").union(source(job, "two", "b"))
    both.map("m", lambda batch: batch, columns=COLUMNS).sink("out", ps.discard())
    ps.run(job, inputs={"one": [], "two": []})


def test_streams_that_are_keyed_by_different_columns_are_refused() -> None:
    columns = {"k": "string", "j": "string"}

    def build(job: ps.Job) -> ps.Stream:
        one, two = (job.source(name, ps.parquet("none"), columns=columns) for name in ("one", "two"))
        return one.key_by("k").union(two.key_by("j")).enrich("e", answer, columns={"v": "int64"})

    assert "its inputs are keyed by different columns (one: k; two: j): call key_by behind the union" in refused(build)


def test_the_late_rows_of_a_union_are_those_of_all_its_windows() -> None:
    job = ps.Job()
    both = windowed(source(job, "one"), "w1").union(windowed(source(job, "two"), "w2"))
    assert [(entry.step, entry.output) for entry in both.late.inputs] == [("w1", "late"), ("w2", "late")]


@pytest.mark.parametrize("given", [{"idle_after": "5s"}, {"out_of_orderness": "1m"}, {"time_unit": "s"}])
def test_what_is_about_a_time_needs_one(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"test_event_time_columns\.py:\d+: step 'a': .* about event_time"):
        ps.Job().source("a", ps.parquet("none"), columns=COLUMNS, **given)


@pytest.mark.parametrize("given", [{"columns": {"v": "int64"}}, {"per": "record"}, {"batch_rows": 3}])
def test_what_is_about_the_function_of_a_join_needs_one(given: dict[str, Any]) -> None:
    job = ps.Job()
    one, two = source(job, "one"), source(job, "two")
    joins: tuple[Callable[[], ps.Stream], ...] = (
        lambda: one.join("j", two, on="k", within="1m", **given),
        lambda: one.join_interval("j", two, on="k", lower="-1m", upper="1m", **given),
        lambda: one.join_table("j", two, on="k", **given),
    )
    for join in joins:
        with pytest.raises(ConfigError, match="step 'j': columns, per and batch_rows are about the function"):
            join()


def test_no_row_is_late_for_a_distinct_without_end() -> None:
    rows = source(ps.Job(), "a").key_by("k")
    with pytest.raises(ConfigError, match="step 'd': without within no row is late"):
        rows.distinct("d", allowed_lateness="1m")


def test_two_outputs_of_one_step_are_compared_too() -> None:
    rows = source(ps.Job(), "a")
    merged = rows.map("m", lambda batch: batch, columns=COLUMNS)
    flow = {("a", "main"): Flow(None, "at"), ("a", "other"): Flow(None)}
    inputs = (Input("a", "main"), Input("a", "other"))
    assert input_flow(Step("w", merged.job.draft.steps[1].parameters, inputs), flow).time is None
