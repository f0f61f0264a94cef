"""A rate for sources: rows fall due by the clock, and rows not sent in time stay owed (open loop)."""

import math
from collections import deque
from collections.abc import Callable

from penstock.base.limits import PACE_READ_ROWS, PACE_REST_MAX_S, PACE_WAIT_MAX_S, PACE_WAIT_S
from penstock.base.threads import monotonic

_NAP_S = PACE_WAIT_S / 4  # the shortest wait for rows
_NOW_S = 1e-6  # rows are due now; 0 would mean that the time is unknown

_RESTS = 2  # the pause after a read is this many times the time that its rows took
_LOOKED_BACK = 5  # the median of so many reads counts, so that one slow read makes no long pause


class RateLimit:
    """Decides how many rows of one split may be read now."""

    def __init__(
        self,
        rate: int | None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Begin now. ``rate`` is in rows/s; None means as fast as possible."""
        self._rate = rate
        self._row_s = 1 / rate if rate else 0.0
        self._clock = clock
        self._begun = self._read_at = self._wanted_at = clock()
        self._took: deque[float] = deque(maxlen=_LOOKED_BACK)
        self._sent = 0  # since it began
        self._asked = True  # whether the reader has asked again since the last read
        self._next_at = self._begun + PACE_WAIT_S  # the earliest next read of fewer rows than wanted
        beat_s = min(PACE_READ_ROWS / rate, PACE_REST_MAX_S) if rate else 0.0
        self._beat_s = beat_s if beat_s > PACE_WAIT_S else 0.0  # a high rate needs no beat

    def allow(self, wanted: int) -> int:
        """Return how many of ``wanted`` rows are due, 0 if none. Never waits.

        Fewer rows than wanted are given only after a pause since the previous read. Without the
        pause, a task that reads again at once would get the few rows that fell due meanwhile, again
        and again, and would always be busy. The pause is longer than rows took recently, from when
        they were due to be read until the work on them was done. So where that takes long, or where
        threads wait for a processor, rows come in fewer and larger reads.
        """
        if self._rate is None:
            return wanted
        now = self._clock()
        if not self._asked:
            self._work_is_done(now)
        owed = int((now - self._begun) * self._rate) - self._sent
        return max(0, min(wanted, owed)) if owed >= wanted or now >= self._next_at else 0

    def wait_s(self) -> float:
        """Return how long to wait until rows may be read; 0 without a rate.

        At a low rate rows wait for the next beat of the clock. So several rows are read at a time,
        and all splits of the same rate are read at the same time.
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
        """Note that the work on the last rows is done: the reader asks for the next rows."""
        self._asked = True
        self._took.append(now - self._wanted_at)
        took = sorted(self._took)[len(self._took) // 2]
        self._next_at = self._read_at + min(max(PACE_WAIT_S, _RESTS * took), PACE_WAIT_MAX_S)

    def sent(self, rows: int) -> None:
        """Count rows that were read."""
        if self._rate is None:
            return
        before, self._read_at = self._read_at, self._clock()
        self._wanted_at = min(max(before, self._due()), self._read_at)
        self._sent += rows
        self._asked = False

    def begin(self) -> None:
        """Begin anew: no row is owed for the time before. For readers that count no due times by :meth:`due_ns`."""
        self._begun, self._sent = self._clock(), 0

    def due_ns(self, row: int) -> int | None:
        """Return the time (ns, monotonic) at which row number ``row`` was due; None without a rate."""
        return None if self._rate is None else round((self._begun + row / self._rate) * 1e9)
