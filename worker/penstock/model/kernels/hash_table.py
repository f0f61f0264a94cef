"""Open addressing from key to row, in order of the hash, growing a little at a time.

A slot is ``high 32 bits of the hash << 32 | row + 1``; zero is empty. The home of a hash is the
top bits of those 32, because the key group fixes the low bits of the hash. Probing is linear,
never wraps (``TAIL`` spare slots follow), and a removal shifts the cluster back. So every entry is at
or after its home without a hole between, and slots are in the order of their homes. Growing uses that
order: slots move from table ``a`` to ``b`` from the left. The move can pause after an empty slot,
because then every hash with a home to the left is in ``b``, and all others are in ``a``.
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
# Bits of a row's status. LISTED: in the list of changed rows. SEEN: used since the search for cold rows last
# passed the row (``kernels.clock``).
# QUEUED: in the queue of rows that come due (``kernels.due``).
LIVE, DELETED, LISTED, SEEN, QUEUED = 1, 2, 4, 8, 16
_IN_USE = LIVE | LISTED | SEEN
TAIL = 4096
NO_ROW = -1
NO_CUT = 0  # the first generation is 1

# One row: 32 bytes together, for one cache miss. ``length`` is -1 for a lone null key; ``start``
# of a free row is the next free row; ``mark`` is the generation of the last change, ``kept``
# that of the last cut for which the row was copied.
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

# Helpers take arrays one by one, and no array is chosen by an expression: inside a tuple, or
# behind an ``if``, each costs two atomic reference counts, which made a look-up ten times slower.
# ruff: noqa: PLR0917


@helper
def key_is_before(row: Any, other: Any, records: Any, arena: Any) -> bool:
    """Compare two rows by the bytes of their keys; a shorter key comes before a longer one."""
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
    """Tell whether a hash (or slot word) belongs to the table that is being filled."""
    return bool(_home(word, counters[BITS_A]) < counters[MOVED])


@helper
def _put(slots: Any, bits: Any, word: Any) -> bool:
    """Put a slot word at its home or the first free slot behind; False when there is none."""
    at = _home(word, bits)
    while slots[at] != 0:
        at += 1
    if at == slots.size - 1:  # the last one stays empty: it ends every probe
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
    """Note that a row was changed in this generation; it is listed once until it is committed."""
    records[row].mark = counters[GENERATION]
    if records[row].status & LISTED == 0:
        records[row].status |= LISTED
        changed[counters[CHANGED]] = row
        counters[CHANGED] += 1


@helper
def _is_kept(row: Any, records: Any, counters: Any) -> bool:
    """Tell whether a row needs no copy: no cut is under way, has it, or it was copied before."""
    return bool(
        counters[CUT] == NO_CUT
        or (records[row].status & LISTED == 0 and counters[WHOLE] == 0)
        or records[row].status & (LIVE | DELETED) == 0
        or records[row].mark > counters[CUT]
        or records[row].kept == counters[CUT]
    )


@helper
def _keep(row: Any, records: Any, kept: Any, counters: Any) -> None:
    """List a row to be copied for the cut: as it is, or, when it is deleted, its inverse."""
    records[row].kept = counters[CUT]
    kept[counters[KEPT]] = row if records[row].status & DELETED == 0 else ~row
    counters[KEPT] += 1


@helper
def _claim_row(a: Any, b: Any, records: Any, counters: Any, hashed: Any) -> Any:
    """Take a free row and a slot for it. Return NO_ROW when the spare slots at the end are full."""
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
    """Find or make the row of every key, and mark it changed.

    Room for ``rows.size`` new rows and all bytes of ``keys`` is there. Returns how many keys were
    done: fewer than asked when more than ``TAIL`` keys share the high half of their hash. Rows that
    the cut under way has and nobody has copied are listed in ``kept``, ``KEPT`` of them.
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
        # Mostly the row is marked already: reading that is cheaper than writing it again.
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
    """Write the row of every key, deleted or not, or NO_ROW; return how many have none."""
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
    """Turn live rows into tombstones, which stay until their deletion is committed."""
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
    """Forget a row altogether: its slot, its key's block and its number are free again."""
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
    """Forget rows, each listed once. Their values are the caller's to clear."""
    a, b, records, arena, heads, _, counters = table
    for i in range(rows.size):
        _release(rows[i], a, b, records, arena, heads, counters)


@kernel(INT, TABLE, I32, OUT_I32)
def keep_rows(table: Any, rows: Any, kept: Any) -> Any:
    """List those of some rows that the cut under way has and nobody has copied; count them."""
    records, counters = table[2], table[6]
    counters[KEPT] = 0
    for i in range(rows.size):
        if not _is_kept(rows[i], records, counters):
            _keep(rows[i], records, kept, counters)
    return counters[KEPT]


@kernel(VOID, TABLE, INT)
def settle(table: Any, generation: int) -> None:
    """Hear that all changes up to a generation are committed: unlist them, drop tombstones."""
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


@kernel(INT, TABLE, U8, OUT_I32)
def rows_of_groups(table: Any, wanted: Any, rows: Any) -> Any:
    """Write every row, tombstones too, whose key group is flagged in ``wanted``; count them."""
    records, counters = table[2], table[6]
    found = 0
    for row in range(counters[ROWS]):
        if records[row].status & (LIVE | DELETED) != 0 and wanted[records[row].group] != 0:
            rows[found] = row
            found += 1
    return found


@kernel(INT, TABLE, INT)
def move_slots(table: Any, least: int) -> Any:
    """Move at least so many slots from ``a`` to ``b``; return how many are left, -1 on failure."""
    a, b, counters = table[0], table[1], table[6]
    at = counters[MOVED]
    stop = min(at + least, a.size)
    while at < a.size and (at < stop or a[at] != 0):
        if a[at] != 0 and not _put(b, counters[BITS_B], a[at]):
            return -1
        at += 1
    if at < a.size:
        at += 1  # the empty slot itself: a home there has no entry in a
    counters[MOVED] = at
    return a.size - at
