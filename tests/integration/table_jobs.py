"""A job that counts words from one table into others, through kills and rescales, for any format of tables."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from tests.integration.command_job import running
from tests.integration.word_files import Words


class Counts(Protocol):
    """A table that the job writes."""

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows."""
        ...

    def epochs(self) -> list[int]:
        """Return the epochs of the commits that have added rows, in order."""
        ...


def check_exact_through_kills(
    folder: Path, job_file: str, append: Callable[[pa.Table], object], *tables: Counts
) -> Counter[tuple[str, int]]:
    """Run the job while others commit to its input by ``append``; kill two engines, and rescale 2 -> 3 -> 2.

    Return how often each word must be there with each count: once.
    """
    words = Words()

    def add() -> None:
        for _ in range(2):
            append(pa.table({"word": words.some()}))

    def written() -> bool:
        return all(len(table.rows()) >= words.rows for table in tables)

    add()
    with running(folder, "words", job_file) as job:
        job.until(written)
        for workers, victim in ((3, 0), (2, 1)):  # worker 0 makes the commits
            add()
            job.kill(victim)
            job.rescale(workers)
        job.until(written)
        assert [sink.guarantee for sink in job.status().sinks] == ["exactly-once"] * len(tables)
        job.stop()
    due = Counter((word, n) for word, most in words.counts().items() for n in range(1, most + 1))
    for table in tables:
        assert Counter((row["word"], row["times"]) for row in table.rows()) == due
        epochs = table.epochs()
        assert epochs == sorted(set(epochs)), "one commit for each epoch, and none goes back"
    return due
