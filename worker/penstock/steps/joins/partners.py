"""Which rows of the other side an event of a join can pair with: those of an interval, or the newest version."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.base.limits import JOIN_TABLE_BUCKET_US
from penstock.base.values import replace
from penstock.model.arrays import Int32s, Int64s, UInt64s
from penstock.model.kernels import intervals
from penstock.steps.joins.bucket_rows import BucketRows, StoredRows, Units
from penstock.steps.joins.events import Events, Interval, SideTimes
from penstock.steps.joins.sides import JoinSide, null_keys
from penstock.steps.joins.table_versions import TableVersions

_LEAST, _MOST = -(1 << 62), np.iinfo(np.int64).max
RowKeys = tuple[list[pa.Array], tuple[UInt64s, Int32s]]


class Partners(Protocol):
    """Keeps rows until their events, and finds the partners of events. ``times`` says when events happen."""

    times: SideTimes
    bucket_us: int
    lateness_us: int

    def bind(self, kept: BucketRows) -> None:
        """Set where rows are kept. Called once, before all other methods."""
        ...

    def keep(self, side: JoinSide, rows: pa.RecordBatch, times: Int64s, keys: RowKeys) -> None:
        """Keep n rows of a side, by their times and keys."""
        ...

    def find(self, units: Units, events: Events) -> tuple[Events, StoredRows]:
        """Return the events with the times of their partners, and all rows that are a partner of some event.

        The rows have the number of the unit that asks for them.
        """
        ...

    def settle(self, time_us: int) -> None:
        """Take note that all events before this time have happened."""
        ...


class IntervalPartners:
    """All rows of the other side whose times lie in the interval, and that came before."""

    def __init__(self, interval: Interval, sides: Sequence[JoinSide]) -> None:
        """Pair rows of ``sides``."""
        self.times = SideTimes(interval, sides)
        self.bucket_us = interval.bucket_us
        self.lateness_us = interval.lateness_us

    def bind(self, kept: BucketRows) -> None:
        """Set where rows are kept."""
        self._kept = kept

    def keep(self, side: JoinSide, rows: pa.RecordBatch, times: Int64s, keys: RowKeys) -> None:
        """Keep rows of both sides alike."""
        self._kept.add(side, rows, times, keys)

    def find(self, units: Units, events: Events) -> tuple[Events, StoredRows]:
        """Return the rows of the buckets that the events ask for. Rows with a null in their key have no partner."""
        low, high = np.full(len(units.counts), _MOST, np.int64), np.full(len(units.counts), _LEAST * 2, np.int64)
        np.minimum.at(low, events.units, events.low)
        np.maximum.at(high, events.units, events.high)
        missing = null_keys(units.keys)
        if missing is not None:
            high[missing] = _LEAST * 2
        asking = np.flatnonzero(low <= high)
        size = self.bucket_us
        count = high[asking] // size - low[asking] // size + 1
        of = np.repeat(asking, count)
        steps = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
        asked, found = self._kept.partners(units, of, low[of] // size + steps)
        return events, self._kept.read(found, asked, low, high)

    def settle(self, time_us: int) -> None:
        """Do nothing: units of rows go by their times."""


class VersionPartners:
    """The newest row of the right side, a table, at the time of a left row: of equal times, that with greater bytes."""

    def __init__(self, lateness_us: int, sides: Sequence[JoinSide]) -> None:
        """Pair left rows with versions. A left row without a version is a miss at its own time."""
        self.times = SideTimes(Interval(0, 0, lateness_us), sides)
        self.bucket_us = JOIN_TABLE_BUCKET_US
        self.lateness_us = lateness_us

    def bind(self, kept: BucketRows) -> None:
        """Set where rows are kept."""
        self._kept = kept
        self._versions = TableVersions(kept)

    def keep(self, side: JoinSide, rows: pa.RecordBatch, times: Int64s, keys: RowKeys) -> None:
        """Keep left rows until their time, and versions until no row can ask for them."""
        if side.number:
            self._versions.add(side, rows, keys)
        else:
            self._kept.add(side, rows, times, keys)

    def find(self, units: Units, events: Events) -> tuple[Events, StoredRows]:
        """Return the newest version of each event, or an empty range of times where there is none."""
        versions = self._versions.read(units)
        found = np.empty(len(events.units), np.int64)
        intervals.newest((events.units, events.times), versions.times, versions.ends(len(units.counts)), found)
        none = found < 0
        if not len(versions.times):
            return replace(events, low=np.ones(len(found), np.int64), high=np.zeros(len(found), np.int64)), versions
        times = versions.times[found]
        low, high = np.where(none, 1, times), np.where(none, 0, times)
        return replace(events, low=low, high=high), versions.only(_last_of_each_time(versions))

    def settle(self, time_us: int) -> None:
        """Let versions go that no row can ask for any more, when their key gets others."""
        self._versions.horizon_us = time_us


def _last_of_each_time(rows: StoredRows) -> Int64s:
    last = np.ones(len(rows.times), np.bool_)
    last[:-1] = (rows.times[1:] != rows.times[:-1]) | (rows.units[1:] != rows.units[:-1])
    return np.flatnonzero(last)
