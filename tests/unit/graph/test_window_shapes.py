"""Shapes of windows in a job in Python: what is refused when the job is built, with the line of the caller."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.graph.window_shapes import SessionForm, WindowForm

HERE = Path(__file__).name


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (lambda: ps.sliding("1m", "7s"), "slide 7s does not divide size 1m: of size 1m it leaves 4s"),
        (lambda: ps.sliding("1m", "0s"), "slide of a window: 0s; it must be longer"),
        (lambda: ps.sliding("0s", "1s"), "size of a window: 0s; it must be longer"),
        (lambda: ps.sliding("1m", "2m"), "slide 2m is above size 1m: rows between two windows would be in none"),
        (lambda: ps.sliding("4097s", "1s"), "4,097 slides of 1s; at most 4,096 are allowed"),
        (lambda: ps.sliding("1m", "often"), "slide: "),
        (lambda: ps.sliding("1m", "1s", offset="x"), "offset: "),
        (lambda: ps.session("0s"), "gap of a session: 0s; it must be longer"),
        (lambda: ps.session("soon"), "gap: "),
        *(
            (lambda rows=rows: ps.count_window(rows), f"rows of a window: {rows!r}; it must be a whole number from 1")
            for rows in (0, -1, True, 2.0, "3", 10**9 + 1)
        ),
        (lambda: ps.tumbling("0s"), "size of a window: 0s; it must be longer"),
    ],
)
def test_a_shape_that_cannot_be_is_refused(shape: Callable[[], WindowForm | SessionForm], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        shape()
    line = shape.__code__.co_firstlineno
    assert f"{HERE}:{line}: " in str(caught.value)
    assert problem in str(caught.value)


def test_a_window_has_up_to_4096_slides() -> None:
    assert ps.sliding("4096s", "1s").size_us == 4_096_000_000


@pytest.mark.parametrize(
    ("shape", "problem"),
    [(ps.sliding("10m", "1m"), "say the offset in the shape"), (ps.session("1m"), "it has no offset")],
)
def test_a_shape_has_its_own_offset(shape: WindowForm | SessionForm, problem: str) -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64", "ts": "timestamp[us]"}, event_time="ts")
    with pytest.raises(ConfigError, match=problem):
        rows.key_by("k").window("w", shape, offset="5s", n=ps.count())


@pytest.mark.parametrize("times", [{"offset": "1s"}, {"allowed_lateness": "1s"}, {"trigger": ps.early("1s")}])
def test_windows_of_rows_have_no_time(times: dict[str, Any]) -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64"})
    with pytest.raises(ConfigError, match="step 'w': windows of rows have no time"):
        rows.key_by("k").window("w", ps.count_window(3), n=ps.count(), **times)


@pytest.mark.parametrize("most", [0, 1001, True, 2.0, "3"])
def test_the_number_of_best_rows_is_refused_with_the_line_of_the_caller(most: Any) -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64", "n": "int64"})
    with pytest.raises(ConfigError) as caught:
        rows.key_by("k").top("best", most, by="n")
    assert f"step 'best': {most!r} rows: it must be 1 to 1,000" in str(caught.value)
    assert HERE in str(caught.value)


@pytest.mark.parametrize(("within", "problem"), [("0s", "within='0s': it must be longer"), ("soon", "within: ")])
def test_a_time_without_duplicates_is_refused_with_the_line_of_the_caller(within: str, problem: str) -> None:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64", "ts": "timestamp[us]"}, event_time="ts")
    with pytest.raises(ConfigError) as caught:
        rows.key_by("k").distinct("first", within=within)
    assert problem in str(caught.value)
    assert HERE in str(caught.value)
