"""How the demo watches its job."""

import os
from pathlib import Path

from penstock.cli.exits import Exit
from penstock.cluster.rpc import Server
from penstock.supervisor.folders import Endpoint, JobFolder
from penstock_spark.demo.job import JobFiles, RunningJob


def test_the_watch_goes_on_when_another_server_has_the_port(tmp_path: Path) -> None:
    """When a job ends at once, another server may get its port while the watcher still asks there."""
    other = Server({}, "secret")
    state = tmp_path / "state"
    JobFolder.make(state, "words", "default").announce(Endpoint(os.getpid(), other.address, "secret"))
    job = RunningJob(
        JobFiles("words", tmp_path / "none.yaml", [], tmp_path / "out", state, tmp_path / "log"), workers=1
    )
    try:
        # pytest fails this test when an exception ends the watcher's thread.
        assert job.wait(60) == Exit.USAGE
    finally:
        job.end()
        other.close()
    assert job.seen.status is None
