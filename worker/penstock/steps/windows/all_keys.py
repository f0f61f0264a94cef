"""Windows of all rows, whatever their key: computed in parts by the tasks that have the rows, and put together in one.

    rows of a batch ── late by their own bound ──> late
                    ── one part for each window ──> the task of the window ── at its end plus lateness ──> one row

A part has what a batch adds to a window. It keeps no state, so rows need not be dealt out first, and what travels
does not grow with the rows. The window is the key of the parts. So windows are dealt out among the tasks.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.graph import Compute, Function
from penstock.contract.keygroups import Share
from penstock.contract.window_parts import merged_of, parts_of
from penstock.model.arrays import Int32s, Int64s, as_type, fixed, fixed_array, flat
from penstock.model.kernels import windows
from penstock.steps.base import NO_BOUND, NOTHING_DUE, PlainStep, StateSchema, reached, split_hidden, with_hidden
from penstock.steps.keyed import Aggregates, KeyColumns, OpenState
from penstock.steps.windows.late_rows import TIME, LateRows, WindowShape, instants, row_bounds

_ONE_GROUP = np.full(1, NO_BOUND, np.int64)  # nothing has emitted: only the bound of a row counts


class PartsStep(PlainStep):
    """Emits one row for each batch and window that it meets: window_start, window_end, what the batch adds."""

    def __init__(
        self, name: str, shape: WindowShape, compute: Sequence[Compute], schemas: tuple[pa.Schema, pa.Schema]
    ) -> None:
        """Take rows of ``schemas[0]`` and emit parts of ``schemas[1]``."""
        super().__init__(name)
        self._shape = shape
        self._aggregates = Aggregates(name, parts_of(compute), schemas[0])
        self._output = schemas[1]
        self._late = self._untimed = 0

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Emit the parts of the rows that are on time. Late rows go to the output ``late`` unchanged."""
        rows, ends = self._on_time(batch)
        if not len(ends):
            return
        slices, places = np.unique(ends, return_inverse=True)
        scratch = self._aggregates.places(len(slices))
        self._aggregates.fold(scratch, places.astype(np.int32), rows)
        parts = self._aggregates.results(scratch, np.arange(len(slices), dtype=np.int32))
        covers = self._shape.size_us // self._shape.step_us
        of_windows = pa.array(np.repeat(np.arange(len(slices)), covers))
        until = np.repeat(slices, covers) + np.tile(np.arange(covers), len(slices)) * self._shape.step_us
        times = (fixed_array(TIME, each) for each in (until - self._shape.size_us, until))
        columns = [*times, *(column.take(of_windows) for column in parts)]
        cast = [as_type(c, f.type) for c, f in zip(columns, self._output, strict=True)]
        emitted = pa.RecordBatch.from_arrays(cast, schema=self._output)
        self._emit(with_hidden(emitted, pa.array(np.full(emitted.num_rows, NO_BOUND, np.int64))))

    def _on_time(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
        """Return the rows that are on time with the ends of their first windows; emit the others."""
        rows, bounds = split_hidden(batch)
        times = flat(rows.column(self._shape.time))
        ends, verdicts = np.empty(len(times), np.int64), np.empty(len(times), np.uint8)
        shape = self._shape.step_us, self._shape.offset_us, self._shape.lateness_us
        given = fixed(times, np.int64), row_bounds(bounds, len(times))
        windows.assign(shape, given, (np.zeros(len(times), np.int32), _ONE_GROUP), ends, verdicts)
        if times.null_count:
            verdicts[np.asarray(times.is_null().to_numpy(zero_copy_only=False))] = windows.WITHOUT_TIME
        on_time = verdicts == windows.ON_TIME
        if on_time.all():
            return rows, ends
        self._late += int(np.count_nonzero(verdicts == windows.LATE))
        self._untimed += int(np.count_nonzero(verdicts == windows.WITHOUT_TIME))
        self._outputs["late"](batch.filter(pa.array(~on_time)))
        return rows.filter(pa.array(on_time)), ends[on_time]

    def counters(self) -> dict[str, int]:
        """Return the numbers of late rows, and of those without time."""
        return {"late": self._late, "without_time": self._untimed}


class AllKeysStep(PlainStep):
    """Emits one row for each window, from its parts: window_start, window_end, computed columns."""

    def __init__(
        self,
        name: str,
        lateness_us: int,
        compute: Sequence[Compute],
        keys: KeyColumns,
        schemas: tuple[pa.Schema, pa.Schema],
    ) -> None:
        """Take parts of ``schemas[0]``, whose ``keys`` are start and end of their window; emit ``schemas[1]``."""
        super().__init__(name)
        self._compute = tuple(compute)
        self._aggregates = Aggregates(name, merged_of(compute), schemas[0])
        self._keys = keys
        self._output = schemas[1]
        self._end = schemas[0].names[1]
        self._lateness_us = lateness_us
        self._late = LateRows(instants(lateness_us - 1, self._end), keys)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._state = state(StateSchema(self.name, self._keys.fields, self._aggregates.values(), timed=True))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Add parts to their windows. Parts of windows that have emitted go to the output ``late``."""
        given, late = self._late.split(batch)
        if late is not None:
            self._outputs["late"](late)
        if len(given.ends):
            ends = given.ends - 1
            keys = self._keys.codec.window_keys(self._keys.of(given.rows), ends, given.hashed)
            found = self._state.rows(keys)
            self._state.set_due(found, ends)
            self._aggregates.fold(self._state, found, given.rows)

    def on_watermark(self, time_us: int) -> int:
        """Emit windows whose end plus lateness the watermark has reached, at most one slice.

        Returns the time reached.
        """
        self._late.reach(time_us)
        bound = time_us - self._lateness_us
        first = self._state.next_due()
        if first > bound or first == NOTHING_DUE:
            return time_us
        rows = self._state.take_due(bound, FIRED_ROWS_MAX)
        emitted = self.contents(rows)
        self._emit(with_hidden(emitted, pa.array(np.full(emitted.num_rows, NO_BOUND, np.int64))))
        self._state.delete(rows)
        return reached(time_us, self._state.next_due(), self._lateness_us)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return what the open windows of state rows would give now."""
        keys = self._keys.codec.window_columns(self._state.keys_of(rows))
        merged = iter(self._aggregates.results(self._state, rows))
        columns = [*keys, *(_finished(each.function, merged) for each in self._compute)]
        cast = [as_type(c, f.type) for c, f in zip(columns, self._output, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=self._output)

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that windows of these groups up to this time may have emitted."""
        self._late.gain(share, fired_us)

    def counters(self) -> dict[str, int]:
        """Return how many windows are open, and how many parts were late for each cause."""
        return {"keys": self._state.about_keys(), **self._late.counters()}


def _finished(function: Function, merged: Any) -> pa.Array:
    """Return a computed column from the next columns of ``merged``: a mean has two of them."""
    column = next(merged)
    if function is not Function.MEAN:
        return column
    counts = np.asarray(next(merged).fill_null(0))
    sums = np.asarray(column.cast(pa.float64(), safe=False).fill_null(0.0))
    means = sums / np.maximum(counts, 1)
    return pa.array(means, mask=counts == 0)
