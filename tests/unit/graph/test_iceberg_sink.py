"""A job with an Iceberg sink: a job file and Python say the same, and what is wrong is told when it is loaded."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.graph import load_job
from penstock.graph.shape_checks import check_shape
from tests.unit.graph.test_bad_graphs import graph_file, message


def sink(options: str) -> str:
    return f"{{name: out, sink: {{iceberg: {{{options}}}}}}}"


def test_a_job_file_and_python_say_the_same(tmp_path: Path) -> None:
    options = "catalog: 'https://catalog:8181', table: lake.words, credential: 'env:WHO', rollBytes: 1Mi"
    loaded = load_job(graph_file(tmp_path, sink(options)), None)
    job = ps.Job()
    output = ps.iceberg("lake.words", catalog="https://catalog:8181", credential="env:WHO", roll_bytes=1 << 20)
    job.source("words", ps.generator(rows=1)).sink("out", output)
    said = [check_shape(job.draft, "j").steps[-1].parameters, loaded.graph.steps[-1].parameters]
    first, second = ({n: v for n, v in each.connector.options.items() if v is not None} for each in said)  # type: ignore[union-attr]
    assert {**first, "catalog_name": "default"} == second
    assert first["credential"] == "env:WHO"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("catalog: 'hive://x', table: lake.words", "https://host/path, http:// where the network is trusted"),
        ("catalog: 'https://c', table: words", "does not fit: namespace.table"),
        ("catalog: 'https://c', table: lake.words, token: hunter2", "env:NAME (a variable of the workers)"),
    ],
)
def test_what_does_not_fit_is_told_and_no_secret_is_shown(tmp_path: Path, options: str, said: str) -> None:
    told = message(graph_file(tmp_path, sink(options)))
    assert said in told
    assert "hunter2" not in told
