"""A job of pushed rows: each partition has a sender, which ends when all its rows are committed.

rows ─> ids-out                     every row once
rows ─> count per word ─> counts    every row of a word in order
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import penstock as ps
from penstock_spark.push import Push
from sim.real_engine.jobs.checked_job import CheckedJob
from sim.real_engine.jobs.input_rows import UNTIMED, InputFiles, Row, must_count, must_equal, must_keep_order

PARTITIONS, ROWS, WORDS = 2, 120, 5
ANNOUNCED = "/announced"  # on the virtual disk


def rows_of(partition: int) -> Iterable[Row]:
    """Return the rows of a partition."""
    for number in range(ROWS):
        yield {"word": f"w{number * 3 % WORDS}", "id": partition * ROWS + number}


SENT = InputFiles(rows_of, UNTIMED, rate=60, files=PARTITIONS)


def job(parameters: ps.Parameters) -> ps.Job:
    """Build the job."""
    made, output = ps.Job(), parameters["output"]
    rows = made.source("rows", ps.ingest(PARTITIONS, ANNOUNCED), columns={"word": "string", "id": "int64"})
    rows.sink("ids-out", ps.parquet(f"{output}/ids"))
    counts = rows.key_by("word").aggregate("counts", n=ps.count())
    counts.sink("counts-out", ps.parquet(f"{output}/counts"))
    return made


class PushedJob(CheckedJob):
    """The job's senders and oracle."""

    entrypoint = f"{__name__}:job"
    outputs = ("ids", "counts")
    inputs = (SENT,)

    def senders(self, folder: Path) -> Sequence[Push]:
        """Return what each partition's sender pushes."""
        return [
            Push(ANNOUNCED, (str(folder / SENT.name / f"part-{n}.parquet"),), n, PARTITIONS, 0, SENT.rate, anybody=True)
            for n in range(PARTITIONS)
        ]

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare both outputs."""
        rows = SENT.all_rows()
        must_equal("pushed", Counter(row["id"] for row in found["ids"]), Counter(row["id"] for row in rows))
        must_keep_order("pushed", found["ids"], ROWS)
        must_count("pushed, counts", found["counts"], rows)
