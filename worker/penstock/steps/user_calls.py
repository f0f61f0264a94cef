"""Calls user functions with slices of a batch. Finds bad rows and makes dead letters of them.

If a function per batch raises, it is called again with parts of the batch until the bad row is known
(:mod:`penstock.steps.fault_search`). Its exception may point to the row (:mod:`penstock.steps.guesses`).
Rows with values that were bad before are tried alone (:mod:`penstock.steps.bad_values`). Rows that
the function refuses itself (:mod:`penstock.steps.refusals`) cost no further call.

A function per record is called once for each row. The bad row is the one for which it raised. The
returned records are then made into a batch. A value that does not fit into its column is searched
for among the returned records, without a further call.

Every exception of a user function is an error of the row, even ``SystemExit`` and
``KeyboardInterrupt``: only the main thread gets signals, and it runs no user code. Errors of
Penstock's own storage are the exception: they are never errors of a row.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from penstock.base.errors import StateError, StorageError, UserCodeError
from penstock.base.limits import (
    USER_RECORD_CHARS_MAX,
    USER_VALUE_CHARS_MAX,
    WRONG_GUESSES_MAX,
)
from penstock.base.threads import thread_time
from penstock.base.user_code import named, shortened
from penstock.base.values import replace
from penstock.contract.graph import Call, OnError
from penstock.model.exact import exact_cast
from penstock.model.python_values import python_values, refuse_cut
from penstock.steps.bad_values import BadValues
from penstock.steps.base import Locate
from penstock.steps.dead_letters import DeadLetters, Refused
from penstock.steps.fault_search import CallCost, Search
from penstock.steps.guesses import guess_row
from penstock.steps.refusals import Refusals, Values, without_rows

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Run = Callable[[pa.RecordBatch], tuple[T, Refusals]]

DEBUGGER_LEFT = "the debugger was left: the job ends at this row"
NO_TERMINAL = "the debugger found no terminal; penstock run --debug has one"
NOT_THE_USERS = (StateError, StorageError)


@dataclass(frozen=True, slots=True)
class CallResult(Generic[T]):
    """What a function returned for ``rows`` input rows from row ``start`` on.

    ``refused`` are the refused rows among them, counted from ``start``. ``value`` has nothing for
    these.
    """

    start: int
    rows: int
    value: T
    refused: tuple[int, ...] = ()

    def accepted(self, values: Values) -> Values:
        """Return the values of the rows that were not refused. ``values`` has one for each row."""
        return without_rows(values.slice(self.start, self.rows), self.refused)

    def row(self, number: int) -> int:
        """Return the row of the batch that is accepted row ``number`` of this call."""
        if not self.refused:
            return self.start + number
        return self.start + int(np.delete(np.arange(self.rows), self.refused)[number])


@dataclass(frozen=True, slots=True)
class CallAnswer(Generic[T]):
    """The results of the calls for one slice, in order, and the rows that were refused."""

    results: tuple[CallResult[T], ...]
    refused: tuple[Refused, ...] = ()


class Caller(Generic[T]):
    """Calls the user function of one step with batches.

    ``run`` calls the function with a slice of rows, and returns its checked result and the rows that
    the function refused itself. If it raises, it has changed nothing, so it may be called again.
    """

    def __init__(self, where: Locate, call: Call, run: Run[T]) -> None:
        """Call with at most ``call.batch_rows`` rows. ``where`` finds the place of a row."""
        self._where = where
        self._run = run
        self._rows = call.batch_rows
        self._keep = call.on_error is OnError.DEAD_LETTER
        self._dead_letters = DeadLetters(where)
        self._cost = CallCost()
        self._bad = BadValues()
        self._wrong_guesses = 0  # since the last right one

    def answers(self, batch: pa.RecordBatch) -> Iterator[CallAnswer[T]]:
        """Yield an answer for each slice of a batch, in order.

        Bad rows are refused if the step has dead letters. If not, raises UserCodeError with the
        place of the first bad row.
        """
        size = self._rows or max(batch.num_rows, 1)
        for start in range(0, batch.num_rows, size):
            yield self._answer(batch.slice(start, size), start)

    def _answer(self, part: pa.RecordBatch, start: int) -> CallAnswer[T]:
        search, watch = Search(part.num_rows), self._bad.watch(part)
        results: list[CallResult[T]] = []
        refused: list[Refused] = []
        error: BaseException | None = None
        at = rows = 0  # the smallest range that is known to fail: its first row, and its length
        while not search.over:
            begun = thread_time() if self._cost.needs_times else 0.0
            here, searching, guessed = search.at, search.searching, search.guessed
            expected = watch.next(here) if watch else part.num_rows
            tried = search.next(max(1, min(expected - here, self._cost.most(part.num_rows))))
            try:
                value, refusals = self._run(part.slice(here, tried))
            except BaseException as raised:
                if not self._is_users(raised):
                    raise
                # With dead letters the error is not stored: its traceback has this frame, and the
                # frame would have the error, so both would stay in memory.
                if not self._keep:
                    error, at, rows = raised, here, tried
                self._wrong_guesses *= not guessed
                search.failed(tried, self._guess(raised, part.slice(here, tried)))
                if tried == 1 and self._keep:
                    refused.append(Refused(start + here, named(raised)))
                    if here == expected:
                        self._cost.passed(1)  # the row cost no search
                    else:
                        self._cost.refused(part.num_rows, guessed=guessed)
                    if searching:
                        self._bad.refused(raised, part.slice(here, 1))
                elif tried == 1 or left_debugger(raised):
                    raise self._error(part, start, here, raised) from raised
                if tried > 1:
                    continue  # the time of a call that failed says little about its rows
            else:
                results.append(CallResult(start + here, tried, value, refusals.rows))
                refused += self._refused(part, start, here, refusals)
                self._cost.passed(tried)
                if watch and here == expected:
                    watch.passed(here)
                self._wrong_guesses += guessed
                if search.passed(tried) and error is not None:
                    raise self._error(part, start, at, error, rows) from error
            if begun:
                self._cost.took(tried, thread_time() - begun)
        return CallAnswer(tuple(results), tuple(refused))

    def _refused(self, part: pa.RecordBatch, start: int, first: int, refusals: Refusals) -> list[Refused]:
        """Return the rows that the function refused itself. ``first`` is the first row of the call.

        Raises UserCodeError for the first of them if the step has no dead letters.
        """
        if refusals.rows and not self._keep:
            raise self._error(part, start, first + refusals.rows[0], refusals.first())
        return [Refused(start + first + row, text) for row, text in refusals]

    def _guess(self, error: BaseException, failed: pa.RecordBatch) -> int | None:
        if failed.num_rows == 1 or self._wrong_guesses >= WRONG_GUESSES_MAX:
            return None
        return guess_row(error, failed)

    def _is_users(self, error: BaseException) -> bool:
        return not isinstance(error, NOT_THE_USERS)

    def _error(self, part: pa.RecordBatch, start: int, row: int, error: BaseException, rows: int = 1) -> UserCodeError:
        if left_debugger(error) and not error.args:
            error.args = (DEBUGGER_LEFT if _has_terminal() else NO_TERMINAL,)
        where = replace(self._where(start + row), record=record_text(part.slice(row, 1)), rows=rows)
        return UserCodeError(where, error)

    def dead_letters(self, batch: pa.RecordBatch, refused: Sequence[Refused]) -> pa.RecordBatch:
        """Return the refused rows of a batch with the error of each."""
        return self._dead_letters.of(batch, refused)


class RecordCalls(Protocol[T_co]):
    """The calls of a function per record for one slice, one call for each record."""

    def run(self, results: list[Any]) -> None:
        """Call the function for one record after the other, and append each result.

        Raises what the function raises. The next ``run`` continues after the record that raised.
        """
        ...

    def undo(self, row: int) -> None:
        """Undo what the newest call, which was for this row, has changed."""
        ...

    def undo_with_later(self, rows: list[int]) -> list[int]:
        """Undo the calls for these rows, and later calls that read state which these had changed.

        Returns the later rows, which must be called again.
        """
        ...

    def call_again(self, row: int) -> Any:
        """Call the function once more for a row, and return its result."""
        ...

    def combine(self, results: list[Any]) -> T_co:
        """Make one value from the results of some rows. Raises if one does not fit its column."""
        ...

    def store(self) -> None:
        """Store the state that the calls have changed."""
        ...


class RecordCaller(Caller[T]):
    """Calls the user function of one step with records."""

    def __init__(self, where: Locate, call: Call, begin: Callable[[pa.RecordBatch, bool], RecordCalls[T]]) -> None:
        """Begin each slice with ``begin(slice, whether calls may be undone)``."""
        super().__init__(where, call, self._of_one_batch)
        self._begin = begin

    def _of_one_batch(self, part: pa.RecordBatch) -> tuple[T, Refusals]:
        raise AssertionError("a function per record is not called with batches")

    def _answer(self, part: pa.RecordBatch, start: int) -> CallAnswer[T]:
        try:
            calls = self._begin(part, self._keep)
        except BaseException as error:
            if not self._is_users(error):
                raise
            return self._answer_halves(part, start, error)
        results: list[Any] = []  # of the rows for which the function did not raise
        errors: dict[int, str] = {}
        while len(results) + len(errors) < part.num_rows:
            try:
                calls.run(results)
            except BaseException as error:
                row = len(results) + len(errors)
                self._refuse(part, start, row, error)
                errors[row] = named(error)
                calls.undo(row)
        try:
            value = calls.combine(results)
        except BaseException as error:
            if not self._is_users(error):
                raise
            value = self._refuse_unfit(part, start, calls, results, errors)
        calls.store()
        refused = tuple(sorted(errors))
        result = CallResult(start, part.num_rows, value, refused)
        return CallAnswer((result,), tuple(Refused(start + row, errors[row]) for row in refused))

    def _answer_halves(self, part: pa.RecordBatch, start: int, error: BaseException) -> CallAnswer[T]:
        """Refuse the rows that cannot be made into records, and answer the others."""
        if part.num_rows == 1:
            self._refuse(part, start, 0, error)
            return CallAnswer((), (Refused(start, named(error)),))
        half = part.num_rows // 2
        first, last = (
            self._answer(part.slice(0, half), start),
            self._answer(part.slice(half), start + half),
        )
        return CallAnswer((*first.results, *last.results), (*first.refused, *last.refused))

    def _refuse(self, part: pa.RecordBatch, start: int, row: int, error: BaseException) -> None:
        """Raise the error of a row, unless the row may become a dead letter."""
        if not self._is_users(error):
            raise error
        if not self._keep or left_debugger(error):
            raise self._error(part, start, row, error) from error

    def _refuse_unfit(
        self,
        part: pa.RecordBatch,
        start: int,
        calls: RecordCalls[T],
        results: list[Any],
        errors: dict[int, str],
    ) -> T:
        """Refuse the rows whose results do not fit the columns, and combine the other results."""
        called = [row for row in range(part.num_rows) if row not in errors]
        unfit = _unfit_results(calls, results)
        assert unfit or not called, "results that fit one by one also fit in one batch"
        fitting = dict(zip(called, results, strict=True))
        for number, error in unfit.items():
            self._refuse(part, start, called[number], error)
            errors[called[number]] = named(error)
        for row in calls.undo_with_later([called[number] for number in unfit]):
            errors.pop(row, None)
            try:
                fitting[row] = calls.call_again(row)
                calls.combine([fitting[row]])
            except BaseException as error:
                self._refuse(part, start, row, error)
                errors[row] = named(error)
                calls.undo(row)
        return calls.combine([fitting[row] for row in range(part.num_rows) if row not in errors])


def _unfit_results(calls: RecordCalls[Any], results: list[Any]) -> dict[int, BaseException]:
    """Return the results that do not fit the columns, with the error of each. Calls no user code."""
    search, found = Search(len(results)), {}
    while not search.over:
        at, tried = search.at, search.next(len(results))
        try:
            calls.combine(results[at : at + tried])
        except BaseException as error:
            search.failed(tried)
            if tried == 1:
                found[at] = error
        else:
            search.passed(tried)
    return found


def left_debugger(error: BaseException) -> bool:
    """Return whether the user has left the debugger. No function is called again in this case."""
    debugger = sys.modules.get("bdb")
    return debugger is not None and isinstance(error, debugger.BdbQuit)


def _has_terminal() -> bool:
    """Return whether this process has a terminal at which the user could type."""
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):  # there is no standard input, or it is closed
        return False


def record_text(rows: pa.RecordBatch) -> str:
    """Return the first row as text for a message. Long values are cut, and so is a long text."""
    values = (
        f"{name!r}: {shortened(_value_text(column[0]), USER_VALUE_CHARS_MAX)}"
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
        if not name.startswith("__")
    )
    return shortened(f"{{{', '.join(values)}}}", USER_RECORD_CHARS_MAX)


def _value_text(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError):
        return f"<a {value.type} that Python cannot represent>"


def records_of(part: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts. Raises ValueError with the column that Python cannot represent."""
    try:
        for column in part.columns:
            refuse_cut(column)
        records: list[dict[str, Any]] = part.to_pylist()
    except (ValueError, OverflowError):
        for field, column in zip(part.schema, part.columns, strict=True):
            try:
                python_values(column)
            except ValueError as error:
                what = f"column {field.name!r} ({field.type}) cannot be read as a Python value"
                raise ValueError(f"{what}: {error}") from None  # the cause has frames of pyarrow only
        raise
    return records


def one_batch(returned: Any) -> pa.RecordBatch:
    """Return the result of a function per batch as one batch. Raises TypeError if it has no rows."""
    if not isinstance(returned, pa.RecordBatch | pa.Table):
        kind = type(returned).__name__
        raise TypeError(f"the function returned {kind}; it must return a pyarrow.RecordBatch")
    if isinstance(returned, pa.Table):
        joined = [column.combine_chunks() for column in returned.columns]
        returned = pa.RecordBatch.from_arrays(joined, schema=returned.schema)
    return returned


def as_batch(returned: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a function's batch with the declared types. Values are converted only if it is exact.

    Raises TypeError if the columns are not the declared ones, and ValueError for inexact values.
    """
    if returned.schema.equals(schema):
        return returned
    if returned.schema.names != schema.names:
        raise TypeError(f"the function returned the columns {returned.schema.names}, but {schema.names} are declared")
    columns = [
        exact_cast(column, f.type, f"column {f.name!r}") for column, f in zip(returned.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
