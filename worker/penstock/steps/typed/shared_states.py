"""What the inputs of a process step share: the states of keys, and the times at which they come due."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from penstock.contract.graph import TimeKind
from penstock.model.arrays import Int32s, Int64s, flat
from penstock.model.declared.field_kinds import TimerField, TimersField, timer_column
from penstock.model.declared.state_types import StateType
from penstock.steps.base import NO_BOUND, NOTHING_DUE, KeyedState, TimerColumn
from penstock.steps.keyed import KeyColumns
from penstock.steps.processing_time import ProcessingTime
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.call_context import CallContext
from penstock.steps.typed.lifetime import EXPIRES, Lifetime, RecordLives, TimerLives, record_times
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.undo_log import UndoLog


class SharedStates:
    """The states of keys. ``table`` is set when the step opens its state, before any other use."""

    table: KeyedState

    def __init__(self, state: StateType, timers: Iterable[str], key_groups: int) -> None:
        """Keep one ``state`` for each key. Functions are called for ``timers`` of it."""
        self.log = UndoLog()
        self.rows = StateRows(state, self.log)
        self.clock, self.ctx = ProcessingTime(), CallContext()
        self.reached: Int64s = np.full(key_groups, NO_BOUND, np.int64)  # by key group
        self._never = self.reached.copy()
        self._ttl_time = state.time
        self.lifetime = None if state.ttl_us is None else Lifetime(state.ttl_us, self.rows)
        self.kinds = {name: _time_of(state, name) for name in timers}
        self.timers = tuple(TimerColumn(timer_column(n, state.field(n).kind), kind) for n, kind in self.kinds.items())
        self.rows.call_for(self.kinds)
        if self.lifetime is not None:
            self.kinds[EXPIRES] = state.time

    def rows_of(self, keys: KeyColumns, part: pa.RecordBatch) -> Int32s:
        """Return the state row of the key of each row."""
        return self.table.rows(keys.codec.keys(keys.of(part)))

    def lives(self, keys: KeyColumns, part: pa.RecordBatch, table: BoundTable, time: str | None) -> RecordLives | None:
        """Return the lifetimes of the keys of rows, whose event time is in ``time``. None if keys live for ever."""
        if self.lifetime is None:
            return None
        self.lifetime.bind(table)
        if self._ttl_time is TimeKind.CLOCK:
            times = np.full(part.num_rows, self.ctx.time, np.int64)
            return RecordLives(self.lifetime, times, times)
        assert time is not None, "a ttl of event time was checked to have it"
        reached_us = self.reached[keys.codec.hashed(keys.of(part))[1]]
        return RecordLives(self.lifetime, record_times(flat(part.column(time)), reached_us), reached_us)

    def timer_lives(self, kind: TimeKind, table: BoundTable, rows: Int32s, groups: Int32s) -> TimerLives | None:
        """Return the lifetimes of the keys of timers. None if keys live for ever.

        ``rows`` and ``groups`` are the state rows and the key groups of n keys. Event time of a timer of the clock is
        that which the key group has reached, also before a restore. At the end of the input no time passes any more.
        """
        if self.lifetime is None:
            return None
        self.lifetime.bind(table)
        if self._ttl_time is kind is TimeKind.EVENT:
            return TimerLives(self.lifetime)
        if self._ttl_time is TimeKind.CLOCK:
            return TimerLives(self.lifetime, dict.fromkeys(rows.tolist(), self.ctx.time))
        reached_us = self.reached[groups]
        times = np.where(reached_us == NOTHING_DUE, NO_BOUND, reached_us)
        return TimerLives(self.lifetime, dict(zip(rows.tolist(), times.tolist(), strict=True)))

    def arm(self, rows: Int32s) -> None:
        """Queue the timers that records have set."""
        for kind, reached_us in ((TimeKind.EVENT, self.reached), (TimeKind.CLOCK, self._never)):
            if kind in self.kinds.values():
                self.table.arm(rows, reached_us, kind)


def _time_of(state: StateType, timer: str) -> TimeKind:
    kind = state.field(timer).kind
    assert isinstance(kind, TimerField | TimersField), "handlers were checked"
    return TimeKind.CLOCK if isinstance(kind, TimerField) and kind.clock else TimeKind.EVENT
