"""Tumbling windows of event time for each key. Each window emits once.

A window emits when the watermark reaches ``end + lateness``. Windows emit in the order of end, key group, hash and
key. The key of the state is (end, key). An open window belongs to the key group of its key, and moves and is
restored with it. Which rows are late: see :mod:`penstock.steps.windows.late_rows`.
"""

from collections.abc import Sequence

import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s
from penstock.model.table_columns import Value
from penstock.steps.base import NOTHING_DUE, PlainStep, StateSchema, TimerColumn, reached, split_hidden
from penstock.steps.keyed import Aggregates, KeyColumns, OpenState
from penstock.steps.windows.late_rows import LateRows, OnTime, WindowShape, window_rows


class WindowStep(PlainStep):
    """Emits one row for each key and window: keys, window_start, window_end, computed columns."""

    values: tuple[Value, ...] = ()  # of a window, beside its aggregates
    timers: tuple[TimerColumn, ...] = ()
    slice_rows = FIRED_ROWS_MAX  # windows that emit at once

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
        self._late = LateRows(shape, keys)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        values = (*self._aggregates.values(), *self.values)
        self._state = state(StateSchema(self.name, self._keys.fields, values, timed=True, timers=self.timers))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows to their windows. Late rows go to the output ``late`` unchanged."""
        given, late = self._late.split(batch)
        if late is not None:
            self._outputs["late"](late)
        if len(given.ends):
            self._enter(given)

    def _enter(self, given: OnTime) -> Int32s:
        """Add rows to their windows. Returns the state row of each."""
        keys = self._keys.codec.window_keys(self._keys.of(given.rows), given.ends, given.hashed)
        found = self._state.rows(keys)
        self._state.set_due(found, given.ends)
        self._aggregates.fold(self._state, found, given.rows)
        return found

    def on_watermark(self, time_us: int) -> int:
        """Emit windows whose end plus lateness the watermark has reached, at most one slice.

        Returns the time reached.
        """
        self._late.reach(time_us)
        bound = time_us - self._shape.lateness_us
        first = self._state.next_due()
        if first > bound or first == NOTHING_DUE:
            return time_us
        rows = self._state.take_due(bound, self.slice_rows)
        if len(rows):
            self._emit(self._last(rows))
            self._state.delete(rows)
        return reached(time_us, self._state.next_due(), self._shape.lateness_us)

    def _last(self, rows: Int32s) -> pa.RecordBatch:
        """Return what windows emit at their end."""
        return self._emitted(rows)

    def _emitted(self, rows: Int32s, more: Sequence[pa.Array] = ()) -> pa.RecordBatch:
        """Return the rows of windows as they are now, with ``more`` columns before the computed ones."""
        ends = self._state.column("end")[rows]
        keys = self._keys.codec.window_columns(self._state.keys_of(rows))
        computed = self._aggregates.results(self._state, rows)
        return window_rows(keys, (ends - self._shape.size_us, ends), [*more, *computed], self._output)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return what the open windows of state rows would give now."""
        return split_hidden(self._last(rows))[0]

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that windows of these groups up to this time may have emitted."""
        self._late.gain(share, fired_us)

    def counters(self) -> dict[str, int]:
        """Return how many windows are open, and how many rows were late for each cause."""
        return {"keys": self._state.about_keys(), **self._late.counters()}
