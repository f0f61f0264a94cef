"""The queue of a table's rows by the time at which they come due. It is never stored.

The time is a column of the table, so every delta has it and it moves with its row. Loading rows
fills the queue again. See ``model.kernels.due`` for the order and the costs.
"""

from typing import Any

import numpy as np

from penstock.model.arrays import Int32s, Int64s
from penstock.model.kernels import due
from penstock.state.region import doubled, reserve

NEVER = np.iinfo(np.int64).max
_ROW_BYTES = 8  # the two links of a row
_BUCKET_BYTES = due.BUCKET.itemsize + 8  # a bucket, its slot and its place in the heap
_SORTED_BYTES = 28  # a row, while its bucket is sorted


class DueRows:
    """The queue of one time column. ``table`` is the row table in the form that kernels take.

    A bucket has at least one row, so no array here is longer than the table's arrays of rows.
    """

    def __init__(self, capacity: int) -> None:
        """Make an empty queue for ``capacity`` rows: reserves address space, but no memory."""
        self._links = reserve("int32", 2 * capacity)
        self._buckets = reserve(due.BUCKET, capacity)
        self._slots, self._heap = reserve("int32", capacity + 1), reserve("int32", capacity)
        self._counters = np.zeros(due.COUNTERS, np.int64)
        self._counters[[due.SLOTS, due.ROUND]] = 1
        self._bundle(capacity)

    def _bundle(self, capacity: int) -> None:
        """Bundle the arrays in the form that kernels take."""
        self._due = (self._links, self._buckets, self._slots, self._heap, self._counters)
        rows, hashes = reserve("int32", capacity), reserve("uint64", capacity)
        ordered = reserve("int32", capacity), reserve("uint64", capacity)
        self._scratch = (rows, hashes, *ordered, reserve("int32", 2 * capacity + 1))

    def grow(self, used: int, least: int) -> None:
        """Make room for ``least`` rows; ``used`` is the largest number of rows so far."""
        made, slots = int(self._counters[due.MADE]), int(self._counters[due.SLOTS])
        self._links = doubled(self._links, 2 * used, 2 * least)
        self._buckets = doubled(self._buckets, made, least)
        self._slots = doubled(self._slots, slots, least + 1)
        self._heap = doubled(self._heap, int(self._counters[due.USED]), least)
        self._bundle(len(self._links) // 2)

    def set(self, table: Any, column: Int64s, rows: Int32s, times: Int64s) -> None:
        """Write the times of live rows to ``column``, and queue each row for its time."""
        due.set_due(table, self._due, column, rows, times)

    def clear(self, table: Any, rows: Int32s) -> None:
        """Take rows out of the queue; rows that are not queued are ignored."""
        due.clear_due(table, self._due, rows)

    def take(self, table: Any, bound: int, most: int) -> Int32s:
        """Take up to ``most`` rows with ``time <= bound`` off the queue, in order."""
        taken = np.empty(min(most, len(self._heap)), np.int32)
        return taken[: due.take_due(table, self._due, self._scratch, bound, taken)]

    def first(self) -> int:
        """Return the earliest time of all queued rows; NEVER when there is none."""
        return int(due.first_due(self._due, NEVER))

    def size_bytes(self, high_row: int) -> int:
        """Return the memory that the queue uses for a table whose highest row was ``high_row - 1``."""
        buckets = int(self._counters[due.MADE]) * _BUCKET_BYTES
        return high_row * _ROW_BYTES + buckets + int(self._counters[due.SORTED]) * _SORTED_BYTES
