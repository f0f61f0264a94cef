"""Triggers of windows: which panes they ask for, and what is refused with the line of the caller or of the file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.codec import ABSENT
from penstock.contract.graph import TimeKind, Trigger, Window
from penstock.graph import load_job
from tests.unit.graph.test_bad_graphs import SINK, TIME, graph_file, message

HERE = Path(__file__).name


def declared(trigger: Any, shape: Any = "1m", lateness: str = "10s", time: Any = "event") -> Window:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64", "ts": "timestamp[us]"}, event_time="ts")
    rows.key_by("k").window("w", shape, allowed_lateness=lateness, trigger=trigger, time=time, n=ps.count())
    window = job.draft.steps[-1].parameters
    assert isinstance(window, Window)
    return window


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        (None, None),
        (ps.at_end(), None),
        (ps.early("10s"), Trigger(10_000_000)),
        (ps.early("10s", time="clock"), Trigger(10_000_000, TimeKind.CLOCK)),
        ((ps.on_late(), ps.early("1s", time="clock"), ps.at_end()), Trigger(1_000_000, TimeKind.CLOCK, on_late=True)),
    ],
)
def test_triggers_are_joined(trigger: Any, expected: Trigger | None) -> None:
    assert declared(trigger).trigger == expected


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda: ps.early("0s"), "early: 0s; it must be longer"),
        (lambda: ps.early("soon"), "early: 'soon' is no duration"),
        (lambda: ps.early("1s", time="wall"), "time='wall' is not one of event, clock"),  # type: ignore[arg-type]
        (lambda: declared(None, time="wall"), "time='wall' is not one of event, clock"),
        (lambda: declared(None, time="clock"), "allowed lateness: no row is late by the clock"),
        (lambda: declared(None, ps.session("1m"), time="clock"), "allowed lateness: no row is late by the clock"),
        (lambda: declared(ps.early("1s"), "1m", "0s", "clock"), "trigger: a window by the clock emits once"),
        (lambda: declared(None, ps.count_window(3), "0s", "clock"), "windows of rows have no time"),
        (lambda: declared("10s"), "trigger='10s': write ps.early('10s'), ps.on_late(), or a tuple of both"),
        (lambda: declared((ps.early("1s"), ps.early("2s"))), "trigger: ps.early is there twice"),
        (lambda: declared(ps.early("1m")), "trigger: early 1m is not less than size 1m: no early pane would come"),
        (lambda: declared(ps.on_late(), lateness="0s"), "on late: no late row enters a window without an allowed"),
        (lambda: declared(ps.on_late(), ps.sliding("1m", "1s")), "a sliding window emits once: make the slide shorter"),
        (lambda: declared(ps.on_late(), ps.session("1m")), "a session emits once: two of them may still become one"),
    ],
)
def test_a_trigger_that_cannot_be_is_refused(wrong: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert problem in str(caught.value)
    assert f"{HERE}:" in str(caught.value)


@pytest.mark.parametrize(
    ("trigger", "problem"),
    [
        ("{}", "trigger: it says nothing: write early, onLate (ps.early, ps.on_late) or both"),
        ("{time: clock}", "trigger: it says nothing"),
        ("{early: 0s}", "must be at least 1us"),
        ("{early: 2m}", "early 2m is not less than size 1m"),
        ("{early: 1s, time: wall}", "'wall'"),
        ("{onLate: true}", "on late: no late row enters a window without an allowed lateness"),
        ("{on_late: true}", "unknown field 'on_late': did you mean 'onLate'?"),
    ],
)
def test_a_trigger_of_a_file_is_refused_with_its_line(tmp_path: Path, trigger: str, problem: str) -> None:
    window = f"window: {{size: 1m, trigger: {trigger}, compute: [{{name: c, function: count}}]}}"
    text = message(graph_file(tmp_path, f"{{name: a, keyBy: ['n'], {window}}}", SINK, source=TIME))
    assert "job.yaml:10: " in text
    assert problem in text


def test_a_computed_column_cannot_be_named_like_a_pane(tmp_path: Path) -> None:
    window = "window: {size: 1m, trigger: {early: 1s}, compute: [{name: pane, function: count}]}"
    assert "two columns are named 'pane'" in message(
        graph_file(tmp_path, f"{{name: a, keyBy: ['n'], {window}}}", SINK, source=TIME)
    )


def test_panes_add_two_columns(tmp_path: Path) -> None:
    window = "window: {size: 1m, trigger: {early: 1s}, compute: [{name: c, function: count}]}"
    job = load_job(graph_file(tmp_path, f"{{name: a, keyBy: ['n'], {window}}}", SINK, source=TIME), None)
    columns = job.stages[-1].nodes[-1].columns
    assert [(c.name, c.type) for c in columns] == [
        ("n", "int64"), ("window_start", "timestamp[us]"), ("window_end", "timestamp[us]"), ("pane", "int64"),
        ("final", "bool"), ("c", "int64"),
    ]  # fmt: skip


def test_steps_that_depend_on_when_rows_came_are_named_in_the_plan(tmp_path: Path) -> None:
    window = "window: {size: 1m, TRIGGERcompute: [{name: c, function: count}]}"
    steps = (
        f"{{name: once, inputs: [src], keyBy: ['n'], {window.replace('TRIGGER', '')}}}",
        f"{{name: often, inputs: [src], keyBy: ['n'], {window.replace('TRIGGER', 'trigger: {early: 1s}, ')}}}",
        "{name: o1, inputs: [once], sink: {discard: {}}}",
        "{name: o2, inputs: [often], sink: {discard: {}}}",
    )
    job = load_job(graph_file(tmp_path, *steps, source=TIME), None)
    assert [stage.varying for stage in job.plan.stages if stage.varying is not ABSENT] == [("often",)]


def test_windows_by_the_clock_need_no_event_time_and_give_none(tmp_path: Path) -> None:
    window = "window: {size: 1m, time: clock, compute: [{name: c, function: count}]}"
    job = load_job(graph_file(tmp_path, f"{{name: a, keyBy: ['n'], {window}}}", SINK), None)
    ((stage, node),) = [(stage, node) for stage in job.stages for node in stage.nodes if node.name == "a"]
    assert [c.name for c in node.outputs["main"]] == ["n", "window_start", "window_end", "c"]
    assert stage.plan.varying == ("a",)
    again = f"{{name: b, keyBy: ['n'], {window.replace('time: clock, ', '')}}}"
    text = message(graph_file(tmp_path, f"{{name: a, keyBy: ['n'], {window}}}", again, SINK))
    assert "a window needs event time, and its rows have none" in text


@pytest.mark.parametrize("kind", ["window: {size: 1m, ", "session: {gap: 1m, "])
def test_windows_by_the_clock_have_no_late_rows(tmp_path: Path, kind: str) -> None:
    step = f"{kind}time: clock, LATEcompute: [{{name: c, function: count}}]}}"
    with_lateness = f"{{name: a, keyBy: ['n'], {step.replace('LATE', 'allowedLateness: 1s, ')}}}"
    assert "allowed lateness: no row is late by the clock" in message(graph_file(tmp_path, with_lateness, SINK))
    plain = f"{{name: a, keyBy: ['n'], {step.replace('LATE', '')}}}"
    reads_late = "{name: late, inputs: [a.late], sink: {discard: {}}}"
    assert "unknown output 'late'" in message(graph_file(tmp_path, plain, SINK, reads_late))
