"""A pace for sources: rows fall due by the clock, and those held back are owed (an open loop)."""

import time
from collections.abc import Callable

from penstock.base import limits


class Pace:
    """Says how many rows of one split may be read now."""

    def __init__(
        self,
        rate: int | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin now; ``rate`` in rows/s, None: as fast as possible."""
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._begun = clock()
        self._sent = 0

    def allow(self, wanted: int) -> int:
        """Return how many of ``wanted`` rows are due, 0 if none; waits a millisecond for them."""
        if self._rate is None:
            return wanted
        due = self._owed(self._rate)
        if due <= 0:
            self._sleep(limits.PACE_WAIT_S)
            due = self._owed(self._rate)
        return max(0, min(wanted, due))

    def sent(self, rows: int) -> None:
        """Note rows that were read."""
        self._sent += rows

    def due_ns(self, row: int) -> int | None:
        """Return when the row that is ``row`` rows after the first was due, on the clock."""
        return None if self._rate is None else round((self._begun + row / self._rate) * 1e9)

    def _owed(self, rate: int) -> int:
        return int((self._clock() - self._begun) * rate) - self._sent
