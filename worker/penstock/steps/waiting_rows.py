"""Rows that wait in keyed state, by number and key, until a step lets them leave.

The key of the state is that of windows, where the number takes the place of the end. So rows come out of the queue in
the order in which they came, and a checkpoint, a restore or a rescale needs nothing new. Rows that are added after
others were loaded have greater numbers.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.model.arrays import Int32s, Int64s, UInt64s, as_type, fixed, flat, text, variable_array
from penstock.model.keys import Keys
from penstock.model.rows import RowCodec
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import END, NO_BOUND, KeyedState, StateSchema, split_hidden, with_hidden
from penstock.steps.keyed import KeyColumns, OpenState

BEFORE_ALL = -(1 << 62)  # the time that was heard before any was; steps may subtract from it
_ROW, _HELD, _BOUND = "row", "held", "bound"


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Rows that were added: their state rows, numbers, hashes with key groups, and keys in the state."""

    rows: Int32s
    sequences: Int64s
    hashed: tuple[UInt64s, Int32s]
    keys: Keys


class WaitingRows:
    """The rows of one step that wait, with their hidden column and the time that was heard when they came."""

    state: KeyedState

    def __init__(self, keys: KeyColumns, schema: pa.Schema, *, timed: bool) -> None:
        """Keep rows of ``schema``. ``timed``: they have the hidden bound column."""
        self._keys, self._schema, self._timed = keys, schema, timed
        self._codec = RowCodec(tuple(schema.types))
        self._next = 0

    def open(self, name: str, state: OpenState) -> None:
        """Open the state ``name``."""
        values = (Value(_ROW, BYTES), Value(_HELD, "int64"), Value(_BOUND, "int64"))
        self.state = state(StateSchema(name, self._keys.fields, values, timed=True))

    def add(self, batch: pa.RecordBatch, heard_us: int) -> AddedRows:
        """Store rows and queue them. ``heard_us`` is the time that was heard before them."""
        rows, bounds = split_hidden(batch)
        count = rows.num_rows
        sequences = np.arange(self._next, self._next + count)
        self._next += count
        columns = self._keys.of(rows)
        hashed = self._keys.codec.hashed(columns)
        keys = self._keys.codec.window_keys(columns, sequences, hashed)
        found = self.state.rows(keys)
        self.state.set_due(found, sequences)
        self.state.column(_HELD)[found] = heard_us
        self.state.column(_BOUND)[found] = NO_BOUND if bounds is None else fixed(flat(bounds), np.int64)
        offsets, data = self._codec.encode(rows.columns, count)
        self.state.write_bytes(_ROW, found, variable_array(pa.binary(), offsets, data, None))
        return AddedRows(found, sequences, hashed, keys)

    def note_loaded(self, found: Int32s) -> Int64s:
        """Return the numbers of rows that were loaded. Later rows get greater ones."""
        sequences = self.state.column(END)[found]
        self._next = max(self._next, int(sequences.max(initial=-1)) + 1)
        return sequences

    def held(self, found: Int32s) -> Int64s:
        """Return the times that were heard before state rows."""
        times: Int64s = self.state.column(_HELD)[found]
        return times

    def plain(self, found: Int32s) -> pa.RecordBatch:
        """Return the rows without their hidden column."""
        encoded = text(self.state.read_bytes(_ROW, found))
        columns = self._codec.decode(encoded[1], encoded[0][:-1].astype(np.int64))
        cast = [as_type(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=self._schema)

    def as_kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows that come with the schema of those that :meth:`batch` returns.

        Batches of a step may differ in nullability and in metadata, and then they cannot be joined.
        """
        rows, bounds = split_hidden(batch)
        return with_hidden(pa.RecordBatch.from_arrays(rows.columns, schema=self._schema), bounds)

    def batch(self, found: Int32s) -> pa.RecordBatch:
        """Return the rows as they came."""
        rows = self.plain(found)
        return with_hidden(rows, pa.array(self.state.column(_BOUND)[found])) if self._timed else rows
