"""Emits the rows of keys that are no duplicates.

Of each key the first row is emitted, and then the next row that is at least ``within`` after the one that was emitted
before. All rows between are duplicates, and so are rows before it. Without ``within`` a key has one row for ever.

A row is late if and only if ``time + lateness < bound``: see :mod:`penstock.steps.windows.sessions`. A late row is
neither emitted nor counted as seen. So a key can be forgotten when the time has reached the end of its duplicates plus
the lateness: a row that comes later is late, or no duplicate. Forgetting never changes an answer.
"""

import numpy as np
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s, fixed_array, pack_validity
from penstock.model.kernels.first_rows import first_rows
from penstock.model.keys import Keys
from penstock.model.table_columns import NO_TIMER
from penstock.steps.base import NO_BOUND, PlainStep, StateSchema, TimerColumn, reached
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.windows.late_rows import TIME, LateRows

UNTIL = "until"
FOR_EVER = -1
END_OF_TIME = np.iinfo(np.int64).max


class DistinctStep(PlainStep):
    """Emits the rows that are no duplicates, unchanged and in order."""

    def __init__(self, name: str, keys: KeyColumns, within_us: int | None, late: LateRows | None) -> None:
        """Forget the rows of a key ``within_us`` after one was emitted. Both are None if a key is kept for ever."""
        super().__init__(name)
        self._keys = keys
        self._within = FOR_EVER if within_us is None else within_us
        self._late = late
        self._never: Int64s = np.full(keys.codec.max_key_groups, NO_BOUND, np.int64)
        self._places: Int64s = np.empty(0, np.int64)

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._state = state(StateSchema(self.name, self._keys.fields, (), timers=(TimerColumn(UNTIL),)))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Emit the rows that are no duplicates. Late rows go to the output ``late`` unchanged."""
        places, times = self._on_time(batch)
        self._state.make_room()  # a batch of duplicates adds no key, which would make room
        found = self._state.found(self._keys_at(batch, places))
        until = np.where(found < 0, NO_TIMER, self._state.column(UNTIL)[found])
        may_be_first = times >= until  # a duplicate of what came before the batch stays one
        places, times = places[may_be_first], times[may_be_first]
        if not len(places):
            return
        rows = self._state.rows(self._keys_at(batch, places))
        firsts = np.empty(len(rows), np.uint8)
        first_rows(self._within, rows, times, self._state.column(UNTIL), firsts)
        if self._late is not None:
            self._state.arm(rows, self._never)
        self._places = places[firsts != 0]
        self._emit(batch.take(pa.array(self._places)))

    def _on_time(self, batch: pa.RecordBatch) -> tuple[Int64s, Int64s]:
        """Return the places of the rows that are on time, and their times. Emit the others."""
        if self._late is None:
            return np.arange(batch.num_rows), np.zeros(batch.num_rows, np.int64)
        given, late = self._late.split(batch)
        if late is not None:
            self._outputs["late"](late)
        return np.arange(batch.num_rows) if given.places is None else given.places, given.ends - 1

    def _keys_at(self, batch: pa.RecordBatch, places: Int64s) -> Keys:
        some = pa.array(places)
        return self._keys.codec.keys([column.take(some) for column in self._keys.of(batch)])

    def on_watermark(self, time_us: int) -> int:
        """Forget keys whose duplicates would be late now, at most one slice. Returns the time reached."""
        if self._late is None:
            return time_us
        self._late.reach(time_us)
        over = self._state.take_timers(time_us - self._late.lateness_us, FIRED_ROWS_MAX)
        self._state.delete(over.rows)
        return reached(time_us, self._state.next_timer(), self._late.lateness_us)

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that keys of these groups up to this time may have been forgotten."""
        if self._late is not None:
            self._late.gain(share, fired_us)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows, and until when each has duplicates; null: for ever."""
        keys = self._keys.codec.columns(self._state.keys_of(rows))
        until = self._state.column(UNTIL)[rows]
        bounded = pack_validity(until != END_OF_TIME)
        names = [*(name for name, _ in self._keys.fields), UNTIL]
        return pa.RecordBatch.from_arrays([*keys, fixed_array(TIME, until, bounded)], names)

    def parent(self, row: int) -> int:
        """Return the input row that was emitted as ``row``."""
        return int(self._places[row])

    def counters(self) -> dict[str, int]:
        """Return the number of keys, and of late rows by their cause."""
        late = {} if self._late is None else self._late.counters()
        return {"keys": self._state.about_keys(), **late}
