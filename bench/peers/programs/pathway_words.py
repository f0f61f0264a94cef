"""Pathway: a file of lines in streaming mode, ``groupby`` and ``count``, as in its tutorial."""

import os
import sys
from typing import Any

import pathway as pw  # type: ignore[import-not-found]

from bench.peers.programs.task import Progress, Task, read_task


class Counts:
    """Keeps the newest count of each word; ends the process when all rows are counted."""

    def __init__(self, task: Task) -> None:
        """Count the rows of ``task``."""
        self._task, self._progress = task, Progress()
        self._counts: dict[str, int] = {}
        self._emitted = 0

    def begin(self) -> None:
        """Note the time. All files that exist at the start arrive as one commit, at the end."""
        self._progress.add(0)

    def change(self, key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:
        """Take one change of the table."""
        self._emitted += 1
        if is_addition:
            self._counts[row["word"]] = row["count"]

    def time_end(self, time: int) -> None:
        """Note how many rows have arrived until this commit."""
        self._progress.add(sum(self._counts.values()) - self._progress.rows)
        if self._progress.rows >= self._task.rows:
            marks = self._progress.ended()
            self._task.answer(self._counts, marks, emitted=self._emitted)
            sys.stdout.flush()
            os._exit(0)  # a streaming source never ends by itself


def main() -> None:
    """Run until every row is counted."""
    task = read_task()
    lines = pw.io.fs.read(str(task.folder / "lines"), format="plaintext", mode="streaming")
    counts = lines.groupby(lines.data).reduce(word=lines.data, count=pw.reducers.count())
    sink = Counts(task)
    pw.io.subscribe(counts, sink.change, on_time_end=sink.time_end)
    backend = pw.persistence.Backend.filesystem(str(task.folder / "persisted"))
    config = pw.persistence.Config(backend, snapshot_interval_ms=round(1000 * task.checkpoint_s))
    sink.begin()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE, persistence_config=config)


if __name__ == "__main__":
    main()
