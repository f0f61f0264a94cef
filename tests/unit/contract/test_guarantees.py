"""The guarantee of a sink is the lowest level on its path."""

import pytest

import penstock as ps
from penstock.contract.codec import ABSENT
from penstock.contract.guarantees import guarantee_of, lowest, path_of, varying_steps
from penstock.contract.status import JobState, JobStatus, SinkStatus, guarantee_text
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.graph import JobFile
from penstock.graph.load import compile_draft


def two_paths(job: ps.Job) -> None:
    words = job.source("words", ps.parquet("in"), columns={"word": "string"})
    orders = job.source("orders", ps.parquet("in"), columns={"word": "string"})
    words.union(orders).key_by("word").window("some", ps.count_window(3), n=ps.count()).sink("both", ps.parquet("both"))
    words.sink("copy", ps.parquet("copy"))


def test_the_path_of_a_sink_has_each_step_whose_rows_reach_it() -> None:
    job = ps.Job()
    two_paths(job)
    compiled = compile_draft(JobFile(StreamJob("test", Spec(job=Job(entrypoint="a:b"))), {}), job.draft, None)
    assert set(path_of(compiled.graph, "both")) == {"words", "orders", "some"}
    assert path_of(compiled.graph, "copy") == ("words",)
    assert varying_steps(compiled.plan) == ("some",)
    assert any(stage.varying is ABSENT for stage in compiled.plan.stages)


@pytest.mark.parametrize(
    ("levels", "level"),
    [
        (("exactly-once", "exactly-once"), "exactly-once"),
        (("exactly-once", "effectively-once"), "effectively-once"),
        (("at-least-once", "effectively-once"), "at-least-once"),
        (("none", "at-least-once"), "none"),
        (("exactly-once", "mostly"), "mostly"),
        (("mostly", "none"), "none"),
    ],
)
def test_the_lowest_level_counts(levels: tuple[str, ...], level: str) -> None:
    assert lowest(levels) == lowest(levels[::-1]) == level


def test_a_source_that_cannot_repeat_lowers_the_sinks_behind_it_only() -> None:
    sources = {"orders": "it is compacted", "words": ""}
    assert guarantee_of(("words", "orders"), "exactly-once", sources, ()) == (
        "at-least-once",
        "source 'orders': it is compacted",
    )
    assert guarantee_of(("words",), "exactly-once", sources, ()) == ("exactly-once", "")


def test_steps_that_vary_matter_only_where_rows_are_repeated() -> None:
    assert guarantee_of(("words", "some"), "exactly-once", {}, ("some", "other")) == ("exactly-once", "")
    assert guarantee_of(("words", "some"), "at-least-once", {}, ("some", "other")) == (
        "at-least-once",
        "the sink itself is at-least-once; after a rollback it may get other rows of some",
    )


def test_the_status_names_each_sink_and_why() -> None:
    status = JobStatus("words", "uid", JobState.RUNNING, 0)
    assert guarantee_text(status) == ""
    sinks = (SinkStatus("out", "exactly-once"), SinkStatus("copy", "at-least-once", why="it says so"))
    shown = JobStatus("words", "uid", JobState.RUNNING, 0, sinks=sinks)
    assert guarantee_text(shown) == "guarantees: out exactly-once, copy at-least-once (it says so)"
