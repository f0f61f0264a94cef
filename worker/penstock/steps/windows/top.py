"""The best rows of each window, whatever their key: emitted when the window is over, the best one first.

It takes the results of windows, one row for each key and window, and the window is its key. So all rows of a window
meet in one task, and windows are dealt out among the tasks. A window is over when the watermark reaches its end: by
then its last result has come, because a step says a time only behind the rows of this time.

A result that comes later goes to ``late``. That can only be one of a task whose input was idle.
"""

import numpy as np
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, fixed, flat
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import NO_BOUND, NOTHING_DUE, StateSchema, reached, with_hidden
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.ranked import COUNT, ROWS, RankedStep, Ranking
from penstock.steps.windows.late_rows import LateRows, instants


class WindowTopStep(RankedStep):
    """Emits the best rows of each window, with the columns that they have."""

    def __init__(self, name: str, ranking: Ranking, keys: KeyColumns, schema: pa.Schema, end: str) -> None:
        """Take rows of ``schema``. ``keys`` are the columns of their window, of which ``end`` is its end."""
        super().__init__(name, ranking, keys, (schema, schema))
        self._end = end
        self._late = LateRows(instants(-1, end), keys)  # late is what ends at the time reached, or before it

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        values = (Value(ROWS, BYTES), Value(COUNT, "int64"))
        self._state = state(StateSchema(self.name, self._keys.fields, values, timed=True))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Let all rows enter that are on time. Late rows go to the output ``late``."""
        given, late = self._late.split(batch)
        if late is not None:
            self._outputs["late"](late)
        if given.rows.num_rows:
            self._enter(given.rows)

    def _state_rows(self, rows: pa.RecordBatch, keys: list[pa.Array]) -> Int32s:
        ends = fixed(flat(rows.column(self._end)), np.int64)
        codec = self._keys.codec
        found = self._state.rows(codec.window_keys(keys, ends, codec.hashed(keys)))
        self._state.set_due(found, ends)
        return found

    def _key_columns(self, rows: Int32s) -> list[pa.Array]:
        return self._keys.codec.window_columns(self._state.keys_of(rows))

    def on_watermark(self, time_us: int) -> int:
        """Emit the windows that are over, at most one slice. Returns the time reached."""
        self._late.reach(time_us)
        first = self._state.next_due()
        if first > time_us or first == NOTHING_DUE:
            return time_us
        rows = self._state.take_due(time_us, max(FIRED_ROWS_MAX // self._ranking.most, 1))
        best = self.contents(rows)
        self._emit(with_hidden(best, pa.array(np.full(best.num_rows, NO_BOUND, np.int64))))
        self._state.delete(rows)
        return reached(time_us, self._state.next_due())

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that windows of these groups up to this time may have been emitted."""
        self._late.gain(share, fired_us)

    def counters(self) -> dict[str, int]:
        """Return how many windows are open, and how many rows were late for each cause."""
        return {**super().counters(), **self._late.counters()}
