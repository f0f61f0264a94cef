"""Patterns nest, add no step of their own to the plan, and refuse parts that cannot work."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.contract.plan import Partitioning
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import CompiledJob, JobFile
from penstock.graph.load import compile_draft

COLUMNS = {"entity": "string", "n": "int64"}


class Clean(ps.SeqNode):
    columns = COLUMNS

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def consume(self, x: dict[str, Any]) -> None:
        if x["n"] >= self.least:
            self.send_next(x)


class Work(Clean):
    name = "work"


class Check(Clean):
    name = "check"


class Late(ps.SeqNode):
    columns = COLUMNS

    def consume(self, x: dict[str, Any]) -> None:
        self.send_next(x)

    def on_stop(self) -> None:
        self.send_next({"entity": "end", "n": 0})


class Silent(ps.SeqNode):
    columns = COLUMNS

    def on_start(self) -> None:
        self.opened = True


class Shapeless(ps.SeqNode):
    def consume(self, x: dict[str, Any]) -> None:
        self.send_next(x)


def same(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def compiled(pattern: ps.Pipeline | ps.Farm) -> CompiledJob:
    job = ps.Job()
    pattern.on(job.source("rows", ps.parquet("x"), columns=COLUMNS)).sink("out", ps.discard())
    return compile_draft(JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, None)


def shape(job: CompiledJob) -> list[tuple[tuple[str, ...], int | None]]:
    return [(stage.steps, stage.parallelism) for stage in job.plan.stages]


def test_farms_in_a_row_have_no_hop_between() -> None:
    job = compiled(ps.Pipeline(Clean(), ps.Farm(Work(), 4, on="entity"), ps.Farm(Check(), 3, on="entity")))
    assert shape(job) == [(("rows", "Clean"), None), (("work",), 4), (("check", "out"), 3)]
    edges = [(e.plan.sender, e.plan.receiver, e.plan.partitioning, e.keys) for e in job.edges]
    assert edges == [(0, 1, Partitioning.KEY, ("entity",)), (1, 2, Partitioning.KEY, ("entity",))]


def test_a_farm_of_a_pipeline_with_a_farm_inside() -> None:
    inner = ps.Pipeline(Work(), ps.Farm(Check(), 3, on=("entity", "n")), ps.pipeline(last=Clean()))
    job = compiled(ps.Pipeline(ps.pipeline(first=Clean(3)), ps.Farm(inner, 2)))
    assert shape(job) == [(("rows", "first"), None), (("work",), 2), (("check", "last", "out"), 3)]
    assert [(e.plan.partitioning, e.keys) for e in job.edges] == [
        (Partitioning.ROUND_ROBIN, ()),
        (Partitioning.KEY, ("entity", "n")),
    ]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (ps.Pipeline, "a pipeline needs at least one part"),
        (lambda: ps.Pipeline(3), "3 is no part of a pattern"),  # type: ignore[arg-type]
        (lambda: ps.Pipeline(Clean), "is no part of a pattern: it must be an object"),
        (lambda: ps.Farm(ps.Farm(Clean(), 2), 2), "begins with a farm"),
        (lambda: ps.Farm(ps.Pipeline(ps.Farm(Clean()), Work()), 2), "begins with a farm"),
        (lambda: ps.Farm(Clean(), 0), "farm: workers=0: it must be a whole number from 1"),
        (lambda: ps.Farm(Clean(), -1), "farm: workers=-1: it must be"),
        (lambda: ps.Farm(Clean(), "2"), "farm: workers='2': it must be"),  # type: ignore[arg-type]
    ],
    ids=[
        *("nothing", "a number", "a class", "a farm", "a pipeline that begins with a farm"),
        *("no worker", "less than none", "a text"),
    ],
)
def test_what_is_no_pattern_is_refused_with_its_place(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ps.ConfigError, match=message) as refused:
        build()
    assert str(refused.value).startswith("tests/unit/patterns/test_pipeline_farm.py:")


@pytest.mark.parametrize(
    ("node", "at", "message"),
    [
        (Late(), Late.on_stop, "Late.on_stop calls send_next"),
        (Silent(), Silent.on_start, "Silent has no method consume"),
        (Shapeless(), Shapeless.consume, "Shapeless declares no columns"),
    ],
    ids=["sends at the end", "takes nothing", "has no columns"],
)
def test_a_class_that_cannot_be_a_node_is_refused_with_file_and_line(
    node: ps.SeqNode, at: Callable[..., None], message: str
) -> None:
    line = inspect.getsourcelines(at)[1]
    with pytest.raises(ps.ConfigError, match=message) as refused:
        ps.Farm(node, 2)
    assert str(refused.value).startswith(f"{Path(__file__).relative_to(Path.cwd())}:{line}: ")


def test_two_steps_of_one_name_are_refused() -> None:
    with pytest.raises(ps.ConfigError, match="a step named 'Clean' exists already"):
        compiled(ps.Pipeline(Clean(), Clean(3)))
