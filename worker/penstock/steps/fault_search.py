"""Finds the bad rows of a batch with few calls, by trying ranges of rows in order.

::

    try all rows that are left ──passes──> done
            │ fails
            v
    try the first half of the range that failed ──passes──> continue with its second half
            ^ │ fails                                                    │
            └─┴──────────── until one row is left <──────────────────────┘

One bad row among n costs log2(n) + 2 calls. Rows that passed are never tried again. Rows after a
range that failed are tried only when the bad row in this range is known.

The caller may guess the bad row. The rows before it are then tried, and then this row alone. With a
right guess, three calls follow the one that failed. A wrong guess costs one more call.
"""

from math import isqrt

# How many rows cost as much time as one call by itself: the default until it is measured, and the
# limits. 100 was measured for Python loops, and 2,500 for kernels of Arrow.
CALL_COSTS_ROWS = 128
CALL_COSTS_ROWS_MIN, CALL_COSTS_ROWS_MAX = 32, 4096


class Search:
    """The search in one batch: which rows to try next, from row ``at`` on."""

    def __init__(self, rows: int) -> None:
        """Begin with ``rows`` rows, of which none was tried."""
        self.at = 0
        self._rows = rows
        self._failed = 0  # rows from ``at`` to here have failed in one call; 0 if none have
        self._guess: int | None = None  # the row that is probably the first bad one

    @property
    def over(self) -> bool:
        """Whether every row has passed or is known to be bad."""
        return self.at >= self._rows

    @property
    def searching(self) -> bool:
        """Whether rows from ``at`` on have failed in one call."""
        return self._failed > 0

    @property
    def guessed(self) -> bool:
        """Whether the next row is tried alone because it was guessed."""
        return self._guess == self.at

    def next(self, most: int) -> int:
        """Return how many rows to try; at most ``most`` if none of them has failed."""
        if self._guess is not None:
            return max(1, self._guess - self.at)
        if self._failed:
            return max(1, (self._failed - self.at) // 2)
        return min(self._rows - self.at, most)

    def passed(self, rows: int) -> bool:
        """Take note that the tried rows passed.

        Returns true if all rows that had failed in one call have now passed in separate calls.
        """
        if self.guessed:
            self._guess = None
        self.at += rows
        all_passed = 0 < self._failed <= self.at
        if all_passed:
            self._failed = 0
        return all_passed

    def failed(self, rows: int, guess: int | None = None) -> None:
        """Take note that the tried rows failed. If it was a single row, it is bad and is skipped.

        ``guess`` is the row that is probably the first bad one, counted from the first tried row.
        """
        self._guess = self.at + guess if guess is not None and rows > 1 else None
        if rows == 1:
            self.at += 1
            self._failed = 0
        else:
            self._failed = self.at + rows


class MeasuredCost:
    """Measures how many rows a function processes in the time that one call costs by itself."""

    def __init__(self) -> None:
        """Begin without a measurement."""
        self._call_s: float | None = None  # time of a call for one row
        self._row_s: float | None = None  # time that each further row adds

    def took(self, rows: int, seconds: float) -> None:
        """Record how long a call for so many rows took."""
        if rows == 1:
            self._call_s = _smoothed(self._call_s, seconds)
        elif self._call_s is not None:
            self._row_s = _smoothed(self._row_s, max(seconds - self._call_s, 0.0) / rows)

    @property
    def rows(self) -> int:
        """How many rows cost as much time as a call."""
        if self._call_s is None or self._row_s is None:
            return CALL_COSTS_ROWS
        most = self._row_s * CALL_COSTS_ROWS_MAX <= self._call_s
        rows = CALL_COSTS_ROWS_MAX if most else int(self._call_s / self._row_s)
        return max(CALL_COSTS_ROWS_MIN, rows)


def _smoothed(known: float | None, new: float) -> float:
    return new if known is None else (7 * known + new) / 8


class CallCost:
    """Chooses how many rows to try in one call while bad rows keep coming.

    Assume one bad row in ``gap`` rows, and calls of s rows. Then a bad row costs gap / s calls, and
    some rows are tried more than once: about 1.5 * s rows if halves are tried, and half as many if
    the row is guessed. If one call costs as much as c rows, the total is smallest at
    s = sqrt(gap * c / 1.5), or sqrt(2 * gap * c / 1.5) with guesses. The choice changes no result,
    so it may depend on measured times.
    """

    def __init__(self) -> None:
        """Begin without a bad row: all rows are tried in one call."""
        self._gap: int | None = None  # about how many rows there are from one bad row to the next
        self._since = 0
        self._guessed = False
        self._costs = MeasuredCost()

    @property
    def needs_times(self) -> bool:
        """Whether a bad row has been found. From then on, the caller should measure calls for :meth:`took`."""
        return self._gap is not None

    def most(self, rows: int) -> int:
        """Return how many of ``rows`` rows to try in one call."""
        if self._gap is None:
            return rows
        gap = max(self._gap, self._since)
        least = gap * self._costs.rows * 2 // 3
        return max(1, min(rows, gap, isqrt(2 * least if self._guessed else least)))

    def took(self, rows: int, seconds: float) -> None:
        """Record how long a call for so many rows took."""
        self._costs.took(rows, seconds)

    def passed(self, rows: int) -> None:
        """Take note that rows passed."""
        self._since += rows

    def refused(self, rows: int, *, guessed: bool) -> None:
        """Take note that one row was bad. ``rows`` is the number of rows of its batch."""
        gap = self._since + 1
        self._gap = max(gap, rows) if self._gap is None else (3 * self._gap + gap) // 4
        self._since = 0
        self._guessed = guessed
