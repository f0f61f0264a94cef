"""A pace for sources: rows fall due by the clock, and those held back are owed (an open loop)."""

import math
import time
from collections import deque
from collections.abc import Callable

from penstock.base.limits import PACE_READ_ROWS, PACE_REST_MAX_S, PACE_WAIT_MAX_S, PACE_WAIT_S

_NAP_S = PACE_WAIT_S / 4  # rows that are due in no time are waited for all the same
_NOW_S = 1e-6  # there are rows; 0 would say that nobody knows

_RESTS = 2  # a reader that needs so long for its rows gets others after twice that
_LOOKED_BACK = 5  # reads, of which one in the middle counts: no rest is long for a single hitch


class RateLimit:
    """Says how many rows of one split may be read now."""

    def __init__(
        self,
        rate: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin now; ``rate`` in rows/s, None: as fast as possible."""
        self._rate = rate
        self._row_s = 1 / rate if rate else 0.0
        self._clock = clock
        self._begun = self._read_at = self._wanted_at = clock()
        self._took: deque[float] = deque(maxlen=_LOOKED_BACK)
        self._sent = 0
        self._asked = True  # again, since the last read
        self._next_at = self._begun + PACE_WAIT_S  # the next read of less than is wanted
        beat_s = min(PACE_READ_ROWS / rate, PACE_REST_MAX_S) if rate else 0.0
        self._beat_s = beat_s if beat_s > PACE_WAIT_S else 0.0  # many rows: no need for one

    def allow(self, wanted: int) -> int:
        """Return how many of ``wanted`` rows are due, 0 if none. Never waits: tasks do.

        Less than is wanted is given only a moment after the read before. Else whoever reads again
        at once gets the few rows that fell due meanwhile, for ever, and is always busy with them.
        The moment is longer than rows took lately, from when they were to be read until the work
        on them was done: where that takes long, or threads wait for a processor, rows come in
        fewer, larger reads, and there is time to do the rest.
        """
        if self._rate is None:
            return wanted
        now = self._clock()
        if not self._asked:
            self._work_is_done(now)
        owed = int((now - self._begun) * self._rate) - self._sent
        return max(0, min(wanted, owed)) if owed >= wanted or now >= self._next_at else 0

    def wait_s(self) -> float:
        """Return how long to wait for rows that are due, and may be read; 0 without a pace.

        Rows that are few wait for a beat of the clock: so they are read a handful at a time, and
        those of all splits of one pace together.
        """
        if self._rate is None:
            return 0.0
        now = self._clock()
        if not self._asked:
            self._work_is_done(now)
        left_s = self._due() - now
        return max(_NAP_S, left_s) if left_s > 0 else _NOW_S

    def _due(self) -> float:
        """Return when the next rows are to be read."""
        due = max(self._begun + (self._sent + 1) * self._row_s, self._next_at)
        return math.ceil(due / self._beat_s) * self._beat_s if self._beat_s else due

    def _work_is_done(self, now: float) -> None:
        """Hear that the rows read last were worked on: whoever read them asks what is next."""
        self._asked = True
        self._took.append(now - self._wanted_at)
        took = sorted(self._took)[len(self._took) // 2]
        self._next_at = self._read_at + min(max(PACE_WAIT_S, _RESTS * took), PACE_WAIT_MAX_S)

    def sent(self, rows: int) -> None:
        """Note rows that were read."""
        if self._rate is None:
            return
        before, self._read_at = self._read_at, self._clock()
        self._wanted_at = min(max(before, self._due()), self._read_at)
        self._sent += rows
        self._asked = False

    def due_ns(self, row: int) -> int | None:
        """Return when the row that is ``row`` rows after the first was due, on the clock."""
        return None if self._rate is None else round((self._begun + row / self._rate) * 1e9)
