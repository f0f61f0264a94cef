"""Windows of n rows of a key: each emits when it has its last row. Neither event time nor the clock counts.

The state of a key is that of its open window, so a key whose windows are all full has none. Rows of a batch may fill
several windows of a key. They are folded beside the state, in one place for each window that they meet, and the place
of the last one is written back. So a row costs the same however few rows a window has.

At the end of the input the open windows emit what they have. Until then they wait in the queue of timed state, all for
one time, which no other watermark reaches.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.model.arrays import Int32s, Int64s, as_type
from penstock.model.kernels import joins
from penstock.model.table_columns import Value
from penstock.steps.base import NO_BOUND, NOTHING_DUE, PlainStep, StateSchema, reached, split_hidden, with_hidden
from penstock.steps.keyed import Aggregates, KeyColumns, OpenState, Places

FILLED = "filled"
_LAST_DUE = NOTHING_DUE - 1


class CountStep(PlainStep):
    """Emits one row for each n rows of a key: keys, computed columns."""

    def __init__(
        self, name: str, size: int, aggregates: Aggregates, keys: KeyColumns, output: pa.Schema, *, timed: bool
    ) -> None:
        """Compute ``aggregates`` of ``size`` rows of a key; emit rows of ``output``, with the hidden bound if timed."""
        super().__init__(name)
        self._size = size
        self._aggregates = aggregates
        self._keys = keys
        self._output = output
        self._timed = timed

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        values = (*self._aggregates.values(), Value(FILLED, "int64"))
        self._state = state(StateSchema(self.name, self._keys.fields, values, timed=True))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows to the windows of their keys, and emit those that are full, in the order of their last rows."""
        given = split_hidden(batch)[0]
        if not given.num_rows:
            return
        keys = self._keys.of(given)
        ends = np.full(given.num_rows, _LAST_DUE)
        rows = self._state.rows(self._keys.codec.window_keys(keys, ends, self._keys.codec.hashed(keys)))
        self._state.set_due(rows, ends)
        numbers = np.empty(len(rows), np.int64)
        joins.number_rows(rows, self._state.column(FILLED), numbers)
        of_keys, slots = np.unique(rows, return_inverse=True)
        full = self._state.column(FILLED)[of_keys] // self._size
        firsts = np.cumsum(full + 1) - (full + 1)
        places = (firsts[slots] + numbers // self._size).astype(np.int32)
        scratch = self._copied(of_keys, firsts, int((full + 1).sum()))
        self._aggregates.fold(scratch, places, given)
        self._keep(of_keys, scratch, firsts + full)
        done = np.flatnonzero(numbers % self._size == self._size - 1)
        if len(done):
            taken = pa.array(done)
            computed = self._aggregates.results(scratch, places[done])
            self._emit(self._rows([column.take(taken) for column in keys], computed))

    def _copied(self, of_keys: Int32s, firsts: Int64s, places: int) -> Places:
        """Return empty places, and in the first one of each key what its open window has."""
        scratch = self._aggregates.places(places)
        for name, column in scratch.columns.items():
            column[firsts] = self._state.column(name)[of_keys]
        return scratch

    def _keep(self, of_keys: Int32s, scratch: Places, lasts: Int64s) -> None:
        """Write back what the open window of each key has. Keys without one leave the state."""
        for name, column in scratch.columns.items():
            self._state.column(name)[of_keys] = column[lasts]
        filled = self._state.column(FILLED)
        filled[of_keys] %= self._size
        self._state.delete(of_keys[filled[of_keys] == 0])

    def on_watermark(self, time_us: int) -> int:
        """At the end of the input, emit the open windows: at most one slice. Returns the time reached."""
        if time_us < _LAST_DUE or self._state.next_due() == NOTHING_DUE:
            return time_us
        rows = self._state.take_due(_LAST_DUE, FIRED_ROWS_MAX)
        self._emit(self._shown(rows))
        self._state.delete(rows)
        return reached(time_us, self._state.next_due())

    def _shown(self, rows: Int32s) -> pa.RecordBatch:
        keys = self._keys.codec.window_columns(self._state.keys_of(rows))
        return self._rows(keys, self._aggregates.results(self._state, rows))

    def _rows(self, keys: Sequence[pa.Array], computed: Sequence[pa.Array]) -> pa.RecordBatch:
        cast = [as_type(c, f.type) for c, f in zip([*keys, *computed], self._output, strict=True)]
        batch = pa.RecordBatch.from_arrays(cast, schema=self._output)
        return with_hidden(batch, pa.array(np.full(batch.num_rows, NO_BOUND, np.int64)) if self._timed else None)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return what the open windows of state rows have."""
        return split_hidden(self._shown(rows))[0]

    def counters(self) -> dict[str, int]:
        """Count keys that have an open window."""
        return {"keys": self._state.about_keys()}
