"""How the JVM is started: what its child process must not do, and the error if it fails."""

import os
from pathlib import Path

import pytest
from pyspark import SparkConf

from penstock_spark.gateway import JvmEndedError, start

SUBMIT = """\
#!/bin/sh
echo "no room for a heap"
exit 3
"""


def test_the_end_of_a_jvm_is_reported_and_no_fork_handler_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    forks: list[int] = []
    # gRPC's handlers of this kind end a child whose parent has threads that poll.
    os.register_at_fork(before=lambda: forks.append(1))
    log = tmp_path / "log"
    with log.open("wb") as file, pytest.raises(JvmEndedError, match="ended with code 3"):
        start(SparkConf(loadDefaults=False), tmp_path, file)
    assert forks == []
    assert log.read_text() == "no room for a heap\n"
