"""Finding the rows at fault in a batch by trying ranges of it, in order, with few calls.

::

    try all that is left ──passes──> done
            │ fails
            v
    try the first half of what failed ──passes──> go on with its second half
            ^ │ fails                                          │
            └─┴──────── until one row is left <────────────────┘

One row at fault among n costs log2(n) + 2 calls. Rows that passed are never tried again, and a
range behind one that failed is tried only when the row at fault in front of it is known.

Whoever knows more may guess the row: then what is in front of it is tried, and it by itself. A
right guess makes it three calls behind the one that failed. A wrong one costs one.
"""

from math import isqrt

# Of a call to about as many rows, until it is measured; and at least, and at most: Python loops
# were seen at 100, kernels of Arrow at 2,500.
CALL_COSTS_ROWS = 128
CALL_COSTS_ROWS_MIN, CALL_COSTS_ROWS_MAX = 32, 4096


class Search:
    """Says how many rows to try next, from row ``at`` on; hears what became of them."""

    def __init__(self, rows: int) -> None:
        """Look at ``rows`` rows, none of which was tried."""
        self.at = 0
        self._rows = rows
        self._failed = 0  # the end of rows from ``at`` on that failed together; 0: none did
        self._guess: int | None = None  # the row that is likely to be the first of them at fault

    @property
    def over(self) -> bool:
        """Whether every row has passed or is known to be at fault."""
        return self.at >= self._rows

    @property
    def searching(self) -> bool:
        """Whether rows from ``at`` on have failed together."""
        return self._failed > 0

    @property
    def guessed(self) -> bool:
        """Whether the next row is tried by itself because it was guessed."""
        return self._guess == self.at

    def next(self, most: int) -> int:
        """Return how many rows to try; at most ``most`` where none of them has failed."""
        if self._guess is not None:
            return max(1, self._guess - self.at)
        if self._failed:
            return max(1, (self._failed - self.at) // 2)
        return min(self._rows - self.at, most)

    def passed(self, rows: int) -> bool:
        """Hear that they passed. True: with them all have that had failed together."""
        if self.guessed:
            self._guess = None
        self.at += rows
        apart = 0 < self._failed <= self.at
        if apart:
            self._failed = 0
        return apart

    def failed(self, rows: int, guess: int | None = None) -> None:
        """Hear that they failed; a single one is at fault, and left behind.

        ``guess`` says which of several is likely to be the first at fault, counted from the first.
        """
        self._guess = self.at + guess if guess is not None and rows > 1 else None
        if rows == 1:
            self.at += 1
            self._failed = 0
        else:
            self._failed = self.at + rows


class MeasuredCost:
    """Measures how many rows a function does in the time that a call costs by itself."""

    def __init__(self) -> None:
        """Know nothing."""
        self._call_s: float | None = None  # of a call for one row
        self._row_s: float | None = None  # of a row beside it, among many

    def took(self, rows: int, seconds: float) -> None:
        """Hear what a call for so many rows took."""
        if rows == 1:
            self._call_s = _nearer(self._call_s, seconds)
        elif self._call_s is not None:
            self._row_s = _nearer(self._row_s, max(seconds - self._call_s, 0.0) / rows)

    @property
    def rows(self) -> int:
        """How many rows cost as much as a call."""
        if self._call_s is None or self._row_s is None:
            return CALL_COSTS_ROWS
        most = self._row_s * CALL_COSTS_ROWS_MAX <= self._call_s
        rows = CALL_COSTS_ROWS_MAX if most else int(self._call_s / self._row_s)
        return max(CALL_COSTS_ROWS_MIN, rows)


def _nearer(known: float | None, new: float) -> float:
    return new if known is None else (7 * known + new) / 8


class CallCost:
    """Chooses how many rows to try at once where rows at fault keep coming.

    With one row at fault in ``gap`` rows, calls of s rows cost gap / s calls, and rows that are
    tried in vain: about 1.5 * s where halves are tried, half as many where the row is guessed.
    Where a call costs c rows the sum is least at s = sqrt(gap * c / 1.5), or the root of twice
    as much. The choice changes no result, so it may depend on measured times.
    """

    def __init__(self) -> None:
        """Begin without a row at fault: everything is tried at once."""
        self._gap: int | None = None  # rows from one at fault to the next, about
        self._since = 0
        self._guessed = False
        self._costs = MeasuredCost()

    @property
    def slows(self) -> bool:
        """Whether rows at fault have come: then it wants to hear what calls take."""
        return self._gap is not None

    def most(self, rows: int) -> int:
        """Return how many of ``rows`` rows to try at once."""
        if self._gap is None:
            return rows
        gap = max(self._gap, self._since)
        least = gap * self._costs.rows * 2 // 3
        return max(1, min(rows, gap, isqrt(2 * least if self._guessed else least)))

    def took(self, rows: int, seconds: float) -> None:
        """Hear what a call for so many rows took."""
        self._costs.took(rows, seconds)

    def passed(self, rows: int) -> None:
        """Hear that rows passed."""
        self._since += rows

    def refused(self, rows: int, *, guessed: bool) -> None:
        """Hear that one row was at fault; ``rows``: of the batch in which it was found."""
        gap = self._since + 1
        self._gap = max(gap, rows) if self._gap is None else (3 * self._gap + gap) // 4
        self._since = 0
        self._guessed = guessed
