"""Keeps the best rows of each key, and emits each change of them.

The state of a key has its best rows as bytes, in their order: see :mod:`penstock.model.kernels.ranks`. A batch reads
and writes the rows of the keys that it meets. Each row that enters is emitted with ``upsert`` in the column ``op``.
With ``leaving`` each row that it displaces is emitted before it, with ``delete``.

What is kept at the end depends only on which rows came. What is emitted on the way depends on their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.contract.graph import OP
from penstock.model.arrays import Bytes, Int32s, Int64s, as_type, variable
from penstock.model.kernels import joins, ranks
from penstock.model.rows import RowCodec
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import NO_BOUND, PlainStep, StateSchema, split_hidden, with_hidden
from penstock.steps.joins.kept_rows import values_of
from penstock.steps.keyed import KeyColumns, OpenState, order_words

ROWS, COUNT = "rows", "count"
UPSERT, DELETE = "upsert", "delete"
_OPS = pa.array([UPSERT, DELETE])  # by ranks.ENTERS and ranks.LEAVES


@dataclass(frozen=True, slots=True)
class Ranking:
    """By which column rows are ranked (the greatest is best), how many are kept, and whether leavers are emitted."""

    by: str
    most: int
    leaving: bool


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows as bytes (n of each): start and size in ``data``, and the slot of the key of each."""

    data: Bytes
    starts: Int64s
    sizes: Int64s
    slots: Int32s

    def and_then(self, other: "_Rows") -> "_Rows":
        """Return these rows and behind them the others."""
        return _Rows(
            np.concatenate([self.data, other.data]),
            np.concatenate([self.starts, other.starts + len(self.data)]),
            np.concatenate([self.sizes, other.sizes]),
            np.concatenate([self.slots, other.slots]),
        )


class RankedStep(PlainStep):
    """Emits the rows that enter and leave the best ones of their key: ``op``, then the columns of the row."""

    def __init__(self, name: str, ranking: Ranking, keys: KeyColumns, schemas: tuple[pa.Schema, pa.Schema]) -> None:
        """Take rows of ``schemas[0]``, emit rows of ``schemas[1]``."""
        super().__init__(name)
        self._ranking = ranking
        self._keys = keys
        schema, self._output = schemas
        self._by = schema.get_field_index(ranking.by)
        self._kept = tuple(place for place in range(len(schema)) if place not in keys.places)
        # The bytes of a row begin with the number that it is ranked by.
        self._codec = RowCodec((pa.int64(), *(schema.field(place).type for place in self._kept)))

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        values = (Value(ROWS, BYTES), Value(COUNT, "int64"))
        self._state = state(StateSchema(self.name, self._keys.fields, values))

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Let all rows enter in order, and emit the changes."""
        keys, first, rows, changed, kinds = self._enter(split_hidden(batch)[0])
        if len(changed):
            self._send([column.take(pa.array(first)) for column in keys], rows, changed, kinds)

    def _enter(self, rows: pa.RecordBatch) -> tuple[list[pa.Array], Int64s, _Rows, Int32s, Bytes]:
        """Let rows enter in order. Returns their keys, the first row of each key, and all rows with their changes."""
        keys = self._keys.of(rows)
        state_rows, first, slots = np.unique(self._state_rows(rows, keys), return_index=True, return_inverse=True)
        kept = self._stored(state_rows)
        stored = len(kept.slots)
        both = kept.and_then(self._encoded(rows, slots.astype(np.int32)))
        words, valid = self._words(both)
        best, counts = self._table(kept.slots, len(state_rows))
        changes = np.empty(2 * rows.num_rows, np.int32), np.empty(2 * rows.num_rows, np.uint8)
        ranked = (words, valid, both.data, both.starts, both.sizes)
        made = ranks.rank(stored, both.slots[stored:], ranked, (best, counts), changes)
        changed, kinds = changes[0][:made], changes[1][:made]
        if made:
            self._store(state_rows, np.unique(both.slots[changed]), both, (best, counts))
        return keys, first, both, changed, kinds

    def _state_rows(self, rows: pa.RecordBatch, keys: list[pa.Array]) -> Int32s:
        """Return the state row of the key of each row."""
        return self._state.rows(self._keys.codec.keys(keys))

    def _key_columns(self, rows: Int32s) -> list[pa.Array]:
        """Return the key columns of state rows."""
        return self._keys.codec.columns(self._state.keys_of(rows))

    # --- Rows as bytes ------------------------------------------------------------------------

    def _stored(self, state_rows: Int32s) -> _Rows:
        counts = self._state.column(COUNT)[state_rows]
        _, data = variable(self._state.read_bytes(ROWS, state_rows))
        starts, sizes = np.empty(int(counts.sum()), np.int64), np.empty(int(counts.sum()), np.int64)
        joins.find_rows(data, starts, sizes)
        return _Rows(data, starts, sizes, np.repeat(np.arange(len(counts), dtype=np.int32), counts))

    def _encoded(self, rows: pa.RecordBatch, slots: Int32s) -> _Rows:
        by = rows.column(self._by)
        words = pa.array(order_words(by), mask=np.asarray(by.is_null()) if by.null_count else None)
        ends, data = self._codec.encode([words, *(rows.column(place) for place in self._kept)], rows.num_rows)
        starts = ends[:-1].astype(np.int64)
        return _Rows(data, starts, np.diff(ends).astype(np.int64), slots)

    def _words(self, rows: _Rows) -> tuple[Int64s, Bytes]:
        (column,) = RowCodec((pa.int64(),)).decode(rows.data, rows.starts)
        valid = np.asarray(column.is_valid()).astype(np.uint8)
        return np.asarray(column.fill_null(0)), valid

    def _table(self, slots: Int32s, keys: int) -> tuple[Int32s, Int64s]:
        """Return the numbers of the stored rows of each key, ``most`` places each, and how many there are."""
        counts = np.bincount(slots, minlength=keys).astype(np.int64)
        best = np.empty(keys * self._ranking.most, np.int32)
        places = np.arange(len(slots)) - np.repeat(np.cumsum(counts) - counts, counts)
        best[slots.astype(np.int64) * self._ranking.most + places] = np.arange(len(slots), dtype=np.int32)
        return best, counts

    def _store(self, state_rows: Int32s, changed: Int32s, rows: _Rows, table: tuple[Int32s, Int64s]) -> None:
        """Write the rows of the keys at the slots ``changed``."""
        best, counts = table[0].reshape(-1, self._ranking.most)[changed], table[1][changed]
        numbers = best[np.arange(self._ranking.most) < counts[:, None]]
        slots = np.repeat(np.arange(len(changed), dtype=np.int32), counts)
        values = values_of(slots, (rows.data, rows.starts[numbers], rows.sizes[numbers]), len(changed))
        written = state_rows[changed]
        self._state.write_bytes(ROWS, written, values)
        self._state.column(COUNT)[written] = counts

    # --- Output -------------------------------------------------------------------------------

    def _send(self, keys: Sequence[pa.Array], rows: _Rows, changed: Int32s, kinds: Bytes) -> None:
        if not self._ranking.leaving:
            changed, kinds = changed[kinds == ranks.ENTERS], kinds[kinds == ranks.ENTERS]
        columns = [_OPS.take(pa.array(kinds)), *self._columns(keys, rows, changed)]
        cast = [as_type(c, f.type) for c, f in zip(columns, self._output, strict=True)]
        emitted = pa.RecordBatch.from_arrays(cast, schema=self._output)
        self._emit(with_hidden(emitted, pa.array(np.full(emitted.num_rows, NO_BOUND, np.int64))))

    def _columns(self, keys: Sequence[pa.Array], rows: _Rows, numbers: Int32s) -> list[pa.Array]:
        """Return the columns of rows, in the order of the input. ``keys`` are by slot."""
        slots = pa.array(rows.slots[numbers])
        found = dict(zip(self._kept, self._codec.decode(rows.data, rows.starts[numbers])[1:], strict=True))
        found |= {place: column.take(slots) for place, column in zip(self._keys.places, keys, strict=True)}
        return [found[place] for place in range(len(found))]

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the rows that are kept, of each key the best one first."""
        kept = self._stored(rows)
        columns = self._columns(self._key_columns(rows), kept, np.arange(len(kept.slots), dtype=np.int32))
        output = pa.schema([field for field in self._output if field.name != OP])
        cast = [as_type(c, f.type) for c, f in zip(columns, output, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=output)

    def counters(self) -> dict[str, int]:
        """Count keys."""
        return {"keys": self._state.about_keys()}
