"""A hash table with open addressing, from a key to the number of its row. It grows a little at a time.

A slot is ``high 32 bits of the hash << 32 | row + 1``. An empty slot is zero. The home of a hash is the
slot that its top bits name. The low bits are not used, because rows of one key group have equal low bits.

Probing is linear and never wraps: ``TAIL`` spare slots follow the last home. A removal shifts the rest
of the cluster back. So there is no empty slot between an entry and its home, and the entries are in the
order of their homes.

To grow, slots move from table ``a`` to a larger table ``b``, from the left to the right. The move can
pause behind an empty slot: then every hash whose home is left of this slot is in ``b``, and every other
hash is in ``a``.
"""

from typing import Any

import numpy as np
from numba import from_dtype

from penstock.model.kernels.arena import equal_bytes, free_block, take_block
from penstock.model.kernels.jit import (
    I32,
    INT,
    OUT_I32,
    OUT_I64,
    OUT_U8,
    OUT_U64,
    TEXT,
    U8,
    U64,
    VOID,
    copy_bytes,
    helper,
    is_valid,
    kernel,
    prefetch,
    tuple_of,
)

# Items of the array of counters.
ROWS, FREE, USED, CHANGED, BITS_A, BITS_B, MOVED, GENERATION, CUT, WHOLE, KEPT, COUNTERS = range(12)
# Bits of a row's status.
# LISTED: the row is in the list of changed rows.
# SEEN: the row was used since the search for cold rows last passed it (``kernels.clock``).
# QUEUED: the row is in the queue of rows that come due (``kernels.due``).
LIVE, DELETED, LISTED, SEEN, QUEUED = 1, 2, 4, 8, 16
_IN_USE = LIVE | LISTED | SEEN
TAIL = 4096
NO_ROW = -1
NO_CUT = 0  # the first generation is 1

# One row has 32 bytes, which are read with one cache miss.
# ``length`` is the length of the key in bytes. It is -1 if the key is null.
# ``start`` is where the key begins in the arena. In a free row it is the number of the next free row.
# ``mark`` is the generation of the last change.
# ``kept`` is the generation of the last cut for which the row was copied.
ROW = np.dtype(
    [
        ("hash", "u8"),
        ("start", "i8"),
        ("length", "i4"),
        ("mark", "u4"),
        ("group", "u2"),
        ("status", "u1"),
        ("kept", "u4"),
    ],
    align=True,
)
OUT_ROWS = from_dtype(ROW)[::1]

# slots a, slots b, rows, bytes, heads of the free lists of blocks, changed rows, counters
TABLE = tuple_of((OUT_U64, OUT_U64, OUT_ROWS, OUT_U8, OUT_I64, OUT_I32, OUT_I64))

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_STRIDE = 8  # rows from one step of reading ahead to the next
_LINE, _KEY_AHEAD = 64, 1024  # bytes of a cache line; of a long key that are asked for ahead

# Helpers take arrays one by one, and no expression chooses an array. An array inside a tuple or
# behind an ``if`` costs two atomic changes of its reference count. That made a look-up ten times slower.
# ruff: noqa: PLR0917


@helper
def key_is_before(row: Any, other: Any, records: Any, arena: Any) -> bool:
    """Return whether the key of ``row`` comes before that of ``other``: by bytes, and a prefix comes first."""
    size, other_size = records[row].length, records[other].length
    at, other_at = records[row].start, records[other].start
    for i in range(min(size, other_size)):
        if arena[at + i] != arena[other_at + i]:
            return bool(arena[at + i] < arena[other_at + i])
    return bool(size < other_size)


@helper
def _home(slot: Any, bits: Any) -> Any:
    return np.int64(slot >> np.uint64(64 - bits))


@helper
def _in_b(word: Any, counters: Any) -> bool:
    """Return whether the entry of a hash (or of a slot word) is in table ``b``."""
    return bool(_home(word, counters[BITS_A]) < counters[MOVED])


@helper
def _put(slots: Any, bits: Any, word: Any) -> bool:
    """Put a slot word into the first free slot at or after its home. Return false if there is none."""
    at = _home(word, bits)
    while slots[at] != 0:
        at += 1
    if at == slots.size - 1:  # the last slot stays empty, so that every probe ends
        return False
    slots[at] = word
    return True


@helper
def _find(slots: Any, bits: Any, records: Any, arena: Any, data: Any, start: Any, size: Any, hashed: Any) -> Any:
    """Return the row of the key ``data[start:start + size]`` (size -1: null), or NO_ROW."""
    at = _home(hashed, bits)
    while slots[at] != 0:
        if slots[at] >> _HALF == hashed >> _HALF:
            row = np.int64(slots[at] & _LOW) - 1
            if records[row].length == size and (size <= 0 or equal_bytes(arena, records[row].start, data, start, size)):
                return row
        at += 1
    return np.int64(NO_ROW)


@helper
def _mark(row: Any, records: Any, changed: Any, counters: Any) -> None:
    """Note that a row was changed in this generation. A row is listed once until its change is committed."""
    records[row].mark = counters[GENERATION]
    if records[row].status & LISTED == 0:
        records[row].status |= LISTED
        changed[counters[CHANGED]] = row
        counters[CHANGED] += 1


@helper
def _is_kept(row: Any, records: Any, counters: Any) -> bool:
    """Return whether the row needs no copy for the cut under way.

    That is so if there is no cut, if the cut does not have the row, or if the row was copied already.
    """
    return bool(
        counters[CUT] == NO_CUT
        or (records[row].status & LISTED == 0 and counters[WHOLE] == 0)
        or records[row].status & (LIVE | DELETED) == 0
        or records[row].mark > counters[CUT]
        or records[row].kept == counters[CUT]
    )


@helper
def _keep(row: Any, records: Any, kept: Any, counters: Any) -> None:
    """List a row that must be copied for the cut. A deleted row is listed as its inverse (``~row``)."""
    records[row].kept = counters[CUT]
    kept[counters[KEPT]] = row if records[row].status & DELETED == 0 else ~row
    counters[KEPT] += 1


@helper
def _claim_row(a: Any, b: Any, records: Any, counters: Any, hashed: Any) -> Any:
    """Take a free row and a slot for it. Return NO_ROW if the spare slots at the end are full."""
    row = counters[FREE]
    fresh = row == NO_ROW
    if fresh:
        row = counters[ROWS]
    word = (hashed & ~_LOW) | np.uint64(row + 1)
    if _in_b(hashed, counters):
        done = _put(b, counters[BITS_B], word)
    else:
        done = _put(a, counters[BITS_A], word)
    if not done:
        return np.int64(NO_ROW)
    if fresh:
        counters[ROWS] += 1
    else:
        counters[FREE] = records[row].start
    counters[USED] += 1
    records[row].hash = hashed
    records[row].status &= LISTED
    return row


@helper
def _store_key(row: Any, records: Any, arena: Any, heads: Any, data: Any, start: Any, size: Any) -> None:
    records[row].length = size
    if size >= 0:
        place = take_block(arena, heads, size)
        copy_bytes(data, start, size, arena, place)
        records[row].start = place


@helper
def _prefetch_look_ups(slots: Any, bits: Any, records: Any, arena: Any, hashes: Any, i: Any) -> None:
    """Prefetch what the look-ups of the rows after row i will read, one dependent step at a time.

    A look-up waits for its slot, then for the row, then for the key. Each is prefetched ``_STRIDE``
    rows before the next, so that the waits of many rows overlap. There are no branches, because a
    useless prefetch costs less than a mispredicted branch.
    """
    last = hashes.size - 1
    prefetch(slots, _home(hashes[min(i + 3 * _STRIDE, last)], bits))
    slot = slots[_home(hashes[min(i + 2 * _STRIDE, last)], bits)]
    prefetch(records, np.int64(slot & _LOW) - 1)
    row = np.int64(slots[_home(hashes[min(i + _STRIDE, last)], bits)] & _LOW) - 1
    if row != NO_ROW:
        start = records[row].start
        prefetch(arena, start)
        for line in range(start + _LINE, start + min(records[row].length, _KEY_AHEAD), _LINE):
            prefetch(arena, line)


@kernel(INT, TABLE, TEXT, U64, I32, OUT_I32, OUT_I32)
def upsert(table: Any, keys: Any, hashes: Any, groups: Any, rows: Any, kept: Any) -> Any:
    """Find or make the row of every key, and mark it as changed.

    The caller has made room for ``rows.size`` new rows and for all bytes of ``keys``. Returns how many
    keys were done. These are fewer than all if more than ``TAIL`` keys have the same high half of the
    hash. Rows that must be copied for the cut under way are written to ``kept``. The counter ``KEPT``
    is their number.
    """
    offsets, data, validity, bit = keys
    a, b, records, arena, heads, changed, counters = table
    nullable = validity.size != 0
    counters[KEPT] = 0
    for i in range(rows.size):
        start, size = np.int64(offsets[i]), np.int64(offsets[i + 1] - offsets[i])
        if nullable and not is_valid(validity, bit + i):
            size = np.int64(-1)
        _prefetch_look_ups(a, counters[BITS_A], records, arena, hashes, i)
        if _in_b(hashes[i], counters):
            row = _find(b, counters[BITS_B], records, arena, data, start, size, hashes[i])
        else:
            row = _find(a, counters[BITS_A], records, arena, data, start, size, hashes[i])
        if row == NO_ROW:
            row = _claim_row(a, b, records, counters, hashes[i])
            if row == NO_ROW:
                return i
            _store_key(row, records, arena, heads, data, start, size)
            records[row].group = groups[i]
        elif not _is_kept(row, records, counters):
            _keep(row, records, kept, counters)
        # Most rows are marked already. To read the mark is cheaper than to write it again.
        status = records[row].status & ~QUEUED
        if records[row].mark != counters[GENERATION] or status != _IN_USE:
            records[row].status = (records[row].status & ~DELETED) | LIVE | SEEN
            _mark(row, records, changed, counters)
        rows[i] = row
    return rows.size


@kernel(VOID, TABLE, I32)
def mark_rows(table: Any, rows: Any) -> None:
    """Mark live rows as changed. The caller has copied those that the cut under way needs."""
    _, _, records, _, _, changed, counters = table
    for i in range(rows.size):
        records[rows[i]].status |= SEEN
        _mark(rows[i], records, changed, counters)


@kernel(INT, TABLE, TEXT, U64, OUT_I32)
def look_up(table: Any, keys: Any, hashes: Any, rows: Any) -> Any:
    """Write the row of every key, also of deleted ones. Write NO_ROW for a key without a row, and count these."""
    offsets, data, validity, bit = keys
    a, b, records, arena, _, _, counters = table
    missing, nullable = 0, validity.size != 0
    for i in range(rows.size):
        start, size = np.int64(offsets[i]), np.int64(offsets[i + 1] - offsets[i])
        if nullable and not is_valid(validity, bit + i):
            size = np.int64(-1)
        _prefetch_look_ups(a, counters[BITS_A], records, arena, hashes, i)
        if _in_b(hashes[i], counters):
            rows[i] = _find(b, counters[BITS_B], records, arena, data, start, size, hashes[i])
        else:
            rows[i] = _find(a, counters[BITS_A], records, arena, data, start, size, hashes[i])
        missing += rows[i] == NO_ROW
    return missing


@kernel(VOID, TABLE, I32)
def delete(table: Any, rows: Any) -> None:
    """Make live rows tombstones. A tombstone stays until its deletion is committed."""
    _, _, records, _, _, changed, counters = table
    for i in range(rows.size):
        records[rows[i]].status = (records[rows[i]].status & ~LIVE) | DELETED
        _mark(rows[i], records, changed, counters)


@helper
def _unslot(slots: Any, bits: Any, hashed: Any, row: Any) -> None:
    """Empty the slot of a row and shift the rest of its cluster back."""
    word = (hashed & ~_LOW) | np.uint64(row + 1)
    hole = _home(hashed, bits)
    while slots[hole] != word:
        hole += 1
    at = hole + 1
    while slots[at] != 0:
        if _home(slots[at], bits) <= hole:
            slots[hole] = slots[at]
            hole = at
        at += 1
    slots[hole] = 0


@helper
def _release(row: Any, a: Any, b: Any, records: Any, arena: Any, heads: Any, counters: Any) -> None:
    """Remove a row. Its slot, the block of its key and its number are free then."""
    hashed = records[row].hash
    if _in_b(hashed, counters):
        _unslot(b, counters[BITS_B], hashed, row)
    else:
        _unslot(a, counters[BITS_A], hashed, row)
    if records[row].length >= 0:
        free_block(arena, heads, records[row].start, np.int64(records[row].length))
    records[row].start = counters[FREE]
    records[row].status &= LISTED
    counters[FREE] = row
    counters[USED] -= 1


@kernel(VOID, TABLE, I32)
def release(table: Any, rows: Any) -> None:
    """Remove rows, each listed once. The caller clears their values."""
    a, b, records, arena, heads, _, counters = table
    for i in range(rows.size):
        _release(rows[i], a, b, records, arena, heads, counters)


@kernel(INT, TABLE, I32, OUT_I32)
def keep_rows(table: Any, rows: Any, kept: Any) -> Any:
    """Write those of ``rows`` that must be copied for the cut under way to ``kept``. Return their number."""
    records, counters = table[2], table[6]
    counters[KEPT] = 0
    for i in range(rows.size):
        if not _is_kept(rows[i], records, counters):
            _keep(rows[i], records, kept, counters)
    return counters[KEPT]


@kernel(VOID, TABLE, INT)
def settle(table: Any, generation: int) -> None:
    """Take note that all changes up to a generation are committed: unlist these rows, remove tombstones."""
    a, b, records, arena, heads, changed, counters = table
    kept = 0
    for i in range(counters[CHANGED]):
        row = changed[i]
        if records[row].status & (LIVE | DELETED) != 0 and records[row].mark > generation:
            changed[kept] = row
            kept += 1
            continue
        records[row].status &= ~LISTED
        if records[row].status & DELETED != 0:
            _release(row, a, b, records, arena, heads, counters)
    counters[CHANGED] = kept


@kernel(VOID, TABLE, I32, INT)
def unmark_loaded(table: Any, rows: Any, listed: Any) -> None:
    """Take note that rows which were loaded just now are committed: unlist them, and no cut under way needs them.

    ``listed`` is how many rows the list of changed rows had before. One whose number was listed for an
    earlier row stays in the list until the next commit.
    """
    _, _, records, _, _, changed, counters = table
    for i in range(rows.size):
        records[rows[i]].mark = 0
        records[rows[i]].kept = counters[CUT]
    kept = listed
    for i in range(listed, counters[CHANGED]):
        row = changed[i]
        if records[row].mark == 0:
            records[row].status &= ~LISTED
        else:
            changed[kept] = row
            kept += 1
    counters[CHANGED] = kept


@kernel(INT, TABLE, U8, OUT_I32)
def rows_of_groups(table: Any, wanted: Any, rows: Any) -> Any:
    """Write every row, also tombstones, whose key group is flagged in ``wanted``. Return their number."""
    records, counters = table[2], table[6]
    found = 0
    for row in range(counters[ROWS]):
        if records[row].status & (LIVE | DELETED) != 0 and wanted[records[row].group] != 0:
            rows[found] = row
            found += 1
    return found


@kernel(INT, TABLE, INT)
def move_slots(table: Any, least: int) -> Any:
    """Move at least ``least`` slots from ``a`` to ``b``. Return how many are left.

    Returns -1 if ``b`` has no room at the end.
    """
    a, b, counters = table[0], table[1], table[6]
    at = counters[MOVED]
    stop = min(at + least, a.size)
    while at < a.size and (at < stop or a[at] != 0):
        if a[at] != 0 and not _put(b, counters[BITS_B], a[at]):
            return -1
        at += 1
    if at < a.size:
        at += 1  # passes the empty slot: no entry in ``a`` has its home there
    counters[MOVED] = at
    return a.size - at
