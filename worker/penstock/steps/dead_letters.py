"""Makes dead letters: refused rows with the error of each, and its place in the source.

Often each batch has one bad row. So a single dead letter must be cheap, and needs few calls of
Arrow: these cost ten times as much after a user function has filled the processor's caches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.base.limits import SLICED_ROWS_MAX
from penstock.model.arrays import as_type
from penstock.steps.base import Locate

ERROR_FIELDS = (
    pa.field("error_step", pa.string()),
    pa.field("error", pa.string()),
    pa.field("error_source", pa.string()),
    pa.field("error_partition", pa.string()),
    pa.field("error_offset", pa.int64()),
)


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused row: ``row`` is its number in the batch, ``error`` a text of bounded length."""

    row: int
    error: str


class DeadLetters:
    """Makes the dead letters of one step."""

    def __init__(self, where: Locate) -> None:
        """Find the place of each row by ``where``."""
        self._where = where
        # The schemas of the newest batch and of its dead letters.
        self._schemas = pa.schema([]), pa.schema(ERROR_FIELDS)
        self._texts = lru_cache(maxsize=3)(_texts)  # step, source and partition rarely change

    def of(self, batch: pa.RecordBatch, refused: Sequence[Refused]) -> pa.RecordBatch:
        """Return the refused rows of a batch with their errors. They do not keep the batch alive."""
        rows = copied(batch, [r.row for r in refused])
        places = [self._where(r.row) for r in refused]
        columns: list[Any] = [
            self._texts(tuple([w.step for w in places])),
            _texts([r.error for r in refused]),
            self._texts(tuple([w.source for w in places])),
            self._texts(tuple([w.partition for w in places])),
            pa.array([w.offset for w in places], pa.int64()),
        ]
        return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=self._schema(batch))

    def _schema(self, batch: pa.RecordBatch) -> pa.Schema:
        known, schema = self._schemas
        if not known.equals(batch.schema, check_metadata=True):
            schema = pa.schema([*batch.schema, *ERROR_FIELDS])
            self._schemas = batch.schema, schema
        return schema


def unplaced(step: str, schema: pa.Schema, known: Mapping[str, pa.Array], errors: Sequence[str]) -> pa.RecordBatch:
    """Return dead letters that were made from no row of an input: of the columns of ``schema`` only some are known."""
    count = len(errors)
    columns = [as_type(known[f.name], f.type) if f.name in known else pa.nulls(count, f.type) for f in schema]
    unknown = [_texts([None] * count), _texts([None] * count), pa.nulls(count, pa.int64())]
    named = [_texts([step] * count), _texts(errors), *unknown]
    return pa.RecordBatch.from_arrays([*columns, *named], schema=pa.schema([*schema, *ERROR_FIELDS]))


def _texts(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def copied(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    """Return a copy of some rows of a batch. It does not share memory with the batch."""
    if len(rows) > SLICED_ROWS_MAX:
        return batch.take(pa.array(rows, pa.int64()))
    return pa.concat_batches([batch.slice(row, 1) for row in rows])
