"""Hints about writes: a keeper reads a changed object at once instead of a minute later."""

from pathlib import Path

from penstock.base.values import replace
from penstock.contract.status import JobState
from tests.integration.local_job import QUICK, cluster_settings, make_lines, started, until

HARDLY_EVER_S = 600.0


def test_a_job_starts_grows_and_stops_by_hints_alone(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=2, lines=40_000)
    control = replace(QUICK, meta_poll_interval_s=HARDLY_EVER_S)
    with started(cluster_settings(folders, rate=400, workers=1, control=control)) as cluster:
        until(cluster, lambda s: s.state is JobState.RUNNING)
        cluster.rescale(2)
        until(cluster, lambda s: s.state is JobState.RUNNING and len(s.workers) == 2)
        cluster.stop()
        until(cluster, lambda s: s.state is JobState.STOPPED)
