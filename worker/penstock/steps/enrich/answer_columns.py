"""What a call takes and gives: records or dicts on the side of the user, columns on ours."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from penstock.model.declared.function_types import FunctionTypes
from penstock.steps.stateless import from_records
from penstock.steps.typed.record_reader import RecordReader
from penstock.steps.typed.record_writer import RecordWriter
from penstock.steps.user_calls import records_of

Given = Callable[[int], Any]  # takes the number of a row, gives the argument of the call; may raise


class AnswerColumns(Protocol):
    """Checks answers, and makes columns of them."""

    def values(self, answer: Any) -> Any:
        """Return what is kept of an answer. Raises TypeError or ValueError for one that does not fit."""
        ...

    def batch(self, kept: Sequence[Any]) -> pa.RecordBatch:
        """Make one row of each answer."""
        ...


class DictColumns:
    """Answers are dicts that have the declared columns."""

    def __init__(self, schema: pa.Schema) -> None:
        """Make rows of ``schema``."""
        self._schema = schema

    def values(self, answer: Any) -> Any:
        """Return the answer if it fits."""
        from_records([answer], self._schema)
        return answer

    def batch(self, kept: Sequence[Any]) -> pa.RecordBatch:
        """Make one row of each answer."""
        return from_records(kept, self._schema)


def arguments(types: FunctionTypes | None, schema: pa.Schema) -> Callable[[pa.RecordBatch], Given]:
    """Return what makes the arguments of a batch of rows. Raises ConfigError for columns that do not fit."""
    if types is None:
        return lambda rows: partial(_record, rows)
    reader = RecordReader(types.record, schema)
    return lambda rows: reader.read(rows).record


def _record(rows: pa.RecordBatch, row: int) -> dict[str, Any]:
    [record] = records_of(rows.slice(row, 1))
    return record


def answer_columns(types: FunctionTypes | None, schema: pa.Schema) -> AnswerColumns:
    """Return what makes columns of answers."""
    if types is None:
        return DictColumns(schema)
    assert types.main is not None, "a function with types gives records"
    return RecordWriter(types.main, schema)
