"""Rows of a sink's test, and how one task stages them: for all connectors that publish to a server."""

import multiprocessing
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from penstock.ports import CommitAwareWriter
from penstock.testing import connectors as kit
from tools.servers.kafka import new_name

ROWS = pa.record_batch({"word": [f"word {n % 5}" for n in range(18)], "number": pa.array(range(18), pa.int64())})
TASK, OTHER_TASK = (TaskId(StageIndex(1), Ordinal(worker), 0) for worker in range(2))


class Target(Protocol):
    """Where a sink writes."""

    def visible(self) -> list[dict[str, object]]:
        """Return the rows that a reader sees."""
        ...


def staged(
    sink: Any,
    epoch: int,
    rows: pa.RecordBatch = ROWS,
    attempt: int = 1,
    task: TaskId = TASK,
    cut: str = "",
    committed: int | None = None,
) -> SinkHandle:
    """Stage the rows as the output of a task in an epoch. Return what has to be published.

    The newest ``committed`` epoch is the one before, or another.
    """
    writer = sink.writer(task, Attempt(attempt))
    if isinstance(writer, CommitAwareWriter):
        writer.committed(Epoch(epoch - 1 if committed is None else committed))
    writer.write(rows)
    handle = writer.seal(Epoch(epoch), cut or new_name("cut")).finish()
    assert isinstance(handle, SinkHandle)
    return handle


def staged_by_both(sink: Any, epoch: int) -> list[SinkHandle]:
    """Stage equal rows in two tasks, under names that are equal each time."""
    return [staged(sink, epoch, task=task, cut="cut") for task in (TASK, OTHER_TASK)]


def check_sink_apart(target: Callable[[Path], kit.SinkTarget], folder: Path, **how: Any) -> kit.SinkReport:
    """Run the kit in a process that has no client yet. It forks, and the threads of a client do not come along."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_check_sink, target, folder, how).result()


def _check_sink(target: Callable[[Path], kit.SinkTarget], folder: Path, how: dict[str, Any]) -> kit.SinkReport:
    numbers_made = count(1)
    return kit.check_sink(lambda: target(folder / str(next(numbers_made))), ROWS, **how)


def numbers(target: Target) -> Counter[object]:
    """Count the visible rows by their number."""
    return Counter(row["number"] for row in target.visible())
