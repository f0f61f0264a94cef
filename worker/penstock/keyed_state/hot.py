"""The table of one step's state in memory: columns by row; compiled loops find rows by key.

Every row has its key, hash, key group, status and the generation of its last change. Each cut ends
a generation. A delta holds the rows changed since the last committed generation, so an aborted
epoch needs no undo. A deleted row stays as a tombstone until its deletion is committed.

Costs: no pause grows with the size of the state. The slots grow by eight for each new key (see
``kernels.hash_table``). A cut copies the changed rows little by little; a row that is about to change
again is copied first.

Arrays of rows and bytes grow in place: address space is reserved at once, memory is used page by page.
An array covers the whole reservation, so growing costs nothing and old views stay valid. Only an
array that outgrows its reservation is copied, into twice the space.

Rows that wait for a time are in a queue by the time at which they come due (:class:`DueRows`). The
queue is never stored. The time is a column of the table, so every delta has it and it moves with its
row. Loading rows fills the queue again. See ``model.kernels.due`` for the order and the costs.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.limits import KEY_GROUPS_MAX
from penstock.base.values import replace
from penstock.contract.graph import TimeKind
from penstock.keyed_state.child_table import ChildLinks
from penstock.keyed_state.copies import COPIED_BYTES_MAX, COPIED_ROWS_MAX, CutRows, RowsCopy, gathered
from penstock.keyed_state.memory import NEVER, doubled, reserve
from penstock.keyed_state.timer_queue import TimerQueue
from penstock.model.arrays import Bytes, Int32s, Int64s, flat, narrow, pack_validity, text, variable_array
from penstock.model.kernels import arena, clock, due, hash_table
from penstock.model.keys import EncodedKeys, Keys
from penstock.model.table_columns import BYTES, Value
from penstock.steps.base import END, ChildState, DueTimers, StateSchema

ROWS_RESERVED = 1 << 24
COLUMN_BYTES_RESERVED = 1 << 34  # of one column: systems refuse to reserve 16 M rows of a wide one
BYTES_RESERVED = 1 << 30

_NOT_REACHED = np.full(KEY_GROUPS_MAX, np.iinfo(np.int64).min, np.int64)  # no timer counts as one of the past
_ROW_BYTES = 8  # the two links of a row
_BUCKET_BYTES = due.BUCKET.itemsize + 8  # a bucket, its slot and its place in the heap
_SORTED_BYTES = 28  # a row, while its bucket is sorted

FIRST_BITS = 10
COMMITTED = 0  # the generation before the first one
WHOLE_SHARE = 2  # when one row in this many has changed, a cut has all rows: see decision 026
LOAD_LIMIT = 0.6  # of the slots; above it a larger table is begun
MOVE_PER_ROW = 8  # slots moved per key of a batch while growing: ends long before the next limit
BLOCK_SLACK = 16  # a key of n bytes takes less than 2 n + 16 in the arena
SPAN_BYTES = 12  # start and length of a value of any length


class DueRows:
    """The queue of one time column. ``table`` is the row table in the form that kernels take.

    A bucket has at least one row, so no array here is longer than the table's arrays of rows.
    """

    def __init__(self, capacity: int) -> None:
        """Make an empty queue for ``capacity`` rows: reserves address space, but no memory."""
        self._links = reserve("int32", 2 * capacity)
        self._buckets = reserve(due.BUCKET, capacity)
        self._slots, self._heap = reserve("int32", capacity + 1), reserve("int32", capacity)
        self._counters = np.zeros(due.COUNTERS, np.int64)
        self._counters[[due.SLOTS, due.ROUND]] = 1
        self._bundle(capacity)

    def _bundle(self, capacity: int) -> None:
        """Bundle the arrays in the form that kernels take."""
        self._due = (self._links, self._buckets, self._slots, self._heap, self._counters)
        rows, hashes = reserve("int32", capacity), reserve("uint64", capacity)
        ordered = reserve("int32", capacity), reserve("uint64", capacity)
        self._scratch = (rows, hashes, *ordered, reserve("int32", 2 * capacity + 1))

    def grow(self, used: int, least: int) -> None:
        """Make room for ``least`` rows; ``used`` is the largest number of rows so far."""
        made, slots = int(self._counters[due.MADE]), int(self._counters[due.SLOTS])
        self._links = doubled(self._links, 2 * used, 2 * least)
        self._buckets = doubled(self._buckets, made, least)
        self._slots = doubled(self._slots, slots, least + 1)
        self._heap = doubled(self._heap, int(self._counters[due.USED]), least)
        self._bundle(len(self._links) // 2)

    def set(self, table: Any, column: Int64s, rows: Int32s, times: Int64s) -> None:
        """Write the times of live rows to ``column``, and queue each row for its time."""
        due.set_due(table, self._due, column, rows, times)

    def clear(self, table: Any, rows: Int32s) -> None:
        """Take rows out of the queue; rows that are not queued are ignored."""
        due.clear_due(table, self._due, rows)

    def take(self, table: Any, bound: int, most: int) -> Int32s:
        """Take up to ``most`` rows with ``time <= bound`` off the queue, in order."""
        taken = np.empty(min(most, len(self._heap)), np.int32)
        return taken[: due.take_due(table, self._due, self._scratch, bound, taken)]

    def first(self) -> int:
        """Return the earliest time of all queued rows; NEVER when there is none."""
        return int(due.first_due(self._due, NEVER))

    def size_bytes(self, high_row: int) -> int:
        """Return the memory that the queue uses for a table whose highest row was ``high_row - 1``."""
        buckets = int(self._counters[due.MADE]) * _BUCKET_BYTES
        return high_row * _ROW_BYTES + buckets + int(self._counters[due.SORTED]) * _SORTED_BYTES


class HotTable:
    """A :class:`penstock.steps.base.KeyedState` in memory. Used by one thread."""

    def __init__(self, schema: StateSchema) -> None:
        """Make an empty table: reserves address space, but no memory."""
        self.schema = schema
        self._capacity = _rows_reserved(schema)
        self._a = np.zeros((1 << FIRST_BITS) + hash_table.TAIL, np.uint64)
        self._b = self._a[:1]
        self._records = reserve(hash_table.ROW, self._capacity)
        self._bytes = reserve("uint8", BYTES_RESERVED)
        self._heads = np.zeros(arena.HEADS, np.int64)
        self._changed = reserve("int32", self._capacity)
        self._counters = np.zeros(hash_table.COUNTERS, np.int64)
        self._counters[[hash_table.FREE, hash_table.BITS_A, hash_table.GENERATION]] = (
            -1,
            FIRST_BITS,
            1,
        )
        self._cut: CutRows | None = None  # while rows of it are not copied
        self.links: ChildLinks | None = None  # of a child table
        self._columns: dict[str, npt.NDArray[Any]] = {}
        self._spans: dict[str, tuple[Int64s, Int32s]] = {}
        timers = {time: schema.timer_names(time) for time in TimeKind}
        self._timers = {time: TimerQueue(names, self._capacity) for time, names in timers.items() if names}
        for queue in self._timers.values():
            self._columns.update(queue.columns)
        for value in schema.stored:
            self._make_column(value)
        self._due = DueRows(self._capacity) if schema.timed else None
        fixed = sum(c.strides[0] for c in self._columns.values())
        listed = self._changed.itemsize
        self._row_bytes = hash_table.ROW.itemsize + listed + fixed + SPAN_BYTES * len(self._spans)
        self._bundle()

    def _make_column(self, value: Value) -> None:
        if value.dtype == BYTES:
            spans = reserve("int64", self._capacity), reserve("int32", self._capacity)
            self._spans[value.name] = spans
        elif value.name not in self._columns:  # a timer's is there
            self._columns[value.name] = reserve(value.dtype, self._capacity, value.width)

    def _bundle(self) -> None:
        """Bundle the arrays in the form that kernels take; called again when one was replaced."""
        self._blocks = (self._bytes, self._heads)
        slots_and_rows = (self._a, self._b, self._records)
        self._table = (*slots_and_rows, *self._blocks, self._changed, self._counters)
        slots = 0 if len(self._b) > 1 else 1 << int(self._counters[hash_table.BITS_A])
        self._rows_free = min(int(LOAD_LIMIT * slots), self._capacity)

    @property
    def kernel_form(self) -> Any:
        """Return the arrays in the form that kernels take. They are replaced when they grow."""
        return self._table

    # --- The handle that steps use ----------------------------------------------------------

    def rows(self, keys: Keys) -> Int32s:
        """Find or make the row of each of n keys, and mark the rows as changed."""
        count = len(keys.hashes)
        self.reserve_rows(count, int(keys.text[0][-1] - keys.text[0][0]))
        rows = np.empty(count, np.int32)
        kept = np.empty(0 if self._cut is None else count, np.int32)
        done = hash_table.upsert(self._table, keys.text, keys.hashes, keys.groups, rows, kept)
        if done != count:
            raise StateError(
                f"state {self.schema.name!r}: more than {hash_table.TAIL} keys share the high half of "
                "their hash; such keys are made, not met: choose another key"
            )
        if self._cut is not None:
            self._copy(kept[: self._counters[hash_table.KEPT]])
        for queue in self._timers.values():
            queue.fill(self.high_row)
        return rows

    def found(self, keys: Keys) -> Int32s:
        """Return the row of each of n keys, -1 where there is none; marks no row as changed."""
        rows = np.empty(len(keys.hashes), np.int32)
        hash_table.look_up(self._table, keys.text, keys.hashes, rows)
        return rows

    def mark(self, rows: Int32s) -> None:
        """Mark live rows as changed."""
        self._keep(rows)
        hash_table.mark_rows(self._table, rows)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a live view of a fixed-width column by row."""
        return self._columns[name]

    def read_bytes(self, name: str, rows: Int32s) -> pa.Array:
        """Return a bytes column of the listed rows. Raises ConfigError when they have 2 GiB or more."""
        ends, data, null = self._read_spans(name, rows)
        return variable_array(pa.binary(), narrow(ends), data, pack_validity(~null))

    def write_bytes(self, name: str, rows: Int32s, values: pa.Array) -> None:
        """Store binary values in the listed rows."""
        column = text(flat(values))
        self._reserve_bytes(int(column[0][-1] - column[0][0]), len(rows))
        arena.store_values(self._blocks, self._spans[name], rows, column)

    def keys_of(self, rows: Int32s) -> EncodedKeys:
        """Return the encoded keys of rows."""
        records = self._read(rows)
        return EncodedKeys(*self._gather(records["start"], records["length"]))

    def delete(self, rows: Int32s) -> None:
        """Turn rows into tombstones and clear their values."""
        self._keep(rows)
        self._clear(rows)
        hash_table.delete(self._table, rows)

    def set_due(self, rows: Int32s, times: Int64s) -> None:
        """Set the times at which rows come due (timed state). :meth:`rows` returned the rows."""
        assert self._due is not None, f"state {self.schema.name!r} has no times"
        self._due.set(self._table, self._columns[END], rows, times)

    def take_due(self, bound: int, most: int) -> Int32s:
        """Return up to ``most`` live rows that are due at ``bound``, and take them off the queue.

        They are in the order of time, key group, hash and key, and stay live until deleted.
        """
        assert self._due is not None, f"state {self.schema.name!r} has no times"
        return self._due.take(self._table, bound, most)

    def next_due(self) -> int:
        """Return the time at which the first queued row comes due; NEVER when there is none."""
        return NEVER if self._due is None else self._due.first()

    def arm(self, rows: Int32s, reached: Int64s, time: TimeKind = TimeKind.EVENT) -> None:
        """Queue the timers of rows whose timer columns were written."""
        self._timers[time].arm(self._table, rows, reached)

    def take_timers(self, bound: int, most: int, time: TimeKind = TimeKind.EVENT) -> DueTimers:
        """Take up to ``most`` timers that are due at ``bound`` off the queue, and mark their rows."""
        taken = self._timers[time].take(self._table, bound, most)
        self.mark(taken.rows)
        return taken

    def next_timer(self, time: TimeKind = TimeKind.EVENT) -> int:
        """Return the time of the timer that fires first; NEVER when there is none."""
        queue = self._timers.get(time)
        return NEVER if queue is None else queue.first(self._table)

    def queued_timers(self, rows: Int32s) -> dict[str, npt.NDArray[np.bool_]]:
        """Return of each timer in which of the listed rows it is queued: it is set, and was not taken since."""
        return {name: of for queue in self._timers.values() for name, of in queue.queued(rows).items()}

    def about_keys(self) -> int:
        """Return how many rows there are, tombstones included."""
        return self.used

    def make_room(self) -> None:
        """Do nothing: a table that stands alone has no disk."""

    def child(self, name: str) -> ChildState:
        """Raise AssertionError: a table that stands alone has no child tables."""
        raise AssertionError(f"state {self.schema.name!r}: {name!r} is opened by a KeyedStateBackend only")

    # --- Cuts -------------------------------------------------------------------------------

    def cut(self, *, all_here: bool = True) -> tuple[int, CutRows]:
        """List every row changed since the last commit, and begin another generation.

        Lists all rows instead when at least half of them have changed and ``all_here`` says that
        no row is on disk. Returns the generation that ended (see :meth:`settle`) and the rows.
        :meth:`copy_on` copies the rows; a row that changes before that is copied first.
        """
        self._copy_rest()
        whole = all_here and WHOLE_SHARE * self.changed >= self.used
        # A range, not an array: making an array of a million numbers would take longer than all else.
        rows = range(self.high_row) if whole else self._changed[: self.changed].copy()
        ended = int(self._counters[hash_table.GENERATION])
        self._counters[hash_table.GENERATION] += 1
        self._counters[[hash_table.CUT, hash_table.WHOLE]] = ended, whole
        self._cut = cut = CutRows(rows, self.copy_rows(self._changed[:0]))
        return ended, cut

    def copy_on(self) -> bool:
        """Copy some more rows of the last cut; return whether all are copied."""
        if self._cut is None:
            return True
        row_bytes = 1 + self.size_bytes // max(self.high_row, 1)
        most = min(COPIED_ROWS_MAX, max(COPIED_BYTES_MAX // row_bytes, 1))
        self._keep(self._cut.next(most))
        if self._cut.left:
            return False
        self._counters[hash_table.CUT] = hash_table.NO_CUT
        self._cut = None
        return True

    def _copy_rest(self) -> None:
        while not self.copy_on():
            pass

    def _keep(self, rows: Int32s) -> None:
        """Copy those of the given rows that belong to the last cut and are not copied yet."""
        if self._cut is not None and len(rows):
            kept = np.empty(len(rows), np.int32)
            self._copy(kept[: hash_table.keep_rows(self._table, rows, kept)])

    def _copy(self, kept: Int32s) -> None:
        """Copy rows for the last cut. A negative number is the inverse (~) of a deleted row."""
        if self._cut is not None and len(kept):
            deleted = kept < 0
            copied = self.copy_rows(np.where(deleted, ~kept, kept))
            self._cut.add(replace(copied, deleted=deleted))

    def settle(self, generation: int) -> None:
        """Mark all changes up to ``generation`` as committed, and remove their tombstones."""
        self._copy_rest()
        hash_table.settle(self._table, generation)

    def rows_of_groups(self, groups: Bytes) -> Int32s:
        """Return all rows, tombstones included, of the flagged groups (one uint8 per key group)."""
        found = np.empty(self.high_row, np.int32)
        return found[: hash_table.rows_of_groups(self._table, groups, found)]

    def all_rows(self, *, tombstones: bool) -> Int32s:
        """Return all rows, with or without the deleted ones."""
        rows = self.rows_of_groups(np.ones(KEY_GROUPS_MAX, np.uint8))
        return rows if tombstones else rows[(self._records["status"][rows] & hash_table.LIVE) != 0]

    def by_group(self, rows: Int32s) -> Int32s:
        """Return rows in the order of their key groups."""
        return rows[np.argsort(self._read(rows)["group"], kind="stable")]

    def drop(self, groups: Bytes) -> None:
        """Forget all rows of the flagged groups, which belong to another task now."""
        self.release(self.rows_of_groups(groups))

    def close(self) -> None:
        """Do nothing: the table holds nothing but memory."""

    def release(self, rows: Int32s) -> None:
        """Forget rows without a tombstone."""
        self._keep(rows)
        self._clear(rows)
        hash_table.release(self._table, rows)

    def copy_rows(self, rows: Int32s) -> RowsCopy:
        """Copy the values of rows, in the order given."""
        records = self._read(rows)
        values: dict[str, Any] = {name: column[rows] for name, column in self._columns.items()}
        for name in self._spans:
            values[name] = self._read_spans(name, rows)
        deleted = (records["status"] & hash_table.DELETED) != 0
        keys = EncodedKeys(*self._gather(records["start"], records["length"]))
        return RowsCopy(records["group"], deleted, records["hash"], keys, values)

    def load(self, keys: Keys, deleted: npt.NDArray[np.bool_], values: dict[str, Any]) -> None:
        """Load rows of a file, inside :meth:`loading`; of several loads of a key the last counts.

        ``values`` are as in :class:`RowsCopy`, a bytes column as a binary array.
        """
        rows = self.rows(keys)
        for name, column in self._columns.items():
            if name != END or self._due is None:
                column[rows] = values[name]
        for name in self._spans:
            self.write_bytes(name, rows, values[name])
        if self._due is not None:
            self.set_due(rows, np.ascontiguousarray(values[END]))
        for time in self._timers:
            self.arm(rows, _NOT_REACHED, time)
        gone = rows[deleted]
        if len(gone):
            self._clear(gone)
            hash_table.delete(self._table, gone)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Treat rows loaded inside the ``with`` block as committed; no later delta has them.

        Tombstones are removed at the end. Other uncommitted changes stay listed.
        """
        self._copy_rest()
        generation = self._counters[hash_table.GENERATION]
        self._counters[hash_table.GENERATION] = COMMITTED
        try:
            yield
        finally:
            self._counters[hash_table.GENERATION] = generation
        hash_table.settle(self._table, COMMITTED)

    # --- What a tiered table needs of its hot table ------------------------------------------

    def bring(self, keys: Keys, values: dict[str, Any], changed: npt.NDArray[np.bool_]) -> None:
        """Load rows that have no row here. Those that are not ``changed`` count as committed."""
        listed = self.changed
        self.load(keys, np.zeros(len(changed), np.bool_), values)
        hash_table.unmark_loaded(self._table, self.found(keys)[~changed], listed)

    def missing(self, keys: Keys) -> Int32s:
        """Return the positions, in rising order, of the keys that have no row."""
        return np.flatnonzero(self.found(keys) == hash_table.NO_ROW).astype(np.int32)

    def victims(self, most: int, hand: Int64s, *, changed_too: bool) -> Int32s:
        """Return up to ``most`` live rows that were not used recently."""
        rows = np.empty(most, np.int32)
        return rows[: clock.choose_victims(self._table, int(changed_too), hand, rows)]

    def dirty_marks(self, rows: Int32s) -> Int64s:
        """Return the generation of the uncommitted change of each row; 0 where there is none."""
        records = self._read(rows)
        listed = (records["status"] & hash_table.LISTED) != 0
        return np.where(listed, records["mark"], COMMITTED).astype(np.int64)

    # --- Sizes ------------------------------------------------------------------------------

    @property
    def high_row(self) -> int:
        """Return one more than the highest row ever used."""
        return int(self._counters[hash_table.ROWS])

    @property
    def used(self) -> int:
        """Return how many rows there are, tombstones included."""
        return int(self._counters[hash_table.USED])

    @property
    def changed(self) -> int:
        """Return how many rows were changed since the last commit."""
        return int(self._counters[hash_table.CHANGED])

    @property
    def size_bytes(self) -> int:
        """Return the memory in use: rows, bytes and slots."""
        slots = self._a.nbytes + self._b.nbytes
        due = 0 if self._due is None else self._due.size_bytes(self.high_row)
        timers = sum(queue.size_bytes(self.high_row) for queue in self._timers.values())
        return self.high_row * self._row_bytes + int(self._heads[arena.TOP]) + slots + due + timers

    # --- Growth -----------------------------------------------------------------------------

    def reserve_rows(self, count: int, key_bytes: int) -> None:
        """Make room for ``count`` new keys that have ``key_bytes`` bytes in total."""
        if self.high_row + count > self._rows_free:  # false for most batches
            self._grow_slots(count)
            if self.high_row + count > self._capacity:
                self._grow_rows(self.high_row + count)
        self._reserve_bytes(key_bytes, count)

    def _reserve_bytes(self, size: int, blocks: int) -> None:
        top = int(self._heads[arena.TOP])
        least = top + 2 * size + BLOCK_SLACK * blocks
        if least > len(self._bytes):
            self._bytes = doubled(self._bytes, top, least)
            self._bundle()

    def _grow_rows(self, least: int) -> None:
        used = self.high_row
        self._records = doubled(self._records, used, least)
        self._changed = doubled(self._changed, self.changed, least)
        for queue in self._timers.values():
            queue.grow(max(2 * self._capacity, least))
            self._columns.update(queue.columns)
        timers = {timer.name for timer in self.schema.timers}
        self._columns |= {n: doubled(c, used, least) for n, c in self._columns.items() if n not in timers}
        self._spans = {n: (doubled(s, used, least), doubled(z, used, least)) for n, (s, z) in self._spans.items()}
        if self._due is not None:
            self._due.grow(used, least)
        self._capacity = len(self._changed)
        self._bundle()

    def _grow_slots(self, count: int) -> None:
        growing = len(self._b) > 1
        limit = LOAD_LIMIT * (1 << int(self._counters[hash_table.BITS_B if growing else hash_table.BITS_A]))
        if growing:
            crowded = self.used + count > limit
            self._move(len(self._a) if crowded else MOVE_PER_ROW * count)
        if not growing or len(self._b) == 1:
            limit = LOAD_LIMIT * (1 << int(self._counters[hash_table.BITS_A]))
            if self.used + count > limit:
                self._begin_growth(count)

    def _begin_growth(self, count: int) -> None:
        bits = int(self._counters[hash_table.BITS_A]) + 1
        while self.used + count > LOAD_LIMIT * (1 << bits):
            bits += 1
        self._b = reserve("uint64", (1 << bits) + hash_table.TAIL)
        self._counters[hash_table.BITS_B] = bits
        self._bundle()
        self._move(MOVE_PER_ROW * count)
        while self._a_is_crowded(count):
            self._move(len(self._a))

    def _a_is_crowded(self, count: int) -> bool:
        """Return whether a batch could overfill the slots that are left in the old table."""
        return len(self._b) > 1 and count > (1 << int(self._counters[hash_table.BITS_A])) // 8

    def _move(self, least: int) -> None:
        left = hash_table.move_slots(self._table, least)
        assert left >= 0, "a larger table has room for all slots of a smaller one"
        if left == 0:
            self._a, self._b = self._b, np.zeros(1, np.uint64)
            self._counters[hash_table.BITS_A] = self._counters[hash_table.BITS_B]
            self._counters[hash_table.MOVED] = 0
            self._bundle()

    def _read(self, rows: Int32s) -> npt.NDArray[Any]:
        """Copy records as rows of plain words: numpy would copy structured items field by field."""
        words = self._records.view(np.uint64).reshape(-1, hash_table.ROW.itemsize // 8)
        copied: npt.NDArray[Any] = words.take(rows, axis=0).view(hash_table.ROW).reshape(-1)
        return copied

    # --- Values -----------------------------------------------------------------------------

    def _clear(self, rows: Int32s) -> None:
        """Reset the values of rows to those of a new key, and take the rows off the queue and out of their order."""
        if self.links is not None:
            self.links.unlink(self._table, rows)
        if self._due is not None:
            self._due.clear(self._table, rows)
        for column in self._columns.values():
            column[rows] = 0
        for queue in self._timers.values():
            queue.clear(rows)
        for spans in self._spans.values():
            arena.clear_values(self._blocks, spans, rows)

    def _read_spans(self, name: str, rows: Int32s) -> tuple[Int64s, Bytes, npt.NDArray[np.bool_]]:
        starts, lengths = self._spans[name]
        return self._gather(starts[rows], lengths[rows] - 1)  # lengths are stored plus one

    def _gather(self, starts: Int64s, sizes: Int32s) -> tuple[Int64s, Bytes, npt.NDArray[np.bool_]]:
        """Copy variable-width values. Returns ends (n + 1), bytes, and which are null (size -1)."""
        found = gathered(self._bytes, np.ascontiguousarray(starts), np.maximum(sizes, 0))
        return (*found, sizes < 0)


def _rows_reserved(schema: StateSchema) -> int:
    """Return for how many rows space is reserved: fewer if a column is wide. The table may grow beyond."""
    widest = max((v.width * np.dtype(v.dtype).itemsize for v in schema.stored if v.dtype != BYTES), default=1)
    return min(ROWS_RESERVED, COLUMN_BYTES_RESERVED // widest)
