"""Windows of processing time: those of event time, of which the clock of the task is the time.

A row has the time at which its batch comes. What the inner step calls a watermark is the clock. So no row is late, and
windows end while no row comes. At the end of the input all windows end. Each row is in the windows of one moment,
through any restore; which moment that is depends on when it comes.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Int32s, fixed_array
from penstock.steps.base import NOTHING_DUE, Emit, KeyedState, PlainStep, StateSchema, split_hidden
from penstock.steps.keyed import OpenState
from penstock.steps.processing_time import ProcessingTime
from penstock.steps.windows.by_shape import AnyWindowStep
from penstock.steps.windows.late_rows import TIME

CLOCK = pa.field("__clock", TIME)  # the time column of the inner step, behind all columns of a row


class ClockStep(PlainStep):
    """Emits what windows of event time emit, by the clock."""

    def __init__(self, inner: AnyWindowStep, *, timed: bool) -> None:
        """Give rows to ``inner``, whose time column is CLOCK. Emitted rows have the hidden bound if ``timed``."""
        super().__init__(inner.name)
        self.clock = ProcessingTime()
        self._inner = inner
        self._timed = timed

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""

        def open_one(schema: StateSchema) -> KeyedState:
            opened = state(schema)
            if schema.name == self.name:  # of windows; their rows may have a state of their own
                self._state = opened
            return opened

        self._inner.open(open_one)

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        super().bind(outputs)
        self._inner.bind({"main": self._take, "late": self._refuse})

    def _take(self, results: pa.RecordBatch) -> None:
        self._emit(results if self._timed else split_hidden(results)[0])

    def _refuse(self, rows: pa.RecordBatch) -> None:
        raise AssertionError(f"step {self.name!r}: {rows.num_rows} rows are late, and the clock never goes back")

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows to the windows of this moment."""
        rows = split_hidden(batch)[0]
        now = np.full(rows.num_rows, self.clock.now_us())
        self._inner.on_batch(rows.append_column(CLOCK, fixed_array(TIME, now)))

    def on_watermark(self, time_us: int) -> int:
        """End all windows at the end of the input: at most one slice. Returns the time reached."""
        return self._inner.on_watermark(time_us) if time_us == NOTHING_DUE else time_us

    def next_tick(self) -> int:
        """Return the time of the clock at which a window ends; NOTHING_DUE if none is open."""
        return min(self._state.next_due(), self._state.next_timer())

    def on_clock(self) -> None:
        """Emit the windows that have ended by the clock: at most one slice."""
        self._inner.on_watermark(self.clock.now_us())

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return what the inner step keeps."""
        return self._inner.contents(rows)

    def counters(self) -> dict[str, int]:
        """Return the number of open windows."""
        return {"keys": self._state.about_keys()}
