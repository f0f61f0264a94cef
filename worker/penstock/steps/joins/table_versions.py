"""The versions of a table by key: the rows of the right side of a table join, in its state.

They are in the state of the left rows, in one state row for each key. Its bucket is one that no time has, and it has no
timer. Rows are bytes in the order in which they came. When a key with many versions gets another one, those before
the newest one at the horizon go: no row that is on time asks for them.
"""

import numpy as np
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.limits import JOIN_SIDE_ROWS_MAX, JOIN_VERSIONS_PRUNED
from penstock.model.arrays import Int32s, Int64s, UInt64s, variable
from penstock.model.kernels import intervals, joins
from penstock.steps.joins.bucket_rows import COUNT, NO_BUCKET, ROWS, BucketRows, StoredRows, Units, in_order
from penstock.steps.joins.kept_rows import append_stored, values_of
from penstock.steps.joins.sides import RIGHT_NUMBER, JoinSide

_NEVER = np.iinfo(np.int64).min


class TableVersions:
    """Versions by key. ``horizon_us``: rows that are on time ask for versions at this time or later ones."""

    def __init__(self, kept: BucketRows) -> None:
        """Keep versions in the state of ``kept``."""
        self._kept = kept
        self.horizon_us = _NEVER

    def add(self, side: JoinSide, rows: pa.RecordBatch, keys: tuple[list[pa.Array], tuple[UInt64s, Int32s]]) -> None:
        """Keep n versions. Raises StateError for too many of one key."""
        columns, hashed = keys
        places = self._kept.rows_at(columns, hashed, *_where(rows.num_rows))
        append_stored(self._kept.state, ROWS, places, side.encoded(rows))
        numbers = np.empty(rows.num_rows, np.int64)
        joins.number_rows(places, self._kept.state.column(COUNT), numbers)
        touched = np.unique(places)
        counts = self._kept.state.column(COUNT)[touched]
        if counts.max(initial=0) >= JOIN_VERSIONS_PRUNED:
            self._prune(touched[counts >= JOIN_VERSIONS_PRUNED])

    def _prune(self, rows: Int32s) -> None:
        """Drop the versions before the newest one at the horizon, of some keys. Rows that stay are put in order."""
        counts = self._kept.state.column(COUNT)[rows]
        stored = in_order(self._stored(rows, counts, np.arange(len(rows))))
        newest = np.empty(len(rows), np.int64)
        asked = np.arange(len(rows)), np.full(len(rows), self.horizon_us, np.int64)
        intervals.newest(asked, stored.times, stored.ends(len(rows)), newest)
        stays = np.flatnonzero(np.arange(len(stored.times)) >= newest[stored.units])
        left = stored.only(stays)
        counts = np.bincount(left.units, minlength=len(rows)).astype(np.int64)
        if counts.max(initial=0) >= JOIN_SIDE_ROWS_MAX:
            raise StateError(
                f"step {self._kept.step!r}: a key of the table has more than {JOIN_SIDE_ROWS_MAX} versions that rows "
                "may ask for: the other side is too far behind"
            )
        if len(stays) < len(stored.times):
            values = values_of(left.units.astype(np.int32), (left.data, left.starts, left.sizes), len(rows))
            self._kept.state.write_bytes(ROWS, rows, values)
            self._kept.state.column(COUNT)[rows] = counts

    def read(self, units: Units) -> StoredRows:
        """Return the versions of the keys of units, in the order of unit, time and bytes."""
        rows = self._kept.found_at(units.keys, units.hashed, *_where(len(units.counts)))
        there = np.flatnonzero(rows >= 0)
        counts = self._kept.state.column(COUNT)[rows[there]]
        return in_order(self._stored(rows[there], counts, there))

    def _stored(self, rows: Int32s, counts: Int64s, numbers: Int64s) -> StoredRows:
        _, data = variable(self._kept.state.read_bytes(ROWS, rows))
        total = int(counts.sum())
        starts, sizes, times = (np.empty(total, np.int64) for _ in range(3))
        joins.find_rows(data, starts, sizes)
        intervals.times_of(data, starts, times)
        return StoredRows(np.repeat(numbers, counts), times, data, starts, sizes)


def _where(rows: int) -> tuple[Int64s, Int64s]:
    """Return bucket and place of the state row of each version."""
    return np.full(rows, NO_BUCKET, np.int64), np.full(rows, RIGHT_NUMBER, np.int64)
