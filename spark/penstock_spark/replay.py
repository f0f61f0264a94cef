"""``penstock replay``: Spark executors push a dataset over Flight into a running job.

The job's ingest source has n partitions, which its workers announce. Each partition is one Spark task,
which pushes every n-th file of the dataset.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError, PenstockError
from penstock.base.values import replace
from penstock.connectors.announce import (
    Announcement,
    Proof,
    dialled,
    opened,
    read_announcements,
)
from penstock.model.ingest_messages import IngestAnswer
from penstock_spark.folders import parquet_files, read_marker
from penstock_spark.push import Push, Pushed, Pusher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANNOUNCE_TIMEOUT_S = 60.0
ATTEMPTS_MAX = 1 << 20
SUPERSEDED = "a later sender took over a partition"


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Push ``dataset`` to the workers announced in ``announce`` at ``rate`` rows/s in all.

    ``rows``: at most this many rows in total, equally from all partitions. ``trust``,
    ``certificate_host``, ``anybody``: see :class:`penstock_spark.push.Push`.
    """

    dataset: Path
    announce: Path
    rate: int | None = None
    rows: int | None = None
    trust: str = ""
    certificate_host: str = ""
    anybody: bool = False


def partitions_of(announce: Path, proof: Proof, timeout_s: float = ANNOUNCE_TIMEOUT_S) -> int:
    """Wait for the first worker and return its number of partitions. Raises ConfigError."""
    deadline = time.monotonic() + timeout_s
    while True:
        with opened(announce, proof) as folder:
            there = read_announcements(folder)
            for known in there:
                if dialled(known.address, folder, proof) is not None:
                    return known.partitions
        if time.monotonic() > deadline:
            raise ConfigError(_nobody(announce, proof, there))
        time.sleep(0.2)


def _nobody(announce: Path, proof: Proof, there: list[Announcement]) -> str:
    """Return why there is no worker to push to."""
    if not there:
        return (
            f"replay: no worker has announced itself in {announce}: start the job first, with"
            " an ingest source that announces there"
        )
    return (
        f"replay: {there[0].address} was passed over, this sender dials {proof}:// only: workers"
        " with certificates need --trust, those of a cluster without them --anybody, and those of"
        " this machine neither"
    )


def run(spark: "SparkSession", replay: ReplayRequest, partitions: int) -> list[Pushed]:
    """Push everything. Returns when the job has committed every row.

    Raises ConfigError if the dataset is not complete, and PenstockError with the message of the first task that
    failed.
    """
    marker = read_marker(replay.dataset)
    if marker is not None and not marker.get("complete"):
        raise ConfigError(
            f"replay: {replay.dataset} is being written, or its writer has died: write it to its end first"
        )
    files = [str(f) for f in parquet_files(replay.dataset.absolute())]
    folder = str(replay.announce.absolute())
    rate = None if replay.rate is None else max(1, replay.rate // partitions)
    # Task attempts are counted from 0 in every run of Spark: of two runs the later one wins.
    first_sender = (time.time_ns() // 1_000_000_000) * ATTEMPTS_MAX
    pushes = [
        Push(
            folder,
            tuple(files[index::partitions]),
            index,
            partitions,
            first_sender,
            rate,
            _share(replay.rows, index, partitions),
            replay.trust,
            replay.certificate_host,
            replay.anybody,
        )
        for index in range(partitions)
    ]
    tasks = spark.sparkContext.parallelize(pushes, partitions).mapPartitions(_push)
    try:
        ended = tasks.collect()
    except Exception as error:
        if SUPERSEDED not in str(error):
            raise
        raise PenstockError(f"replay: {SUPERSEDED}: another replay pushes the same") from error
    failed = [e for e in ended if isinstance(e, str)]
    if failed:
        raise PenstockError(failed[0])
    return [e for e in ended if isinstance(e, Pushed)]


def _share(rows: int | None, index: int, partitions: int) -> int | None:
    """Divide the rows among the partitions. The first partitions get the remainder."""
    return None if rows is None else rows // partitions + (index < rows % partitions)


def _push(pushes: Iterable[Push]) -> Iterator[Pushed | str]:
    """Push in a Spark task. Of two attempts of a task, the one with the higher number wins.

    The other attempt must fail, because Spark ends all attempts of a task when one succeeds.
    """
    from pyspark import TaskContext  # noqa: PLC0415 - only inside a task

    context = TaskContext.get()
    attempt = context.taskAttemptId() if context is not None else 0
    for push in pushes:
        try:
            pushed = Pusher(replace(push, sender=push.sender + attempt)).run()
        except PenstockError as error:
            yield str(error)  # if raised, it would arrive as a Java stack trace
            continue
        if pushed.answer == IngestAnswer.SUPERSEDED:
            raise PenstockError(SUPERSEDED)
        yield pushed
