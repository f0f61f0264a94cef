"""Remembers bad values: values that bad rows have repeatedly. A row with one is tried alone.

::

    a row is bad, and its exception names a value of the row ──second time──> the value is watched
                                                                                      │
       a row with the value is not bad: the value is never watched again <────────────┤
       no row has had the value for a long time: it is no longer watched <────────────┘

An example is "n/a" or a null in place of a number. The row with this value is tried alone, so its
failure causes no search and no second call for other rows. A value only says which row to try
alone. A row is bad only if the call for it alone has raised.

Finding the value that an exception names costs as much as a few calls of the function. So if values
do not repeat, only one in sixteen exceptions is examined. A value that begins to repeat is still
found.
"""

from bisect import bisect_left
from collections import deque

import pyarrow as pa

from penstock.base.limits import (
    BAD_VALUE_ROWS_MAX,
    BAD_VALUES_ASKED_EACH,
    BAD_VALUES_IN_VAIN_MAX,
    BAD_VALUES_KEPT_MAX,
    BAD_VALUES_WATCHED_MAX,
)
from penstock.steps.guesses import ColumnValue, named_value, rows_with


class BadValues:
    """The bad values of one step."""

    def __init__(self) -> None:
        """Begin without a value."""
        self._newest: deque[ColumnValue] = deque(maxlen=BAD_VALUES_KEPT_MAX)
        self._cleared: deque[ColumnValue] = deque(maxlen=BAD_VALUES_KEPT_MAX)
        self._watched: dict[ColumnValue, int] = {}  # with the number of rows since the last that had it
        self._since_repeat = 0  # bad rows since a value repeated

    def watch(self, rows: pa.RecordBatch) -> "Watch | None":
        """Look for the watched values in a batch. Returns None if no value is watched."""
        return Watch(self, rows, self._watched) if self._watched else None

    def refused(self, error: BaseException, row: pa.RecordBatch) -> None:
        """Take note that a row was bad, although it has no watched value."""
        self._since_repeat += 1
        if self._since_repeat > BAD_VALUES_IN_VAIN_MAX and self._since_repeat % BAD_VALUES_ASKED_EACH:
            return
        value = named_value(error, row)
        if value is None or value in self._cleared or value in self._watched:
            return
        if value not in self._newest:
            self._newest.append(value)
        elif len(self._watched) < BAD_VALUES_WATCHED_MAX:
            self._since_repeat = 0
            self._newest.remove(value)
            self._watched[value] = 0

    def cleared(self, value: ColumnValue) -> None:
        """Stop watching for a value, because a row that has it was not bad."""
        self._watched.pop(value, None)
        self._cleared.append(value)

    def searched(self, value: ColumnValue, rows: int, *, found: bool) -> None:
        """Take note that a batch of so many rows was searched for a value."""
        self._watched[value] = 0 if found else self._watched[value] + rows
        if self._watched[value] > BAD_VALUE_ROWS_MAX:
            del self._watched[value]


class Watch:
    """The rows of one batch that have a watched value."""

    def __init__(self, known: BadValues, rows: pa.RecordBatch, values: dict[ColumnValue, int]) -> None:
        """Search all rows for each value."""
        self._known = known
        self._end: int = rows.num_rows
        self._places = {value: rows_with(value, rows) for value in values}
        for value, places in self._places.items():
            known.searched(value, rows.num_rows, found=bool(places))

    def next(self, at: int) -> int:
        """Return the first such row from row ``at`` on, or the number of rows if there is none."""
        first: int = self._end
        for places in self._places.values():
            place = bisect_left(places, at)
            if place < len(places):
                first = min(first, places[place])
        return first

    def passed(self, row: int) -> None:
        """Take note that a row that ``next`` returned was not bad."""
        for value in [v for v, places in self._places.items() if row in places]:
            self._known.cleared(value)
            del self._places[value]
