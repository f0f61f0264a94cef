"""Tumbling windows of event time for each key. Each window emits once.

A row is late for its window if and only if ``end + lateness <= bound``. The source has stored this
bound with the row, so it does not depend on the order in which channels are read. A window emits
when the watermark reaches ``end + lateness``. Windows emit in the order of end, key group, hash and
key. A row of an idle split may come after its window has emitted. Such a row is also late, and has
its own counter. The key of the state is (end, key). An open window belongs to the key group of its
key, and moves and is restored with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.graph import Compute
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s, fixed, fixed_array, flat
from penstock.model.kernels import windows
from penstock.steps.base import (
    NO_BOUND,
    PlainStep,
    StateSchema,
    split_hidden,
    with_hidden,
)
from penstock.steps.keyed import Aggregates, KeyColumns, OpenState

_TIME = pa.timestamp("us")


@dataclass(frozen=True, slots=True)
class WindowShape:
    """Length, offset from 1970-01-01 and allowed lateness of windows, in microseconds.

    ``time`` names the column of event time.
    """

    size_us: int
    offset_us: int
    lateness_us: int
    time: str


class WindowStep(PlainStep):
    """Emits one row for each key and window: keys, window_start, window_end, computed columns."""

    def __init__(
        self,
        name: str,
        shape: WindowShape,
        aggregates: Aggregates,
        keys: KeyColumns,
        output: pa.Schema,
    ) -> None:
        """Compute ``aggregates`` per key and window; emit rows of ``output``."""
        super().__init__(name)
        self._shape = shape
        self._keys = keys
        self._aggregates = aggregates
        self._output = output
        self._fired: Int64s = np.full(keys.codec.max_key_groups, NO_BOUND, np.int64)
        self._late = {windows.LATE: 0, windows.LATE_AFTER_IDLE: 0, windows.WITHOUT_TIME: 0}

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        schema = StateSchema(self.name, self._keys.fields, self._aggregates.values(), timed=True)
        self._state = state(schema)

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows to their windows. Late rows go to the output ``late`` unchanged."""
        rows, bounds = split_hidden(batch)
        hashed = self._keys.codec.hashed(self._keys.of(rows))
        ends = np.empty(len(hashed[0]), np.int64)
        verdicts = np.empty(len(ends), np.uint8)
        if self._assign_windows(rows, bounds, hashed[1], (ends, verdicts)):
            on_time = np.flatnonzero(verdicts == windows.ON_TIME)
            self._emit_late(batch, verdicts)
            rows, ends = rows.take(pa.array(on_time)), ends[on_time]
            hashed = hashed[0][on_time], hashed[1][on_time]
        if len(ends):
            keys = self._keys.codec.window_keys(self._keys.of(rows), ends, hashed)
            found = self._state.rows(keys)
            self._state.set_due(found, ends)
            self._aggregates.fold(self._state, found, rows)

    def _assign_windows(
        self,
        rows: pa.RecordBatch,
        bounds: pa.Array | None,
        groups: npt.NDArray[np.int32],
        result: tuple[Int64s, npt.NDArray[np.uint8]],
    ) -> bool:
        """Write the window end and the verdict of each row. Returns whether a row is late."""
        times = flat(rows.column(self._shape.time))
        shape = (self._shape.size_us, self._shape.offset_us, self._shape.lateness_us)
        given = (fixed(times, np.int64), _bounds(bounds, len(times)))
        late = windows.assign(shape, given, (groups, self._fired), *result)
        if times.null_count:
            result[1][np.asarray(times.is_null().to_numpy(zero_copy_only=False))] = windows.WITHOUT_TIME
        return bool(late or times.null_count)

    def _emit_late(self, batch: pa.RecordBatch, verdicts: npt.NDArray[np.uint8]) -> None:
        for verdict in self._late:
            self._late[verdict] += int(np.count_nonzero(verdicts == verdict))
        late = np.flatnonzero(verdicts != windows.ON_TIME)
        self._outputs["late"](batch.take(pa.array(late)))

    def on_watermark(self, time_us: int) -> bool:
        """Emit windows whose end plus lateness the watermark has reached, at most one slice.

        Returns true if there may be more.
        """
        np.maximum(self._fired, time_us, out=self._fired)
        bound = time_us - self._shape.lateness_us
        if self._state.next_due() > bound:
            return False
        rows = self._state.take_due(bound, FIRED_ROWS_MAX)
        if len(rows):
            self._emit(self._emitted(rows))
            self._state.delete(rows)
        return len(rows) == FIRED_ROWS_MAX

    def _emitted(self, rows: npt.NDArray[np.int32]) -> pa.RecordBatch:
        ends = self._state.column("end")[rows]
        keys = self._keys.codec.window_columns(self._state.keys_of(rows))
        times = [fixed_array(_TIME, ends - self._shape.size_us), fixed_array(_TIME, ends)]
        computed = self._aggregates.results(self._state, rows)
        columns = [*keys, *times, *computed]
        cast = [c.cast(f.type) for c, f in zip(columns, self._output, strict=True)]
        batch = pa.RecordBatch.from_arrays(cast, schema=self._output)
        # A window's row is made from many rows, so it has no bound, and later steps never find it late.
        return with_hidden(batch, pa.array(np.full(len(rows), NO_BOUND, np.int64)))

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return what the open windows of state rows would give now."""
        return split_hidden(self._emitted(rows))[0]

    def on_groups_gained(self, share: Share, watermark_us: int | None) -> None:
        """Take note that all windows of these groups up to the watermark have emitted."""
        if watermark_us is not None:
            np.maximum(self._fired, watermark_us, out=self._fired)

    def counters(self) -> dict[str, int]:
        """Return the number of open windows, and of late rows by their cause."""
        return {
            "keys": self._state.about_keys(),
            "late": self._late[windows.LATE],
            "late_after_idle": self._late[windows.LATE_AFTER_IDLE],
            "without_time": self._late[windows.WITHOUT_TIME],
        }


def _bounds(bounds: pa.Array | None, rows: int) -> Int64s:
    if bounds is None:
        return np.full(rows, NO_BOUND, np.int64)
    plain = flat(bounds)
    return fixed(plain.fill_null(NO_BOUND) if plain.null_count else plain, np.int64)


def window(
    name: str,
    shape: WindowShape,
    keys: KeyColumns,
    compute: Sequence[Compute],
    schemas: tuple[pa.Schema, pa.Schema],
) -> WindowStep:
    """Make a window step that takes rows of ``schemas[0]`` and emits rows of ``schemas[1]``.

    The caller must open its state before the first batch.
    """
    return WindowStep(name, shape, Aggregates(name, compute, schemas[0]), keys, schemas[1])
