"""How much of what was pushed waits for the task."""

import threading
from collections.abc import Callable

import pyarrow as pa

from penstock.base import limits
from penstock.connectors.ingest_queue import PartitionQueue
from penstock.model.ingest_messages import IngestAnswer

MOST = limits.INGEST_QUEUE_BYTES_MAX // limits.INGEST_CHARGE_BYTES_MIN


class Hub:
    """Stands in for the ingest hub of a worker. These tests check nothing of it."""

    def __init__(self) -> None:
        self.want_checkpoint: Callable[[], None] = self.announce

    def announce(self) -> None:
        """Tell nobody."""

    def unfinished(self, partition: int, offset: int) -> None:
        """Begin."""

    def finished(self, partition: int, offset: int) -> None:
        """End."""


def test_many_small_batches_are_not_taken_for_few_bytes() -> None:
    """A batch of one row has a byte of values, and takes a kilobyte of memory."""
    queue = PartitionQueue(0, Hub())
    queue.open(0, finished=False)
    queue.greet(1, 1)
    row = pa.record_batch({"flag": [True]})
    taken, enough = [0], threading.Event()

    def push() -> None:
        while taken[0] < 2 * MOST and queue.push(1, taken[0], row).answer is IngestAnswer.TAKEN:
            taken[0] += 1
            if taken[0] == MOST:
                enough.set()

    sender = threading.Thread(target=push)
    sender.start()
    assert enough.wait(60)
    queue.close()
    sender.join(60)
    assert taken[0] == MOST
