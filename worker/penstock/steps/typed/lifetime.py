"""When a key is forgotten whose state has a ``ttl``: the time is a timer column of its own, which each write renews.

A key is over for a record if and only if its time is not after that of the record, nor after the time that the step has
reached. So it does not matter when the queue removes it. A life begins with a write and ends with ``clear()`` (decision
161), and the times of a key never fall. A record may be so late that the key which it begins is over at once: then
nothing of it is kept. Timers of the user do not expire: a key of which some are set keeps them, and nothing else.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Int64s
from penstock.model.table_columns import NO_TIMER
from penstock.steps.base import NO_BOUND, NOTHING_DUE
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.state_rows import StateRows

EXPIRES = "__expires"


class Lifetime:
    """The lifetimes of the keys of one state. Every write of it goes through the log of the state."""

    def __init__(self, ttl_us: int, rows: StateRows) -> None:
        """Forget a key of ``rows`` when nothing was written for ``ttl_us``."""
        self._ttl_us = ttl_us
        self._rows = rows
        self._expires: Any = None
        rows.keep_while(self.has)

    def bind(self, table: BoundTable) -> None:
        """Take the column of a table."""
        self._expires = table.fixed(EXPIRES)

    def has(self, row: int) -> bool:
        """Return whether the key of a row lives up to a time: earlier records or timers have written to it."""
        return bool(self._expires[row] != NO_TIMER)

    def begin(self, row: int, now_us: int) -> int:
        """Forget the key at which the rows stand, if it is over at a time. Return the mark of the call that follows."""
        if NO_TIMER != self._expires[row] <= now_us:
            self._end(row)
        return self._rows.log.mark()

    def renew(self, row: int, time_us: int, now_us: int = NO_BOUND, mark: int = 0) -> None:
        """Let the key at which the rows stand live from a time on, if the call that ends has written to its state.

        The call began at ``mark`` of the log. The key is forgotten if it is over at ``now_us``, or was cleared and not
        written since. A life begins with a write; a key of which nothing is kept has none, whatever looks at it.
        Nothing is renewed if the time is not known (NO_BOUND).
        """
        rows = self._rows
        if rows.take_cleared(row):
            self._end_life(row)
            if rows.is_first(row):
                rows.may_be_empty(row)
                return
        before, wrote = self._expires[row], rows.log.wrote_since(mark)
        if before == NO_TIMER and not wrote and rows.has_first_values():
            rows.may_be_empty(row)
            return
        until = min(time_us + self._ttl_us, NOTHING_DUE - 1)
        if time_us == NO_BOUND or until <= before or not (before == NO_TIMER or wrote):
            return
        if until > now_us:
            rows.log.write(self._expires, row, until)
        else:
            self._end(row)

    def _end(self, row: int) -> None:
        self._end_life(row)
        self._rows.forget()

    def _end_life(self, row: int) -> None:
        self._rows.log.write(self._expires, row, NO_TIMER)


class RecordLives:
    """The lifetimes of the keys of the records of one slice, by the number of the record."""

    def __init__(self, lifetime: Lifetime, times: Int64s, reached: Int64s) -> None:
        """Records have these times, and the step has reached those, both in microseconds."""
        self._lifetime = lifetime
        self._now: list[int] = np.maximum(times, reached).tolist()
        self._times: list[int] = times.tolist()
        self._mark = 0

    def begin(self, record: int, row: int) -> None:
        """Forget the key of a record, whose row this is, if it is over."""
        self._mark = self._lifetime.begin(row, self._now[record])

    def renew(self, record: int, row: int) -> None:
        """Let the key live from the time of the record on, if its call has written."""
        self._lifetime.renew(row, self._times[record], self._now[record], self._mark)


class TimerLives:
    """The lifetimes of the keys of the timers of one slice, by state row."""

    def __init__(self, lifetime: Lifetime, times: Mapping[int, int] | None = None) -> None:
        """Keys live from these times on; without them, each from the time of its timer."""
        self._lifetime = lifetime
        self._times = times

    def renew(self, row: int, time_us: int) -> None:
        """Let the key of a timer of this time live on, if the call that ends has written to its state."""
        self._lifetime.renew(row, time_us if self._times is None else self._times[row])


def record_times(column: pa.Array, reached: Int64s) -> Int64s:
    """Return the times of records in microseconds; of one without a time, that which the step has reached."""
    found: Int64s = np.asarray(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).fill_null(NO_BOUND))
    return np.where(np.asarray(column.is_null()), reached, found)
