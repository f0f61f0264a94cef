"""A job with a Delta Lake sink: a job file and Python say the same, and what is wrong is told when it is loaded."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.graph import load_job
from penstock.graph.shape_checks import check_shape
from tests.unit.graph.test_bad_graphs import graph_file, message


def sink(options: str) -> str:
    return f"{{name: out, sink: {{delta: {{{options}}}}}}}"


def test_a_job_file_and_python_say_the_same(tmp_path: Path) -> None:
    loaded = load_job(graph_file(tmp_path, sink("table: lake, rollBytes: 1Mi")), None)
    job = ps.Job()
    job.source("words", ps.generator(rows=1)).sink("out", ps.delta(Path("lake"), roll_bytes=1 << 20))
    said = [check_shape(job.draft, "j").steps[-1].parameters, loaded.graph.steps[-1].parameters]
    assert [{n: v for n, v in each.connector.options.items() if v is not None} for each in said] == [  # type: ignore[union-attr]
        {"table": "lake", "roll_bytes": 1 << 20}
    ] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("table: 'hdfs://lake'", "does not fit: a folder, or s3://bucket/folder"),
        ("rollBytes: 1Mi", "table"),
        ("table: s3://lake/t, secretKey: hunter2", "env:NAME (a variable of the workers) or file:/PATH"),
    ],
)
def test_what_does_not_fit_is_told_and_no_secret_is_shown(tmp_path: Path, options: str, said: str) -> None:
    told = message(graph_file(tmp_path, sink(options)))
    assert said in told
    assert "hunter2" not in told
