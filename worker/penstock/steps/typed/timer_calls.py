"""Calls the functions of timers that are due, one slice at a time.

    take a slice off the queue ──> for each timer, in order: clear it, call its function ──> queue what was set, store

A timer is cleared before its function is called. If the function raises, all that it has written and emitted is
undone, and the timer stays cleared: it would raise again for ever. For a function that is called, the time reached is
that of its timer. So a timer that it sets to that time or before it fires one microsecond later.

At the end of the input each timer that is set fires once. What a function sets then is dropped: a function that sets
its own timer again would never end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import UserCodeError, Where
from penstock.base.limits import FIRED_TIMERS_MAX
from penstock.base.user_code import named
from penstock.contract.graph import TimeKind
from penstock.model.arrays import Int32s, Int64s
from penstock.model.declared.field_kinds import NEXT
from penstock.model.declared.record_types import RecordType
from penstock.model.declared.value_kinds import Item
from penstock.model.table_columns import NO_TIMER
from penstock.steps.base import NO_BOUND, NOTHING_DUE, KeyedState
from penstock.steps.keyed import KeyColumns
from penstock.steps.typed.bound_table import BoundTable
from penstock.steps.typed.emitted_records import EmittedRecords, EmittedRows
from penstock.steps.typed.entry_cells import TimersCell
from penstock.steps.typed.lifetime import EXPIRES, TimerLives
from penstock.steps.typed.record_calls import check_returns_nothing
from penstock.steps.typed.record_reader import item_reader
from penstock.steps.typed.state_rows import StateRows
from penstock.steps.typed.timer_order import TimerOrder
from penstock.steps.user_calls import NOT_THE_USERS, left_debugger

Handlers = Mapping[str, Callable[..., Any]]


class Key(SimpleNamespace):
    """The key that a function of a timer gets: an attribute for each key column."""


class KeyObjects:
    """Makes the keys that functions get. A value is that of the record's field of this name."""

    def __init__(self, keys: KeyColumns, record: RecordType) -> None:
        """Decode ``keys`` as ``record`` has them."""
        self.codec = keys.codec
        self._names = [name for name, _ in keys.fields]
        fields = {f.name: Item(f.kind, nullable=True) for f in record.fields}
        self._readers = [_reader(fields.get(name), kind) for name, kind in keys.fields]

    def of(self, state: KeyedState, rows: Int32s) -> tuple[dict[int, Key], Int32s]:
        """Return the key of each row, and the key groups of all, in the order of the rows."""
        columns = self.codec.columns(state.keys_of(rows))
        values = [read(column) for read, column in zip(self._readers, columns, strict=True)]
        made = (Key(**dict(zip(self._names, each, strict=True))) for each in zip(*values, strict=True))
        return dict(zip(rows.tolist(), made, strict=True)), self.codec.hashed(columns)[1]


def _reader(item: Item | None, kind: pa.DataType) -> Callable[[pa.Array], list[Any]]:
    read = None if item is None else item_reader(item, kind)
    if read is not None:
        return read
    if pa.types.is_timestamp(kind):
        return lambda column: column.cast(pa.int64()).to_pylist()
    return lambda column: column.to_pylist()


@dataclass(frozen=True, slots=True)
class FiredSlice:
    """What a slice of timers has made: rows by output, and the timers whose functions have raised.

    ``errors`` are their texts, and ``keys`` their key columns. ``full``: more timers may be due. ``dropped`` timers
    were set at the end of the input.
    """

    emitted: Mapping[str, EmittedRows]
    errors: Sequence[str] = ()
    keys: Sequence[pa.Array] = ()
    full: bool = False
    dropped: int = 0


NOTHING_FIRED = FiredSlice({})


@dataclass(frozen=True, slots=True)
class TimerContext:
    """What the timers of one step share. ``keep``: the step has dead letters.

    ``kinds`` are the kinds of time of its timers. ``reached`` is the event time reached by key group, at any time.
    """

    step: str
    keys: KeyObjects
    rows: StateRows
    emitted: EmittedRecords
    keep: bool
    kinds: tuple[TimeKind, ...]
    reached: Int64s
    lives: Callable[[TimeKind, BoundTable, Int32s, Int32s], TimerLives | None]  # see SharedStates.timer_lives


class TimerCalls:
    """Fires the timers of one kind of time of one step."""

    def __init__(self, time: TimeKind, handlers: Handlers, context: TimerContext) -> None:
        """Call ``handlers``, by the names of the timers in the order of the state's schema."""
        self.names = tuple(handlers)
        self.called_at_end = any(name != EXPIRES for name in handlers)
        self._time = time
        self._handlers = handlers
        self._context = context
        self._many = tuple(_times(context.rows, name) for name in handlers)
        self._columns = tuple(n if m is None else n + NEXT for n, m in zip(handlers, self._many, strict=True))
        self._never: Int64s = np.full(context.keys.codec.max_key_groups, NO_BOUND, np.int64)

    def fire(self, state: KeyedState, bound: int) -> FiredSlice:
        """Fire timers that are due at ``bound``: at most one slice.

        Raises UserCodeError for a function that raises, if the step has no dead letters.
        """
        state.make_room()
        due = state.take_timers(bound, FIRED_TIMERS_MAX, self._time)
        if not len(due.rows):
            return NOTHING_FIRED
        full = len(due.rows) == FIRED_TIMERS_MAX
        order = TimerOrder(state, due, None if full else bound)
        rows = np.unique(due.rows)
        table = BoundTable(state, rows)
        self._context.rows.bind(table)
        at_end = bound == NOTHING_DUE
        columns = [table.fixed(name) for name in self._columns]
        keys, groups = self._context.keys.of(state, rows)
        lives = self._context.lives(self._time, table, rows, groups)
        calls = _SliceCalls(self._handlers, self._context, columns, self._many, lives=lives, at_end=at_end)
        for time, row, field in order:
            if at_end and self.names[field] == EXPIRES:
                continue  # no time passes behind the end: the key stays, and is queued again when it is loaded
            if calls.holds(time, row, field):
                if calls.clear(time, row, field):
                    calls.call(self.names[field], (time, row, field), keys[row])
                calls.note_set((time, row), order)
                if calls.called == 2 * FIRED_TIMERS_MAX:  # functions set timers within the slice again and again
                    full = True
                    break
        for kind in self._context.kinds:
            if at_end and kind in (self._time, TimeKind.EVENT):
                continue  # all were taken, and what was set is dropped
            behind = kind is TimeKind.EVENT and self._time is not TimeKind.EVENT
            state.arm(rows, self._context.reached if behind else self._never, kind)
        failed = np.array(calls.failed, np.int32)
        failed_keys = self._context.keys.codec.columns(state.keys_of(failed)) if len(failed) else ()
        emitted = self._context.emitted.take()
        self._context.rows.store()
        return FiredSlice(emitted, calls.errors, failed_keys, full, calls.dropped)


def _times(rows: StateRows, name: str) -> TimersCell | None:
    cell = rows.cells.get(name)
    return cell if isinstance(cell, TimersCell) else None


class _SliceCalls:
    """The calls for one slice. ``columns`` are those of the timers; ``many`` has the cells of those with many times."""

    def __init__(
        self,
        handlers: Handlers,
        context: TimerContext,
        columns: list[Any],
        many: Sequence[TimersCell | None],
        *,
        lives: TimerLives | None,
        at_end: bool,
    ) -> None:
        self._names = tuple(handlers)
        self._handlers = tuple(handlers.values())
        self._context = context
        self._columns = columns
        self._many = many
        self._before: list[int] = []
        self._lives, self._at_end = lives, at_end
        # Also those of the other kind of time: their functions may set these.
        self._cells = [cell for cell in context.rows.cells.values() if isinstance(cell, TimersCell) and cell.fires]
        for cell in self._cells:
            cell.set_at_end = [] if at_end else None
        self.called = self.dropped = 0
        self.failed: list[int] = []
        self.errors: list[str] = []

    def holds(self, time: int, row: int, field: int) -> bool:
        """Return whether a timer still has the time of its entry: a function may have cleared it or set it anew."""
        return bool(self._columns[field][row] == time)

    def clear(self, time: int, row: int, field: int) -> bool:
        """Clear a timer; of many times of a row, remove the first one. Return whether its function is called."""
        many = self._many[field]
        called = True
        if many is None:
            self._columns[field][row] = NO_TIMER
        else:
            called = many.fire(row, time)
        self._before = [column[row] for column in self._columns]
        if many is not None:
            self._before[field] = NO_TIMER  # the next time is as if it were set now
        return called

    def call(self, name: str, timer: tuple[int, int, int], key: Key) -> None:
        """Call the function of a timer that was cleared."""
        time, row, field = timer
        context = self._context
        self.called += 1
        context.rows.log.begin()
        context.rows.at(row)
        try:
            returned = self._handlers[field](time, key, context.rows.proxy, context.emitted.out)
            check_returns_nothing(returned, "out")
            if self._lives is not None and name != EXPIRES:
                self._lives.renew(row, time)
        except BaseException as error:
            if isinstance(error, NOT_THE_USERS):
                raise
            text = f"timer {name!r} of {np.datetime64(time, 'us')}"
            if not context.keep or left_debugger(error):
                raise UserCodeError(Where(context.step, record=f"{text}, {key}"), error) from error
            context.rows.log.undo()
            self.failed.append(row)
            self.errors.append(f"{text}: {named(error)}")

    def note_set(self, fired: tuple[int, int], order: TimerOrder) -> None:
        """Put the timers into the order that the function has set. At the end of the input they are dropped."""
        time, row = fired
        if self._at_end:
            self.dropped += sum(cell.forget_set(row) for cell in self._cells)
        for field, column in enumerate(self._columns):
            now = column[row]
            if now == self._before[field] or now == NO_TIMER:
                continue
            if self._at_end and self._many[field] is None and self._names[field] != EXPIRES:
                column[row] = NO_TIMER
                self.dropped += 1
                continue
            if now <= time:
                now = column[row] = time + 1
            order.set(now, row, field)
