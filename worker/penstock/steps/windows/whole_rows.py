"""The rows of open windows, by key and time, in keyed state: for a function that sees all rows of a window.

A window step folds the rows that are on time into its aggregates. Here these compute nothing and keep the rows. Rows
are kept once, however many windows they are in: in buckets as long as a tumbling window, the slide, or the gap of
sessions. A bucket is deleted with the last window that has it. The rows of a window come in the order of time, then of
their bytes, so they do not depend on how the inputs interleave.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.limits import WHOLE_ROWS_MAX, WHOLE_SLICE_BUCKETS, WHOLE_SLICE_BYTES, WHOLE_SLICE_ROWS
from penstock.contract.manifest import child_state
from penstock.model.arrays import Int32s, Int64s, as_type, fixed, flat
from penstock.steps.base import FixedColumns
from penstock.steps.joins.bucket_rows import BucketRows, Buckets, StoredRows, Units
from penstock.steps.joins.sides import timed_side
from penstock.steps.keyed import Aggregates, Folded, KeyColumns, OpenState

_ROW_BYTES = 1024  # of rows that nobody has seen: they are in a checkpoint
_ADVICE = "make the windows smaller, or compute columns, for which no rows are kept"


@dataclass(frozen=True, slots=True)
class Extent:
    """Where the rows of windows are: in buckets of ``bucket_us``, up to ``tail_us`` before the end of the window.

    ``shared``: a bucket belongs to several windows, the last of which begins with it. ``time`` names the time column.
    """

    bucket_us: int
    tail_us: int
    time: str
    offset_us: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows of some windows, in order: ``ends[i]`` is where those of the window before number ``first + i`` end."""

    first: int
    rows: pa.RecordBatch
    ends: Int64s


class WholeRows(Aggregates):
    """Keeps the rows that it should fold, and gives them back window by window."""

    def __init__(
        self, step: str, extent: Extent, keys: KeyColumns, schemas: tuple[pa.Schema, pa.Schema], places: int
    ) -> None:
        """Keep rows of ``schemas[0]``, and show their columns in ``schemas[1]``. A state row has ``places`` places."""
        super().__init__(step, (), schemas[0], places)
        self._name, self._extent, self._shown = step, extent, schemas[1]
        self._side = timed_side(0, keys, schemas[0], extent.time, alone=False)
        self._row_bytes = _ROW_BYTES
        self._buckets = Buckets(extent.bucket_us, WHOLE_ROWS_MAX, _ADVICE, extent.offset_us)

    def open(self, state: OpenState) -> None:
        """Open the state of the rows, which lies beside that of the windows."""
        keys = self._side.keys
        names = tuple(name for name, _ in keys.fields)
        self._kept = BucketRows(child_state(self._name, "rows"), keys.codec, names, self._buckets, state)

    def fold(self, state: FixedColumns, rows: Int32s, batch: pa.RecordBatch) -> list[Folded]:
        """Keep n rows. ``state`` and ``rows`` are those of the windows, which need nothing of them."""
        self._row_bytes = max(self._row_bytes, batch.nbytes // max(batch.num_rows, 1))
        keys = self._side.keys.of(batch)
        times = fixed(flat(batch.column(self._extent.time)), np.int64)
        self._kept.add(self._side, batch, times, (keys, self._side.keys.codec.hashed(keys)))
        return []

    def take(self, keys: Sequence[pa.Array], starts: Int64s, ends: Int64s) -> Iterator[WindowRows]:
        """Yield the rows of n windows that emit, some windows at a time, and delete those that no later window has.

        Raises StateError for a window with too many rows.
        """
        first = self._buckets.of(starts)
        count = self._buckets.of(ends - self._extent.tail_us) - first + 1
        hashed = self._side.keys.codec.hashed(list(keys))
        windows = Units(list(keys), hashed, first, np.ones(len(starts), np.int64), count)
        at = 0
        while at < len(starts):
            some = windows.only(np.arange(at, at + _fitting(count[at:], WHOLE_SLICE_BUCKETS)))
            of = np.repeat(np.arange(len(some.counts)), some.counts)
            places = np.arange(len(of)) - np.repeat(np.cumsum(some.counts) - some.counts, some.counts)
            of, units = self._kept.partners(some, of, some.buckets[of] + places)
            totals = np.bincount(of, units.counts, len(some.counts)).astype(np.int64)
            self._check(totals)
            fit = _fitting(totals, min(WHOLE_SLICE_ROWS, WHOLE_SLICE_BYTES // self._row_bytes))
            mine = np.flatnonzero(of < fit)
            of, units = of[mine], units.only(mine)
            low, high = starts[at : at + fit], ends[at : at + fit] - 1
            stored = self._kept.read(units, of, low, high)
            self._row_bytes = max(int(stored.sizes.mean()) if len(stored.sizes) else 1, self._row_bytes // 2, 1)
            yield WindowRows(at, self._rows(stored, some.keys), stored.ends(fit))
            last = units.buckets == some.buckets[of] if self._extent.shared else np.ones(len(of), np.bool_)
            self._kept.delete(units.only(np.flatnonzero(last)))
            at += fit

    def _check(self, totals: Int64s) -> None:
        if totals.max(initial=0) > WHOLE_ROWS_MAX:
            raise StateError(f"step {self._name!r}: a key has more than {WHOLE_ROWS_MAX:,} rows in a window: {_ADVICE}")

    def _rows(self, stored: StoredRows, keys: Sequence[pa.Array]) -> pa.RecordBatch:
        of = pa.array(stored.units)
        columns = dict(zip(self._side.kept, self._side.decoded(stored.data, stored.starts), strict=True))
        columns |= {place: key.take(of) for place, key in zip(self._side.keys.places, keys, strict=True)}
        shown = [columns[place] for place in range(len(self._shown))]
        cast = [as_type(c, f.type) for c, f in zip(shown, self._shown, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=self._shown)


def _fitting(sizes: Int64s, most: int) -> int:
    """Return how many of the first windows have at most ``most`` together: at least one."""
    return max(int(np.searchsorted(np.cumsum(sizes), most, side="right")), 1)
