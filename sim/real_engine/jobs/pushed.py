"""A job of pushed rows: each partition has a sender, which ends when all its rows are committed.

rows ─> ids-out                     every row once
rows ─> count per word ─> counts    every row of a word in order
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

import penstock as ps
from penstock_spark.push import Push
from sim.kernel.kernel import Violation
from sim.real_engine.jobs.checked_job import CheckedJob, Row
from sim.real_engine.jobs.timed_rows import difference, write_files

PARTITIONS, ROWS, WORDS = 2, 120, 5
RATE = 60  # rows a second, of each sender
ANNOUNCED = "/announced"  # on the virtual disk
SCHEMA = pa.schema([("word", pa.string()), ("id", pa.int64())])


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

    def write_input(self, folder: Path) -> None:
        """Write the files that the senders read."""
        write_files(folder, [_rows(partition) for partition in range(PARTITIONS)], SCHEMA)

    def senders(self, folder: Path) -> Sequence[Push]:
        """Return what each partition's sender pushes."""
        return [
            Push(ANNOUNCED, (str(folder / f"part-{n}.parquet"),), n, PARTITIONS, 0, RATE, anybody=True)
            for n in range(PARTITIONS)
        ]

    def check_output(self, found: Mapping[str, list[Row]]) -> None:
        """Compare both outputs."""
        rows = [row for partition in range(PARTITIONS) for row in _rows(partition)]
        ids, expected = Counter(row["id"] for row in found["ids"]), Counter(row["id"] for row in rows)
        if ids != expected:
            raise Violation("E", f"pushed: {difference(ids, expected)}")
        seen: Counter[str] = Counter()
        for row in found["counts"]:
            seen[row["word"]] += 1
            if row["n"] != seen[row["word"]]:
                raise Violation("E", f"pushed: {row['word']} is {row['n']}, not {seen[row['word']]}")
        words = Counter(row["word"] for row in rows)
        if seen != words:
            raise Violation("E", f"pushed, counts: {difference(seen, words)}")


def _rows(partition: int) -> Iterable[Row]:
    for number in range(ROWS):
        yield {"word": f"w{number * 3 % WORDS}", "id": partition * ROWS + number}
