"""How much of what was pushed waits for the task."""

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from penstock.base import limits
from penstock.base.errors import StorageError
from penstock.connectors.ingest_queue import PartitionQueue
from penstock.model.ingest_messages import IngestAnswer

MOST = limits.INGEST_QUEUE_BYTES_MAX // limits.INGEST_CHARGE_BYTES_MIN


class Hub:
    """Stands in for the ingest hub of a worker; remembers which partitions have ended."""

    def __init__(self) -> None:
        self.want_checkpoint: Callable[[], None] = self.announce
        self.ended: list[tuple[int, int]] = []

    def announce(self) -> None:
        """Tell nobody."""

    def unfinished(self, partition: int, offset: int) -> None:
        """Begin."""

    def finished(self, partition: int, offset: int) -> None:
        self.ended.append((partition, offset))


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


def pushed(*counts: int) -> tuple[PartitionQueue, Hub]:
    """Make a queue into which one sender has pushed batches of so many rows, numbered from 0 on."""
    hub = Hub()
    queue = PartitionQueue(0, hub)
    queue.open(0, finished=False)
    queue.greet(1, 1)
    at = 0
    for count in counts:
        batch = pa.record_batch({"n": list(range(at, at + count))})
        assert queue.push(1, at, batch).answer is IngestAnswer.TAKEN
        at += count
    return queue, hub


def drained(queue: PartitionQueue, rows: int) -> list[tuple[int, list[int]]]:
    found = []
    while (taken := queue.take(rows)) is not None:
        found.append((taken[0], taken[1].column(0).to_pylist()))
    return found


def test_a_batch_that_is_larger_than_a_turn_is_taken_in_pieces() -> None:
    queue, _ = pushed(5, 1)
    assert drained(queue, 2) == [(0, [0, 1]), (2, [2, 3]), (4, [4]), (5, [5])]
    assert queue._bytes == 0, "what is taken makes room again"


def test_rows_that_a_sender_repeats_are_taken_once() -> None:
    queue, _ = pushed(3)
    queue.greet(2, 1)
    queue.push(2, 1, pa.record_batch({"n": [1, 2, 3, 4]}))
    assert drained(queue, 9) == [(0, [0, 1, 2]), (3, [3, 4])]


def test_a_new_owner_begins_without_the_rows_of_the_one_before() -> None:
    queue, _ = pushed(3)
    queue.open(0, finished=False)
    assert drained(queue, 9) == []
    queue.greet(2, 1)
    queue.push(2, 0, pa.record_batch({"n": [0]}))
    assert drained(queue, 9) == [(0, [0])]


def test_a_partition_is_given_up_although_that_cannot_be_announced() -> None:
    queue, hub = pushed(1)

    def fail() -> None:
        raise StorageError("no room")

    hub.announce = fail  # type: ignore[method-assign]
    queue.close()
    assert not queue.is_open
    assert queue.greet(2, 1).answer is IngestAnswer.RETRY


def test_a_partition_that_cannot_be_announced_is_not_open() -> None:
    queue, hub = pushed(1)
    queue.close()

    def fail() -> None:
        raise StorageError("no room")

    hub.announce = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        queue.open(0, finished=False)
    assert not queue.is_open, "no reader was made that would close it"
    assert queue.greet(2, 1).answer is IngestAnswer.RETRY


def test_the_end_of_a_partition_asks_for_a_checkpoint_and_is_noted_when_that_is_committed() -> None:
    queue, hub = pushed(2)
    asked, answers = threading.Event(), list[IngestAnswer]()
    hub.want_checkpoint = asked.set
    sender = threading.Thread(target=lambda: answers.append(queue.finish(1, 2).answer), daemon=True)
    sender.start()
    assert asked.wait(60)
    queue.committed(1, finished=False)
    assert hub.ended == []
    drained(queue, 9)
    queue.committed(2, finished=True)
    sender.join(60)
    assert (hub.ended, answers) == ([(0, 2)], [IngestAnswer.FINISHED])
