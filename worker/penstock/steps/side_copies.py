"""The copies of side tables in one task: rows by key, which functions read.

    rows of a side table ── in one order, from one task ──> the row of the key is replaced ──> the function reads it

All tasks take the same rows in the same order, so their copies are equal at a barrier. The digest of a copy is the sum
of the hashes of its rows: it changes with each row, and tells whether two copies are equal. One task stores its copy,
and every task loads it.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.limits import SIDE_ROWS_MAX
from penstock.contract.manifest import CopyDigest, step_of
from penstock.model.arrays import as_type, text, variable_array
from penstock.model.rows import RowCodec
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import Emit, KeyedState, PlainStep, StateSchema, split_hidden
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.user_calls import records_of

_ROW, _ONE = "row", 1
_MODULUS = 1 << 64


class SideRows(Mapping[Any, Mapping[str, Any]]):
    """The rows of a side table by key, for reading: a mapping from the key to the row, which is a mapping, too.

    The key is a value; with several key columns it is a tuple.
    """

    def __init__(self, rows: Mapping[Any, Mapping[str, Any]]) -> None:
        """Show ``rows``."""
        self._rows = rows

    def __getitem__(self, key: Any) -> Mapping[str, Any]:
        """Return the row of a key. Raises KeyError if there is none."""
        return self._rows[key]

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the keys."""
        return iter(self._rows)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._rows)


class SideCopy:
    """The copy of one side table."""

    state: KeyedState

    def __init__(self, name: str, schema: pa.Schema, on: tuple[str, ...], max_key_groups: int) -> None:
        """Keep rows of ``schema`` by the columns ``on``, in the state ``name``. Raises ConfigError."""
        self._name, self._schema = name, schema
        self._keys = KeyColumns(schema, on, max_key_groups)
        self._codec = RowCodec(tuple(schema.types))
        self._rows: dict[Any, Mapping[str, Any]] = {}
        self._hashes: dict[Any, int] = {}
        self._digest = 0
        self.rows = SideRows(self._rows)

    def open(self, state: OpenState) -> None:
        """Open the state."""
        values = (Value(_ROW, BYTES),)
        self.state = state(StateSchema(self._name, self._keys.fields, values, timed=True, copied=True))

    def put(self, batch: pa.RecordBatch) -> None:
        """Replace the rows of keys, in order. Raises StateError for too many keys."""
        rows, _ = split_hidden(batch)
        if not rows.num_rows:
            return
        columns = self._keys.of(rows)
        ends = np.full(rows.num_rows, _ONE, np.int64)
        found = self.state.rows(self._keys.codec.window_keys(columns, ends, self._keys.codec.hashed(columns)))
        self.state.set_due(found, ends)
        offsets, data = self._codec.encode(rows.columns, rows.num_rows)
        values = variable_array(pa.binary(), offsets, data)
        _, last = np.unique(found[::-1], return_index=True)
        places = len(found) - 1 - last
        self.state.write_bytes(_ROW, found[places], values.take(pa.array(places)))
        self._show(rows, values)
        if len(self._rows) > SIDE_ROWS_MAX:
            table = step_of(self._name)
            raise StateError(f"step {table!r}: a side table has more than {SIDE_ROWS_MAX:,} rows: join it instead")

    def _show(self, rows: pa.RecordBatch, values: pa.Array) -> None:
        """Let functions see rows, and add them to the digest. ``values`` are their bytes."""
        records = records_of(rows)
        keys = list(zip(*(column.to_pylist() for column in self._keys.of(rows)), strict=True))
        for key, row, value in zip(keys, records, values.to_pylist(), strict=True):
            short = key[0] if len(key) == 1 else key
            self._rows[short] = MappingProxyType(row)
            hashed = int.from_bytes(blake2b(value, digest_size=8).digest())
            self._digest = (self._digest + hashed - self._hashes.get(short, 0)) % _MODULUS
            self._hashes[short] = hashed

    def on_loaded(self) -> None:
        """Show the rows of a copy that was loaded."""
        found = self.state.take_due(_ONE, SIDE_ROWS_MAX + 1)
        self.state.set_due(found, np.full(len(found), _ONE, np.int64))
        self._rows.clear()
        self._hashes.clear()
        self._digest = 0
        values = self.state.read_bytes(_ROW, found)
        ends, data = text(values)[:2]
        columns = self._codec.decode(data, ends[:-1].astype(np.int64))
        cast = [as_type(c, f.type) for c, f in zip(columns, self._schema, strict=True)]
        self._show(pa.RecordBatch.from_arrays(cast, schema=self._schema), values)

    def digest(self) -> CopyDigest:
        """Return what the copy has."""
        return CopyDigest(self._name, len(self._rows), self._digest)


class SideView:
    """What a function reads: an attribute for each side input, ``side.rules``."""

    def __init__(self, copies: Mapping[str, SideCopy]) -> None:
        """Show the rows of each copy under the name of its input."""
        for name, copy in copies.items():
            setattr(self, name, copy.rows)


class PassStep(PlainStep):
    """Passes rows on. There is one task of it, so all tasks behind it get the rows in one order."""

    def on_batch(self, batch: pa.RecordBatch) -> None:
        """Emit the rows."""
        self._emit(batch)

    def parent(self, row: int) -> int | None:
        """Return the row itself."""
        return row


@runtime_checkable
class CopyingStep(Protocol):
    """A step that has copies of side tables."""

    copies: Mapping[str, SideCopy]


class ReadsSides:
    """Makes a step take the rows of its side inputs. The class of the step is the other base."""

    copies: Mapping[str, SideCopy]
    on_batch: Emit

    def side(self, name: str) -> Emit:
        """Return what takes the rows of an input."""
        copy = self.copies.get(name)
        return self.on_batch if copy is None else copy.put
