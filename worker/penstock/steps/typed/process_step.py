"""The process step whose function has types: records, the state of their keys as a row, ``out.emit``.

For each slice of rows:

    read the records ──> rows of their keys in the state's table ──> KeyedTypedCalls ──> take ──> queue timers, store

Timers fire at a watermark, a slice a call: see :mod:`penstock.steps.typed.timer_calls`. A timer that a record sets to
the time that the step has reached, or before it, fires one microsecond later. So the rows that it emits are never late.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.contract.graph import DEAD_LETTER, Call, OnError, TimeKind
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s, flat
from penstock.model.declared.field_kinds import TimerField
from penstock.model.declared.function_types import CallShape, FunctionTypes, takes_context
from penstock.model.declared.state_types import StateType
from penstock.steps.base import NO_BOUND, NOTHING_DUE, TimerColumn, reached, with_hidden
from penstock.steps.compiled.choice import compiled
from penstock.steps.compiled.frames import CompiledCalls
from penstock.steps.dead_letters import unplaced
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.processing_time import ProcessingTime
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.call_context import CallContext
from penstock.steps.typed.compiled_calls import CompiledTypedCalls, PythonRecords, emitted_by_both
from penstock.steps.typed.emitted_records import EmittedRecords, EmittedRows, Schemas
from penstock.steps.typed.evolving_schema import evolving_schema
from penstock.steps.typed.field_cells import check_cells
from penstock.steps.typed.lifetime import EXPIRES, Lifetime, RecordLives, record_times
from penstock.steps.typed.plain_steps import EmittingStep, outputs_of
from penstock.steps.typed.record_calls import TypedCalls, check_returns_nothing
from penstock.steps.typed.record_reader import RecordReader, Records
from penstock.steps.typed.state_contents import StateContents
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.timer_calls import FiredSlice, Handlers, KeyObjects, TimerCalls, TimerContext
from penstock.steps.typed.undo_log import UndoLog
from penstock.steps.user_calls import RecordCalls

Arm = Callable[[Int32s], None]


class TypedProcessStep(EmittingStep):
    """Calls a function with records of keys, and the state of each key."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        call: Call,
        typed: tuple[Callable[..., Any], FunctionTypes],
        schemas: Schemas,
        *,
        handlers: Handlers = MappingProxyType({}),
        timed: bool = False,
        time: str | None = None,
    ) -> None:
        """Call a function with its types. Read rows of ``schemas[""]``, and emit rows of the other schemas, by output.

        ``handlers`` are called when timers fire, by the field of the state. ``timed``: rows have the hidden bound
        column. ``time`` names the column of event time. Raises ConfigError for columns that do not fit, and for a state
        that cannot be kept.
        """
        self._function, types = typed
        assert types.state is not None, "a process has a state"
        check_cells(types.state)
        super().__init__(name, call, self._begin)
        self.clock = ProcessingTime()
        self._ctx = CallContext()
        if types.ctx:
            self._function = self._ctx.given(self._function)
        called = {n: self._ctx.given(h) if takes_context(h) else h for n, h in handlers.items()}
        self._keys = keys
        self._reader = RecordReader(types.record, schemas[""])
        self._compiled = compiled(call.compiled, self._function, CallShape.PROCESS, types)
        self._log = UndoLog()
        self._emitted_records = EmittedRecords(outputs_of(types), schemas, self._log)
        self._rows = StateRows(types.state, self._log)
        self._contents = StateContents(types.state, self._rows)
        kinds = {name: _time_of(types.state, name) for name in handlers}
        timers = tuple(TimerColumn(name, kind) for name, kind in kinds.items())
        self._schema = evolving_schema(name, keys.fields, types.state, timers)
        self._input, self._timed, self._time = schemas[""], timed, time
        self._reached: Int64s = np.full(keys.codec.max_key_groups, NO_BOUND, np.int64)  # by key group
        self._never = self._reached.copy()
        self._firing = False
        self._dropped = 0
        ttl_us, self._ttl_time = types.state.ttl_us, types.state.time
        self._lifetime = None if ttl_us is None else Lifetime(ttl_us, self._rows)
        if ttl_us is not None:
            kinds[EXPIRES] = self._ttl_time
            called[EXPIRES] = lambda *_: self._rows.forget()
        self._timers = self._timer_calls(call, called, kinds, KeyObjects(keys, types.record))

    def _timer_calls(
        self, call: Call, called: Handlers, kinds: Mapping[str, TimeKind], keys: KeyObjects
    ) -> dict[TimeKind, TimerCalls]:
        context = TimerContext(
            self.name,
            keys,
            self._rows,
            self._emitted_records,
            call.on_error is OnError.DEAD_LETTER,
            tuple(dict.fromkeys(kinds.values())),
            self._reached,
            self._lifetime,
            self._renewed_us,
        )
        return {
            kind: TimerCalls(kind, {n: h for n, h in called.items() if kinds[n] is kind}, context) for kind in TimeKind
        }

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._state = state(self._schema)

    def _state_rows(self, part: pa.RecordBatch) -> Int32s:
        """Return the state row of each row's key."""
        return self._state.rows(self._keys.codec.keys(self._keys.of(part)))

    def _renewed_us(self, time_us: int) -> int:
        """Return from when on a key lives to which the function of a timer of this time has written."""
        return time_us if self._ttl_time is TimeKind.EVENT else self._ctx.time

    def _lives(self, part: pa.RecordBatch, table: BoundTable) -> RecordLives | None:
        """Return the lifetimes of the keys of rows; None if keys live for ever."""
        if self._lifetime is None:
            return None
        self._lifetime.bind(table)
        if self._ttl_time is TimeKind.CLOCK:
            times = np.full(part.num_rows, self._ctx.time, np.int64)
            return RecordLives(self._lifetime, times, times)
        assert self._time is not None, f"step {self.name!r} was checked to have event time"
        reached_us = self._reached[self._keys.codec.hashed(self._keys.of(part))[1]]
        return RecordLives(self._lifetime, record_times(flat(part.column(self._time)), reached_us), reached_us)

    def _begin(self, part: pa.RecordBatch, _: bool) -> RecordCalls[Mapping[str, EmittedRows]]:
        self._ctx.time = self.clock.now_us()
        if self._compiled is None or not self._compiled.reads(part):
            records = self._reader.read(part)  # first: an error of it leaves no new key
            return self._python_calls(part, records, self._state_rows(part))
        rows = self._state_rows(part)
        machine = self._compiled.begin(part, self._state, rows)
        python = PythonRecords(lambda: self._python_calls(part, self._reader.read(part), rows))
        return KeyedCompiledCalls(machine, rows, python, self._emitted_records, self._arm)

    def _python_calls(self, part: pa.RecordBatch, records: Records, rows: Int32s) -> "KeyedTypedCalls":
        self._rows.bind(table := BoundTable(self._state, rows))
        state = self._rows, rows, self._lives(part, table)
        return KeyedTypedCalls(self._function, records, state, self._emitted_records, self._arm)

    def _arm(self, rows: Int32s) -> None:
        """Queue the timers that records have set."""
        for kind, reached_us in ((TimeKind.EVENT, self._reached), (TimeKind.CLOCK, self._never)):
            if self._timers[kind].names:
                self._state.arm(rows, reached_us, kind)

    # --- Timers -------------------------------------------------------------------------------

    def on_watermark(self, time_us: int) -> int:
        """Fire the timers up to a time, at most one slice. Returns the time reached.

        At the end of the input those of the clock follow.
        """
        self._ctx.watermark = reached_us = self._fire(TimeKind.EVENT, time_us)
        np.maximum(self._reached, reached_us, out=self._reached)
        return self._fire(TimeKind.CLOCK, reached_us) if reached_us == NOTHING_DUE else reached_us

    def _fire(self, kind: TimeKind, bound: int) -> int:
        """Fire at most one slice of what is due. Return the time up to which all has fired."""
        if not self._timers[kind].names:
            return bound
        self._ctx.time = self.clock.now_us()
        fired = self._timers[kind].fire(self._state, bound)
        self._dropped += fired.dropped
        self._firing = True
        try:
            self._emit_fired(fired)
        finally:
            self._firing = False
        first = self._state.next_timer(kind)
        return reached(bound - (fired.full and first == bound), first)  # one of the last microsecond may be left

    def next_tick(self) -> int:
        """Return the time of the first timer of the clock; NOTHING_DUE if none is set."""
        return self._state.next_timer(TimeKind.CLOCK) if self._timers[TimeKind.CLOCK].names else NOTHING_DUE

    def on_clock(self) -> None:
        """Fire the timers of the clock that are due: at most one slice."""
        self._fire(TimeKind.CLOCK, self.clock.now_us())

    def _emit_fired(self, fired: FiredSlice) -> None:
        for output, (rows, _) in fired.emitted.items():
            if rows.num_rows:
                self._outputs[output](self._never_late(rows))
        if fired.errors:
            self._dead_letters += len(fired.errors)
            keys = dict(zip((name for name, _ in self._keys.fields), fired.keys, strict=True))
            rows = unplaced(self.name, self._input, keys, fired.errors)
            self._outputs[DEAD_LETTER](self._never_late(rows))

    def _never_late(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        never = pa.array(np.full(rows.num_rows, NO_BOUND, np.int64)) if self._timed else None
        return with_hidden(rows, never)

    def parent(self, row: int) -> int | None:
        """Return the input row of an emitted row; None for one that a timer has emitted."""
        return None if self._firing else super().parent(row)

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that timers of these key groups up to a time may have fired."""
        for groups in share:
            mine = self._reached[groups.start : groups.stop]
            np.maximum(mine, fired_us, out=mine)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows and the fields of their states."""
        keys = self._keys.codec.columns(self._state.keys_of(rows))
        self._rows.bind(BoundTable(self._state, rows))
        return pa.RecordBatch.from_arrays([*keys, *self._contents.arrays(rows)], schema=self.contents_schema)

    @property
    def contents_schema(self) -> pa.Schema:
        """Return the key columns and the fields of the state with their types."""
        return pa.schema([*(pa.field(name, kind) for name, kind in self._keys.fields), *self._contents.fields])

    def load_contents(self, rows: pa.RecordBatch) -> None:
        """Store the state of new keys.

        Raises ValueError for a value that cannot be stored, and for a key that has a row already.
        """
        before = self._state.about_keys()
        places = self._state_rows(rows)
        self._rows.bind(BoundTable(self._state, places))
        if self._state.about_keys() - before < rows.num_rows:
            names = ", ".join(name for name, _ in self._keys.fields)
            raise ValueError(f"a key is there twice, here or in an earlier row: each key ({names}) has one row")
        self._contents.load(places, rows)
        self._rows.store()

    def counters(self) -> dict[str, int]:
        """Count keys, dead letters, and timers that were set at the end of the input."""
        return {**super().counters(), "keys": self._state.about_keys(), "timers_dropped": self._dropped}


def _time_of(state: StateType, timer: str) -> TimeKind:
    kind = state.field(timer).kind
    assert isinstance(kind, TimerField), "handlers were checked"
    return TimeKind.CLOCK if kind.clock else TimeKind.EVENT


class KeyedTypedCalls(TypedCalls[Mapping[str, EmittedRows]]):
    """The calls of a function with types for records with state."""

    def __init__(
        self,
        function: Callable[..., Any],
        records: Records,
        state: tuple[StateRows, Int32s, RecordLives | None],
        emitted: EmittedRecords,
        arm: Arm,
    ) -> None:
        """Call ``function`` for each of ``records``. ``state`` has the row of each record's key, and its lifetime."""
        self._rows, self._all_rows, self._lives = state
        self._arm = arm
        super().__init__(records, self._one, self._take, self._rows.log)
        self._places: Sequence[int] = self._all_rows.tolist()
        self._function = function
        self._emitted = emitted
        emitted.record = 0

    def _call_row(self, row: int, record: Any) -> None:
        place = self._places[row]
        self._rows.at(place)
        if self._lives is None:
            self._one(record)
            return
        self._lives.begin(row, place)
        self._one(record)
        self._lives.renew(row, place)

    def _one(self, record: Any) -> None:
        check_returns_nothing(self._function(record, self._rows.proxy, self._emitted.out), "out")
        self._rows.kept()
        self._emitted.record += 1

    def kept_later(self, failed: Sequence[int], kept: Int32s) -> None:
        """Note which keys have a record that was kept after one that failed. ``kept`` are rows that others have run."""
        places = np.asarray(self._places)
        last = {self._places[row]: row for row in failed}
        later = [place for place, row in last.items() if np.any(places[kept[np.searchsorted(kept, row) :]] == place)]
        self._rows.kept_rows(later)

    def _take(self, _: Sequence[Any]) -> Mapping[str, EmittedRows]:
        return self._emitted.take()

    def undo(self, row: int) -> None:
        """Take back all that the record has written and emitted. A key that it would have begun is not kept."""
        super().undo(row)
        self._rows.undone(self._places[row])

    def store(self) -> None:
        """Queue the timers that the records have set, and store what they have written."""
        self._arm(self._all_rows)
        self._rows.store()


class KeyedCompiledCalls(CompiledTypedCalls[Mapping[str, EmittedRows]]):
    """The calls of a compiled function for records with state."""

    def __init__(
        self, machine: CompiledCalls, rows: Int32s, python: PythonRecords[Any], emitted: EmittedRecords, arm: Arm
    ) -> None:
        """Run the records whose keys have these state rows."""
        self._arm, self._all_rows = arm, rows
        super().__init__(machine, len(rows), python, lambda: emitted_by_both(machine, python, emitted))
        self._keyed = python

    def store(self) -> None:
        """Queue timers, store what Python has written, and delete the keys of which only failed records are known."""
        self._arm(self._all_rows)
        calls, failed = self._keyed.calls, self._keyed.failed
        if failed and isinstance(calls, KeyedTypedCalls):
            by_python = np.array(sorted({*self._keyed.done, *failed}), np.intp)
            calls.kept_later(failed, np.delete(np.arange(self._rows, dtype=np.int32), by_python))
        super().store()
