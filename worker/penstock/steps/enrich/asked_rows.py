"""The rows of one task that wait for answers: in keyed state, and in memory with what is asked for them.

    add ──> stored, and pending ──> answered: emitted by the step, then deleted
    load ──> rows of a checkpoint are pending again

A checkpoint has every row that waits, whether its answer has come or not. So whoever answers hears of a row at least
once, and the row leaves exactly once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from penstock.base.limits import FIRED_ROWS_MAX
from penstock.contract.keygroups import Share
from penstock.model.arrays import Int32s, Int64s, Text
from penstock.model.keys import EncodedKeys
from penstock.steps.base import NOTHING_DUE, split_hidden
from penstock.steps.enrich.pending_rows import PendingRows
from penstock.steps.keyed import KeyColumns, OpenState
from penstock.steps.waiting_rows import BEFORE_ALL, WaitingRows

T = TypeVar("T")
Line = bytes | None
"""An encoded key; None for a lone null, whose bytes may be those of another key."""


@dataclass(frozen=True, slots=True)
class AskedRow(Generic[T]):
    """A row that waits: its place in a batch with the hidden column, and its key. ``given`` is of its batch."""

    batch: pa.RecordBatch
    row: int
    given: T
    line: Line
    sequence: int
    identity: bytes
    group: int


class AskedRows(Generic[T]):
    """Rows by number. Those of one key are a line of :class:`PendingRows`."""

    def __init__(
        self,
        keys: KeyColumns,
        schema: pa.Schema,
        pending: PendingRows,
        given: Callable[[pa.RecordBatch], T],
        *,
        timed: bool,
    ) -> None:
        """Keep rows of ``schema``. ``given`` makes what a step needs of a batch without its hidden column.

        ``timed``: rows have the hidden bound column.
        """
        self.pending = pending
        self.places: dict[int, AskedRow[T]] = {}
        self._keys, self._schema, self._given = keys, schema, given
        self._rows = WaitingRows(keys, schema, timed=timed)
        self._known: set[bytes] = set()
        self._next_row = 0
        self._heard_us = BEFORE_ALL

    def open(self, name: str, state: OpenState) -> None:
        """Open the state. Called once, before all other methods."""
        self._rows.open(name, state)
        self._state = self._rows.state

    def as_kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows that come with the schema of those that are loaded."""
        return self._rows.as_kept(batch)

    def lines(self, rows: pa.RecordBatch) -> Text:
        """Return the encoded keys of rows without their hidden column."""
        return self._keys.codec.keys(self._keys.of(rows)).text

    def add(self, batch: pa.RecordBatch) -> None:
        """Store rows of :meth:`as_kept`, and let them wait."""
        count = batch.num_rows
        added = self._rows.add(batch, self._heard_us)
        self._state.take_due(NOTHING_DUE - 1, count)  # they are known: the queue is for rows that are loaded
        identities = list(identities_of(added.keys.text))
        self._add(batch, (added.sequences, added.hashed[1], identities), np.full(count, self._heard_us))

    def load(self) -> None:
        """Let the rows wait that are in state which was loaded."""
        while len(found := self._state.take_due(NOTHING_DUE - 1, FIRED_ROWS_MAX)):
            sequences = self._rows.note_loaded(found)
            batch = self._rows.batch(found)
            groups = self._keys.codec.hashed(self._keys.of(split_hidden(batch)[0]))[1]
            identities = _encoded_identities(self._state.keys_of(found))
            self._add(batch, (sequences, groups, identities), self._rows.held(found))

    def _add(self, batch: pa.RecordBatch, of_rows: tuple[Int64s, Int32s, list[bytes]], held: Int64s) -> None:
        """Let rows wait. ``of_rows`` has their sequence numbers, key groups and identities."""
        rows, _ = split_hidden(batch)
        given, lines = self._given(rows), lines_of(self.lines(rows))
        sequences, groups, identities = of_rows
        for row, (sequence, group, identity, line) in enumerate(
            zip(sequences.tolist(), groups.tolist(), identities, lines, strict=True)
        ):
            if identity in self._known:
                continue  # it was moved to disk, and is in the queue again
            number = self._next_row
            self._next_row += 1
            self._known.add(identity)
            self.places[number] = AskedRow(batch, row, given, line, sequence, identity, group)
            self.pending.add(number, line, int(held[row]))

    def give_up(self, share: Share) -> None:
        """Forget rows of key groups that belong to another task now: it asks for them."""
        lost = [n for n, p in self.places.items() if any(g.start <= p.group < g.stop for g in share)]
        self.pending.give_up(lost)
        self._forget(lost)

    def _forget(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._known.discard(self.places.pop(number).identity)

    def gathered(self, numbers: Sequence[int]) -> pa.RecordBatch:
        """Return rows in this order, with their hidden column."""
        by_batch: dict[int, tuple[pa.RecordBatch, list[int], list[int]]] = {}
        for at, number in enumerate(numbers):
            place = self.places[number]
            _, rows, order = by_batch.setdefault(id(place.batch), (place.batch, [], []))
            rows.append(place.row)
            order.append(at)
        parts = [batch.take(pa.array(rows, pa.int64())) for batch, rows, _ in by_batch.values()]
        places = np.concatenate([np.array(each) for _, _, each in by_batch.values()])
        return pa.concat_batches(parts).take(pa.array(np.argsort(places)))

    def delete(self, numbers: Sequence[int]) -> None:
        """Delete rows that leave."""
        sequences = np.array([self.places[number].sequence for number in numbers], np.int64)
        columns = self._keys.of(split_hidden(self.gathered(numbers))[0])
        hashed = self._keys.codec.hashed(columns)
        self._state.delete(self._state.rows(self._keys.codec.window_keys(columns, sequences, hashed)))
        self._forget(numbers)

    def reached(self, time_us: int) -> int:
        """Take note of a time. Returns the earliest event time that waiting rows may still have, at most this one."""
        self._heard_us = max(self._heard_us, time_us)
        held = self.pending.held_us
        return time_us if held is None else min(time_us, held)

    def contents(self, rows: Int32s) -> pa.RecordBatch:
        """Return the keys of state rows that wait, and their other columns."""
        columns = self._rows.plain(rows).columns
        places = [*self._keys.places, *(p for p in range(len(columns)) if p not in self._keys.places)]
        return pa.RecordBatch.from_arrays([columns[p] for p in places], [self._schema.names[p] for p in places])


def lines_of(encoded: Text) -> Iterator[Line]:
    """Return the line of each encoded key."""
    _, _, bitmap, bit = encoded
    if not len(bitmap):
        return identities_of(encoded)
    valid = np.unpackbits(bitmap, bitorder="little")[bit:].tolist()
    return (line if here else None for line, here in zip(identities_of(encoded), valid, strict=False))


def identities_of(encoded: Text) -> Iterator[bytes]:
    """Return the bytes of each encoded key."""
    ends, data = encoded[0], encoded[1].tobytes()
    return (data[start:end] for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def _encoded_identities(keys: EncodedKeys) -> list[bytes]:
    ends, data = keys.ends, keys.data.tobytes()
    return [data[start:end] for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
