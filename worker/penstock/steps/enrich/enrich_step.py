"""The step that adds the columns of an answer to each row.

    on_batch ──> rows are stored, and wait ──> calls, up to a capacity
    on_answers ──> rows leave with their answers, and are deleted from the state
    on_loaded ──> rows that wait in a checkpoint are asked for again

Rows of one key leave in their order, if that is wanted. :class:`AskedRowsStep` has what lookups do, too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import UserCodeError, Where
from penstock.base.threads import monotonic
from penstock.base.user_code import named
from penstock.contract.asynchronous import OnFailure, ResultOrder
from penstock.contract.graph import DEAD_LETTER, Enrich
from penstock.model.declared.function_types import FunctionTypes
from penstock.steps.base import split_hidden, with_hidden
from penstock.steps.dead_letters import unplaced
from penstock.steps.enrich.answer_cache import AnswerCache
from penstock.steps.enrich.answer_columns import answer_columns, arguments
from penstock.steps.enrich.asked_rows import AskedRows
from penstock.steps.enrich.asked_rows_step import Answers, AskedRowsStep
from penstock.steps.enrich.async_calls import Ask, CallOutcome, CallRules
from penstock.steps.enrich.pending_rows import PendingRows
from penstock.steps.keyed import KeyColumns
from penstock.steps.user_calls import record_text


@dataclass(frozen=True, slots=True)
class _Failed:
    """The answer of a row whose call has failed."""

    error: BaseException


class EnrichStep(AskedRowsStep[Callable[[int], Any]]):
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
        self._function, types = typed
        self._declared = declared
        self._input, self._output = schemas
        added = pa.schema(list(schemas[1])[len(schemas[0]) :])
        self._answers = answer_columns(types, added)
        self._rules = CallRules(declared.timeout_us / 1e6, declared.retries)
        self._cache = None if declared.cache is None else AnswerCache.of(declared.cache)
        self._failures = 0
        pending = PendingRows(declared.capacity, declared.batch, ordered=declared.order is ResultOrder.INPUT)
        super().__init__(name, AskedRows(keys, schemas[0], pending, arguments(types, schemas[0]), timed=timed))

    # --- Rows that come -----------------------------------------------------------------------

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Store the rows, and ask for as many as may be asked for now."""
        self._rows.add(self._rows.as_kept(batch))
        self._ask()

    # --- Calls --------------------------------------------------------------------------------

    def _call(self, number: int, rows: Sequence[int], now_s: float) -> tuple[Answers, Ask | None]:
        places = [self._rows.places[row] for row in rows]

        def argument() -> Any:
            given = [place.given(place.row) for place in places]
            return given if self._declared.batch > 1 else given[0]

        try:
            first = argument()
        except Exception as error:  # a row that is no record of the user's class
            return [(row, _Failed(error)) for row in rows], None
        known = None if self._cache is None else self._cache.find(first, now_s)  # then a call is for one row
        if known is not None:
            return [(rows[0], known)], None
        return [], partial(self._rules.run, self._function, first, argument)

    def on_answers(self) -> None:
        """Take the answers that have come, and emit the rows that leave by them."""
        taken: list[tuple[int, Any]] = []
        for answer in self._calls.answers(self):
            numbers = self._pending.asked(answer.call)
            taken += zip(numbers, self._of_rows(answer, len(numbers)), strict=True)
        self._answer((n, a) for n, a in taken if n in self._rows.places)

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

    def _leave(self, leaving: Answers) -> None:
        numbers = [number for number, _ in leaving]
        failed = [(n, a) for n, a in leaving if isinstance(a, _Failed)]
        if failed and self._declared.on_error is OnFailure.FAIL:
            number, answer = failed[0]
            place = self._rows.places[number]
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
        self._rows.delete(numbers)

    def _keep_answers(self, leaving: Answers) -> None:
        if self._cache is not None:
            now_s = monotonic()
            for number, answer in leaving:
                if not isinstance(answer, _Failed):
                    place = self._rows.places[number]
                    self._cache.keep(place.given(place.row), answer, now_s)

    def _emit_answered(self, leaving: Answers) -> None:
        rows, bounds = split_hidden(self._rows.gathered([number for number, _ in leaving]))
        good = np.array([not isinstance(answer, _Failed) for _, answer in leaving])
        places = pa.array(np.cumsum(good) - 1, pa.int64(), mask=~good)
        made = self._answers.batch([answer for _, answer in leaving if not isinstance(answer, _Failed)])
        columns = [*rows.columns, *(column.take(places) for column in made.columns)]
        self._emit(with_hidden(pa.RecordBatch.from_arrays(columns, schema=self._output), bounds))

    def _emit_letters(self, failed: Answers) -> None:
        rows, bounds = split_hidden(self._rows.gathered([number for number, _ in failed]))
        known = dict(zip(rows.schema.names, rows.columns, strict=True))
        letters = unplaced(self.name, self._input, known, [named(answer.error) for _, answer in failed])
        self._outputs[DEAD_LETTER](with_hidden(letters, bounds))

    def counters(self) -> dict[str, int]:
        """Count rows that wait, and those whose calls have failed."""
        letters = self._failures if self._declared.on_error is OnFailure.DEAD_LETTER else 0
        return {**super().counters(), "dead_letters": letters, "failed_calls": self._failures}
