"""The rows of both sides of a window join, by key and window, in keyed state.

The key of the state is (window end, key, part). Part 0 is there for each key and window. It comes due at the end of
the window, and has the number of rows of each side and how many pairs were emitted. Each part has up to
``PART_ROWS`` rows of each side, as bytes in the order in which they came. So a batch writes its own rows and at
most one part for each key and window that it meets, however many rows that window has.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.limits import JOIN_SIDE_ROWS_MAX
from penstock.model.arrays import NO_BYTES, Bytes, Int32s, Int64s, UInt64s, narrow, variable, variable_array
from penstock.model.kernels import joins, key_bytes
from penstock.model.keys import EncodedKeys, KeyCodec, Keys
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import END, KeyedState, StateSchema
from penstock.steps.joins.sides import SIDES, JoinSide
from penstock.steps.keyed import OpenState

PART_ROWS = 64
PART = "part"
EMITTED = "emitted"
COUNTS = tuple(f"{side}_rows" for side in SIDES)
LAST_DUE = np.iinfo(np.int64).max - 2  # a window comes due at or before it
_PART_DUE = LAST_DUE + 1  # parts behind the first one never come due


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of keys (n of each): their rows in the state, ends, row counts by side, and pairs emitted so far."""

    rows: Int32s
    ends: Int64s
    counts: tuple[Int64s, Int64s]
    emitted: Int64s

    def only(self, some: "slice | npt.NDArray[np.bool_]") -> "Windows":
        """Return some of them."""
        left, right = self.counts
        return Windows(self.rows[some], self.ends[some], (left[some], right[some]), self.emitted[some])


class KeptRows:
    """Rows that wait for the end of their window. Row numbers are valid until the next call that takes keys."""

    def __init__(self, step: str, codec: KeyCodec, key_names: tuple[str, ...], state: OpenState) -> None:
        """Open the state of ``step``. ``codec`` encodes the keys of both sides."""
        self._step = step
        self._codec = codec
        self._parts = KeyCodec((*codec.kinds, pa.int64()), codec.max_key_groups)
        keys = (*zip(key_names, codec.kinds, strict=True), (f"__{PART}", pa.int64()))
        numbers = tuple(Value(name, "int64") for name in (*COUNTS, EMITTED))
        values = tuple(Value(side, BYTES) for side in SIDES)
        self._state: KeyedState = state(StateSchema(step, keys, (*values, *numbers), timed=True))

    # --- Rows that come -----------------------------------------------------------------------

    def find(self, keys: list[pa.Array], ends: Int64s, hashed: tuple[UInt64s, Int32s]) -> Int32s:
        """Return the row of part 0 for each of n keys and window ends. Makes those that are not there."""
        windows = self._state.rows(self._keys(keys, ends, hashed, np.zeros(len(ends), np.int64)))
        self._state.set_due(windows, ends)
        return windows

    def has_emitted(self, windows: Int32s) -> npt.NDArray[np.bool_]:
        """Return which windows have emitted some of their pairs: no further row may enter them."""
        found: npt.NDArray[np.bool_] = self._state.column(EMITTED)[windows] != 0
        return found

    def add(
        self,
        side: JoinSide,
        rows: pa.RecordBatch,
        keys: tuple[list[pa.Array], Int64s, tuple[UInt64s, Int32s]],
        windows: Int32s,
    ) -> None:
        """Keep n rows of a side. ``windows`` are what :meth:`find` has returned for their ``keys``."""
        numbers = np.empty(len(windows), np.int64)
        counts = self._state.column(COUNTS[side.number])
        joins.number_rows(windows, counts, numbers)
        if len(numbers) and numbers.max() >= JOIN_SIDE_ROWS_MAX:
            raise StateError(
                f"step {self._step!r}: a key has more than {JOIN_SIDE_ROWS_MAX} {SIDES[side.number]} rows in one "
                "window: make the windows smaller, or filter such keys before the join"
            )
        places, parts = windows, numbers // PART_ROWS
        if parts.any():
            places = self._state.rows(self._keys(*keys, parts))
            self._state.set_due(places, np.where(parts == 0, keys[1], _PART_DUE))
        append_stored(self._state, SIDES[side.number], places, side.encoded(rows))

    def _keys(self, keys: list[pa.Array], ends: Int64s, hashed: tuple[UInt64s, Int32s], parts: Int64s) -> Keys:
        """Encode keys of the state. The hash of part 0 is that of the key; other parts have hashes of their own."""
        hashes, groups = hashed
        if parts.any():
            chained = hashes.copy()
            key_bytes.hash_eight((parts.view(np.uint64), NO_BYTES, 0), chained)
            hashes = np.where(parts == 0, hashes, chained)
        return self._parts.window_keys([*keys, pa.array(parts)], ends, (hashes, groups))

    # --- Windows that end ---------------------------------------------------------------------

    def next_due(self) -> int:
        """Return the end of the window that ends first, or a time after ``LAST_DUE`` if there is none."""
        return self._state.next_due()

    def take_due(self, bound: int, most: int) -> Windows:
        """Take up to ``most`` windows with ``end <= bound`` off the queue. ``bound`` is at most ``LAST_DUE``.

        They come in the order of end, key group, hash and key.
        """
        return self.windows(self._state.take_due(bound, most))

    def put_back(self, windows: Windows, emitted: Int64s | None = None) -> None:
        """Queue windows again; ``emitted`` has the number of their pairs that were emitted."""
        if emitted is not None:
            self._state.mark(windows.rows)  # a slice takes them off the queue, which marks nothing
            self._state.column(EMITTED)[windows.rows] = emitted
        self._state.set_due(windows.rows, windows.ends)

    def windows(self, rows: Int32s) -> Windows:
        """Return what is known of the windows that have these rows as part 0."""
        left, right, emitted = (self._state.column(name)[rows] for name in (*COUNTS, EMITTED))
        return Windows(rows, self._state.column(END)[rows], (left, right), emitted)

    def first_parts(self, rows: Int32s) -> Int32s:
        """Return those of live rows that are part 0."""
        found: Int32s = rows[self._state.column(END)[rows] <= LAST_DUE]
        return found

    def encoded_keys(self, windows: Windows) -> EncodedKeys:
        """Return the encoded keys of windows. Equal ones have equal bytes."""
        return self._state.keys_of(windows.rows)

    def keys(self, windows: Windows) -> list[pa.Array]:
        """Return the key columns of windows."""
        return self._parts.window_columns(self._state.keys_of(windows.rows))[:-1]

    def parts(self, windows: Windows, keys: list[pa.Array]) -> tuple[Int32s, Int64s]:
        """Return the rows of all parts, window by window, and the number of parts of each window.

        Row numbers from before the call are not valid any more. The first of each window is its part 0.
        """
        most = np.maximum(*windows.counts)
        counts = np.maximum(-(-most // PART_ROWS), 1)
        of = np.repeat(np.arange(len(counts)), counts)
        numbers = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        repeated = [column.take(pa.array(of)) for column in keys]
        ends = windows.ends[of]
        places = self._state.rows(self._keys(repeated, ends, self._codec.hashed(repeated), numbers))
        return places, counts

    def read(self, side: int, places: Int32s, count: int) -> tuple[Bytes, Int64s, Int64s]:
        """Return the bytes of all ``count`` rows of a side in the given parts, and where each begins and its size."""
        _, data = variable(self._state.read_bytes(SIDES[side], places))
        starts, sizes = np.empty(count, np.int64), np.empty(count, np.int64)
        joins.find_rows(data, starts, sizes)
        return data, starts, sizes

    def delete(self, places: Int32s) -> None:
        """Delete all parts of windows."""
        self._state.delete(places)

    def about_keys(self) -> int:
        """Return about how many parts there are."""
        return self._state.about_keys()


def append_stored(state: KeyedState, column: str, places: Int32s, rows: tuple[Int32s, Bytes]) -> None:
    """Add rows (offsets and bytes) to the values of a bytes column. Row i is added to state row ``places[i]``."""
    unique, inverse = np.unique(places, return_inverse=True)
    slots = inverse.astype(np.int32)
    old = variable(state.read_bytes(column, unique))
    sizes, ends = np.empty(len(unique), np.int64), np.zeros(len(unique) + 1, np.int64)
    joins.appended_sizes(old, slots, rows, sizes)
    np.cumsum(sizes, out=ends[1:])
    target, cursors = np.empty(ends[-1], np.uint8), ends[:-1].copy()
    joins.append_rows(old, slots, rows, cursors, target)
    state.write_bytes(column, unique, variable_array(pa.binary(), narrow(ends), target))


def values_of(slots: Int32s, rows: tuple[Bytes, Int64s, Int64s], count: int) -> pa.Array:
    """Return ``count`` values that have rows (bytes, starts, sizes): row i is in value ``slots[i]``, in order."""
    data, starts, row_sizes = rows
    row_ends = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(row_sizes, out=row_ends[1:])
    copied = np.empty(row_ends[-1], np.uint8)
    joins.copy_rows(data, starts, row_ends, copied)
    given, nothing = (narrow(row_ends), copied), (np.zeros(count + 1, np.int32), NO_BYTES)
    sizes, ends = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    joins.appended_sizes(nothing, slots, given, sizes)
    np.cumsum(sizes, out=ends[1:])
    target = np.empty(ends[-1], np.uint8)
    joins.append_rows(nothing, slots, given, ends[:-1].copy(), target)
    return variable_array(pa.binary(), narrow(ends), target)
