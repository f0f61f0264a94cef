"""The step that adds the columns of an answer to each row.

    on_batch ──> rows are stored, and wait ──> calls, up to a capacity
    on_answers ──> rows leave with their answers, and are deleted from the state
    on_loaded ──> rows that wait in a checkpoint are asked for again

A checkpoint has every row that waits, whether its answer has come or not. So the service hears of a row at least once,
and the row leaves exactly once. Rows of one key leave in their order, if that is wanted. The step does not reach a time
while rows wait that came before it heard of this time: so no row that waits is late for the steps behind.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import UserCodeError, Where
from penstock.base.limits import FIRED_ROWS_MAX
from penstock.base.user_code import named
from penstock.contract.asynchronous import OnFailure, ResultOrder
from penstock.contract.graph import DEAD_LETTER, Enrich
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int64s, Text
from penstock.model.declared.function_types import FunctionTypes
from penstock.model.keys import EncodedKeys
from penstock.steps.base import NOTHING_DUE, PlainStep, split_hidden, with_hidden
from penstock.steps.dead_letters import unplaced
from penstock.steps.enrich.answer_cache import AnswerCache
from penstock.steps.enrich.answer_columns import Given, answer_columns, arguments
from penstock.steps.enrich.async_calls import AsyncCalls, CallOutcome, CallRules
from penstock.steps.enrich.pending_rows import PendingRows
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.user_calls import record_text
from penstock.steps.waiting_rows import BEFORE_ALL, WaitingRows

_NO_ANSWER = object()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a row that waits is: in a batch with its hidden column. ``given`` makes the argument of its call."""

    batch: pa.RecordBatch
    row: int
    given: Given
    sequence: int
    identity: bytes
    group: int


@dataclass(frozen=True, slots=True)
class _Failed:
    """The answer of a row whose call has failed."""

    error: BaseException


class EnrichStep(PlainStep):
    """Emits each row with the columns of its answer behind its own."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        declared: Enrich,
        typed: tuple[Callable[[Any], Any], FunctionTypes | None],
        schemas: tuple[pa.Schema, pa.Schema],
        *,
        timed: bool,
    ) -> None:
        """Call ``typed[0]`` for rows of ``schemas[0]``, and emit rows of ``schemas[1]``.

        ``timed``: rows have the hidden bound column. Raises ConfigError for columns that do not fit.
        """
        super().__init__(name)
        self._function, types = typed
        self._keys, self._declared = keys, declared
        self._input, self._output = schemas
        added = pa.schema(list(schemas[1])[len(schemas[0]) :])
        self._arguments, self._answers = arguments(types, schemas[0]), answer_columns(types, added)
        self._rows = WaitingRows(keys, schemas[0], timed=timed)
        self._rules = CallRules(declared.timeout_us / 1e6, declared.retries)
        cache = declared.cache
        ttl_s = None if cache is None or cache.ttl_us is None else cache.ttl_us / 1e6
        self._cache = None if cache is None else AnswerCache(cache.rows, ttl_s)
        self._pending = PendingRows(declared.capacity, declared.batch, ordered=declared.order is ResultOrder.INPUT)
        self._places: dict[int, _Place] = {}
        self._known: set[bytes] = set()
        self._next_row = 0
        self._heard_us = BEFORE_ALL
        self._failures = 0
        self._calls: AsyncCalls

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._rows.open(self.name, state)
        self._state = self._rows.state

    def ask_through(self, calls: AsyncCalls) -> None:
        """Make calls through ``calls``."""
        self._calls = calls

    @property
    def waiting(self) -> int:
        """Return how many rows wait."""
        return len(self._pending)

    @property
    def full(self) -> bool:
        """Return whether no more rows should come before answers do."""
        return self._pending.full

    # --- Rows that come -----------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Store the rows, and ask for as many as may be asked for now."""
        count, batch = batch.num_rows, self._rows.as_kept(batch)
        added = self._rows.add(batch, self._heard_us)
        self._state.take_due(NOTHING_DUE - 1, count)  # they are known: the queue is for rows that are loaded
        identities = _identities(added.keys.text)
        self._add(batch, (added.sequences, added.hashed[1], identities), np.full(count, self._heard_us))
        self._ask()

    def _add(self, batch: pa.RecordBatch, of_rows: tuple[Int64s, Any, list[bytes]], held: Int64s) -> None:
        """Let rows wait. ``of_rows`` has their sequence numbers, key groups and identities."""
        rows, _ = split_hidden(batch)
        given = self._arguments(rows)
        lines = _identities(self._keys.codec.keys(self._keys.of(rows)).text)
        sequences, groups, identities = of_rows
        for row, (sequence, group, identity, line) in enumerate(
            zip(sequences.tolist(), groups.tolist(), identities, lines, strict=True)
        ):
            if identity in self._known:
                continue  # it was moved to disk, and is in the queue again
            number = self._next_row
            self._next_row += 1
            self._known.add(identity)
            self._places[number] = _Place(batch, row, given, sequence, identity, group)
            self._pending.add(number, line, int(held[row]))

    def on_loaded(self) -> None:
        """Ask for the rows that wait in state that was loaded."""
        while len(found := self._state.take_due(NOTHING_DUE - 1, FIRED_ROWS_MAX)):
            sequences = self._rows.note_loaded(found)
            batch = self._rows.batch(found)
            rows, _ = split_hidden(batch)
            groups = self._keys.codec.hashed(self._keys.of(rows))[1]
            identities = _encoded_identities(self._state.keys_of(found))
            self._add(batch, (sequences, groups, identities), self._rows.held(found))
        self._ask()

    def on_groups_lost(self, share: Share) -> None:
        """Forget rows of key groups that belong to another task now: it asks for them."""
        lost = [n for n, p in self._places.items() if any(g.start <= p.group < g.stop for g in share)]
        self._pending.give_up(lost)
        self._forget(lost)
        self._ask()

    def _forget(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._known.discard(self._places.pop(number).identity)

    # --- Calls --------------------------------------------------------------------------------

    def _ask(self) -> None:
        answered: list[tuple[int, Any]] = []
        while (found := self._pending.to_ask()) is not None:
            call, numbers = found
            try:
                given = [self._given(number) for number in numbers]
            except Exception as error:  # a row that is no record of the user's class
                self._pending.asked(call)
                answered += [(number, _Failed(error)) for number in numbers]
                continue
            known = _NO_ANSWER if self._cache is None else self._cache.find(given[0])
            if known is not _NO_ANSWER and known is not None:
                self._pending.asked(call)
                answered.append((numbers[0], known))
                continue
            argument = given if self._declared.batch > 1 else given[0]
            self._calls.begin(self, call, partial(self._rules.run, self._function, argument))
        if answered:
            self._leave(self._pending.answered(answered))
            self._ask()

    def _given(self, number: int) -> Any:
        place = self._places[number]
        return place.given(place.row)

    def on_answers(self) -> None:
        """Take the answers that have come, and emit the rows that leave by them."""
        taken: list[tuple[int, Any]] = []
        for answer in self._calls.answers(self):
            numbers = self._pending.asked(answer.call)
            taken += zip(numbers, self._of_rows(answer, len(numbers)), strict=True)
        self._leave(self._pending.answered((n, a) for n, a in taken if n in self._places))
        self._ask()

    def _of_rows(self, answer: CallOutcome, count: int) -> list[Any]:
        """Return what is kept of an answer for each row of its call."""
        if answer.error is not None:
            return [_Failed(answer.error)] * count
        values = answer.value if self._declared.batch > 1 else [answer.value]
        if not isinstance(values, list | tuple) or len(values) != count:
            given = f"{len(values)} answers" if isinstance(values, list | tuple) else type(values).__name__
            return [_Failed(TypeError(f"the function returned {given} for a list of {count}"))] * count
        return [self._checked(value) for value in values]

    def _checked(self, value: Any) -> Any:
        try:
            return self._answers.values(value)
        except Exception as error:  # of an object of the user's
            return _Failed(error)

    # --- Rows that leave ----------------------------------------------------------------------

    def _leave(self, leaving: Sequence[tuple[int, Any]]) -> None:
        """Emit rows with their answers, and delete them."""
        if not leaving:
            return
        numbers = [number for number, _ in leaving]
        failed = [(n, a) for n, a in leaving if isinstance(a, _Failed)]
        if failed and self._declared.on_error is OnFailure.FAIL:
            number, answer = failed[0]
            place = self._places[number]
            row = split_hidden(place.batch)[0].slice(place.row, 1)
            raise UserCodeError(Where(self.name, record=record_text(row)), answer.error) from answer.error
        self._failures += len(failed)
        self._keep_answers(leaving)
        emitted = leaving
        if failed and self._declared.on_error is OnFailure.DEAD_LETTER:
            self._emit_letters(failed)
            emitted = [(n, a) for n, a in leaving if not isinstance(a, _Failed)]
        if emitted:
            self._emit_answered(emitted)
        self._delete(numbers)

    def _keep_answers(self, leaving: Sequence[tuple[int, Any]]) -> None:
        if self._cache is not None:
            for number, answer in leaving:
                if not isinstance(answer, _Failed):
                    self._cache.keep(self._given(number), answer)

    def _emit_answered(self, leaving: Sequence[tuple[int, Any]]) -> None:
        rows, bounds = split_hidden(self._gathered([number for number, _ in leaving]))
        good = np.array([not isinstance(answer, _Failed) for _, answer in leaving])
        places = pa.array(np.cumsum(good) - 1, pa.int64(), mask=~good)
        made = self._answers.batch([answer for _, answer in leaving if not isinstance(answer, _Failed)])
        columns = [*rows.columns, *(column.take(places) for column in made.columns)]
        self._emit(with_hidden(pa.RecordBatch.from_arrays(columns, schema=self._output), bounds))

    def _emit_letters(self, failed: Sequence[tuple[int, Any]]) -> None:
        rows, bounds = split_hidden(self._gathered([number for number, _ in failed]))
        known = dict(zip(rows.schema.names, rows.columns, strict=True))
        letters = unplaced(self.name, self._input, known, [named(answer.error) for _, answer in failed])
        self._outputs[DEAD_LETTER](with_hidden(letters, bounds))

    def _gathered(self, numbers: Sequence[int]) -> pa.RecordBatch:
        """Return rows in this order, with their hidden column."""
        by_batch: dict[int, tuple[pa.RecordBatch, list[int], list[int]]] = {}
        for at, number in enumerate(numbers):
            place = self._places[number]
            _, rows, order = by_batch.setdefault(id(place.batch), (place.batch, [], []))
            rows.append(place.row)
            order.append(at)
        parts = [batch.take(pa.array(rows, pa.int64())) for batch, rows, _ in by_batch.values()]
        places = np.concatenate([np.array(each) for _, _, each in by_batch.values()])
        return pa.concat_batches(parts).take(pa.array(np.argsort(places)))

    def _delete(self, numbers: Sequence[int]) -> None:
        sequences = np.array([self._places[number].sequence for number in numbers], np.int64)
        columns = self._keys.of(split_hidden(self._gathered(numbers))[0])
        hashed = self._keys.codec.hashed(columns)
        self._state.delete(self._state.rows(self._keys.codec.window_keys(columns, sequences, hashed)))
        self._forget(numbers)

    # --- Time and contents --------------------------------------------------------------------

    def on_watermark(self, time_us: int) -> int:
        """Take note of a time. Returns the time that no row which waits has to come before."""
        self._heard_us = max(self._heard_us, time_us)
        held = self._pending.held_us
        return time_us if held is None else min(time_us, held)

    def contents(self, rows: Any) -> pa.RecordBatch:
        """Return the keys of rows that wait, and their other columns."""
        columns = self._rows.plain(rows).columns
        places = [*self._keys.places, *(p for p in range(len(columns)) if p not in self._keys.places)]
        return pa.RecordBatch.from_arrays([columns[p] for p in places], [self._input.names[p] for p in places])

    def counters(self) -> dict[str, int]:
        """Count rows that wait, and those whose calls have failed."""
        letters = self._failures if self._declared.on_error is OnFailure.DEAD_LETTER else 0
        return {"keys": len(self._pending), "dead_letters": letters, "failed_calls": self._failures}


def _identities(encoded: Text) -> list[bytes]:
    """Return the bytes of each encoded key, and whether it is null."""
    ends, data = encoded[0], encoded[1].tobytes()
    return [data[start:end] for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


def _encoded_identities(keys: EncodedKeys) -> list[bytes]:
    ends, data = keys.ends, keys.data.tobytes()
    return [data[start:end] for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
