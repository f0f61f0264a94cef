"""Values that rows at fault have again and again: a row that has one is tried by itself.

::

    a row at fault, and its exception names a value of it ──again──> the value is watched for
                                                                         │
       a row that has it passed: never watched for again <───────────────┤
       no row has had it for long: not watched for <─────────────────────┘

To ask an exception for its value costs as much as a few calls. Where values do not come again, one
in sixteen is asked: a value that begins to come again is found all the same.
Where "n/a" or a null stands in place of a number, no call fails in vain but that of the row itself.
A value is never believed: a row is at fault when the call for it alone has raised.
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
from penstock.steps.guesses import Named, named_value, rows_with


class BadValues:
    """Knows the values of one step that are watched for."""

    def __init__(self) -> None:
        """Begin without any."""
        self._newest: deque[Named] = deque(maxlen=BAD_VALUES_KEPT_MAX)
        self._cleared: deque[Named] = deque(maxlen=BAD_VALUES_KEPT_MAX)
        self._watched: dict[Named, int] = {}  # and how many rows had it not since one had
        self._in_vain = 0  # rows at fault since a value came again

    def watch(self, rows: pa.RecordBatch) -> "Watch | None":
        """Watch for them in these rows; None: there is nothing to watch for."""
        return Watch(self, rows, self._watched) if self._watched else None

    def refused(self, error: BaseException, row: pa.RecordBatch) -> None:
        """Hear that a single row was at fault, which was not expected."""
        self._in_vain += 1
        if self._in_vain > BAD_VALUES_IN_VAIN_MAX and self._in_vain % BAD_VALUES_ASKED_EACH:
            return
        value = named_value(error, row)
        if value is None or value in self._cleared or value in self._watched:
            return
        if value not in self._newest:
            self._newest.append(value)
        elif len(self._watched) < BAD_VALUES_WATCHED_MAX:
            self._in_vain = 0
            self._newest.remove(value)
            self._watched[value] = 0

    def cleared(self, value: Named) -> None:
        """Hear that a row that has it was not at fault."""
        self._watched.pop(value, None)
        self._cleared.append(value)

    def looked(self, value: Named, rows: int, *, found: bool) -> None:
        """Hear in how many rows it was looked for to their end."""
        self._watched[value] = 0 if found else self._watched[value] + rows
        if self._watched[value] > BAD_VALUE_ROWS_MAX:
            del self._watched[value]


class Watch:
    """Says which rows of one batch have a value that is watched for, from the first to the last."""

    def __init__(self, known: BadValues, rows: pa.RecordBatch, values: dict[Named, int]) -> None:
        """Look for each value in all rows."""
        self._known = known
        self._end: int = rows.num_rows
        self._places = {value: rows_with(value, rows) for value in values}
        for value, places in self._places.items():
            known.looked(value, rows.num_rows, found=bool(places))

    def next(self, at: int) -> int:
        """Return the first row from ``at`` on; the number of rows when there is none."""
        first: int = self._end
        for places in self._places.values():
            place = bisect_left(places, at)
            if place < len(places):
                first = min(first, places[place])
        return first

    def passed(self, row: int) -> None:
        """Hear that a row that ``next`` gave was not at fault."""
        for value in [v for v, places in self._places.items() if row in places]:
            self._known.cleared(value)
            del self._places[value]
