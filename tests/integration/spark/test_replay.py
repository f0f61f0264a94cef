"""Spark executors push into a running job, and the Spark oracle finds every row, once."""

import signal
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.connectors.announce import Proof
from penstock_spark import dataset, replay, word_oracle
from penstock_spark.demo.job import JobFiles, RunningJob, is_well
from tests.integration.cluster_rig import ROOT, send


def test_no_spark_task_fails_when_an_engine_dies(spark: SparkSession, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.mkdir()
    for number in range(8):
        (text / f"{number}.txt").write_text("".join(f"line {n}  of {number}\n" for n in range(1500)))
    dataset.write(spark, dataset.TextRequest((str(text),), files=8), tmp_path / "lines")
    output, announce = tmp_path / "out", tmp_path / "announce"
    settings = [f"job.parameters.announce={announce}", f"job.parameters.output={output}"]
    places = JobFiles(
        "replay",
        ROOT / "examples" / "replay.yaml",
        settings,
        output,
        tmp_path / "state",
        tmp_path / "run.log",
    )
    job = RunningJob(places, 2)
    killed = threading.Thread(target=kill_one_engine, args=(job,))
    try:
        job.until("a running job", is_well, 120)
        partitions = replay.partitions_of(announce, Proof.FOLDER)
        killed.start()
        request = replay.ReplayRequest(tmp_path / "lines", announce, rate=1500)
        pushed = replay.run(spark, request, partitions)
        killed.join()
        assert job.wait(120) == 0, job.words()
    finally:
        job.end()
    assert {p.answer for p in pushed} == {"finished"}
    assert sum(p.rows for p in pushed) == 8 * 1500
    assert sum(p.dials for p in pushed) > partitions
    assert word_oracle.check(spark, tmp_path / "lines", output).exact


def kill_one_engine(job: RunningJob) -> None:
    """Kill it while rows are pushed: they take eight seconds, once Spark has begun."""
    job.until("pushed rows", lambda s: any(step.rows_in for step in s.steps), 120)
    job.epochs(1)
    victim = next(w for w in job.workers() if not w.leader)
    send(signal.SIGKILL, victim.engine_pid)
