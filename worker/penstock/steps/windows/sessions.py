"""Session windows of event time for each key: rows less than a gap apart. Each session emits once.

A session ends a gap after its last row. A row at that very time begins another session. Rows enter parts of sessions:
see :mod:`penstock.model.kernels.session_parts`. The key of the state is (page, key), and a part's timer is its end. So
a part belongs to the key group of its key, and moves and is restored with it.

A row is late if and only if ``time + lateness < bound``: its own bound decides, not what has emitted. A row of a split
that was idle may come after a session that it belongs to has emitted. It is late too, and counted apart. So a row that
is on time is at or after the end of every part that is over. Sessions emit in the order of end, hash and key.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.limits import FIRED_SLIDING_ROWS_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s
from penstock.model.kernels import session_parts
from penstock.model.table_columns import Value
from penstock.steps.base import NO_BOUND, PlainStep, StateSchema, TimerColumn, reached, split_hidden
from penstock.steps.keyed import Aggregates, KeyColumns, OpenState
from penstock.steps.windows.late_rows import LateRows, WindowShape, instants, window_rows

START, END = "start", "until"
_PAGE = ("__page", pa.int64())


@dataclass(frozen=True, slots=True)
class SessionShape:
    """The gap that ends a session and the allowed lateness, in microseconds; ``time`` names the time column."""

    gap_us: int
    lateness_us: int
    time: str

    @property
    def instants(self) -> WindowShape:
        """Return windows of one microsecond. A row is late for its own if and only if it is late for its session."""
        return instants(self.lateness_us, self.time)


class SessionStep(PlainStep):
    """Emits one row for each key and session: keys, window_start, window_end, computed columns."""

    slice_rows = FIRED_SLIDING_ROWS_MAX  # parts that are over at once

    def __init__(
        self,
        name: str,
        shape: SessionShape,
        aggregates: Aggregates,
        keys: KeyColumns,
        output: pa.Schema,
    ) -> None:
        """Compute ``aggregates``, which have ``session_parts.PLACES`` places, per session; emit rows of ``output``."""
        super().__init__(name)
        self._shape = shape
        self._keys = keys
        self._aggregates = aggregates
        self._output = output
        self._late = LateRows(shape.instants, keys)
        self._never: Int64s = np.full(keys.codec.max_key_groups, NO_BOUND, np.int64)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        values = (Value(START, "int64"), *self._aggregates.values())
        self._state = state(StateSchema(self.name, (_PAGE, *self._keys.fields), values, timers=(TimerColumn(END),)))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Add rows to the parts of their pages. Late rows go to the output ``late`` unchanged."""
        given, late = self._late.split(batch)
        if late is not None:
            self._outputs["late"](late)
        if not len(given.ends):
            return
        times = given.ends - 1
        keys = self._keys.codec.window_keys(self._keys.of(given.rows), times // self._shape.gap_us, given.hashed)
        rows = self._state.rows(keys)
        parts = self._parts()
        if len(parts[0]) * session_parts.PLACES > np.iinfo(np.int32).max:
            raise StateError(f"step {self.name!r}: a task has too many sessions; give the step more tasks")
        places = np.empty(len(rows), np.int32)
        session_parts.enter(rows, times, self._shape.gap_us, parts, places)
        self._state.arm(rows, self._never)
        self._aggregates.fold(self._state, places, given.rows)

    def on_watermark(self, time_us: int) -> int:
        """Emit sessions whose end plus lateness the watermark has reached, at most one slice of parts that are over.

        Returns the time reached.
        """
        self._late.reach(time_us)
        over = self._state.take_timers(time_us - self._shape.lateness_us, self.slice_rows)
        if len(over.rows):
            self._end(over.rows, over.times)
        return reached(time_us, self._state.next_timer(), self._shape.lateness_us)

    def _end(self, rows: Int32s, ends: Int64s) -> None:
        """Hand parts on, and emit those that were the last of their session. ``ends`` are in order."""
        codec = self._keys.codec
        keys = codec.window_columns(self._state.keys_of(rows))
        following = self._state.found(codec.window_keys(keys, ends // self._shape.gap_us, codec.hashed(keys)))
        parts = self._parts()
        if session_parts.follow(ends, parts, following):
            self._state.mark(following[following >= 0])
            session_parts.hand_on_starts((rows, following), parts[0])
        last = np.flatnonzero(following < 0)
        computed = self._aggregates.handed_on(self._state, (rows, following), last)
        if len(last):
            chosen = pa.array(last)
            times = parts[0][rows[last]], ends[last]
            self._emit(window_rows([k.take(chosen) for k in keys], times, computed, self._output))
        self._state.delete(rows)

    def _parts(self) -> tuple[Int64s, Int64s]:
        return self._state.column(START), self._state.column(END)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the parts of sessions that state rows have, each with what was handed on to it."""
        keys = self._keys.codec.window_columns(self._state.keys_of(rows))
        starts, ends = (column[rows] for column in self._parts())
        computed = self._aggregates.combined(
            self._state, (rows, 1, 0, session_parts.PLACES - 1, session_parts.PLACES), len(rows)
        )
        return split_hidden(window_rows(keys, (starts, ends), computed, self._output))[0]

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that sessions of these groups up to this time may have emitted."""
        self._late.gain(share, fired_us)

    def counters(self) -> dict[str, int]:
        """Return the number of parts of sessions, and of late rows by their cause."""
        return {"keys": self._state.about_keys(), **self._late.counters()}
