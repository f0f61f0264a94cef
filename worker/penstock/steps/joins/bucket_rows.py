"""Rows by key, time and side, in keyed state: those of an interval join, and those of windows that keep their rows.

A *unit* has the rows of one key and side whose times lie in one bucket. The key of the state is (bucket, key, place),
where place is twice the number of a part, plus the number of the side. Part 0 is there for each unit. It has the number
of rows; of a join also the timer of the unit, and how many rows of output were emitted of the events at that time. Each
part has up to ``PART_ROWS`` rows, as bytes in the order in which they came, and the range of their times. So a batch
writes its own rows and at most one part for each unit that it meets, and a row looks only at parts whose times concern
it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import StateError
from penstock.base.limits import KEY_GROUPS_MAX
from penstock.base.units import span_text
from penstock.contract.manifest import step_of
from penstock.model.arrays import NO_BYTES, Bytes, Int32s, Int64s, UInt64s, variable
from penstock.model.kernels import intervals, joins, key_bytes
from penstock.model.kernels.intervals import PART_ROWS
from penstock.model.keys import KeyCodec, Keys
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import KeyedState, StateSchema, TimerColumn
from penstock.steps.joins.kept_rows import append_stored
from penstock.steps.joins.sides import SIDES, JoinSide
from penstock.steps.keyed import OpenState

BUCKET, PLACE, ROWS, COUNT, LEAST, MOST, EMITTED, NEXT = (
    "__bucket",
    "__place",
    "rows",
    "count",
    "least",
    "most",
    "emitted",
    "next",
)
_NOT_REACHED = np.full(KEY_GROUPS_MAX, np.iinfo(np.int64).min, np.int64)  # a timer keeps its time, whenever it is set
NO_BUCKET = -(1 << 62)  # of state rows that belong to no time
NEVER = np.iinfo(np.int64).max  # the time of what does not come
_ORDER = [("unit", "ascending"), ("time", "ascending"), ("row", "ascending")]


@dataclass(frozen=True, slots=True)
class Units:
    """Units (n of each): key columns with their hashes and groups, buckets, sides and numbers of rows."""

    keys: list[pa.Array]
    hashed: tuple[UInt64s, Int32s]
    buckets: Int64s
    sides: Int64s
    counts: Int64s

    def only(self, some: Int64s) -> "Units":
        """Return those at some places, in that order. A place may come several times."""
        hashes, groups = self.hashed
        keys = [column.take(pa.array(some)) for column in self.keys]
        return Units(keys, (hashes[some], groups[some]), self.buckets[some], self.sides[some], self.counts[some])


@dataclass(frozen=True, slots=True)
class DueUnits:
    """Units whose timer is due (n of each): state rows, the timers' times, hashes, and rows emitted at these times."""

    rows: Int32s
    times: Int64s
    hashes: UInt64s
    emitted: Int64s

    def only(self, some: "slice | npt.NDArray[np.bool_]") -> "DueUnits":
        """Return some of them."""
        return DueUnits(self.rows[some], self.times[some], self.hashes[some], self.emitted[some])


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Stored rows (n of each) in the order of unit, time and bytes: units, times, starts in ``data``, and sizes."""

    units: Int64s
    times: Int64s
    data: Bytes
    starts: Int64s
    sizes: Int64s

    def only(self, some: Int64s) -> "StoredRows":
        """Return those at some places, in that order."""
        return StoredRows(self.units[some], self.times[some], self.data, self.starts[some], self.sizes[some])

    def ends(self, units: int) -> Int64s:
        """Return where the rows of each unit end (length ``units`` + 1)."""
        found: Int64s = np.searchsorted(self.units, np.arange(-1, units), side="right").astype(np.int64)
        return found


@dataclass(frozen=True, slots=True)
class Buckets:
    """How rows are bucketed, how many of a key and side a bucket may have, and what the user can do against more.

    Buckets begin at 1970-01-01 plus ``offset_us`` plus a multiple of ``size_us``.
    """

    size_us: int
    rows_max: int
    advice: str
    offset_us: int = 0

    def of(self, times: Int64s) -> Int64s:
        """Return the bucket of each time."""
        return (times - self.offset_us) // self.size_us


class BucketRows:
    """Rows by key, bucket and side. State rows are valid until the next call of :meth:`add` or :meth:`delete`."""

    sides: tuple[str, ...] = ("rows", "rows")  # how messages call the rows of a side
    numbers: tuple[str, ...] = ()  # more columns of a unit
    timers: tuple[TimerColumn, ...] = ()

    def __init__(
        self, name: str, codec: KeyCodec, key_names: tuple[str, ...], buckets: Buckets, state: OpenState
    ) -> None:
        """Open the state ``name`` of a step. ``codec`` encodes the keys of both sides."""
        self.step = step_of(name)
        self._buckets = buckets
        self._codec = codec
        names, kinds = (BUCKET, *key_names, PLACE), (pa.int64(), *codec.kinds, pa.int64())
        self._places = KeyCodec(kinds, codec.max_key_groups)
        values = (Value(ROWS, BYTES), *(Value(each, "int64") for each in (COUNT, LEAST, MOST, *self.numbers)))
        keys = tuple(zip(names, kinds, strict=True))
        self.state: KeyedState = state(StateSchema(name, keys, values, timers=self.timers))

    # --- Rows that come -----------------------------------------------------------------------

    def add(
        self, side: JoinSide, rows: pa.RecordBatch, times: Int64s, keys: tuple[list[pa.Array], tuple[UInt64s, Int32s]]
    ) -> None:
        """Keep n rows of a side. Raises StateError for too many of one key."""
        columns, hashed = keys
        buckets, sides = self._buckets.of(times), np.full(len(times), side.number, np.int64)
        units = self.state.rows(self._keys(columns, hashed, buckets, sides))
        numbers = np.empty(len(times), np.int64)
        joins.number_rows(units, self.state.column(COUNT), numbers)
        most = self._buckets.rows_max
        if len(numbers) and numbers.max() >= most:
            span = span_text(self._buckets.size_us / 1_000_000)
            raise StateError(
                f"step {self.step!r}: a key has more than {most:,} {self.sides[side.number]} in {span}: "
                f"{self._buckets.advice}"
            )
        self._wake(units, times)
        places, parts = units, numbers // PART_ROWS
        if parts.any():
            places = self.state.rows(self._keys(columns, hashed, buckets, 2 * parts + sides))
        ranges = self.state.column(LEAST), self.state.column(MOST)
        intervals.note_times(places, numbers, times, ranges)
        append_stored(self.state, ROWS, places, side.encoded(rows))

    def _wake(self, units: Int32s, times: Int64s) -> None:
        """Do nothing: units have no timers. Units are state rows of part 0."""

    def rows_at(
        self, columns: list[pa.Array], hashed: tuple[UInt64s, Int32s], buckets: Int64s, places: Int64s
    ) -> Int32s:
        """Return the state row of each of n keys at a bucket and a place. Makes those that are not there."""
        return self.state.rows(self._keys(columns, hashed, buckets, places))

    def found_at(
        self, columns: list[pa.Array], hashed: tuple[UInt64s, Int32s], buckets: Int64s, places: Int64s
    ) -> Int32s:
        """Return the state row of each of n keys at a bucket and a place, -1 where there is none."""
        return self.state.found(self._keys(columns, hashed, buckets, places))

    def _keys(self, columns: list[pa.Array], hashed: tuple[UInt64s, Int32s], buckets: Int64s, places: Int64s) -> Keys:
        hashes = hashed[0].copy()
        key_bytes.hash_eight((places.view(np.uint64), NO_BYTES, 0), hashes)
        return self._places.window_keys([*columns, pa.array(places)], buckets, (hashes, hashed[1]))

    # --- Units --------------------------------------------------------------------------------

    def units(self, rows: Int32s) -> Units:
        """Return what is known of units, by their state rows."""
        bucket, *keys, place = self._places.columns(self.state.keys_of(rows))
        sides, counts = np.asarray(place) % 2, self.state.column(COUNT)[rows]
        return Units(keys, self._codec.hashed(keys), np.asarray(bucket), sides, counts)

    def partners(self, units: Units, of: Int64s, buckets: Int64s) -> tuple[Int64s, Units]:
        """Return the units of the other sides that have rows, and for which of ``units`` each is.

        Unit ``of[i]`` asks for bucket ``buckets[i]``.
        """
        asked = units.only(of)
        rows = self.state.found(self._keys(asked.keys, asked.hashed, buckets, 1 - asked.sides))
        counts = np.where(rows < 0, 0, self.state.column(COUNT)[rows])
        some = np.flatnonzero(counts)
        found = Units(asked.keys, asked.hashed, buckets, 1 - asked.sides, counts)
        return of[some], found.only(some)

    def first_parts(self, rows: Int32s) -> Int32s:
        """Return those of live state rows that are part 0."""
        *_, place = self._places.columns(self.state.keys_of(rows))
        found: Int32s = rows[np.asarray(place) < len(SIDES)]
        return found

    def read(self, units: Units, asking: Int64s, low: Int64s, high: Int64s) -> StoredRows:
        """Return the rows of units with ``low[a] <= time <= high[a]``, where a is ``asking[i]`` for unit i.

        The number of the asking unit is that of the rows. ``asking`` never falls.
        """
        return self.read_with_next(units, asking, low, high)[0]

    def read_with_next(self, units: Units, asking: Int64s, low: Int64s, high: Int64s) -> tuple[StoredRows, Int64s]:
        """Return what :meth:`read` returns, and the time of the first row behind ``high``, or NEVER.

        Parts of which all rows are behind it are not read: a unit may have many when time falls behind the rows.
        """
        of, numbers = _parts(units.counts)
        rows = self._part_rows(units, of, numbers)
        least, most, asked = self.state.column(LEAST)[rows], self.state.column(MOST)[rows], asking[of]
        following = np.full(len(low), NEVER, np.int64)
        behind = least > high[asked]
        np.minimum.at(following, asked[behind], least[behind])
        needed = ~behind & (most >= low[asked])
        rows, of, numbers = rows[needed], of[needed], numbers[needed]
        sizes_of_parts = np.minimum(units.counts[of] - PART_ROWS * numbers, PART_ROWS)
        _, data = variable(self.state.read_bytes(ROWS, rows))
        total = int(sizes_of_parts.sum())
        starts, sizes, times = (np.empty(total, np.int64) for _ in range(3))
        joins.find_rows(data, starts, sizes)
        intervals.times_of(data, starts, times)
        asked = np.repeat(asking[of], sizes_of_parts)
        behind = times > high[asked]
        np.minimum.at(following, asked[behind], times[behind])
        inside = ~behind & (times >= low[asked])
        return in_order(StoredRows(asked[inside], times[inside], data, starts[inside], sizes[inside])), following

    def _part_rows(self, units: Units, of: Int64s, numbers: Int64s) -> Int32s:
        repeated = units.only(of)
        places = 2 * numbers + repeated.sides
        return self.state.found(self._keys(repeated.keys, repeated.hashed, repeated.buckets, places))

    def delete(self, units: Units) -> None:
        """Delete all parts of units."""
        of, numbers = _parts(units.counts)
        repeated = units.only(of)
        places = 2 * numbers + repeated.sides
        keys = self._keys(repeated.keys, repeated.hashed, repeated.buckets, places)
        self.state.delete(self.state.rows(keys))

    def about_keys(self) -> int:
        """Return about how many parts there are."""
        return self.state.about_keys()


class TimedUnits(BucketRows):
    """Units with a timer each, which :meth:`add` sets to the earliest time of its rows."""

    sides = tuple(f"{side} rows" for side in SIDES)
    numbers = (EMITTED,)
    timers = (TimerColumn(NEXT),)

    def _wake(self, units: Int32s, times: Int64s) -> None:
        intervals.lower_timers(units, times, self.state.column(NEXT))
        self.state.arm(units, _NOT_REACHED)

    def next_due(self) -> int:
        """Return the time of the first timer, or the largest int64 if there is none."""
        return self.state.next_timer()

    def take_due(self, bound: int, most: int) -> DueUnits:
        """Take up to ``most`` units with ``timer <= bound`` off the queue, in the order of time and hash."""
        taken = self.state.take_timers(bound, most)
        return DueUnits(taken.rows, taken.times, taken.hashes, self.state.column(EMITTED)[taken.rows])

    def put_back(self, due: DueUnits) -> None:
        """Queue units again, with the time and the number of emitted rows that ``due`` says."""
        self.state.column(NEXT)[due.rows] = due.times
        self.state.column(EMITTED)[due.rows] = due.emitted
        self.state.arm(due.rows, _NOT_REACHED)


def _parts(counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return the unit and the number of each part of units that have so many rows."""
    parts = -(-counts // PART_ROWS)
    of = np.repeat(np.arange(len(counts)), parts)
    return of, np.arange(len(of)) - np.repeat(np.cumsum(parts) - parts, parts)


def in_order(rows: StoredRows) -> StoredRows:
    """Put rows in the order of unit, time and bytes."""
    if intervals.are_ordered(rows.units, rows.times, (rows.data, rows.starts, rows.sizes)):
        return rows
    size = int(rows.sizes.sum())
    ends: npt.NDArray[np.int64] = np.zeros(len(rows.sizes) + 1, np.int64)
    values = np.empty(size, np.uint8)
    np.cumsum(rows.sizes, out=ends[1:])
    joins.copy_rows(rows.data, rows.starts, ends, values)
    texts = pa.Array.from_buffers(pa.large_binary(), len(rows.sizes), [None, pa.py_buffer(ends), pa.py_buffer(values)])
    table = pa.RecordBatch.from_arrays([pa.array(rows.units), pa.array(rows.times), texts], ["unit", "time", "row"])
    order = np.asarray(pc.sort_indices(table, sort_keys=_ORDER))
    return StoredRows(rows.units[order], rows.times[order], rows.data, rows.starts[order], rows.sizes[order])
