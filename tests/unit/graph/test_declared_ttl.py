"""``ttl`` of a step in a job file: it takes the place of what the class of the state says."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.graph import TimeKind
from penstock.graph import CompiledJob, load_job
from penstock.graph.describe import describe
from tests.support.compiled_jobs import DeclaredInputs


@ps.record
class Row:
    who: str
    at: ps.Time


@ps.state(ttl="7d")
class Week:
    n: int = 0


@ps.state
class Ever:
    n: int = 0


def of_week(r: Row, s: Week, out: ps.Out[Row]) -> None: ...
def of_ever(r: Row, s: Ever, out: ps.Out[Row]) -> None: ...
def untyped(rows: Any, state: Any) -> Any: ...


FILE = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: test}
spec:
  job:
    graph:
      steps:
        - name: rows
          source:
            parquet: {path: x}
            columns: [{name: who, type: string}, {name: at, type: "timestamp[us]"}]
            EVENT_TIME
        - name: kept
          keyBy: [who]
          STEP
        - {name: out, sink: {discard: {}}}
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what loads a job with this step; the functions above are in the module ``lives``."""
    module = ModuleType("lives")
    vars(module).update({function.__name__: function for function in (of_week, of_ever, untyped)})
    monkeypatch.setitem(sys.modules, "lives", module)

    def load(step: str, event_time: str = "eventTime: {column: at}") -> CompiledJob:
        file = tmp_path / "job.yaml"
        file.write_text(FILE.replace("STEP", step).replace("EVENT_TIME", event_time))
        return load_job(file, DeclaredInputs())

    return load


def lives(job: CompiledJob) -> tuple[int | None, TimeKind]:
    (node,) = [node for stage in job.stages for node in stage.nodes if node.name == "kept"]
    assert node.types is not None
    assert node.types.state is not None
    for side in node.sides:
        assert side.types is not None
        assert side.types.state == node.types.state
    return node.types.state.ttl_us, node.types.state.time


DAY_US = 24 * 3600 * 1_000_000
CONNECT = 'connect: {right: [rows], leftFunction: "lives:of_week", rightFunction: "lives:of_week", ttl: {after: 1d}}'


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ('process: {function: "lives:of_week"}', (7 * DAY_US, TimeKind.EVENT)),
        ('process: {function: "lives:of_week", ttl: {after: 1d, time: clock}}', (DAY_US, TimeKind.CLOCK)),
        ('process: {function: "lives:of_ever", ttl: {after: 2h}}', (DAY_US // 12, TimeKind.EVENT)),
        (CONNECT, (DAY_US, TimeKind.EVENT)),
    ],
)
def test_the_file_counts_before_the_class(load: Any, step: str, expected: tuple[int, TimeKind]) -> None:
    assert lives(load(step)) == expected
    assert lives(load('process: {function: "lives:of_week"}'))[0] == 7 * DAY_US, "the class is as it was"


def test_the_graph_shows_what_the_file_says(load: Any) -> None:
    job = load('process: {function: "lives:of_week", ttl: {after: 90m, time: clock}}')
    assert describe(job.graph.step("kept").parameters) == "lives:of_week per record, keys live 90m by the clock"


def test_by_the_clock_no_event_time_is_needed(load: Any) -> None:
    clock = 'process: {function: "lives:of_week", ttl: {after: 1d, time: clock}}'
    assert lives(load(clock, event_time="")) == (DAY_US, TimeKind.CLOCK)
    with pytest.raises(ConfigError, match=r"job\.yaml:.*goes by event time, and the rows have none"):
        load('process: {function: "lives:of_ever", ttl: {after: 1d}}', event_time="")


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ('process: {function: "lives:untyped", ttl: {after: 1d}}', "ttl: only the keys of a @ps.state are forgotten"),
        ('process: {function: "lives:of_ever", ttl: {after: 0s}}', "ttl.after"),
        ('process: {function: "lives:of_ever", ttl: {after: soon}}', "ttl.after"),
        ('process: {function: "lives:of_ever", ttl: 7d}', "ttl"),
        ('process: {function: "lives:of_ever", ttl: {time: event}}', "after"),
        ('process: {function: "lives:of_ever", ttl: {after: 1d, time: wall}}', "time"),
        ('process: {function: "lives:of_ever", ttl: {after: 1d}, compiled: require}', "has a ttl"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(load: Any, step: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"job\.yaml:\d+") as raised:
        load(step)
    assert text in str(raised.value)
