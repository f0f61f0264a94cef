"""Spark in the cluster: a SparkApplication feeds a job, and another one verifies its output."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from e2e.rig.spark_operator import SparkOperator, application, example, run_application, spark_operator
from e2e.rig.streamjob import StreamJob
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount, make_shared

STEP_TIMEOUT_S = 120.0
SPARK_TIMEOUT_S = 240.0
RATE = 20_000  # lines per second: slow enough to see the replay RUNNING


@pytest.fixture
def spark(wordcount: WordCount) -> Iterator[SparkOperator]:
    """Give the Spark operator, which is not installed yet."""
    with spark_operator(wordcount.cluster, wordcount.kubectl.namespace) as operator:
        yield operator


@pytest.mark.timeout(900)
def test_spark_feeds_a_job_and_says_that_it_is_exact(wordcount: WordCount, spark: SparkOperator) -> None:
    data = wordcount.folder / "data"
    for folder in (data, data / "senders", data / "replayed"):
        make_shared(folder)
    wordcount.input.rename(data / "lines")

    job = StreamJob(wordcount.kubectl, "replayed")
    images = wordcount.cluster.images
    job.kubectl.apply(replayed(wordcount), manager="kubectl")
    wait_for("the word that Spark is not there", lambda: replay_unavailable(job), STEP_TIMEOUT_S)
    job.until("Ready", STEP_TIMEOUT_S)
    print(f"without the Spark operator: {replay_unavailable(job)}")

    spark.install()
    begun = time.monotonic()
    shown = wait_for("a replay", lambda: job.status().get("sparkApplication"), STEP_TIMEOUT_S,
                     job.say)  # fmt: skip
    wait_for("its state in the status", lambda: replay_state(job) == "RUNNING", SPARK_TIMEOUT_S,
             lambda: str(application(wordcount.kubectl, shown["name"]).get("status")))  # fmt: skip
    print(f"replay RUNNING after {time.monotonic() - begun:.1f} s")
    assert "--trust" in application(wordcount.kubectl, shown["name"])["spec"]["arguments"]
    driver = job.kubectl.attempt("get", "pod", f"{shown['name']}-driver", "-o", "json")
    if not driver.returncode:
        check_confined(json.loads(driver.stdout)["spec"])
    job.until_finished(SPARK_TIMEOUT_S)
    wait_for("the replay's end", lambda: replay_state(job) == "COMPLETED", STEP_TIMEOUT_S, job.say)
    rows = sum(pq.read_metadata(f).num_rows for f in (data / "replayed").glob("*.parquet"))
    print(f"replay COMPLETED, job Finished after {time.monotonic() - begun:.1f} s: {rows} rows out")

    begun = time.monotonic()
    log = run_application(job.kubectl, example("spark/oracle.yaml", images.spark))
    print(f"oracle ended after {time.monotonic() - begun:.1f} s\n{log[-600:]}")
    assert "exact: yes" in log
    is_fed_without_certificates(wordcount, data)


def is_fed_without_certificates(wordcount: WordCount, data: Path) -> None:
    """Replay the same lines into a job without certificates: its rows equal those of the first."""
    for folder in (data / "open", data / "senders-open"):
        make_shared(folder)
    manifest = replayed(wordcount)
    manifest["metadata"]["name"] = "open"
    manifest["spec"]["security"] = {"mtls": False}
    manifest["spec"]["job"]["parameters"] = {
        "announce": "/data/senders-open",
        "output": "/data/open",
    }
    job = StreamJob(wordcount.kubectl, "open")
    begun = time.monotonic()
    job.kubectl.apply(manifest, manager="kubectl")
    job.until_finished(SPARK_TIMEOUT_S)
    shown = job.status()["sparkApplication"]["name"]
    assert "--anybody" in application(wordcount.kubectl, shown)["spec"]["arguments"]
    assert not job.is_so("Secured")
    assert rows_in(data / "open") == rows_in(data / "replayed")
    print(f"without certificates: job Finished after {time.monotonic() - begun:.1f} s")


def rows_in(folder: Path) -> Counter[tuple[str, int]]:
    """Count the rows of all published files by content."""
    found: Counter[tuple[str, int]] = Counter()
    for file in folder.glob("*.parquet"):
        columns = pq.read_table(file, columns=["word", "count"]).columns
        found.update(zip(*(column.to_pylist() for column in columns), strict=True))
    return found


def replayed(wordcount: WordCount) -> Any:
    """Give the example of a replay with the images, the claim and the pace of this cluster."""
    images = wordcount.cluster.images
    manifest = example("replayed.yaml", images.worker)
    manifest["spec"]["checkpoint"]["interval"] = "2s"
    manifest["spec"]["replay"] |= {"image": images.spark, "rate": RATE}
    return manifest


def check_confined(spec: Any) -> None:
    """Check that Spark's operator kept what ours asked for: no API token, a read-only root."""
    assert spec["automountServiceAccountToken"] is False
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert not {path for path in mounted if path.startswith("/var/run/secrets")}, mounted


def replay_unavailable(job: StreamJob) -> str:
    found = [c for c in job.conditions() if c["reason"] == "ReplayUnavailable"]
    return str(found[0]["message"]) if found else ""


def replay_state(job: StreamJob) -> str:
    return str((job.status().get("sparkApplication") or {}).get("state", ""))
