"""Divides what a source has read: rows, and records that did not decode.

A source with dead letters appends hidden columns to its rows. They are null for a row, and for a record that did not
decode they hold the reason, the key and the value as they came, and the place. The columns of the row are null then.
"""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from penstock.contract.columns import HIDDEN_PREFIX
from penstock.contract.graph import DEAD_LETTER
from penstock.steps.base import PlainStep, split_hidden, with_hidden

REASON = f"{HIDDEN_PREFIX}reason"
RECORD_FIELDS = (
    pa.field(REASON, pa.string()),
    pa.field(f"{HIDDEN_PREFIX}key", pa.binary()),
    pa.field(f"{HIDDEN_PREFIX}value", pa.binary()),
    pa.field(f"{HIDDEN_PREFIX}partition", pa.string()),
    pa.field(f"{HIDDEN_PREFIX}offset", pa.int64()),
)


def with_letters(rows: pa.RecordBatch, letters: Mapping[int, tuple[object, ...]]) -> pa.RecordBatch:
    """Append the hidden columns. ``letters`` has the five values of each row that is a record that did not decode."""
    filled: list[pa.Array] = [pa.nulls(rows.num_rows, field.type) for field in RECORD_FIELDS]
    if letters:
        none = (None,) * len(RECORD_FIELDS)
        columns = zip(*(letters.get(row, none) for row in range(rows.num_rows)), strict=True)
        filled = [pa.array(values, field.type) for values, field in zip(columns, RECORD_FIELDS, strict=True)]
    schema = pa.schema([*rows.schema, *RECORD_FIELDS])
    return pa.RecordBatch.from_arrays([*rows.columns, *filled], schema=schema)


class UndecodedStep(PlainStep):
    """Sends rows on, and records that did not decode to the output ``dead-letter``."""

    def __init__(self, name: str, rows: pa.Schema, letters: pa.Schema) -> None:
        """Take what the source ``name`` reads, with the columns of its rows and of its dead letters."""
        super().__init__(name)
        self._columns = rows.names
        self._letters = letters
        self._good: pa.Array | None = None  # places of the rows that are being emitted; None: all
        self._dead_letters = 0

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Emit the rows in order, then the dead letters in order."""
        read, bounds = split_hidden(batch)
        place = read.schema.get_field_index(REASON)
        bad = None if place < 0 else read.column(place).is_valid()
        rows = read.select(self._columns)
        if bad is None or not bad.true_count:
            self._good = None
            self._emit(with_hidden(rows, bounds))
            return
        self._good = pc.indices_nonzero(pc.invert(bad))
        if len(self._good):
            self._emit(with_hidden(rows.take(self._good), None if bounds is None else bounds.take(self._good)))
        self._dead_letters += bad.true_count
        letters = self._letters_of(read.filter(bad))
        self._outputs[DEAD_LETTER](with_hidden(letters, None if bounds is None else bounds.filter(bad)))

    def _letters_of(self, read: pa.RecordBatch) -> pa.RecordBatch:
        reason, key, value, partition, offset = (read.column(field.name) for field in RECORD_FIELDS)
        source = pa.array([self.name] * len(reason), pa.string())
        return pa.RecordBatch.from_arrays([key, value, source, reason, source, partition, offset], schema=self._letters)

    def parent(self, row: int) -> int | None:
        """Return the place of a row in what was read."""
        return row if self._good is None else int(self._good[row].as_py())

    def counters(self) -> dict[str, int]:
        """Count dead letters."""
        return {"dead_letters": self._dead_letters}
