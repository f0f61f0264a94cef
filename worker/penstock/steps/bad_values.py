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

from collections import deque

import pyarrow as pa

from penstock.base.limits import (
    BAD_VALUE_ROWS_MAX,
    BAD_VALUES_ASKED_EACH,
    BAD_VALUES_IN_VAIN_MAX,
    BAD_VALUES_KEPT_MAX,
    BAD_VALUES_WATCHED_MAX,
)
from penstock.steps.guesses import Named, first_row, named_value


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
        """Look for each value when it is asked for."""
        self._known = known
        self._rows = rows
        self._next = dict.fromkeys(values, -1)  # the row that has it, not in front of the last one
        for value in self._next:
            self._look(value, 0)

    def next(self, at: int) -> int:
        """Return the first row from ``at`` on; the number of rows when there is none."""
        for value, place in self._next.items():
            if place < at:
                self._look(value, at)
        return min(self._next.values(), default=self._rows.num_rows)

    def passed(self, row: int) -> None:
        """Hear that a row that ``next`` gave was not at fault."""
        for value in [v for v, place in self._next.items() if place == row]:
            self._known.cleared(value)
            del self._next[value]

    def _look(self, value: Named, at: int) -> None:
        place = first_row(value, self._rows, at)
        self._next[value] = self._rows.num_rows if place < 0 else place
        if at == 0:
            self._known.looked(value, self._rows.num_rows, found=place >= 0)
