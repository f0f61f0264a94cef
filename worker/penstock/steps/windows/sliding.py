"""Sliding windows of event time for each key. Each window that has a row emits once.

Time is cut into slices as long as the slide. A row enters one slice, so it costs as much as in a tumbling window.
A window that fires combines the slices that it covers. The key of the state is (page, key): a page has up to
``PAGE_SLICES_MAX`` slices that follow each other, so that a window is in few state rows. See
:mod:`penstock.model.kernels.slices` for pages and for which page answers for a window.

A row is late if and only if it is late for its first window, and then it enters none. So no row enters a
slice of a window that has emitted. Windows emit in the order of end, hash and key. A watermark that passes several
ends fires them one after the other. At the last watermark all windows of the rows so far emit.
"""

import numpy as np
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.limits import FIRED_ENDS_MAX, FIRED_SLIDING_ROWS_MAX, PAGE_SLICES_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s
from penstock.model.kernels import slices
from penstock.model.table_columns import Value
from penstock.steps.base import NO_BOUND, PlainStep, StateSchema, TimerColumn, reached, split_hidden
from penstock.steps.keyed import Aggregates, KeyColumns, OpenState, Pages
from penstock.steps.windows.late_rows import LateRows, WindowShape, window_rows

FILLED, NEXT = "filled", "next"
_PAGE = ("__page", pa.int64())


def places_of(shape: WindowShape) -> int:
    """Return how many slices a page has. It is not longer than a window."""
    return min(shape.size_us // shape.step_us, PAGE_SLICES_MAX)


class SlidingStep(PlainStep):
    """Emits one row for each key and window: keys, window_start, window_end, computed columns."""

    slice_rows = FIRED_SLIDING_ROWS_MAX  # pages that answer at once

    def __init__(
        self,
        name: str,
        shape: WindowShape,
        aggregates: Aggregates,
        keys: KeyColumns,
        output: pa.Schema,
    ) -> None:
        """Compute ``aggregates``, which have :func:`places_of` places, per key and window; emit rows of ``output``."""
        super().__init__(name)
        self._shape = shape
        self._keys = keys
        self._aggregates = aggregates
        self._output = output
        self._places = places_of(shape)
        self._late = LateRows(shape, keys)
        self._never: Int64s = np.full(keys.codec.max_key_groups, NO_BOUND, np.int64)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        values = (Value(FILLED, "int64"), *self._aggregates.values())
        timers = (TimerColumn(NEXT),)
        self._state = state(StateSchema(self.name, (_PAGE, *self._keys.fields), values, timers=timers))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows to their slices. Late rows go to the output ``late`` unchanged."""
        given, late = self._late.split(batch)
        if late is not None:
            self._outputs["late"](late)
        if not len(given.ends):
            return
        pages, places = np.empty(len(given.ends), np.int64), np.empty(len(given.ends), np.int32)
        slices.locate((self._shape.offset_us, self._shape.step_us, self._places), given.ends, pages, places)
        keys = self._keys.codec.window_keys(self._keys.of(given.rows), pages, given.hashed)
        rows = self._state.rows(keys)
        filled, due = self._state.column(FILLED), self._state.column(NEXT)
        if len(filled) * self._places > np.iinfo(np.int32).max:
            raise StateError(f"step {self.name!r}: a task has too many slices; give the step more tasks")
        slices.enter(rows, given.ends, self._places, filled, due, places)
        self._state.arm(rows, self._never)
        self._aggregates.fold(self._state, places, given.rows)

    def on_watermark(self, time_us: int) -> int:
        """Emit windows whose end plus lateness the watermark has reached, at most one slice.

        Returns the time reached.
        """
        self._late.reach(time_us)
        bound = time_us - self._shape.lateness_us
        left = self.slice_rows
        end = self._state.next_timer()
        for _ in range(FIRED_ENDS_MAX):
            if end > bound or left == 0:
                break
            rows = self._state.take_timers(end, left).rows
            if not len(rows):
                return time_us
            self._fire(end, rows)
            left -= len(rows)
            end = self._state.next_timer()
        return reached(time_us, end, self._shape.lateness_us)

    def _fire(self, end: int, rows: Int32s) -> None:
        """Emit the windows with this end for which one of ``rows`` answers."""
        newest = (end - self._shape.offset_us) // self._shape.step_us
        oldest = newest + 1 - self._shape.size_us // self._shape.step_us
        numbers = range(oldest // self._places, newest // self._places + 1)
        codec = self._keys.codec
        keys = codec.window_columns(self._state.keys_of(rows))
        hashed = codec.hashed(keys)
        table = np.empty((len(numbers), len(rows)), np.int32)
        for at, number in enumerate(numbers):
            table[at] = self._state.found(codec.window_keys(keys, np.full(len(rows), number), hashed))
        covered = len(numbers), oldest % self._places, newest % self._places, self._places
        gone = np.empty(2 * len(rows), np.int32)
        verdicts = np.empty(len(rows), np.uint8)
        timers = self._state.column(NEXT), end + self._shape.step_us
        pages = (table.reshape(-1), *covered)
        deleted = slices.answer(rows, pages, self._state.column(FILLED), timers, (verdicts, gone))
        self._state.arm(rows, self._never)
        answers = np.flatnonzero(verdicts == slices.ANSWERS)
        if len(answers) < len(rows):
            pages = (np.ascontiguousarray(table[:, answers]).reshape(-1), *covered)
            keys = [column.take(pa.array(answers)) for column in keys]
        if len(answers):
            self._emit(self._combined(end, keys, pages, len(answers)))
        self._state.delete(gone[:deleted])

    def _combined(self, end: int, keys: list[pa.Array], pages: Pages, windows: int) -> pa.RecordBatch:
        ends = np.full(windows, end, np.int64)
        computed = self._aggregates.combined(self._state, pages, windows)
        return window_rows(keys, (ends - self._shape.size_us, ends), computed, self._output)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the slices of state rows that have had a row. Start and end of each are those of the slice."""
        filled = self._state.column(FILLED)[rows]
        at, place = np.nonzero(filled[:, None] >> np.arange(self._places) & 1)
        keys = self._state.keys_of(rows)
        codec = self._keys.codec
        numbers = keys.data[(keys.ends[:-1, None] + np.arange(1, 9))].reshape(-1, 8).view(np.int64)[:, 0]
        ends = (numbers[at] * self._places + place) * self._shape.step_us + self._shape.offset_us
        places = (rows[at] * np.int64(self._places) + place).astype(np.int32)
        columns = [column.take(pa.array(at)) for column in codec.window_columns(keys)]
        computed = self._aggregates.results(self._state, places)
        return split_hidden(window_rows(columns, (ends - self._shape.step_us, ends), computed, self._output))[0]

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that windows of these groups up to this time may have emitted."""
        self._late.gain(share, fired_us)

    def counters(self) -> dict[str, int]:
        """Return the number of pages, and of late rows by their cause."""
        return {"keys": self._state.about_keys(), **self._late.counters()}
