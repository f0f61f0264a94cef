"""What is called when timers fire: in Python and in YAML, and what is refused with file and line."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.call_types import TimerHandler
from penstock.contract.graph import Process
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import CompiledJob, JobFile, load_job
from penstock.graph.load import compile_draft
from tests.support.compiled_jobs import DeclaredInputs

COLUMNS = {"machine": "string", "at": "timestamp[us]"}
HERE = Path(__file__).name


@ps.record
class Beat:
    machine: str
    at: ps.Time


@ps.record
class Alarm:
    machine: str


@ps.state
class Seen:
    idle: ps.Timer
    total: int = 0


@ps.state
class Other:
    idle: ps.Timer


def beat(r: Beat, s: Seen, out: ps.Out[Alarm]) -> None: ...
def quiet(t: ps.Time, key: Any, s: Seen, out: ps.Out[Alarm]) -> None: ...
def bare(t, key, s: Seen, out: ps.Out[Alarm]): ...  # type: ignore[no-untyped-def]
def three(t: ps.Time, s: Seen, out: ps.Out[Alarm]) -> None: ...
def text_time(t: str, key: Any, s: Seen, out: ps.Out[Alarm]) -> None: ...
def of_other(t: ps.Time, key: Any, s: Other, out: ps.Out[Alarm]) -> None: ...
def emits_other(t: ps.Time, key: Any, s: Seen, out: ps.Out[Beat]) -> None: ...
def emits_aside(t: ps.Time, key: Any, s: Seen, out: ps.Out[Alarm, {"aside": Alarm}]) -> None: ...  # type: ignore[type-arg,misc] # noqa: F821
def untyped(rows: Any, state: Any) -> Any: ...


def compiled(
    on_timer: Any, function: Callable[..., Any] = beat, time: str | None = "at", **options: Any
) -> CompiledJob:
    job = ps.Job()
    beats = job.source("beats", ps.parquet("x"), columns=COLUMNS, event_time=time).key_by("machine")
    beats.process("seen", function, on_timer=on_timer, **options).sink("out", ps.discard())
    return compile_draft(JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, DeclaredInputs())


@pytest.mark.parametrize("handler", [quiet, bare])
def test_a_handler_is_in_the_graph_and_in_the_step(handler: Any) -> None:
    job = compiled({"idle": handler})
    parameters = job.graph.step("seen").parameters
    assert isinstance(parameters, Process)
    assert parameters.on_timer == (TimerHandler("idle", f"{__name__}:{handler.__name__}"),)
    assert job.stages[1].nodes[0].handlers == {"idle": handler}


@pytest.mark.parametrize(
    ("on_timer", "text"),
    [
        ({"idle": quiet, "idel": quiet}, "on_timer: state Seen (.*): unknown timer 'idel': did you mean 'idle'"),
        ({"idle": quiet, "total": quiet}, "unknown timer 'total'"),
        ({}, r"nothing is called when Seen.idle \(.*\) fires: write on_timer=\{'idle': f\}"),
        (None, "nothing is called when Seen.idle"),
        ({"idle": "quiet"}, "'idle': 'quiet' is not a function"),
        ({"idle": three}, r"it has the parameters \(t, s, out\); the function must be f\(t: ps.Time, key, s: S, out"),
        ({"idle": text_time}, "the hint of 't' is str, which is no ps.Time"),
        ({"idle": of_other}, r"its state is Other \(.*\), and that of the step is Seen"),
        ({"idle": emits_other}, "it emits Beat to 'main', and the step emits Alarm"),
        ({"idle": emits_aside}, "it emits to 'aside', which is no output of the function of the step"),
        ({"idle": untyped}, "it has the parameters"),
    ],
)
def test_what_does_not_fit_is_refused_with_file_and_line(on_timer: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        compiled(on_timer)
    assert re.search(rf"{HERE}:\d+: step 'seen': ", str(caught.value))


def test_a_function_without_types_has_no_timers() -> None:
    with pytest.raises(ConfigError, match=r"only a @ps\.state has timers"):
        compiled({"idle": quiet}, untyped, columns={"n": "int64"})


def test_a_timer_needs_event_time() -> None:
    with pytest.raises(ConfigError, match=r"idle: a ps\.Timer needs event time, and no source has it"):
        compiled({"idle": quiet}, time=None)


YAML = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: test}
spec:
  job:
    graph:
      steps:
        - name: beats
          source:
            parquet: {path: x}
            columns: [{name: machine, type: string}, {name: at, type: "timestamp[us]"}]
            eventTime: {column: at}
        - name: seen
          keyBy: [machine]
          process: {function: "jobs:beat", onTimer: [{timer: NAME, function: "jobs:quiet"}]}
        - {name: out, sink: {discard: {}}}
"""


def loaded(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> CompiledJob:
    monkeypatch.setitem(sys.modules, "jobs", sys.modules[__name__])
    (folder / "job.yaml").write_text(YAML.replace("NAME", name))
    return load_job(folder / "job.yaml", DeclaredInputs())


def test_a_job_file_names_the_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = loaded(tmp_path, monkeypatch, "idle")
    assert job.stages[1].nodes[0].handlers == {"idle": quiet}
    assert job.plan.states == compiled({"idle": quiet}).plan.states


def test_a_job_file_with_a_handler_of_no_timer_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"job.yaml:14: step 'seen': on_timer: .*unknown timer 'idel'"):
        loaded(tmp_path, monkeypatch, "idel")
