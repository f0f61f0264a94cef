"""A job with an S3 sink: what is wrong is told when the job is loaded, and no message shows a secret."""

from pathlib import Path

import pytest

import penstock as ps
from penstock.graph import load_job
from penstock.graph.shape_checks import check_shape
from tests.unit.graph.test_bad_graphs import graph_file, message


def sink(options: str) -> str:
    return f"{{name: out, sink: {{s3: {{{options}}}}}}}"


def test_a_job_file_and_python_say_the_same(tmp_path: Path) -> None:
    loaded = load_job(graph_file(tmp_path, sink("url: s3://lake/words, format: json, rollBytes: 1Mi")), None)
    job = ps.Job()
    output = ps.s3("s3://lake/words", format="json", roll_bytes=1 << 20)
    job.source("words", ps.generator(rows=1)).sink("out", output)
    said = [check_shape(job.draft, "j").steps[-1].parameters, loaded.graph.steps[-1].parameters]
    assert [{n: v for n, v in each.connector.options.items() if v is not None} for each in said] == [  # type: ignore[union-attr]
        {"url": "s3://lake/words", "format": "json", "roll_bytes": 1 << 20}
    ] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("url: lake/words", "does not fit: s3://bucket or s3://bucket/folder"),
        ("url: s3://lake, format: avro", "unknown value 'avro'"),
        ("url: s3://lake, rollBytes: 65Mi", "must be at most 64Mi"),
        ("url: s3://lake, secretKey: hunter2", "env:NAME (a variable of the workers) or file:/PATH"),
        ("url: s3://lake, endpoint: 'https://me:hunter2@host'", "https://host:port"),
    ],
)
def test_what_does_not_fit_is_told_and_no_secret_is_shown(tmp_path: Path, options: str, said: str) -> None:
    told = message(graph_file(tmp_path, sink(options)))
    assert said in told
    assert "hunter2" not in told


def test_an_address_where_a_folder_is_due_names_the_sink_that_takes_it(tmp_path: Path) -> None:
    told = message(graph_file(tmp_path, "{name: out, sink: {parquet: {path: s3://lake/words}}}"))
    assert "'s3://lake/words' is an address, and parquet reads and writes folders: ps.s3(url) writes to S3" in told
