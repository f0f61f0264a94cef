"""Joins each row with what its key has in a table now: the row of the table that came last.

    table ──> the row of its key is replaced
    rows  ──> the row of their key is looked up ──> pairs, at once and in the order of the rows

A row with a null in its key matches nothing. Which row of the table is there depends on how the inputs interleave. So a
row that is joined again after a rollback may find another one.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np
import pyarrow as pa

from penstock.contract.graph import RIGHT
from penstock.model.arrays import Int32s, text, variable_array
from penstock.model.kernels import joins
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import NO_BOUND, Emit, PlainStep, StateSchema, split_hidden
from penstock.steps.joins.pairs import PairBatches, Picks, nullable
from penstock.steps.joins.sides import JoinSide, null_keys
from penstock.steps.keyed import OpenState

ROW = "row"


class NowJoinStep(PlainStep):
    """Emits a row for each left row: the key columns, then the other columns of both."""

    def __init__(
        self, name: str, sides: Sequence[JoinSide], pairs: PairBatches, table: pa.Schema, *, timed: bool
    ) -> None:
        """Join rows of the left side with rows of ``table``, which the right side brings. ``pairs`` makes the output.

        ``timed``: emitted rows have the hidden bound column.
        """
        super().__init__(name)
        self._left, self._right = sides
        self._pairs, self._table, self._timed = pairs, table, timed
        self._null_keys = 0

    def bind(self, outputs: Mapping[str, Emit]) -> None:
        """Store the outputs."""
        super().bind(outputs)
        self._pairs.bind(outputs["main"])

    def open(self, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        keys = self._right.keys
        self._state = state(StateSchema(self.name, keys.fields, (Value(ROW, BYTES),)))

    def side(self, name: str) -> Emit:
        """Return what takes the rows, or those of the table."""
        return self._put if name == RIGHT else self._ask

    def on_batch(self, batch: pa.RecordBatch) -> NoReturn:
        """Refuse rows: each row of a join belongs to a side."""
        raise AssertionError(f"step {self.name!r} takes rows by side")

    def _put(self, batch: pa.RecordBatch) -> None:
        """Keep the last row of each key."""
        side = self._right
        rows, _ = split_hidden(batch)
        missing = null_keys(side.keys.of(rows))
        if missing is not None:
            self._null_keys += int(np.count_nonzero(missing))
            rows = rows.filter(pa.array(~missing))
        if not rows.num_rows:
            return
        found = self._state.rows(side.keys.codec.keys(side.keys.of(rows)))
        _, last = np.unique(found[::-1], return_index=True)
        places = len(found) - 1 - last
        values = variable_array(pa.binary(), *side.encoded(rows)).take(pa.array(places))
        self._state.write_bytes(ROW, found[places], values)

    def _ask(self, batch: pa.RecordBatch) -> None:
        side = self._left
        rows, bounds = split_hidden(batch)
        keys = side.keys.of(rows)
        self._state.make_room()  # a table that is loaded gets no more rows, which would make room
        found = self._state.found(side.keys.codec.keys(keys))
        missing = null_keys(keys)
        if missing is not None:
            found[missing] = -1
        if not side.alone:
            there = np.flatnonzero(found >= 0)
            self._null_keys += 0 if missing is None else int(np.count_nonzero(missing))
            rows, found = rows.take(pa.array(there)), found[there]
            bounds = None if bounds is None else bounds.take(pa.array(there))
            keys = side.keys.of(rows)
        if not rows.num_rows:
            return
        of_table, places = np.unique(found, return_inverse=True)
        picked = places.astype(np.int32) - int(of_table[0] < 0)
        picked[found < 0] = joins.NO_ROW
        table = self._rows(of_table[of_table >= 0])
        every = pa.array(np.arange(rows.num_rows, dtype=np.int32))
        columns = [rows.column(place) for place in side.kept], table
        if bounds is None and self._timed:
            bounds = pa.array(np.full(rows.num_rows, NO_BOUND, np.int64))
        self._pairs.send_bound(keys, Picks(every, every, nullable(picked)), columns, bounds)

    def _rows(self, found: Int32s) -> list[pa.Array]:
        """Return the columns of rows of the table that are no key columns."""
        ends, data = text(self._state.read_bytes(ROW, found))[:2]
        return self._right.decoded(data, ends[:-1].astype(np.int64))

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the rows of the table: keys, then the other columns."""
        side = self._right
        columns = [*side.keys.codec.columns(self._state.keys_of(rows)), *self._rows(rows)]
        return pa.RecordBatch.from_arrays(
            columns, [self._table.names[place] for place in (*side.keys.places, *side.kept)]
        )

    def counters(self) -> dict[str, int]:
        """Return the number of rows of the table, and of rows dropped for a null key."""
        return {"keys": self._state.about_keys(), "null_keys": self._null_keys}
