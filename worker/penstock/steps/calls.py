"""Calling user functions: slices of bounded size, errors with their place, dead letters.

A batch function that raises is called again with parts of the batch until the row at fault is known
(:mod:`penstock.steps.search`); its exception may say which it is (:mod:`penstock.steps.guesses`).
Values that were at fault before are looked for first (:mod:`penstock.steps.bad_values`). Rows that
it refuses by itself (:mod:`penstock.steps.refusals`) cost no further call. A function
per record is called once for each row: the row at fault is the one that it raised for.
What was given is made to a batch afterwards; a value that does not fit is looked for among what was
given, without another call.

Whatever a function raises is its own, ``SystemExit`` and ``KeyboardInterrupt`` too: signals are
for the main thread, which runs no user code. Errors of Penstock's storage are not the user's.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from penstock.base.errors import StateError, StorageError, UserCodeError
from penstock.base.limits import (
    USER_RECORD_CHARS_MAX,
    USER_VALUE_CHARS_MAX,
    WRONG_GUESSES_MAX,
)
from penstock.base.user_code import named, shortened
from penstock.base.values import replace
from penstock.contract.graph import Call, OnError
from penstock.model.exact import exact_cast
from penstock.steps.bad_values import BadValues
from penstock.steps.base import Locate
from penstock.steps.guesses import guess_row
from penstock.steps.letters import Letters, Refused
from penstock.steps.refusals import Refusals, Values, but
from penstock.steps.search import CallCost, Search

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Run = Callable[[pa.RecordBatch], tuple[T, Refusals]]

DEBUGGER_LEFT = "the debugger was left: the job ends at this row"
NO_TERMINAL = "the debugger found no terminal; penstock run --debug has one"
NOT_THE_USERS = (StateError, StorageError)


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What a function gave for ``rows`` input rows from row ``start`` on.

    ``without``: rows among them that were refused, counted from ``start``; ``given`` has nothing
    of them.
    """

    start: int
    rows: int
    given: T
    without: tuple[int, ...] = ()

    def taken(self, values: Values) -> Values:
        """Return of one value per row of the batch those of the rows that were taken."""
        return but(values.slice(self.start, self.rows), self.without)

    def row(self, number: int) -> int:
        """Return the row of the batch that was taken as the ``number``-th."""
        if not self.without:
            return self.start + number
        return self.start + int(np.delete(np.arange(self.rows), self.without)[number])


@dataclass(frozen=True, slots=True)
class CallAnswer(Generic[T]):
    """What became of the rows of one slice, in order: given by the function, or refused."""

    done: tuple[Done[T], ...]
    refused: tuple[Refused, ...] = ()


class Caller(Generic[T]):
    """Calls one user function of one step with batches.

    ``run`` turns a slice of rows to a checked answer, and says which rows the function refused by
    itself. When it raises it has left no trace, so it may be run again.
    """

    def __init__(self, where: Locate, call: Call, run: Run[T]) -> None:
        """Call in slices of at most ``call.batch_rows`` rows; ``where`` places a row."""
        self._where = where
        self._run = run
        self._rows = call.batch_rows
        self._keep = call.on_error is OnError.DEAD_LETTER
        self._letters = Letters(where)
        self._pace = CallCost()
        self._bad = BadValues()
        self._misled = 0  # wrong guesses since the last right one

    def answers(self, batch: pa.RecordBatch) -> Iterator[CallAnswer[T]]:
        """Yield an answer for each slice of a batch, in order; rows are refused as dead letters.

        Raises UserCodeError with the place of the first row at fault when they are not.
        """
        size = self._rows or max(batch.num_rows, 1)
        for start in range(0, batch.num_rows, size):
            yield self._answer(batch.slice(start, size), start)

    def _answer(self, part: pa.RecordBatch, start: int) -> CallAnswer[T]:
        search, watch = Search(part.num_rows), self._bad.watch(part)
        done: list[Done[T]] = []
        refused: list[Refused] = []
        error: BaseException | None = None
        at = rows = 0  # of the smallest range that is known to fail
        while not search.over:
            begun = thread_time() if self._pace.slows else 0.0
            here, searching, guessed = search.at, search.searching, search.guessed
            expected = watch.next(here) if watch else part.num_rows
            tried = search.next(max(1, min(expected - here, self._pace.most(part.num_rows))))
            try:
                given, refusals = self._run(part.slice(here, tried))
            except BaseException as raised:
                if not self._is_users(raised):
                    raise
                if not self._keep:  # else it would keep itself: its traceback has this frame
                    error, at, rows = raised, here, tried
                self._misled *= not guessed
                search.failed(tried, self._guess(raised, part.slice(here, tried)))
                if tried == 1 and self._keep:
                    refused.append(Refused(start + here, named(raised)))
                    if here == expected:
                        self._pace.passed(1)  # it cost no search
                    else:
                        self._pace.refused(part.num_rows, guessed=guessed)
                    if searching:
                        self._bad.refused(raised, part.slice(here, 1))
                elif tried == 1 or quits(raised):
                    raise self._error(part, start, here, raised) from raised
                if tried > 1:
                    continue  # what it took says little: it ended somewhere
            else:
                done.append(Done(start + here, tried, given, refusals.rows))
                refused += self._refused(part, start, here, refusals)
                self._pace.passed(tried)
                if watch and here == expected:
                    watch.passed(here)
                self._misled += guessed
                if search.passed(tried) and error is not None:
                    raise self._error(part, start, at, error, rows) from error
            if begun:
                self._pace.took(tried, thread_time() - begun)
        return CallAnswer(tuple(done), tuple(refused))

    def _refused(
        self, part: pa.RecordBatch, start: int, first: int, refusals: Refusals
    ) -> list[Refused]:
        """Return the rows that the function refused by itself, counted from row ``first``.

        Raises UserCodeError for the first of them when rows are no dead letters.
        """
        if refusals.rows and not self._keep:
            raise self._error(part, start, first + refusals.rows[0], refusals.first())
        return [Refused(start + first + row, text) for row, text in refusals]

    def _guess(self, error: BaseException, failed: pa.RecordBatch) -> int | None:
        if failed.num_rows == 1 or self._misled >= WRONG_GUESSES_MAX:
            return None
        return guess_row(error, failed)

    def _is_users(self, error: BaseException) -> bool:
        return not isinstance(error, NOT_THE_USERS)

    def _error(
        self, part: pa.RecordBatch, start: int, row: int, error: BaseException, rows: int = 1
    ) -> UserCodeError:
        if quits(error) and not error.args:
            error.args = (DEBUGGER_LEFT if _has_terminal() else NO_TERMINAL,)
        where = replace(self._where(start + row), record=shown(part.slice(row, 1)), rows=rows)
        return UserCodeError(where, error)

    def letters(self, batch: pa.RecordBatch, refused: Sequence[Refused]) -> pa.RecordBatch:
        """Return the refused rows with what was wrong with each."""
        return self._letters.of(batch, refused)


class Turn(Protocol[T_co]):
    """The records of one slice on their way through a function, one call for each."""

    def run(self, append: Callable[[Any], None]) -> None:
        """Call for one record after the other and append what is given; raises what it raises.

        Called again, it goes on behind the record that raised.
        """
        ...

    def undo(self, row: int) -> None:
        """Take back what the call for this row, the newest one, has changed."""
        ...

    def spoiled(self, rows: list[int]) -> list[int]:
        """Take back these rows and those that saw their changes; return which to call again."""
        ...

    def again(self, row: int) -> Any:
        """Call once more for a row."""
        ...

    def together(self, given: list[Any]) -> T_co:
        """Make one answer of what was given for some rows; raises when a value does not fit."""
        ...

    def keep(self) -> None:
        """Store what the calls have changed."""
        ...


class RecordCaller(Caller[T]):
    """Calls one user function of one step with records."""

    def __init__(
        self, where: Locate, call: Call, turn: Callable[[pa.RecordBatch, bool], Turn[T]]
    ) -> None:
        """Begin a slice with ``turn(slice, may undo)``."""
        super().__init__(where, call, self._of_one_batch)
        self._turn = turn

    def _of_one_batch(self, part: pa.RecordBatch) -> tuple[T, Refusals]:
        raise AssertionError("records are answered one by one")

    def _answer(self, part: pa.RecordBatch, start: int) -> CallAnswer[T]:
        try:
            turn = self._turn(part, self._keep)
        except BaseException as error:
            if not self._is_users(error):
                raise
            return self._unshown(part, start, error)
        given: list[Any] = []  # of the rows that did not raise
        errors: dict[int, str] = {}
        while len(given) + len(errors) < part.num_rows:
            try:
                turn.run(given.append)
            except BaseException as error:
                row = len(given) + len(errors)
                self._refuse(part, start, row, error)
                errors[row] = named(error)
                turn.undo(row)
        try:
            answer = turn.together(given)
        except BaseException as error:
            if not self._is_users(error):
                raise
            answer = self._fitting(part, start, turn, given, errors)
        turn.keep()
        without = tuple(sorted(errors))
        done = Done(start, part.num_rows, answer, without)
        return CallAnswer((done,), tuple(Refused(start + row, errors[row]) for row in without))

    def _unshown(self, part: pa.RecordBatch, start: int, error: BaseException) -> CallAnswer[T]:
        """Refuse the rows that cannot be shown as records, and answer the others, by halves."""
        if part.num_rows == 1:
            self._refuse(part, start, 0, error)
            return CallAnswer((), (Refused(start, named(error)),))
        half = part.num_rows // 2
        first, last = (
            self._answer(part.slice(0, half), start),
            self._answer(part.slice(half), start + half),
        )
        return CallAnswer((*first.done, *last.done), (*first.refused, *last.refused))

    def _refuse(self, part: pa.RecordBatch, start: int, row: int, error: BaseException) -> None:
        """Raise when a row cannot become a dead letter."""
        if not self._is_users(error):
            raise error
        if not self._keep or quits(error):
            raise self._error(part, start, row, error) from error

    def _fitting(
        self,
        part: pa.RecordBatch,
        start: int,
        turn: Turn[T],
        given: list[Any],
        errors: dict[int, str],
    ) -> T:
        """Refuse the rows whose given values do not fit, and make an answer of the others."""
        called = [row for row in range(part.num_rows) if row not in errors]
        misfits = _misfits(turn, given)
        assert misfits or not called, "values that fit one by one fit together"
        fitting = dict(zip(called, given, strict=True))
        for number, error in misfits.items():
            self._refuse(part, start, called[number], error)
            errors[called[number]] = named(error)
        for row in turn.spoiled([called[number] for number in misfits]):
            errors.pop(row, None)
            try:
                fitting[row] = turn.again(row)
                turn.together([fitting[row]])
            except BaseException as error:
                self._refuse(part, start, row, error)
                errors[row] = named(error)
                turn.undo(row)
        return turn.together([fitting[row] for row in range(part.num_rows) if row not in errors])


def _misfits(turn: Turn[Any], given: list[Any]) -> dict[int, BaseException]:
    """Return which of the given values do not fit, and why; nothing of the user's is called."""
    search, found = Search(len(given)), {}
    while not search.over:
        at, tried = search.at, search.next(len(given))
        try:
            turn.together(given[at : at + tried])
        except BaseException as error:
            search.failed(tried)
            if tried == 1:
                found[at] = error
        else:
            search.passed(tried)
    return found


def quits(error: BaseException) -> bool:
    """Say whether somebody has left the debugger: then nothing is called again."""
    debugger = sys.modules.get("bdb")
    return debugger is not None and isinstance(error, debugger.BdbQuit)


def _has_terminal() -> bool:
    """Say whether somebody can have typed at a prompt of this process."""
    try:
        return sys.stdin.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def shown(rows: pa.RecordBatch) -> str:
    """Spell the first row for a message; long values are cut, and so is the whole."""
    values = (
        f"{name!r}: {shortened(_spelled(column[0]), USER_VALUE_CHARS_MAX)}"
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
        if not name.startswith("__")
    )
    return shortened(f"{{{', '.join(values)}}}", USER_RECORD_CHARS_MAX)


def _spelled(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError):
        return f"<a {value.type} that Python cannot show>"


def records_of(part: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts. Raises ValueError naming the column of which no value can be shown."""
    try:
        records: list[dict[str, Any]] = part.to_pylist()
    except (ValueError, OverflowError):
        for field, column in zip(part.schema, part.columns, strict=True):
            try:
                column.to_pylist()
            except (ValueError, OverflowError) as error:
                what = f"column {field.name!r} ({field.type}) cannot be shown in a record"
                raise ValueError(f"{what}: {error}") from None  # its frames are of pyarrow
        raise
    return records


def of_rows(given: Any) -> pa.RecordBatch:
    """Return what a batch function gave as one batch. Raises TypeError when it is none."""
    if not isinstance(given, pa.RecordBatch | pa.Table):
        raise TypeError(f"it gave {type(given).__name__}; it must give a pyarrow.RecordBatch")
    if isinstance(given, pa.Table):
        joined = [column.combine_chunks() for column in given.columns]
        given = pa.RecordBatch.from_arrays(joined, schema=given.schema)
    return given


def as_batch(given: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Check a batch of a function's against the declared columns; exact casts are made."""
    if given.schema.equals(schema):
        return given
    if given.schema.names != schema.names:
        raise TypeError(f"it gave the columns {given.schema.names}, declared are {schema.names}")
    columns = [
        exact_cast(column, f.type, f"column {f.name!r}")
        for column, f in zip(given.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
