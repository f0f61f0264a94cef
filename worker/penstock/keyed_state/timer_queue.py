"""The timers of one table that share a clock: their columns, and the queue that is made from them.

See :mod:`penstock.model.kernels.timers` for the order and the costs. Columns of several timers lie one
behind the other in one array, so that a compiled loop takes any number of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.keyed_state.memory import NEVER, doubled, reserve
from penstock.model.arrays import Int32s, Int64s
from penstock.model.kernels import timers
from penstock.model.table_columns import NO_TIMER
from penstock.steps.base import DueTimers

STALE_MIN = 65_536  # entries beside the rows' own that never make a rebuild worth while


class TimerQueue:
    """The queue of the timers ``names``. ``table`` is the row table in the form that kernels take."""

    def __init__(self, names: Sequence[str], capacity: int) -> None:
        """Make an empty queue for ``capacity`` rows: reserves address space, but no memory."""
        self.names = tuple(names)
        self._counters = np.zeros(timers.COUNTERS, np.int64)
        self._filled = 0
        self._columns, self._queued = self._reserved(capacity), self._reserved(capacity)
        self._heap = reserve(timers.ENTRY, 2 * len(self.names) * capacity + 1)
        self._bundle(capacity)

    def _reserved(self, capacity: int) -> npt.NDArray[Any]:
        return reserve("int64", len(self.names) * capacity)

    def _bundle(self, capacity: int) -> None:
        """Bundle the arrays in the form that kernels take."""
        self._capacity = capacity
        self._timers = (self._heap, self._columns, self._queued, self._counters, capacity)

    @property
    def columns(self) -> dict[str, Int64s]:
        """Return writable views of the columns, by name. A column holds NO_TIMER where no timer is set."""
        room = self._capacity
        return {name: self._columns[i * room : (i + 1) * room] for i, name in enumerate(self.names)}

    def fill(self, rows: int) -> None:
        """Note that the table uses row numbers below ``rows``: new ones have no timer."""
        if rows > self._filled:
            for array in (self._columns, self._queued):
                array.reshape(len(self.names), self._capacity)[:, self._filled : rows] = NO_TIMER
            self._filled = rows

    def grow(self, least: int) -> None:
        """Make room for ``least`` rows, or twice as many as before."""
        capacity = max(2 * self._capacity, least)
        fields, used = len(self.names), self._filled
        columns, queued = self._reserved(capacity), self._reserved(capacity)
        for old, new in ((self._columns, columns), (self._queued, queued)):
            new.reshape(fields, capacity)[:, :used] = old.reshape(fields, self._capacity)[:, :used]
        self._columns, self._queued = columns, queued
        self._grow_heap(2 * fields * capacity + 1)
        self._bundle(capacity)

    def _grow_heap(self, least: int) -> None:
        self._heap = doubled(self._heap, int(self._counters[timers.ENTRIES]), least)

    def arm(self, table: Any, rows: Int32s, reached: Int64s) -> None:
        """Queue the timers of rows whose columns were written; ``reached`` is by key group."""
        most = len(rows) * len(self.names)
        entries, own = self._counters.tolist()
        if entries > 2 * own + STALE_MIN or entries + most >= len(self._heap):
            timers.rebuild(table, self._timers)
            if int(self._counters[timers.ENTRIES]) + most >= len(self._heap):
                self._grow_heap(2 * len(self._heap) + most)
                self._bundle(self._capacity)
        timers.arm(table, self._timers, rows, reached)

    def clear(self, rows: Int32s) -> None:
        """Clear the timers of rows."""
        timers.disarm(self._timers, rows)

    def queued(self, rows: Int32s) -> dict[str, npt.NDArray[np.bool_]]:
        """Return of each timer in which rows it is in the queue: it is set, and was not taken since."""
        return {name: self._queued[i * self._capacity + rows] != NO_TIMER for i, name in enumerate(self.names)}

    def take(self, table: Any, bound: int, most: int) -> DueTimers:
        """Take up to ``most`` timers that are due at ``bound`` off the queue, in order."""
        most = min(most, len(self._heap))
        taken = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int64), np.empty(most, np.uint64)
        count = timers.take(table, self._timers, bound, taken)
        rows, fields, times, hashes = taken
        return DueTimers(rows[:count], fields[:count], times[:count], hashes[:count])

    def first(self, table: Any) -> int:
        """Return the time of the timer that fires first; NEVER when there is none."""
        return int(timers.first(table, self._timers, NEVER))

    def size_bytes(self, high_row: int) -> int:
        """Return the memory in use beside the columns, for a table whose highest row was ``high_row - 1``."""
        heap = int(self._counters[timers.ENTRIES]) * timers.ENTRY.itemsize
        return heap + high_row * len(self.names) * self._queued.itemsize
