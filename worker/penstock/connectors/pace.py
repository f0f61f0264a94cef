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
    ) -> None:
        """Begin now; ``rate`` in rows/s, None: as fast as possible."""
        self._rate = rate
        self._clock = clock
        self._begun = clock()
        self._sent = 0

    def allow(self, wanted: int) -> int:
        """Return how many of ``wanted`` rows are due, 0 if none. Never waits: tasks do."""
        if self._rate is None:
            return wanted
        return max(0, min(wanted, self._owed(self._rate)))

    def wait_s(self) -> float:
        """Return how long to wait for rows that are due: at least a moment, or calls cost most."""
        if self._rate is None:
            return limits.PACE_WAIT_S
        due = self._begun + (self._sent + 1) / self._rate
        return max(limits.PACE_WAIT_S, due - self._clock())

    def sent(self, rows: int) -> None:
        """Note rows that were read."""
        self._sent += rows

    def due_ns(self, row: int) -> int | None:
        """Return when the row that is ``row`` rows after the first was due, on the clock."""
        return None if self._rate is None else round((self._begun + row / self._rate) * 1e9)

    def _owed(self, rate: int) -> int:
        return int((self._clock() - self._begun) * rate) - self._sent
