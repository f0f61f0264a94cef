"""The process step whose functions have types: records, the state of their keys as a row, ``out.emit``.

It has one input, or two inputs with one state. Rows go to the function of their input (:mod:`process_input`).

Timers fire at a watermark, a slice a call: see :mod:`penstock.steps.typed.timer_calls`. A timer that a record sets to
the time that the step has reached, or before it, fires one microsecond later. So the rows that it emits are never late.
The time that a step with two inputs has reached is that of the input that is behind.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import Where
from penstock.base.values import replace
from penstock.contract.graph import DEAD_LETTER, LEFT, RIGHT, OnError, TimeKind
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s
from penstock.model.declared.function_types import FunctionTypes, takes_context
from penstock.model.declared.state_types import StateType
from penstock.steps.base import NO_BOUND, NOTHING_DUE, Emit, PlainStep, reached, with_hidden
from penstock.steps.dead_letters import unplaced
from penstock.steps.keyed import OpenState
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.emitted_records import EmittedRecords, Schemas
from penstock.steps.typed.evolving_schema import evolving_schema
from penstock.steps.typed.lifetime import EXPIRES
from penstock.steps.typed.plain_steps import outputs_of
from penstock.steps.typed.process_input import InputFunction, ProcessInput
from penstock.steps.typed.shared_states import SharedStates
from penstock.steps.typed.state_contents import StateContents
from penstock.steps.typed.state_migration import StateMigration
from penstock.steps.typed.timer_calls import FiredSlice, Handlers, KeyObjects, TimerCalls, TimerContext


class TypedProcessStep(PlainStep):
    """Calls functions with records of keys, and the state of each key."""

    def __init__(
        self,
        name: str,
        inputs: Sequence[InputFunction],
        types: FunctionTypes,
        schemas: Schemas,
        *,
        handlers: Handlers = MappingProxyType({}),
        migration: tuple[StateType, Callable[..., Any]] | None = None,
        timed: bool = False,
    ) -> None:
        """Call the function of one input, or those of a left and a right one. Emit rows of ``schemas``, by output.

        ``types`` has the state and the outputs of all functions. ``handlers`` are called when timers fire, by the field
        of the state. ``migration`` has an earlier state, and the function that converts it. ``timed``: rows have the
        hidden bound column. Raises ConfigError for columns that do not fit.
        """
        super().__init__(name)
        state = types.state
        assert state is not None, "a process has a state"
        self._first = inputs[0]
        self._keys = keys = inputs[0].keys
        self._states = states = SharedStates(state, handlers, keys.codec.max_key_groups)
        self.clock = states.clock
        self._inputs = tuple(ProcessInput(name, own, states, schemas, timed=timed) for own in inputs)
        for each in self._inputs:
            each.where = self._place
        self._active = self._inputs[0]  # whose rows are being processed
        self._contents = StateContents(state, states.rows)
        self._schema = evolving_schema(name, keys.fields, state, states.timers)
        if migration is not None:
            earlier, convert = migration
            converted = StateMigration(name, keys, (earlier, state), convert, handlers)
            self._schema = replace(self._schema, migration=converted)
        self._timed, self._firing, self._dropped, self._failed = timed, False, 0, 0
        self._timers = self._timer_calls(types, schemas, handlers)

    def _place(self, row: int) -> Where:
        return self.where(row)  # the chain sets ``where`` after this step was made

    def _timer_calls(self, types: FunctionTypes, schemas: Schemas, handlers: Handlers) -> dict[TimeKind, TimerCalls]:
        states, kinds = self._states, self._states.kinds
        called = {n: states.ctx.given(h) if takes_context(h) else h for n, h in handlers.items()}
        if states.lifetime is not None:
            called[EXPIRES] = lambda *_: states.rows.forget()
        context = TimerContext(
            self.name,
            KeyObjects(self._keys, self._first.types.record),
            states.rows,
            EmittedRecords(outputs_of(types), schemas, states.log),
            self._first.call.on_error is OnError.DEAD_LETTER,
            tuple(dict.fromkeys(kinds.values())),
            states.reached,
            states.timer_lives,
        )
        return {
            kind: TimerCalls(kind, {n: h for n, h in called.items() if kinds[n] is kind}, context) for kind in TimeKind
        }

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._states.table = state(self._schema)

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        super().bind(outputs)
        for each in self._inputs:
            each.bind(outputs)

    # --- Rows ---------------------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Call the function for the rows of the only input."""
        self._take(self._inputs[0], batch)

    def side(self, name: str) -> Emit:
        """Return what takes the rows of the left or the right input."""
        return partial(self._take, self._inputs[(LEFT, RIGHT).index(name)])

    def _take(self, own: ProcessInput, batch: pa.RecordBatch) -> None:
        self._active = own
        own.on_batch(batch)

    def parent(self, row: int) -> int | None:
        """Return the input row of an emitted row; None for one that a timer has emitted."""
        return None if self._firing else self._active.parent(row)

    # --- Timers -------------------------------------------------------------------------------

    def on_watermark(self, time_us: int) -> int:
        """Fire the timers up to a time, at most one slice. Returns the time reached.

        At the end of the input those of the clock follow.
        """
        states = self._states
        states.ctx.watermark = reached_us = self._fire(TimeKind.EVENT, time_us)
        np.maximum(states.reached, reached_us, out=states.reached)
        return self._fire(TimeKind.CLOCK, reached_us) if reached_us == NOTHING_DUE else reached_us

    def _fire(self, kind: TimeKind, bound: int) -> int:
        """Fire at most one slice of what is due. Return the time up to which all has fired."""
        timers = self._timers[kind]
        if not (timers.called_at_end if bound == NOTHING_DUE else timers.names):
            return bound  # lives rest behind the end: no key is loaded for its own
        self._states.ctx.time = self.clock.now_us()
        fired = timers.fire(self._states.table, bound)
        self._dropped += fired.dropped
        self._firing = True
        try:
            self._emit_fired(fired)
        finally:
            self._firing = False
        first = self._states.table.next_timer(kind)
        return reached(bound - (fired.full and first == bound), first)  # one of the last microsecond may be left

    def next_tick(self) -> int:
        """Return the time of the first timer of the clock; NOTHING_DUE if none is set."""
        return self._states.table.next_timer(TimeKind.CLOCK) if self._timers[TimeKind.CLOCK].names else NOTHING_DUE

    def on_clock(self) -> None:
        """Fire the timers of the clock that are due: at most one slice."""
        self._fire(TimeKind.CLOCK, self.clock.now_us())

    def _emit_fired(self, fired: FiredSlice) -> None:
        for output, (rows, _) in fired.emitted.items():
            if rows.num_rows:
                self._outputs[output](self._never_late(rows))
        if fired.errors:
            self._failed += len(fired.errors)
            keys = dict(zip((name for name, _ in self._keys.fields), fired.keys, strict=True))
            rows = unplaced(self.name, self._first.schema, keys, fired.errors)
            self._outputs[DEAD_LETTER](self._never_late(rows))

    def _never_late(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        never = pa.array(np.full(rows.num_rows, NO_BOUND, np.int64)) if self._timed else None
        return with_hidden(rows, never)

    def on_groups_gained(self, share: Share, fired_us: int) -> None:
        """Take note that timers of these key groups up to a time may have fired."""
        for groups in share:
            mine = self._states.reached[groups.start : groups.stop]
            np.maximum(mine, fired_us, out=mine)

    # --- What is kept -------------------------------------------------------------------------

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows and the fields of their states."""
        keys = self._keys.codec.columns(self._states.table.keys_of(rows))
        self._states.rows.bind(BoundTable(self._states.table, rows))
        return pa.RecordBatch.from_arrays([*keys, *self._contents.arrays(rows)], schema=self.contents_schema)

    @property
    def contents_schema(self) -> pa.Schema:
        """Return the key columns and the fields of the state with their types."""
        return pa.schema([*(pa.field(name, kind) for name, kind in self._keys.fields), *self._contents.fields])

    def load_contents(self, rows: pa.RecordBatch) -> None:
        """Store the state of new keys.

        Raises ValueError for a value that cannot be stored, and for a key that has a row already.
        """
        states = self._states
        before = states.table.about_keys()
        places = states.table.rows(self._keys.codec.keys(rows.columns[: len(self._keys.fields)]))
        states.rows.bind(BoundTable(states.table, places))
        if states.table.about_keys() - before < rows.num_rows:
            names = ", ".join(name for name, _ in self._keys.fields)
            raise ValueError(f"a key is there twice, here or in an earlier row: each key ({names}) has one row")
        self._contents.load(places, rows)
        states.rows.store()

    def counters(self) -> dict[str, int]:
        """Count keys, dead letters, and timers that were set at the end of the input."""
        letters = self._failed + sum(each.counters()["dead_letters"] for each in self._inputs)
        keys = self._states.table.about_keys()
        return {"dead_letters": letters, "keys": keys, "timers_dropped": self._dropped}
