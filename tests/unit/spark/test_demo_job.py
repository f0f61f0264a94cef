"""How the demo watches its job."""

import os
from pathlib import Path

from penstock.cli.exits import Exit
from penstock.cluster.rpc import Server
from penstock.supervisor.folders import Endpoint, JobFolder
from penstock_spark.demo.job import JobFiles, RunningJob


def test_a_port_that_another_server_has_now_is_no_end_of_the_watch(tmp_path: Path) -> None:
    """A job that ends at once may leave its port to anybody while its watcher still asks there."""
    other = Server({}, "secret")
    state = tmp_path / "state"
    JobFolder.make(state, "words", "default").announce(Endpoint(os.getpid(), other.address, "secret"))
    job = RunningJob(
        JobFiles("words", tmp_path / "none.yaml", [], tmp_path / "out", state, tmp_path / "log"), workers=1
    )
    try:
        # What ends the thread fails the test.
        assert job.wait(60) == Exit.USAGE
    finally:
        job.end()
        other.close()
    assert job.seen.status is None
