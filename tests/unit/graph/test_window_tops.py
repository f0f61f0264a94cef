"""Windows that are two steps: their names, who reads which, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.chosen_rows import WindowTop
from penstock.contract.graph import Step
from penstock.graph import load_job
from tests.unit.graph.test_bad_graphs import SINK, TIME, graph_file, message

HERE = Path(__file__).name


def steps_of(shape: Any = "1m", **options: Any) -> dict[str, Step]:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64", "ts": "timestamp[us]"}, event_time="ts")
    best = rows.key_by("k").window("w", shape, n=ps.count(), **({"top": ps.top(2, by="n")} | options))
    best.sink("out", ps.discard())
    if "w-top" in [s.name for s in job.draft.steps]:
        best.late.sink("late", ps.discard())
    return {s.name: s for s in job.draft.steps}


def test_late_rows_come_from_the_windows_and_the_best_ones_from_their_own_step() -> None:
    steps = steps_of()
    assert steps["w-top"].parameters == WindowTop(2, "n")
    assert [(i.step, i.output) for i in steps["out"].inputs] == [("w-top", "main")]
    assert [(i.step, i.output) for i in steps["late"].inputs] == [("w", "late")]
    assert steps["w-top"].keys == ("window_start", "window_end")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda: ps.top(0, by="n"), "top: 0 rows: it must be 1 to 1,000"),
        (lambda: steps_of(top=10), "top=10: write top=ps.top(10, by='count')"),
        (lambda: steps_of(ps.session("1m")), "top: sessions of two keys are two windows"),
        (lambda: steps_of(ps.count_window(2)), "windows of rows have no time"),
        (lambda: steps_of(time="clock"), "top: windows by the clock have no event time"),
        (lambda: steps_of(trigger=ps.early("1s")), "top: panes are not the result of a window"),
    ],
)
def test_best_rows_that_cannot_be_are_refused(wrong: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert problem in str(caught.value)
    assert f"{HERE}:" in str(caught.value)


WINDOW = "window: {size: 1m, MOREcompute: [{name: c, function: count}]}"
BEST = f"{{name: a, keyBy: ['n'], {WINDOW.replace('MORE', 'top: {count: 2, by: c}, ')}}}"


def test_readers_in_a_file_get_the_best_rows(tmp_path: Path) -> None:
    late = "{name: late, inputs: [a.late], sink: {discard: {}}}"
    named = "{name: again, inputs: [a], sink: {discard: {}}}"
    job = load_job(graph_file(tmp_path, BEST, SINK, late, named, source=TIME), None)
    reads = {s.name: [(i.step, i.output) for i in s.inputs] for s in job.graph.steps}
    assert (reads["out"], reads["again"], reads["late"]) == ([("a-top", "main")], [("a-top", "main")], [("a", "late")])
    assert job.graph.step("a-top").parameters == WindowTop(2, "c")
    assert [c.name for c in job.stages[-1].nodes[-1].columns] == ["n", "window_start", "window_end", "c"]


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("top: {count: 2}, ", "field 'by' is missing"),
        ("top: {count: 0, by: c}, ", "must be at least 1"),
        ("top: {count: 2, by: cc}, ", "column to rank by 'cc' does not exist: unknown column 'cc': did you mean 'c'?"),
        ("top: {count: 2, by: c}, time: clock, ", "top: windows by the clock have no event time"),
        ("top: {count: 2, by: c}, trigger: {early: 1s}, ", "top: panes are not the result of a window"),
    ],
)
def test_best_rows_of_a_file_are_refused_with_the_line(tmp_path: Path, more: str, problem: str) -> None:
    step = f"{{name: a, keyBy: ['n'], {WINDOW.replace('MORE', more)}}}"
    text = message(graph_file(tmp_path, step, SINK, source=TIME))
    assert problem in text
    assert "job.yaml:10" in text


def test_a_step_cannot_have_the_name_of_the_best_rows(tmp_path: Path) -> None:
    other = "{name: a-top, inputs: [src], split: {column: word}}"
    text = message(graph_file(tmp_path, BEST, SINK, other, source=TIME))
    assert "step 'a-top' is there twice: top of step 'a' has this name" in text


def all_of(shape: Any = "1m", **computed: Any) -> dict[str, Step]:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64", "ts": "timestamp[us]"}, event_time="ts")
    windows = rows.key_by("k").window_all("w", shape, **(computed or {"n": ps.count()}))
    windows.sink("out", ps.discard())
    windows.late.sink("late", ps.discard())
    return {s.name: s for s in job.draft.steps}


def test_windows_of_all_rows_have_a_step_for_their_parts() -> None:
    steps = all_of()
    assert [(i.step, i.keys) for i in steps["w-parts"].inputs] == [("rows", ())]
    assert [(i.step, i.keys) for i in steps["w"].inputs] == [("w-parts", ("window_start", "window_end"))]
    assert [(i.step, i.output) for i in steps["out"].inputs] == [("w", "main")]
    assert [(i.step, i.output) for i in steps["late"].inputs] == [("w-parts", "late")]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda: all_of(ps.session("1m")), "step 'w': windows of all rows are tumbling or sliding"),
        (lambda: all_of(n=ps.last("ts")), "column 'n': last: rows of several tasks have no order"),
        (lambda: all_of(n=3), "is not an aggregate"),
    ],
)
def test_windows_of_all_rows_that_cannot_be_are_refused(wrong: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert problem in str(caught.value)
    assert f"{HERE}:" in str(caught.value)


ALL = "windowAll: {size: 1m, compute: [{name: m, function: mean, column: 'n'}, {name: c, function: count}]}"


def test_windows_of_all_rows_in_a_file(tmp_path: Path) -> None:
    late = "{name: late, inputs: [a.late], sink: {discard: {}}}"
    job = load_job(graph_file(tmp_path, f"{{name: a, {ALL}}}", SINK, late, source=TIME), None)
    reads = {s.name: [(i.step, i.output) for i in s.inputs] for s in job.graph.steps}
    assert (reads["a-parts"], reads["a"], reads["late"]) == (
        [("src", "main")],
        [("a-parts", "main")],
        [("a-parts", "late")],
    )
    (node,) = [node for stage in job.stages for node in stage.nodes if node.name == "a"]
    assert [(c.name, c.type) for c in node.outputs["main"]] == [
        ("window_start", "timestamp[us]"), ("window_end", "timestamp[us]"), ("m", "double"), ("c", "int64"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        (f"{{name: a, keyBy: ['n'], {ALL}}}", "windowAll takes all rows: it has no keyBy and no partition"),
        (f"{{name: a, {ALL.replace('mean', 'last')}}}", "last: rows of several tasks have no order"),
        (f"{{name: a, {ALL.replace('size: 1m', 'size: 1m, slide: 7s')}}}", "slide 7s does not divide size 1m"),
        (f"{{name: a, {ALL.replace('mean', 'sum').replace(chr(39) + 'n' + chr(39), 'word')}}}", "it must be a number"),
    ],
)
def test_windows_of_all_rows_of_a_file_are_refused(tmp_path: Path, step: str, problem: str) -> None:
    text = message(graph_file(tmp_path, step, SINK, source=TIME))
    assert problem in text
    assert "job.yaml:10" in text
