"""Functions that see all rows of a window: what a graph says of them, and what is refused with file and line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.call_types import WholeCall
from penstock.contract.codec import ABSENT
from penstock.contract.columns import Column
from penstock.contract.graph import Session, Window, decode_graph, encode_graph
from penstock.graph import load_job
from tests.unit.graph.test_bad_graphs import SINK, TIME, graph_file, message

HERE = Path(__file__).name
COLUMNS = {"median": "double"}
FUNCTIONS = "def f(key, window, rows, out): ...\ndef g(rows): ...\n"
WHOLE = "whole: {function: 'seen:f', columns: [{name: median, type: double}]}"


def median(key: Any, window: Any, rows: Any, out: Any) -> None:
    """Do nothing."""


def declared(shape: Any = "1m", **options: Any) -> Window | Session:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64", "ts": "timestamp[us]"}, event_time="ts")
    given: dict[str, Any] = {"whole": median, "columns": COLUMNS, **options}
    rows.key_by("k").window("w", shape, **given)
    windows = job.draft.steps[-1].parameters
    assert isinstance(windows, Window | Session)
    return windows


@pytest.mark.parametrize("shape", ["1m", ps.sliding("10m", "1m"), ps.session("1m")])
def test_a_window_has_a_function_in_place_of_computed_columns(shape: Any) -> None:
    windows = declared(shape)
    assert windows.whole == WholeCall(f"{__name__}:median", (Column("median", "double"),))
    assert windows.compute == ()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda: declared(whole=None, n=ps.count()), "columns are those that whole=f emits, and there is none"),
        (lambda: declared(n=ps.count()), "n: whole sees all rows, and gives the columns itself"),
        (lambda: declared(whole="median"), "whole='median' is not a function: write f(key, window, rows, out)"),
        (
            lambda: declared(whole=lambda rows: rows),
            "too many positional arguments; the function must be f(key,",
        ),
        (lambda: declared(whole=ps.count()), "is not a function"),
        (lambda: declared(ps.count_window(3)), "whole: of a window of rows, keep the rows in a ps.List of a process"),
        (lambda: declared(trigger=ps.early("1s")), "trigger: a function that sees whole windows is called once for"),
        (lambda: declared(whole=None, columns=None), "computes nothing; write count=ps.count()"),
    ],
)
def test_what_does_not_go_together_is_refused(wrong: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert problem in str(caught.value)
    assert f"{HERE}:" in str(caught.value)


def file_with(folder: Path, windows: str) -> Path:
    (folder / "seen.py").write_text(FUNCTIONS)
    return graph_file(folder, f"{{name: a, keyBy: ['n'], {windows}}}", SINK, source=TIME)


@pytest.mark.parametrize(
    ("windows", "problem"),
    [
        ("window: {size: 1m}", "a window has either compute or whole"),
        (f"window: {{size: 1m, {WHOLE}, compute: [{{name: c, function: count}}]}}", "a window has either compute or"),
        (f"session: {{gap: 1m, {WHOLE}, compute: [{{name: c, function: count}}]}}", "a window has either compute or"),
        ("window: {size: 1m, whole: {columns: []}}", "field 'function' is missing"),
        ("window: {size: 1m, whole: {function: 'seen:f'}}", "field 'columns' is missing"),
        (
            "window: {size: 1m, whole: {function: 'seen:f', columns: []}}",
            "columns are missing: declare the columns",
        ),
        (f"window: {{size: 1m, {WHOLE.replace('seen:f', 'seen:g')}}}", "too many positional arguments; the function"),
        (f"window: {{size: 1m, {WHOLE.replace('seen:f', 'seen:h')}}}", "seen:h"),
        (f"window: {{size: 1m, {WHOLE.replace('median', 'window_end')}}}", "two columns are named 'window_end'"),
        (f"window: {{size: 1m, trigger: {{early: 1s}}, {WHOLE}}}", "trigger: a function that sees whole windows"),
        (f"countWindow: {{rows: 2, {WHOLE}}}", "unknown field 'whole'"),
    ],
)
def test_what_a_file_cannot_say_is_refused_with_its_line(tmp_path: Path, windows: str, problem: str) -> None:
    text = message(file_with(tmp_path, windows))
    assert "job.yaml:10: " in text
    assert problem in text


@pytest.mark.parametrize("windows", [f"window: {{size: 1m, time: clock, {WHOLE}}}", f"session: {{gap: 1m, {WHOLE}}}"])
def test_a_file_names_the_function(tmp_path: Path, windows: str) -> None:
    job = load_job(file_with(tmp_path, windows), None)
    assert decode_graph(encode_graph(job.graph)) == job.graph
    step = job.graph.step("a").parameters
    assert isinstance(step, Window | Session)
    assert step.whole == WholeCall("seen:f", (Column("median", "double"),))
    assert [c.name for c in job.stages[-1].nodes[-1].columns] == ["n", "window_start", "window_end", "median"]
    (state,) = [s for s in job.plan.states if s.step == "a"]
    assert [(c.name, c.of) for c in state.columns][:2] == [("word", "row"), ("n", "row")]


def test_a_graph_without_a_function_is_written_as_before() -> None:
    assert declared(whole=None, columns=None, n=ps.count()).whole is ABSENT
