"""The step that adds columns of a row of another system's table to each row.

    on_batch ──> rows whose answer is remembered leave; the others are stored, and wait ──> queries
    on_answers ──> rows leave with the columns of their row of the table, and are deleted from the state
    on_loaded ──> rows that wait in a checkpoint are asked for again

Rows come by the key that is looked up. So rows of a key leave in their order, and its answer is for all that wait.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import StateError
from penstock.base.threads import monotonic
from penstock.contract.graph import Lookup, LookupHow
from penstock.model.arrays import Int64s, variable_array
from penstock.ports import Lookup as LookupPort
from penstock.steps.base import split_hidden, with_hidden
from penstock.steps.enrich.answer_cache import AnswerCache
from penstock.steps.enrich.asked_rows import AskedRows, Line
from penstock.steps.enrich.asked_rows_step import Answers, AskedRowsStep
from penstock.steps.enrich.async_calls import Ask, AsyncCalls, CallOutcome
from penstock.steps.enrich.pending_rows import PendingRows
from penstock.steps.keyed import KeyColumns
from penstock.steps.lookup.table_calls import TableAnswer, TableCalls, TableWait
from penstock.steps.lookup.table_rows import NO_ROW, TableRow, TableRows

OPENED = 0  # the number of the call that connects; those of queries are greater


@dataclass(frozen=True, slots=True)
class _Query:
    """The keys of a query, encoded and as columns of the table, in one order."""

    lines: tuple[Line, ...]
    keys: pa.RecordBatch


class LookupStep(AskedRowsStep[None]):
    """Emits each row with the columns of its row of the table behind its own."""

    def __init__(
        self,
        name: str,
        keys: KeyColumns,
        declared: Lookup,
        table: LookupPort | None,
        schemas: tuple[pa.Schema, pa.Schema],
        *,
        timed: bool,
    ) -> None:
        """Look rows of ``schemas[0]`` up in ``table``, and emit rows of ``schemas[1]``.

        ``table`` is None where only the state is opened. ``timed``: rows have the hidden bound column.
        """
        self._keys, self._declared, self._table, self._output = keys, declared, table, schemas[1]
        self._added = pa.schema(list(schemas[1])[len(schemas[0]) :])
        self._asked = pa.schema([(on, kind) for on, (_, kind) in zip(declared.on, keys.fields, strict=True)])
        self._found = TableRows(self._added)
        self._cache = None if declared.cache is None else AnswerCache.of(declared.cache)
        pending = PendingRows(declared.capacity, declared.batch, ordered=True)
        super().__init__(name, AskedRows(keys, schemas[0], pending, lambda _: None, timed=timed))
        self._queries: dict[int, _Query] = {}  # by call
        self._table_calls: TableCalls | None = None
        self._opened = False

    def ask_through(self, calls: AsyncCalls) -> None:
        """Connect, and make queries through ``calls``."""
        assert self._table is not None, "only a step with a table gets rows"
        schemas, capacity = (self._asked, self._added), self._declared.capacity
        made = TableCalls(self.name, self._table, schemas, capacity=capacity, tries_max=calls.tries_max)
        self._table_calls = made
        super().ask_through(calls)
        calls.begin(self, OPENED, made.open)

    def stop(self) -> None:
        """End the connections."""
        if self._table_calls is not None:
            self._table_calls.close()

    @property
    def waiting(self) -> int:
        """Return how many rows wait; one more until the table has been checked."""
        return super().waiting + (not self._opened)

    @property
    def waits(self) -> TableWait | None:
        """Return since when the table does not answer, and why; None while it does. From any thread."""
        return None if self._table_calls is None else self._table_calls.waits

    # --- Rows that come -----------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Let the rows leave whose answer is known. Store the others, and ask for as many as may be asked for now."""
        batch = self._rows.as_kept(batch)
        rows, _ = split_hidden(batch)
        offsets, data, *_ = self._rows.lines(rows)
        lines = variable_array(pa.binary(), offsets, data).dictionary_encode()
        places = lines.indices.to_numpy()
        nulls = self._has_null(rows)
        if nulls is not None:
            places = np.where(nulls, len(lines.dictionary), places)
        answers = [*self._known(lines.dictionary.to_pylist()), NO_ROW]
        known = np.array([answer is not None for answer in answers])[places]
        if known.all():
            self._emit_found(batch, answers, places)
            return
        if known.any():
            self._emit_found(batch.filter(pa.array(known)), answers, places[known])
            batch = batch.filter(pa.array(~known))
        self._rows.add(batch)
        self._ask()

    def _has_null(self, rows: pa.RecordBatch) -> np.ndarray[Any, Any] | None:
        """Return which rows have no key that could be found; None if all have one."""
        columns = [column for column in self._keys.of(rows) if column.null_count]
        if not columns:
            return None
        found: np.ndarray[Any, Any] = np.logical_or.reduce(
            [pc.is_null(column).to_numpy(zero_copy_only=False) for column in columns]
        )
        return found

    def _known(self, lines: Sequence[bytes]) -> list[TableRow | None]:
        """Return the answer of each key that is remembered, unless rows of the key wait."""
        if self._cache is None:
            return [None] * len(lines)
        find, waits, now_s = self._cache.find, self._pending.waits, monotonic()
        return [None if waits(line) else find(line, now_s) for line in lines]

    # --- Queries ------------------------------------------------------------------------------

    def _call(self, number: int, rows: Sequence[int], now_s: float) -> tuple[Answers, Ask | None]:
        answered: list[tuple[int, TableRow]] = []
        firsts: dict[Line, int] = {}
        for row in rows:
            line = self._rows.places[row].line
            known = None if self._cache is None else self._cache.find(line, now_s)
            if known is None:
                firsts.setdefault(line, row)
            else:
                answered.append((row, known))
        if not firsts:
            return answered, None
        assert self._table_calls is not None, "rows come behind ask_through"
        query = self._queries[number] = _Query(tuple(firsts), self._keys_of(firsts.values()))
        return answered, partial(self._table_calls.ask, query.keys)

    def _keys_of(self, numbers: Iterable[int]) -> pa.RecordBatch:
        rows, _ = split_hidden(self._rows.gathered(list(numbers)))
        return pa.RecordBatch.from_arrays(self._keys.of(rows), schema=self._asked)

    def on_answers(self) -> None:
        """Take the answers that have come, and emit the rows that leave by them. Raises what a query has raised."""
        taken: list[tuple[int, TableRow]] = []
        for outcome in self._calls.answers(self):
            if outcome.error is not None:
                raise outcome.error
            if outcome.call == OPENED:
                self._opened = True
                continue
            taken += self._answered(outcome)
        self._answer(taken)

    def _answered(self, outcome: CallOutcome) -> list[tuple[int, TableRow]]:
        """Return the answer of each row of a query that still waits here."""
        numbers, query = self._pending.asked(outcome.call), self._queries.pop(outcome.call)
        answer: TableAnswer = outcome.value
        rows = self._found.by_key(answer.found, len(query.lines))
        found: dict[Line, TableRow] = {}
        for place, (line, row) in enumerate(zip(query.lines, rows, strict=True)):
            if row is None:
                raise StateError(self._several(query.keys.slice(place, 1)))
            found[line] = row
            if self._cache is not None:
                self._cache.keep(line, row, answer.asked_s)
        waiting = ((number, self._rows.places[number].line) for number in numbers if number in self._rows.places)
        return [(number, found[line]) for number, line in waiting if line in found]

    def _several(self, key: pa.RecordBatch) -> str:
        values = ", ".join(f"{name} = {value!r}" for name, value in key.to_pylist()[0].items())
        remedy = "name columns in `on` that have each value once"
        return f"step {self.name!r}: the table has several rows with {values}: {remedy}"

    # --- Rows that leave ----------------------------------------------------------------------

    def _leave(self, leaving: Answers) -> None:
        numbers = [number for number, _ in leaving]
        self._emit_found(self._rows.gathered(numbers), [row for _, row in leaving], np.arange(len(leaving)))
        self._rows.delete(numbers)

    def _emit_found(self, batch: pa.RecordBatch, answers: Sequence[TableRow | None], places: Int64s) -> None:
        """Emit rows of ``batch``: row i with the answer at ``places[i]``."""
        if self._declared.how is LookupHow.INNER:
            there = np.array([bool(answer) for answer in answers], bool)[places]
            if not there.all():
                batch, places = batch.filter(pa.array(there)), places[there]
        if not batch.num_rows:
            return
        rows, bounds = split_hidden(batch)
        at = pa.array(places)
        added = [column.take(at) for column in self._found.columns([answer or NO_ROW for answer in answers])]
        self._emit(with_hidden(pa.RecordBatch.from_arrays([*rows.columns, *added], schema=self._output), bounds))
