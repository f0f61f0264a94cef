"""Input that cannot be read, through ``penstock run``: messages name the file and the remedy."""

import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.exits import Exit
from tests.integration.cluster_rig import Cluster, running, send

JOB_TIMEOUT_S = 120.0


def truncate(cluster: Path) -> None:
    file = cluster / "part-3.parquet"
    file.write_bytes(file.read_bytes()[:-10])


def change_type(cluster: Path) -> None:
    pq.write_table(pa.table({"line": [1, 2]}), cluster / "part-3.parquet")


def lose_column(cluster: Path) -> None:
    pq.write_table(pa.table({"text": ["a"]}), cluster / "part-3.parquet")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncate, "is truncated or is not Parquet: write it again"),
        (change_type, "schema changes between files"),
        (lose_column, "part-3.parquet has no column 'line': it has text"),
    ],
)
def test_a_file_that_does_not_fit_fails_the_job_by_name(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    cluster = Cluster(tmp_path, seconds=1, workers=1, before_start=spoil)
    try:
        code = cluster.job.wait(JOB_TIMEOUT_S)
        words = " ".join(cluster.job.words().split())
    finally:
        cluster.job.end()
    assert code in {Exit.FAILED, Exit.USAGE}
    assert message in words
    assert "part-3.parquet" in words
    assert not list(cluster.output.glob("*.parquet"))


def test_a_file_that_vanishes_during_a_run_is_named(tmp_path: Path) -> None:
    with running(tmp_path, seconds=120) as cluster:
        cluster.job.epochs(2)
        (cluster.input / "part-4.parquet").unlink()
        send(signal.SIGKILL, cluster.victim(leader=False).engine_pid)
        assert cluster.job.wait(JOB_TIMEOUT_S) == Exit.FAILED
        words = " ".join(cluster.job.words().split())
    assert "part-4.parquet is gone: put it back, the job still reads it" in words


def test_output_of_somebody_else_is_refused(tmp_path: Path) -> None:
    def occupy(_: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine.parquet").write_text("mine")

    cluster = Cluster(tmp_path, seconds=1, workers=1, before_start=occupy)
    try:
        assert cluster.job.wait(JOB_TIMEOUT_S) in {Exit.FAILED, Exit.USAGE}
        words = " ".join(cluster.job.words().split())
    finally:
        cluster.job.end()
    assert "already holds 1 files that this job did not write (mine.parquet" in words
    assert (tmp_path / "out" / "mine.parquet").read_text() == "mine"
