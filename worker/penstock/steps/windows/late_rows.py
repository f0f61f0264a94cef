"""Which rows come too late for a window, how many there were, and how far the windows have emitted.

A row is late for a window if and only if ``end + lateness <= bound``. The source has stored this bound with the
row, so it does not depend on the order in which channels are read. A row of an idle split may come after its
window has emitted. Such a row is also late, and has its own counter.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.values import hot_dataclass
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s, UInt64s, as_type, fixed, fixed_array, flat
from penstock.model.kernels import windows
from penstock.steps.base import NO_BOUND, split_hidden, with_hidden
from penstock.steps.keyed import KeyColumns

TIME = pa.timestamp("us")


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Length, offset from 1970-01-01, allowed lateness and slide of windows, in microseconds.

    ``time`` names the column of event time. A window begins every ``slide_us``: for tumbling windows, this is
    their length.
    """

    size_us: int
    offset_us: int
    lateness_us: int
    time: str
    slide_us: int = 0

    @property
    def step_us(self) -> int:
        """Return the time from one window to the next."""
        return self.slide_us or self.size_us


def instants(lateness_us: int, time: str) -> WindowShape:
    """Return windows of one microsecond. A row is late for its own if and only if ``time + lateness < bound``."""
    return WindowShape(1, 0, lateness_us, time)


@hot_dataclass
class OnTime:
    """The rows of a batch that are on time: all have length n.

    ``ends`` are the ends of their first windows. ``hashed`` are hash and key group of each row's key. ``places`` are
    those of the rows in the batch; None if all its rows are on time.
    """

    rows: pa.RecordBatch
    ends: Int64s
    hashed: tuple[UInt64s, Int32s]
    places: Int64s | None = None


class LateRows:
    """Separates the late rows of batches from the others, and counts them by their cause."""

    def __init__(self, shape: WindowShape, keys: KeyColumns) -> None:
        """Begin with no window emitted."""
        self._shape = shape
        self._keys = keys
        self._counts = {windows.LATE: 0, windows.LATE_AFTER_IDLE: 0, windows.WITHOUT_TIME: 0}
        self.emitted: Int64s = np.full(keys.codec.max_key_groups, NO_BOUND, np.int64)

    @property
    def lateness_us(self) -> int:
        """Return the allowed lateness."""
        return self._shape.lateness_us

    def reach(self, time_us: int) -> None:
        """Take note that all windows up to a watermark emit now, or have emitted."""
        np.maximum(self.emitted, time_us, out=self.emitted)

    def gain(self, share: Share, time_us: int) -> None:
        """Take note that windows of these key groups up to a time may have emitted."""
        for groups in share:
            mine = self.emitted[groups.start : groups.stop]
            np.maximum(mine, time_us, out=mine)

    def split(self, batch: pa.RecordBatch) -> tuple[OnTime, pa.RecordBatch | None]:
        """Return the rows that are on time, and the late rows with their hidden column, or None.

        A row is late when it is too late for the first window that it is in.
        """
        rows, bounds = split_hidden(batch)
        hashed = self._keys.codec.hashed(self._keys.of(rows))
        ends = np.empty(rows.num_rows, np.int64)
        verdicts = np.empty(rows.num_rows, np.uint8)
        if not self._judge(rows, bounds, hashed[1], (ends, verdicts)):
            return OnTime(rows, ends, hashed), None
        for verdict in self._counts:
            self._counts[verdict] += int(np.count_nonzero(verdicts == verdict))
        on_time = np.flatnonzero(verdicts == windows.ON_TIME)
        late = batch.take(pa.array(np.flatnonzero(verdicts != windows.ON_TIME)))
        kept = hashed[0][on_time], hashed[1][on_time]
        return OnTime(rows.take(pa.array(on_time)), ends[on_time], kept, on_time), late

    def _judge(
        self,
        rows: pa.RecordBatch,
        bounds: pa.Array | None,
        groups: Int32s,
        result: tuple[Int64s, npt.NDArray[np.uint8]],
    ) -> bool:
        """Write the end of the first window and the verdict of each row. Returns whether a row is late."""
        times = flat(rows.column(self._shape.time))
        shape = (self._shape.step_us, self._shape.offset_us, self._shape.lateness_us)
        given = (fixed(times, np.int64), row_bounds(bounds, len(times)))
        late = windows.assign(shape, given, (groups, self.emitted), *result)
        if times.null_count:
            result[1][np.asarray(times.is_null().to_numpy(zero_copy_only=False))] = windows.WITHOUT_TIME
        return bool(late or times.null_count)

    def counters(self) -> dict[str, int]:
        """Return the numbers of late rows by their cause."""
        return {
            "late": self._counts[windows.LATE],
            "late_after_idle": self._counts[windows.LATE_AFTER_IDLE],
            "without_time": self._counts[windows.WITHOUT_TIME],
        }


def row_bounds(bounds: pa.Array | None, rows: int) -> Int64s:
    """Return the bound of each of n rows; the least time where there is none."""
    if bounds is None:
        return np.full(rows, NO_BOUND, np.int64)
    plain = flat(bounds)
    return fixed(plain.fill_null(NO_BOUND) if plain.null_count else plain, np.int64)


def window_rows(
    keys: list[pa.Array], times: tuple[Int64s, Int64s], computed: list[pa.Array], output: pa.Schema
) -> pa.RecordBatch:
    """Return the rows of windows: their keys, ``times`` (starts and ends) and computed columns, as ``output`` says.

    A window's row is made from many rows, so it has no bound, and later steps never find it late.
    """
    columns = [*keys, *(fixed_array(TIME, each) for each in times), *computed]
    cast = [as_type(c, f.type) for c, f in zip(columns, output, strict=True)]
    batch = pa.RecordBatch.from_arrays(cast, schema=output)
    return with_hidden(batch, pa.array(np.full(batch.num_rows, NO_BOUND, np.int64)))
