"""Rows of a sink's test, and how one task stages them: for all connectors that publish to a server."""

from collections import Counter
from typing import Any, Protocol

import pyarrow as pa

from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from tools.servers.kafka import new_name

ROWS = pa.record_batch({"word": [f"word {n % 5}" for n in range(18)], "number": pa.array(range(18), pa.int64())})
TASK = TaskId(StageIndex(1), Ordinal(0), 0)


class Target(Protocol):
    """Where a sink writes."""

    def visible(self) -> list[dict[str, object]]:
        """Return the rows that a reader sees."""
        ...


def staged(sink: Any, epoch: int, rows: pa.RecordBatch = ROWS, attempt: int = 1) -> SinkHandle:
    """Stage the rows as the output of ``TASK`` in an epoch. Return what has to be published."""
    writer = sink.writer(TASK, Attempt(attempt))
    writer.write(rows)
    handle = writer.seal(Epoch(epoch), new_name("cut")).finish()
    assert isinstance(handle, SinkHandle)
    return handle


def numbers(target: Target) -> Counter[object]:
    """Count the visible rows by their number."""
    return Counter(row["number"] for row in target.visible())
