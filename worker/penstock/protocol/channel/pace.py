"""The pace of a task: how many rows it takes at once, and how much may wait in front of it.

    a call's rows, bytes, seconds --> Pace ------> rows of the next call (a slice)
                                        |
    channels that bring rows -----------+--> CreditWindows --> bytes that may wait in each channel

A call of at most 100 ms stands in front of a barrier, and all channels together hold about 250 ms of
work. Time in which a call waited for credit counts for the pace, because the queue drains no
faster. It does not count for the fixed cost of a call, because larger calls would not reduce it.
Steps that wait for answers take rows in no time, and then none until answers come. The rate of the
rows that they take over a second bounds the pace (:class:`AnswerRate`).

The fixed cost of a call is found by a line through the newest calls: ``seconds = a + b * rows``.
Where the fixed cost is large, a slice is so large that ``a`` is a fifth of it. With smaller slices,
slices, pace and windows would shrink each other. From call to call such a slice at most doubles, or
it grows until the next call takes five times ``a`` under the assumption that the newest call spent
all its time on rows. This matters because a task that has just joined holds others back until its
slices are large. A call that differs from the line by a factor of two ends the line: a line through
calls from before and after a change would promise that larger slices are cheaper.
"""

from collections.abc import Iterable
from math import inf

from penstock.base.limits import (
    ANSWER_RATE_S,
    CHANNEL_FLOOR_S,
    CREDIT_CHANGE_INTERVAL_S,
    CREDIT_FIRST_BYTES,
    CREDIT_FIRST_CHANNEL_BYTES_MIN,
    ELEMENT_FIXED_CHARGE_BYTES,
    JOINED_BYTES_MAX,
    PACE_KEEPS,
    PACE_SEEN_S,
    PACE_SUM_S,
    QUEUED_S,
    SLICE_BYTES_MAX,
    SLICE_FIRST_ROWS,
    SLICE_ROWS_PER_FIXED_COST,
    SLICE_S,
    TASK_CREDIT_BYTES_MAX,
)
from penstock.protocol.channel.flow_control import ReceiveChannel

_SPREAD_MIN = 1e-3  # relative variance of the sizes of calls; below it there is no line
_DOUBLINGS_MAX = 8.0  # how much a budget grows at once after calls that took long
_MISS = 2.0  # a call that differs by this factor from the line ends the line


class Pace:
    """The cost of one task's calls. For one thread; it reads no clock.

    ``slice_rows``: rows that the task takes at once, at least 1. ``joined_bytes``: bytes up to
    which elements that wait are put together. ``bytes_per_s`` and ``row_bytes`` count rows alone:
    what elements cost beside them depends on the windows.
    """

    __slots__ = (
        "_before",
        "_fit",
        "_largest",
        "_most",
        "_newest_s",
        "_sum",
        "bytes_per_s",
        "joined_bytes",
        "known",
        "row_bytes",
        "slice_rows",
    )

    def __init__(self) -> None:
        """Begin with small slices, because the cost of a row is not known."""
        self.known = False
        self.slice_rows = SLICE_FIRST_ROWS
        self.joined_bytes = JOINED_BYTES_MAX
        self.bytes_per_s = 0.0
        self.row_bytes = 1.0
        self._sum = (0, 0, 0.0, 0.0)  # rows, bytes, seconds of calls, seconds waited within them
        self._before = self._sum  # the sum that was closed last
        self._fit = (0.0, 0.0, 0.0, 0.0, 0.0)  # calls, rows, seconds, rows squared, rows * seconds
        self._largest = 1.0  # rows of a call, lately
        self._most = inf  # rows per second that are answered, where steps wait for that
        self._newest_s = 0.0  # of a call as large as that, about: the last one's own time by rows

    def worked(self, rows: int, size: int, seconds: float, waited_s: float = 0.0) -> None:
        """Count a call over ``rows`` of ``size`` bytes. It waited ``waited_s`` of its ``seconds``."""
        all_rows, all_bytes, all_s, all_waited_s = self._sum
        if all_s >= PACE_SUM_S:
            self._before = self._sum
            all_rows, all_bytes, all_s, all_waited_s = 0, 0, 0.0, 0.0
        self._sum = (all_rows + rows, all_bytes + size, all_s + seconds, all_waited_s + waited_s)
        self._note(float(rows), seconds - waited_s)
        self._decide()

    def bound(self, rows_per_s: float) -> None:
        """Limit the pace to so many rows per second, whatever calls cost: see :class:`AnswerRate`."""
        self._most = rows_per_s
        self._decide()

    def _note(self, rows: float, own_s: float) -> None:
        """Fit the line to one more call, or begin a new line with it."""
        w, x, y, xx, xy = self._fit
        line = self._line()
        if line is not None:
            said_s = line[0] + line[1] * rows
            if not said_s / _MISS <= own_s <= said_s * _MISS:
                w = x = y = xx = xy = self._largest = 0.0
        self._fit = (
            PACE_KEEPS * w + 1.0,
            PACE_KEEPS * x + rows,
            PACE_KEEPS * y + own_s,
            PACE_KEEPS * xx + rows * rows,
            PACE_KEEPS * xy + rows * own_s,
        )
        self._largest = max(rows, PACE_KEEPS * self._largest)
        self._newest_s = own_s * self._largest / rows if rows else 0.0

    def _decide(self) -> None:
        """Choose the next slice, and compute the pace of such slices."""
        rows, size, seconds, waited_s = self._newest()
        if seconds <= 0 or rows <= 0:
            return
        self.known = True
        self.row_bytes = max(size / rows, 1.0)
        pace = min(rows / seconds, max(self._most, 1.0))
        wanted, self.joined_bytes = pace * SLICE_S, JOINED_BYTES_MAX
        fixed_s, row_s = self._line() or (0.0, 0.0)
        if SLICE_ROWS_PER_FIXED_COST * fixed_s > SLICE_S:  # else it is less than a fifth in any case
            self.joined_bytes = SLICE_BYTES_MAX
            worth = SLICE_ROWS_PER_FIXED_COST * fixed_s / row_s if row_s > 0 else inf
            most = self._largest * self._growth(fixed_s)
            wanted = max(wanted, min(worth, most, SLICE_BYTES_MAX / self.row_bytes))
            reached_s = fixed_s / wanted + max(row_s, 0.0)  # of a row, in such a slice
            own_s = (seconds - waited_s) / rows
            if reached_s < own_s:
                pace = 1 / (1 / pace - own_s + reached_s)
        self.slice_rows = max(int(wanted), 1)
        self.bytes_per_s = pace * self.row_bytes

    def _growth(self, fixed_s: float) -> float:
        """Return by how much a slice may grow without harm if ``fixed_s`` is wrong: 2 to 5."""
        slice_s = (1 + SLICE_ROWS_PER_FIXED_COST) * fixed_s
        return max(2.0, slice_s / self._newest_s) if self._newest_s > 0 else 2.0

    def _newest(self) -> tuple[int, int, float, float]:
        """Return the present sum, or the one before it while the present one is too short."""
        return self._sum if self._sum[2] >= PACE_SEEN_S or not self._before[0] else self._before

    def _line(self) -> tuple[float, float] | None:
        """Return the fixed seconds of a call, and the seconds of a row. None when no line fits."""
        w, x, y, xx, xy = self._fit
        spread = w * xx - x * x
        if spread <= _SPREAD_MIN * w * xx:
            return None
        row_s = (w * xy - x * y) / spread
        return (y - row_s * x) / w, row_s


class AnswerRate:
    """How many rows per second a task takes whose steps wait for answers to as many rows as they may.

    For one thread; it reads no clock. ``rows_per_s`` is infinite while the steps take all that comes.
    """

    __slots__ = ("_began", "_full", "_rows", "rows_per_s")

    def __init__(self) -> None:
        """Begin with the next look."""
        self._began: float | None = None
        self._rows = 0
        self._full = False
        self.rows_per_s = inf

    def seen(self, full: bool, rows: int, now: float) -> bool:
        """Take a look: do the steps take no rows now, and how many have they taken? Returns whether the rate is new."""
        self._full = self._full or full
        if self._began is None:
            self._began, self._rows = now, rows
        if now - self._began < ANSWER_RATE_S:
            return False
        rate = (rows - self._rows) / (now - self._began) if self._full else inf
        self._began, self._rows, self._full = now, rows, full
        changed, self.rows_per_s = rate != self.rows_per_s, rate
        return changed


class CreditWindows:
    """The bytes that may wait in each channel of one task.

    The budget of the task is what it works off in ``QUEUED_S``, or two slices. Channels that
    brought rows lately share it; every channel has a little, so that it may bring some again.
    """

    __slots__ = ("_at", "_budget")

    def __init__(self) -> None:
        """Begin with a small budget, because granted bytes are never taken back."""
        self._budget = CREDIT_FIRST_BYTES
        self._at = -inf

    def begin(self, channels: Iterable[ReceiveChannel]) -> None:
        """Divide the first budget among the channels that have granted nothing yet."""
        all_channels = list(channels)
        window = max(CREDIT_FIRST_BYTES // len(all_channels), CREDIT_FIRST_CHANNEL_BYTES_MIN)
        for channel in all_channels:
            channel.begin(window)

    def due(self, now: float) -> bool:
        """Return whether windows may change again. ``now`` is in monotonic seconds."""
        return now - self._at >= CREDIT_CHANGE_INTERVAL_S

    def share(self, pace: Pace, channels: Iterable[ReceiveChannel], now: float) -> list[ReceiveChannel]:
        """Set the windows of all channels of the task. Return the channels that have changed."""
        if not pace.known:
            return []
        growth = 2.0 ** min(max((now - self._at) / CREDIT_CHANGE_INTERVAL_S, 1.0), _DOUBLINGS_MAX)
        growth = growth if self._at > -inf else 2.0
        self._at = now
        active = {channel: channel.brings_rows(now) for channel in channels}
        work = max(pace.bytes_per_s * QUEUED_S, 2 * pace.slice_rows * pace.row_bytes)
        self._budget = int(min(work, TASK_CREDIT_BYTES_MAX, growth * self._budget))
        share = self._budget // max(sum(active.values()), 1)
        row = int(pace.row_bytes) + ELEMENT_FIXED_CHARGE_BYTES
        least = max(row, int(pace.bytes_per_s * CHANNEL_FLOOR_S))
        wanted = {c: max(least, share * is_active) for c, is_active in active.items()}
        return [channel for channel, window in wanted.items() if channel.resize(window)]
