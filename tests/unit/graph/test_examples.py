"""Every example compiles, and the Python ones are the graphs of the YAML ones."""

from pathlib import Path

import pytest

from penstock.engine.main import (
    SWITCH_INTERVAL_S,
    USER_CODE_SWITCH_INTERVAL_S,
    switch_interval_s,
)
from penstock.graph import load_job

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda f: f.stem)
def test_an_example_compiles(file: Path) -> None:
    job = load_job(file, None)
    assert job.stages[0].plan.bounded


@pytest.mark.parametrize(
    ("name", "interval_s"),
    [("wordcount", SWITCH_INTERVAL_S), ("text_to_json", USER_CODE_SWITCH_INTERVAL_S)],
)
def test_only_jobs_with_user_code_switch_threads_often(name: str, interval_s: float) -> None:
    job = load_job(EXAMPLES / f"{name}.yaml", None)
    assert switch_interval_s(job) == interval_s
    assert job.runs_user_code == (interval_s < SWITCH_INTERVAL_S)


@pytest.mark.parametrize("name", ["wordcount", "temperature"])
def test_the_python_example_is_the_graph_of_the_file(name: str) -> None:
    ours = load_job(EXAMPLES / f"{name}_python.yaml", None)
    theirs = load_job(EXAMPLES / f"{name}.yaml", None)
    assert ours.plan.states == theirs.plan.states
    assert [s.plan.steps for s in ours.stages] == [s.plan.steps for s in theirs.stages]
