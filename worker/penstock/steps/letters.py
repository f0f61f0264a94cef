"""Dead letters: refused rows with what was wrong with each, and where each came from.

A bad row in each batch is common, so one letter is cheap: calls of Arrow cost ten times as much
where a function has used the processor's caches for its own ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.base.limits import SLICED_ROWS_MAX
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
    """Row ``start`` is at fault; ``error`` says why, in one bounded text."""

    start: int
    error: str


class Letters:
    """Makes the dead letters of one step."""

    def __init__(self, where: Locate) -> None:
        """Tell the place of each row by ``where``."""
        self._where = where
        # Of the newest rows, and of their letters.
        self._schemas = pa.schema([]), pa.schema(ERROR_FIELDS)
        self._texts = lru_cache(maxsize=3)(_texts)  # step, source and partition rarely change

    def of(self, batch: pa.RecordBatch, refused: Sequence[Refused]) -> pa.RecordBatch:
        """Return the refused rows of a batch with their errors, without a hold on the others."""
        rows = copied(batch, [r.start for r in refused])
        places = [self._where(r.start) for r in refused]
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


def _texts(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string())


def copied(batch: pa.RecordBatch, rows: Sequence[int]) -> pa.RecordBatch:
    """Return some rows of a batch in memory of their own."""
    if len(rows) > SLICED_ROWS_MAX:
        return batch.take(pa.array(rows, pa.int64()))
    return pa.concat_batches([batch.slice(row, 1) for row in rows])
