"""Calls a function with types for the records of a slice, one after the other.

    begin(slice) ──> for each record: log.begin, call, keep the result ──> combine ──> store
                                          └── it raises: log.undo, and nothing of the record is left

A record is checked when it is emitted or returned, so results always fit their columns.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from penstock.steps.typed.record_reader import Records
from penstock.steps.typed.undo_log import UndoLog

T_co = TypeVar("T_co", covariant=True)
CallRecord = Callable[[Any], Any]  # takes a record, returns the result that is kept


class TypedCalls(Generic[T_co]):
    """The :class:`~penstock.steps.user_calls.RecordCalls` of a function with types that Python runs."""

    def __init__(
        self, records: Records, call: CallRecord, combine: Callable[[Sequence[Any]], T_co], log: UndoLog
    ) -> None:
        """Call ``call`` with each of ``records``. What it writes is in ``log``."""
        self._records, self._call = records, call
        self._log = log
        self._left = iter(range(len(records)))
        self.combine = combine

    def run(self, results: list[Any]) -> None:
        """Call the function for one record after the other."""
        record, begin, call, append = self._records.record, self._log.begin, self._call_row, results.append
        for row in self._left:
            begin()
            append(call(row, record(row)))

    def run_one(self, row: int) -> Any:
        """Call the function for the record of one row, and return its result."""
        self._log.begin()
        return self._call_row(row, self._records.record(row))

    def _call_row(self, row: int, record: Any) -> Any:
        """Call the function for the record of a row."""
        return self._call(record)

    def undo(self, row: int) -> None:
        """Take back all that the record has written and emitted."""
        self._log.undo()

    def undo_with_later(self, rows: list[int]) -> list[int]:
        """Raise AssertionError: each result was checked when it was made."""
        raise AssertionError("results of a function with types fit their columns")

    def call_again(self, row: int) -> Any:
        """Raise AssertionError, as :meth:`undo_with_later` does."""
        raise AssertionError("no record of a function with types is called again")

    def store(self) -> None:
        """Do nothing: there is no state."""


def check_returns_nothing(returned: Any, out: str) -> None:
    """Raise TypeError for a result of a function that emits. A generator would never run, for example."""
    if returned is not None:
        raise TypeError(f"the function returned {type(returned).__name__}; emit records by {out}.emit(...)")
