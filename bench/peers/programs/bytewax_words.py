"""Bytewax: ``key_on`` and ``stateful_map``, as its guide to stateful operators does it."""

from datetime import timedelta

from bytewax import operators as op  # type: ignore[import-not-found]
from bytewax._bytewax import cli_main  # type: ignore[import-not-found]
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]
from bytewax.inputs import (  # type: ignore[import-not-found]
    FixedPartitionedSource,
    StatefulSourcePartition,
)
from bytewax.outputs import DynamicSink, StatelessSinkPartition  # type: ignore[import-not-found]
from bytewax.recovery import RecoveryConfig, init_db_dir  # type: ignore[import-not-found]

from bench.peers.programs.task import Progress, Task, read_task

BATCH_ROWS = 10_000


class Words(FixedPartitionedSource):  # type: ignore[misc]
    """Splits of the block. A recovery continues from the offset."""

    def __init__(self, task: Task) -> None:
        """Draw the block once for all splits."""
        self._task, self._block = task, task.block()

    def list_parts(self) -> list[str]:
        """Return the names of the splits."""
        return [str(split) for split in range(self._task.splits)]

    def build_part(self, _step: str, part: str, resume: int | None) -> "Split":
        """Open a split at its stored offset."""
        start = self._task.start_of(int(part), len(self._block))
        return Split(self._block, start, resume or 0, self._task.rows_per_split)


class Split(StatefulSourcePartition):  # type: ignore[misc]
    """One split: slices of a list."""

    def __init__(self, block: list[str], start: int, offset: int, end: int) -> None:
        """Continue at ``offset``."""
        self._block, self._start, self._offset, self._end = block, start, offset, end

    def next_batch(self) -> list[str]:
        """Return the next rows."""
        if self._offset >= self._end:
            raise StopIteration
        place = (self._start + self._offset) % len(self._block)
        rows = self._block[place : place + min(BATCH_ROWS, self._end - self._offset)]
        self._offset += len(rows)
        return rows

    def snapshot(self) -> int:
        """Return the offset from which a recovery continues."""
        return self._offset


class Counts(DynamicSink):  # type: ignore[misc]
    """Keeps the newest count of each word."""

    def __init__(self) -> None:
        """Begin without counts."""
        self.progress, self.counts = Progress(), dict[str, int]()

    def build(self, _step: str, _index: int, _count: int) -> "CountsPart":
        """Return the only partition."""
        return CountsPart(self)


class CountsPart(StatelessSinkPartition):  # type: ignore[misc]
    """Takes pairs of a word and its count."""

    def __init__(self, sink: Counts) -> None:
        """Write into ``sink``."""
        self._sink = sink

    def write_batch(self, items: list[tuple[str, int]]) -> None:
        """Store the counts."""
        self._sink.counts.update(items)
        self._sink.progress.add(len(items))


def count(state: int | None, _word: str) -> tuple[int, int]:
    """Return the new state and the output."""
    new = (state or 0) + 1
    return new, new


def main() -> None:
    """Run to the end of the input, in one worker."""
    task, sink = read_task(), Counts()
    flow = Dataflow("words")
    words = op.input("words", flow, Words(task))
    keyed = op.key_on("keyed", words, lambda word: word)
    op.output("end", op.stateful_map("count", keyed, count), sink)
    recovery = task.folder / "recovery"
    recovery.mkdir()
    init_db_dir(recovery, 1)
    cli_main(
        flow,
        epoch_interval=timedelta(seconds=task.checkpoint_s),
        recovery_config=RecoveryConfig(str(recovery)),
    )
    task.answer(sink.counts, sink.progress.ended(), emitted=sink.progress.rows)


if __name__ == "__main__":
    main()
