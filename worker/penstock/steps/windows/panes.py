"""Tumbling windows that emit more than once: each time a pane, with the totals so far.

Panes come at the times of two timers of a window, which are set when rows enter it and no pane is to come already:

    next   event time: the next multiple of ``early`` after the start of the window; on late: its end, and after that
           at once, which is the next watermark
    wait   the clock: ``early`` after the first row that no pane has

The last pane is the one of every tumbling window: at its end plus lateness. A watermark that passes this too gives
the last pane only. A pane clears both timers, so it comes only if the window has rows that no pane had.

What a pane has depends on when rows and watermarks came. So it may be another one after a rollback. Pane numbers and
last panes do not depend on it: the state has the number.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.graph import TimeKind, Trigger
from penstock.model.arrays import Int32s, Int64s
from penstock.model.table_columns import NO_TIMER, Value
from penstock.steps.base import NO_BOUND, TimerColumn, reached
from penstock.steps.keyed import Aggregates, KeyColumns
from penstock.steps.processing_time import ProcessingTime
from penstock.steps.windows.late_rows import OnTime, WindowShape
from penstock.steps.windows.tumbling import WindowStep

PANE, NEXT, WAIT = "pane", "next", "wait"


class PaneStep(WindowStep):
    """Emits rows for each key and window: keys, window_start, window_end, pane, final, computed columns."""

    values = (Value(PANE, "int64"),)
    timers = (TimerColumn(NEXT), TimerColumn(WAIT, TimeKind.CLOCK))

    def __init__(
        self,
        name: str,
        shape: WindowShape,
        aggregates: Aggregates,
        keys: KeyColumns,
        output: pa.Schema,
        *,
        trigger: Trigger,
    ) -> None:
        """Compute ``aggregates`` per key and window; emit rows of ``output`` when ``trigger`` says, and at the end."""
        super().__init__(name, shape, aggregates, keys, output)
        self.clock = ProcessingTime()
        self._trigger = trigger
        self._never: Int64s = np.full(keys.codec.max_key_groups, NO_BOUND, np.int64)

    # --- Rows that come -----------------------------------------------------------------------

    def _enter(self, given: OnTime) -> Int32s:
        """Add rows to their windows, and set the timers of these."""
        rows = super()._enter(given)
        trigger, emitted = self._trigger, self._late.emitted
        if trigger.early_us is not None and trigger.time is TimeKind.CLOCK:
            self._set(WAIT, rows, np.full(len(rows), self.clock.now_us() + trigger.early_us))
            self._state.arm(rows, self._never, TimeKind.CLOCK)
        if trigger.on_late or trigger.time is TimeKind.EVENT:
            self._set(NEXT, rows, self._next(given.ends, emitted[given.hashed[1]]))
            self._state.arm(rows, emitted)
        return rows

    def _next(self, ends: Int64s, reached_us: Int64s) -> Int64s:
        """Return the time of the next pane of windows with these ends; NO_TIMER where none but the last one comes."""
        last: npt.NDArray[Any] = ends if self._trigger.on_late else np.full(len(ends), NO_TIMER)
        every = self._trigger.early_us
        if every is None or self._trigger.time is TimeKind.CLOCK:
            return last
        starts = ends - self._shape.size_us
        passed = (np.maximum(reached_us, starts) - starts) // every
        times = starts + (passed + 1) * every
        return np.where(times < ends, times, last)

    def _set(self, timer: str, rows: Int32s, times: Int64s) -> None:
        column = self._state.column(timer)
        unset = column[rows] == NO_TIMER
        column[rows[unset]] = times[unset]

    # --- Panes --------------------------------------------------------------------------------

    def on_watermark(self, time_us: int) -> int:
        """Emit last panes, then others whose time the watermark has reached, at most one slice of each.

        Returns the time reached.
        """
        reached_us = super().on_watermark(time_us)
        if reached_us == time_us:
            self._emit_panes(self._state.take_timers(time_us, FIRED_ROWS_MAX).rows)
        return reached(reached_us, self._state.next_timer())

    def next_tick(self) -> int:
        """Return the time of the clock at which a pane is due; NOTHING_DUE if none is."""
        return self._state.next_timer(TimeKind.CLOCK)

    def on_clock(self) -> None:
        """Emit the panes that are due by the clock: at most one slice."""
        self._emit_panes(self._state.take_timers(self.clock.now_us(), FIRED_ROWS_MAX, TimeKind.CLOCK).rows)

    def _emit_panes(self, rows: Int32s) -> None:
        if not len(rows):
            return
        for timer in (NEXT, WAIT):
            self._state.column(timer)[rows] = NO_TIMER
        self._emit(self._emitted(rows, self._numbered(rows, final=False)))
        self._state.column(PANE)[rows] += 1

    def _numbered(self, rows: Int32s, *, final: bool) -> list[pa.Array]:
        return [pa.array(self._state.column(PANE)[rows]), pa.array(np.full(len(rows), final))]

    def _last(self, rows: Int32s) -> pa.RecordBatch:
        return self._emitted(rows, self._numbered(rows, final=True))
