"""The events of an interval join: arrivals and misses of rows, and how many rows of output each has.

See ``event_join`` for what they are, and in which order they happen.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.base.limits import JOIN_BUCKET_US_MIN
from penstock.model.arrays import Int64s
from penstock.model.kernels import intervals, joins
from penstock.steps.joins.bucket_rows import NEVER, StoredRows
from penstock.steps.joins.sides import JoinSide


@dataclass(frozen=True, slots=True)
class Interval:
    """A pair has ``lower <= right time - left time <= upper``. All are microseconds."""

    lower_us: int
    upper_us: int
    lateness_us: int

    @property
    def bucket_us(self) -> int:
        """Return the length of buckets. A row has partners in at most three of them."""
        return max(self.upper_us - self.lower_us, JOIN_BUCKET_US_MIN)


class SideTimes:
    """What the interval means for each side. The arrays have one item for each side.

    ``low`` and ``high`` are the least and the largest time of a partner, less the row's own. ``miss`` is how
    long after its time a row is missed, and ``kept`` how long after its time a row is needed. A row arrives
    ``before`` the partners of its own time or not (1 or 0).
    """

    def __init__(self, interval: Interval, sides: Sequence[JoinSide]) -> None:
        """Work out the times. A row is also needed while it decides whether a row of the other side is missed."""
        self.low = np.array([interval.lower_us, -interval.upper_us])
        self.high = np.array([interval.upper_us, -interval.lower_us])
        self.before = np.array([1, 0])
        self.alone = np.array([side.alone for side in sides])
        self.miss = np.maximum(self.high, 0)
        of_other = np.where(self.alone[::-1], self.miss[::-1], 0)
        self.kept = np.maximum(self.high + of_other, 0)


@dataclass(frozen=True, slots=True)
class Events:
    """Events of units (n of each): unit, own row, time, whether it is a miss, and times of partners."""

    units: Int64s
    rows: Int64s
    times: Int64s
    misses: npt.NDArray[np.bool_]
    low: Int64s
    high: Int64s


def events_of(
    side_times: SideTimes, kept: tuple[StoredRows, Int64s], sides: Int64s, due: Int64s, until: int
) -> tuple[Events, Int64s]:
    """Return the events from ``due`` on, before ``until``, and the time of the next event of each unit or NEVER.

    ``kept`` has the rows of units before ``until``, and the time of the first row of each unit behind it. ``sides`` and
    ``due`` are by unit.
    """
    own, following = kept
    of_side = sides[own.units]
    begin, missed = due[own.units], own.times + side_times.miss[of_side]
    alone = side_times.alone[of_side]
    later = following.copy()
    np.minimum.at(later, own.units, np.where(alone & (missed >= until), missed, NEVER))
    arrive = np.flatnonzero(own.times >= begin)
    miss = np.flatnonzero(alone & (missed >= begin) & (missed < until))
    rows = np.concatenate([arrive, miss])
    times, of_side = own.times[rows], of_side[rows]
    low, high = times + side_times.low[of_side], times + side_times.high[of_side]
    arriving = slice(len(arrive))
    high[arriving] = np.minimum(high[arriving], times[arriving] - side_times.before[of_side[arriving]])
    misses = np.arange(len(rows)) >= len(arrive)
    events = Events(own.units[rows], rows, np.where(misses, missed[rows], times), misses, low, high)
    return events, later


@dataclass(frozen=True, slots=True)
class Happening:
    """Events in order (n of each): their units, own rows and times, and which partners they emit.

    ``first`` is the first partner, or NO_ROW for a row that is alone. ``count`` is the number of rows of output, of
    which ``skipped`` were emitted before.
    """

    units: Int64s
    rows: Int64s
    times: Int64s
    first: Int64s
    count: Int64s
    skipped: Int64s


def happening(events: Events, partners: StoredRows, units: tuple[npt.NDArray[np.uint64], Int64s]) -> Happening:
    """Put events in order, and find their partners. ``units`` has hashes and numbers of emitted rows, by unit."""
    hashes, emitted = units
    order = np.lexsort((events.rows, events.misses, hashes[events.units], events.times))
    found, low, high = events.units[order], events.low[order], events.high[order]
    first, count = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    intervals.find_partners((found, low, high), partners.times, partners.ends(len(hashes)), first, count)
    misses = events.misses[order]
    first[misses] = joins.NO_ROW
    count[misses] = count[misses] == 0
    skipped = np.zeros(len(order), np.int64)
    for unit in np.flatnonzero(emitted):
        own = np.flatnonzero(found == unit)
        before = np.cumsum(count[own]) - count[own]
        skipped[own] = np.clip(emitted[unit] - before, 0, count[own])
    return Happening(found, events.rows[order], events.times[order], first, count, skipped)
