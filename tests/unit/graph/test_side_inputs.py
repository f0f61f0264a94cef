"""Side inputs: what a graph says of them in Python and in a file, and what is refused with file and line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.contract.call_types import CompileChoice
from penstock.contract.graph import Input, Process, decode_graph, encode_graph
from penstock.contract.plan import Partitioning
from penstock.contract.side_inputs import SideTable
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import JobFile, load_job
from penstock.graph.compiled import CompiledJob
from penstock.graph.describe import describe
from penstock.graph.load import compile_draft
from tests.unit.graph.test_bad_graphs import SINK, graph_file, message

HERE = Path(__file__).name
PROCESS = "process: {function: 'reads_side:f', columns: [{name: a, type: int64}]}"
FUNCTIONS = "def f(rows, state, side): ...\n"


@ps.record
class Row:
    k: int


@ps.state
class Kept:
    rows: int = 0


def typed(r: Row, s: Kept, side: Any, out: ps.Out[Row]) -> None:
    """Do nothing."""


def without_side(r: Row, s: Kept, out: ps.Out[Row]) -> None:
    """Do nothing."""


def plain(rows: Any, state: Any, side: Any) -> Any:
    """Do nothing."""


def built(function: Any = typed, on: Any = "id", side: Any = None, loading: Any = None, **options: Any) -> ps.Job:
    job = ps.Job()
    rows = job.source("rows", ps.parquet("x"), columns={"k": "int64"})
    changes = job.source("changes", ps.parquet("y"), columns={"id": "int64", "tags": "list<item: int64>"})
    table = changes.side("rules", on=on, **(loading or {}))
    given = {"rules": table} if side is None else side(table, changes)
    rows.key_by("k").process("match", function, side=given, **options).sink("out", ps.discard())
    return job


def compiled(job: ps.Job) -> CompiledJob:
    return compile_draft(JobFile(StreamJob("j", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, None)


def test_a_side_table_passes_through_one_task_and_holds_no_time_back() -> None:
    found = compiled(built())
    table, match = found.graph.step("rules"), found.graph.step("match")
    assert (table.parameters, table.parallelism) == (SideTable(("id",)), 1)
    assert match.inputs[1] == Input("rules", "main", Partitioning.BROADCAST, side="rules")
    stage = found.stages[-1].plan
    assert (stage.aside, stage.copies, stage.varying) == ((match_edge(found),), ("rules.match",), ("match",))
    assert [(s.name, s.table, s.keys) for s in found.stages[-1].nodes[0].sides] == [
        ("", "", ("k",)),
        ("rules", "rules", ("id",)),
    ]
    (state,) = [s for s in found.plan.states if s.step == "rules"]
    assert ([c.name for c in state.keys], [c.name for c in state.columns]) == (["id"], ["tags"])
    assert decode_graph(encode_graph(found.graph)) == found.graph


def match_edge(job: CompiledJob) -> int:
    return next(e.plan.index for e in job.edges if e.side == "rules")


def test_rows_wait_for_a_table_that_is_loaded_first() -> None:
    for options, first, text in (({}, False, ""), ({"load_first": True}, True, ", loaded first")):
        found = compiled(built(loading=options))
        assert [side.loads_first for side in found.stages[-1].nodes[0].sides] == [False, first]
        assert decode_graph(encode_graph(found.graph)) == found.graph
        assert describe(found.graph.step("rules").parameters) == f"side table by id{text}"


def test_a_table_without_an_end_says_up_to_when_it_is_loaded() -> None:
    job = ps.Job()
    rows = job.source("rows", ps.generator(), columns={"k": "int64"})
    table = rows.side("rules", on="k", load_first=True)
    rows.key_by("k").process("match", typed, side={"rules": table}).sink("out", ps.discard())
    with pytest.raises(ConfigError, match="loaded to its end first, and source 'rows' has no end: say up to which"):
        compiled(job)


def test_python_runs_a_function_with_types_that_reads_a_side_table() -> None:
    process = compiled(built()).graph.step("match").parameters
    assert isinstance(process, Process)
    assert process.call.compiled is CompileChoice.NEVER


def test_a_file_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "reads_side.py").write_text(FUNCTIONS)
    rules = "{name: the-rules, inputs: [src], side: {keys: [word], loadFirst: true}}"
    match = (
        "{name: match, inputs: [src], keyBy: ['n'], sideInputs: [the-rules], "
        "process: {function: 'reads_side:f', columns: [{name: a, type: int64}]}}"
    )
    job = load_job(graph_file(tmp_path, rules, match, SINK), None)
    assert job.graph.step("match").inputs[1] == Input("the-rules", "main", Partitioning.BROADCAST, side="the_rules")
    assert job.graph.step("the-rules").parallelism == 1
    assert job.stages[-1].plan.copies == ("the-rules.match",)
    assert job.graph.step("the-rules").parameters == SideTable(("word",), True)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (lambda: built(on="idd"), "key column 'idd' does not exist: unknown column 'idd': did you mean 'id'?"),
        (lambda: built(on="tags"), "'tags' has type list<item: int64>, for which there is no key hash"),
        (lambda: built(on=[]), "on=[]: write on="),
        (lambda: built(side=lambda table, changes: {"rules": changes}), "is no side table of this job: write .side("),
        (lambda: built(side=lambda table, changes: {"a-b": table}), "side: 'a-b' is no name for a side input"),
        (lambda: built(side=lambda table, changes: {"left": table}), "side: 'left' is no name for a side input"),
        (
            lambda: built(without_side),
            "it has the parameters (r, s, out); the function must be f(r: A, s: S, side",
        ),
        (lambda: built(loading={"load_until": "soon"}), "load until: 'soon' is no time like 2026-01-01T12:00:00"),
        (lambda: built(loading={"load_until": "2026-01-01"}), "load until: the rows of the table have no event time"),
        (lambda: built(compiled="require"), "compiled=require: Python runs functions that read side tables"),
    ],
)
def test_what_does_not_fit_is_refused_with_file_and_line(wrong: Callable[[], ps.Job], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compiled(wrong())
    assert problem in str(caught.value)
    assert f"{HERE}:" in str(caught.value)


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("{name: a, side: {keys: [wrod]}}", "'wrod' does not exist: unknown column 'wrod': did you mean 'word'?"),
        ("{name: a, side: {keys: [word], loadUntil: soon}}", "load until: 'soon' is no time like 2026-01-01T12:00:00"),
        ("{name: a, side: {}}", "field 'keys' is missing"),
        ("{name: a, parallelism: 2, side: {keys: [word]}}", "the rows of a side table pass through one task"),
        (
            "{name: a, sideInputs: [src], split: {column: word}}",
            "only the function of a process step reads side",
        ),
        (
            f"{{name: a, keyBy: ['n'], sideInputs: [src], {PROCESS}}}",
            "side input 'src' is no side table: it must be a step with side",
        ),
        (
            f"{{name: a, keyBy: ['n'], sideInputs: [scr], {PROCESS}}}",
            "unknown step 'scr': did you mean 'src'?",
        ),
    ],
)
def test_what_a_file_cannot_say_is_refused_with_its_line(tmp_path: Path, step: str, problem: str) -> None:
    (tmp_path / "reads_side.py").write_text(FUNCTIONS)
    text = message(graph_file(tmp_path, step, SINK))
    assert "job.yaml:10" in text
    assert problem in text
