"""Calling user functions: slices of bounded size, errors with their place, dead letters.

A batch function that raises is called again row by row to find the rows that are at fault: user
functions of a step have no memory between calls, so a second call does no harm.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import pyarrow as pa

from penstock.base.errors import UserCodeError, Where
from penstock.contract.graph import Call, OnError
from penstock.steps.base import Locate

T = TypeVar("T")

RECORD_CHARS_MAX = 200  # of a row in an error message

ERROR_FIELDS = (
    pa.field("error_step", pa.string()),
    pa.field("error", pa.string()),
    pa.field("error_source", pa.string()),
    pa.field("error_partition", pa.string()),
    pa.field("error_offset", pa.int64()),
)


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """What a function gave for ``rows`` input rows from row ``start`` on."""

    start: int
    rows: int
    given: T


@dataclass(frozen=True, slots=True)
class Refused:
    """Row ``start`` is at fault."""

    start: int
    error: Exception


class Caller(Generic[T]):
    """Calls one user function of one step. ``run`` turns a slice of rows to a checked answer."""

    def __init__(self, where: Locate, call: Call, run: Callable[[pa.RecordBatch], T]) -> None:
        """Call in slices of at most ``call.batch_rows`` rows; ``where`` places a row."""
        self._where = where
        self._run = run
        self._rows = call.batch_rows
        self._keep = call.on_error is OnError.DEAD_LETTER

    def answers(self, batch: pa.RecordBatch) -> Iterator[Done[T] | Refused]:
        """Yield the answers for a batch in order; refused rows only where they become letters.

        Raises UserCodeError with the place of the first such row otherwise.
        """
        size = self._rows or max(batch.num_rows, 1)
        for start in range(0, batch.num_rows, size):
            part = batch.slice(start, size)
            try:
                given = self._run(part)
            except Exception as error:  # a user's: it is passed on with its place, or kept
                yield from self._one_by_one(part, start, error)
            else:
                yield Done(start, part.num_rows, given)

    def _one_by_one(
        self, part: pa.RecordBatch, start: int, first: Exception
    ) -> Iterator[Done[T] | Refused]:
        """Find the rows at fault; all of them when each alone is fine."""
        answers = [self._try_row(part, start, i) for i in range(part.num_rows)]
        refused = [a for a in answers if isinstance(a, Refused)]
        if not self._keep:
            at = refused[0] if refused else Refused(start, first)
            raise UserCodeError(self._place(part.slice(at.start - start), at.start), at.error)
        if not refused:
            answers = [Refused(start + i, first) for i in range(part.num_rows)]
        yield from answers

    def _try_row(self, part: pa.RecordBatch, start: int, row: int) -> Done[T] | Refused:
        try:
            return Done(start + row, 1, self._run(part.slice(row, 1)))
        except Exception as error:  # a user's: it is kept with its row
            return Refused(start + row, error)

    def _place(self, rows: pa.RecordBatch, row: int) -> Where:
        """Place a row of the step's batch, the first of ``rows``; show it where that fails."""
        where = self._where(row)
        return where if where.offset is not None else replace(where, record=shown(rows))

    def letters(self, batch: pa.RecordBatch, refused: list[Refused]) -> pa.RecordBatch:
        """Return the refused rows with what was wrong with each."""
        rows = batch.take(pa.array([r.start for r in refused], pa.int64()))
        texts = [f"{type(r.error).__name__}: {r.error}" for r in refused]
        places = [self._where(r.start) for r in refused]
        columns: list[Any] = [
            pa.array([w.step for w in places], pa.string()),
            pa.array(texts, pa.string()),
            pa.array([w.source for w in places], pa.string()),
            pa.array([w.partition for w in places], pa.string()),
            pa.array([w.offset for w in places], pa.int64()),
        ]
        fields = [*batch.schema, *ERROR_FIELDS]
        return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=pa.schema(fields))


def shown(rows: pa.RecordBatch) -> str:
    """Spell the first row for a message, cut at RECORD_CHARS_MAX characters."""
    row = rows.slice(0, 1).to_pylist()[0]
    text = str({name: value for name, value in row.items() if not name.startswith("__")})
    return text if len(text) <= RECORD_CHARS_MAX else f"{text[:RECORD_CHARS_MAX]}..."


def as_batch(given: Any, schema: pa.Schema) -> pa.RecordBatch:
    """Check what a batch function gave against the declared columns; safe casts are made."""
    if not isinstance(given, pa.RecordBatch | pa.Table):
        raise TypeError(f"it gave {type(given).__name__}; it must give a pyarrow.RecordBatch")
    if isinstance(given, pa.Table):
        joined = [column.combine_chunks() for column in given.columns]
        given = pa.RecordBatch.from_arrays(joined, schema=given.schema)
    if given.schema.equals(schema):
        return given
    if given.schema.names != schema.names:
        raise TypeError(f"it gave the columns {given.schema.names}, declared are {schema.names}")
    columns = [c.cast(f.type) for c, f in zip(given.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
