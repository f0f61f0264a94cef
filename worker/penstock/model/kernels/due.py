"""The queue of rows that come due: a heap of buckets. A bucket has the rows of one time and one key group.

The caller keeps the time of each queued row in a column. The rows of a bucket form a linked list
(``links``), so any row can leave it in a few steps. Slots find a bucket by time and group. The bucket
that comes due first is on top of the heap.

Rows come due in the order of time, key group, hash and key bytes. This order depends only on the keys
and their times. A bucket is sorted once, when its time comes, even if it is then taken in several slices.

The number of slots grows by one at a time (linear hashing, Litwin 1980), so no insertion moves all buckets.
To queue a row costs O(1), or O(log buckets) if no row has its time and group yet. To take n rows costs O(n).
"""

from typing import Any

import numpy as np
from numba import from_dtype

from penstock.model.kernels.hash_table import QUEUED, TABLE, key_is_before
from penstock.model.kernels.jit import (
    I32,
    I64,
    INT,
    OUT_I32,
    OUT_I64,
    OUT_U64,
    VOID,
    helper,
    kernel,
    prefetch,
    tuple_of,
)

# Items of the array of counters.
# MADE: buckets ever made. FREE: the first free bucket, plus one. USED: buckets in use, which are the heap.
# SLOTS: slots. ROUND: the largest power of two that is not above SLOTS.
# SORTED: the most rows that were sorted at once.
MADE, FREE, USED, SLOTS, ROUND, SORTED, COUNTERS = range(7)

# ``head`` is the first row of the bucket, and ``place`` is the bucket's place in the heap.
# ``chain`` is the next bucket of the same slot or of the free list, plus one.
# ``ordered`` is 1 if the rows are in the order in which they come due.
BUCKET = np.dtype(
    [
        ("time", "i8"),
        ("group", "i4"),
        ("head", "i4"),
        ("place", "i4"),
        ("chain", "i4"),
        ("ordered", "i4"),
    ],
    align=True,
)
OUT_BUCKETS = from_dtype(BUCKET)[::1]

# links, buckets, slots (a bucket plus one), heap, counters.
# ``links[2 * r]`` is the row behind row r, and ``links[2 * r + 1]`` is the row before it. The first row of
# a bucket has the inverse of the bucket instead. Both stand together, so they cost one cache miss.
DUE = tuple_of((OUT_I32, OUT_BUCKETS, OUT_I32, OUT_I32, OUT_I64))
# rows and hashes of a bucket as they are listed, then the same in order, then where each cell begins
SCRATCH = tuple_of((OUT_I32, OUT_U64, OUT_I32, OUT_U64, OUT_I32))

_END = -1  # behind the last row of a bucket
_WAYS = 4  # children of a place in the heap: half as many levels as with two, and in one cache line
_AHEAD = 12  # how many rows ahead memory is prefetched
_SHORT = 16  # rows up to which a cell is sorted by insertion
_MIX_TIME, _MIX_GROUP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_MIX = np.uint64(0xFF51AFD7ED558CCD)

# Helpers take arrays one by one: see ``kernels.hash_table``.
# ruff: noqa: PLR0917


# --- Slots: from time and group to bucket --------------------------------------------------------


@helper
def _slot(time: Any, group: Any, counters: Any) -> Any:
    mixed = np.uint64(time) * _MIX_TIME ^ np.uint64(group) * _MIX_GROUP
    mixed = (mixed ^ (mixed >> np.uint64(32))) * _MIX
    mixed ^= mixed >> np.uint64(29)
    base = counters[ROUND]
    at = np.int64(mixed & np.uint64(2 * base - 1))
    return at if at < counters[SLOTS] else at - base


@helper
def _split(buckets: Any, slots: Any, counters: Any) -> None:
    """Add a slot. The buckets that belong to it leave the slot in which they were until now."""
    new = counters[SLOTS]
    old = new - counters[ROUND]
    here, slots[old] = slots[old], 0
    slots[new] = 0
    counters[SLOTS] = new + 1
    while here != 0:
        behind = buckets[here - 1].chain
        at = _slot(buckets[here - 1].time, buckets[here - 1].group, counters)
        buckets[here - 1].chain = slots[at]
        slots[at] = here
        here = behind
    if counters[SLOTS] == 2 * counters[ROUND]:
        counters[ROUND] *= 2


@helper
def _unchain(bucket: Any, buckets: Any, slots: Any, counters: Any) -> None:
    at = _slot(buckets[bucket].time, buckets[bucket].group, counters)
    if slots[at] == bucket + 1:
        slots[at] = buckets[bucket].chain
        return
    here = slots[at] - 1
    while buckets[here].chain != bucket + 1:
        here = buckets[here].chain - 1
    buckets[here].chain = buckets[bucket].chain


# --- The heap: which bucket comes first ----------------------------------------------------------


@helper
def _is_before(one: Any, other: Any, buckets: Any) -> bool:
    if buckets[one].time != buckets[other].time:
        return bool(buckets[one].time < buckets[other].time)
    return bool(buckets[one].group < buckets[other].group)


@helper
def _rise(at: Any, bucket: Any, buckets: Any, heap: Any) -> None:
    """Put a bucket at a free place of the heap, or at the place above it where it belongs."""
    while at > 0:
        above = (at - 1) // _WAYS
        if not _is_before(bucket, heap[above], buckets):
            break
        heap[at] = heap[above]
        buckets[heap[at]].place = at
        at = above
    heap[at] = bucket
    buckets[bucket].place = at


@helper
def _sink(at: Any, bucket: Any, buckets: Any, heap: Any, size: Any) -> None:
    """Put a bucket at a free place of the heap, or at the place below it where it belongs."""
    while _WAYS * at + 1 < size:
        least = _WAYS * at + 1
        for child in range(least + 1, min(least + _WAYS, size)):
            if _is_before(heap[child], heap[least], buckets):
                least = child
        if not _is_before(heap[least], bucket, buckets):
            break
        heap[at] = heap[least]
        buckets[heap[at]].place = at
        at = least
    heap[at] = bucket
    buckets[bucket].place = at


# --- Buckets and their rows ----------------------------------------------------------------------


@helper
def _bucket(time: Any, group: Any, buckets: Any, slots: Any, heap: Any, counters: Any) -> Any:
    """Find or make the bucket of a time and group."""
    here = slots[_slot(time, group, counters)]
    while here != 0 and (buckets[here - 1].time != time or buckets[here - 1].group != group):
        here = buckets[here - 1].chain
    if here != 0:
        return np.int64(here - 1)
    bucket = counters[FREE] - 1
    if bucket < 0:
        bucket = counters[MADE]
        counters[MADE] += 1
    else:
        counters[FREE] = buckets[bucket].chain
    buckets[bucket].time = time
    buckets[bucket].group = group
    buckets[bucket].head = _END
    at = _slot(time, group, counters)
    buckets[bucket].chain = slots[at]
    slots[at] = bucket + 1
    counters[USED] += 1
    _rise(counters[USED] - 1, bucket, buckets, heap)
    if counters[USED] > counters[SLOTS]:
        _split(buckets, slots, counters)
    return np.int64(bucket)


@helper
def _drop_bucket(bucket: Any, buckets: Any, slots: Any, heap: Any, counters: Any) -> None:
    """Remove a bucket that has no row left."""
    _unchain(bucket, buckets, slots, counters)
    counters[USED] -= 1
    at, last = np.int64(buckets[bucket].place), np.int64(heap[counters[USED]])
    if last != bucket:
        _sink(at, last, buckets, heap, counters[USED])
        if buckets[last].place == at:
            _rise(at, last, buckets, heap)
    buckets[bucket].chain = counters[FREE]
    counters[FREE] = bucket + 1


@helper
def _enqueue(row: Any, bucket: Any, links: Any, buckets: Any) -> None:
    first = buckets[bucket].head
    links[2 * row], links[2 * row + 1] = first, ~bucket
    if first != _END:
        links[2 * first + 1] = row
    buckets[bucket].head = row
    buckets[bucket].ordered = 0


@helper
def _leave(row: Any, links: Any, buckets: Any, slots: Any, heap: Any, counters: Any) -> None:
    """Take a row out of its bucket. Remove the bucket if this was its last row."""
    behind, ahead = links[2 * row], links[2 * row + 1]
    if behind != _END:
        links[2 * behind + 1] = ahead
    if ahead >= 0:
        links[2 * ahead] = behind
    elif behind != _END:
        buckets[~ahead].head = behind
    else:
        _drop_bucket(np.int64(~ahead), buckets, slots, heap, counters)


@kernel(VOID, TABLE, DUE, OUT_I64, I32, I64)
def set_due(table: Any, due: Any, column: Any, rows: Any, times: Any) -> None:
    """Write the times of rows to ``column``, and queue each row for its time.

    A row may be listed more than once: the last time counts. A row that has its time already stays
    where it is.
    """
    records = table[2]
    links, buckets, slots, heap, counters = due
    last = rows.size - 1
    for i in range(rows.size):
        row = np.int64(rows[i])
        soon = np.int64(rows[min(i + _AHEAD, last)])
        prefetch(column, soon)
        prefetch(links, 2 * soon)
        queued = records[row].status & QUEUED != 0
        if queued and column[row] == times[i]:
            continue
        if queued:
            _leave(row, links, buckets, slots, heap, counters)
        column[row] = times[i]
        records[row].status |= QUEUED
        bucket = _bucket(times[i], records[row].group, buckets, slots, heap, counters)
        _enqueue(row, bucket, links, buckets)


@kernel(VOID, TABLE, DUE, I32)
def clear_due(table: Any, due: Any, rows: Any) -> None:
    """Take rows out of the queue. Rows that are not queued are ignored."""
    records = table[2]
    links, buckets, slots, heap, counters = due
    for i in range(rows.size):
        row = np.int64(rows[i])
        if records[row].status & QUEUED != 0:
            records[row].status &= ~QUEUED
            _leave(row, links, buckets, slots, heap, counters)


@kernel(INT, DUE, INT)
def first_due(due: Any, none: int) -> Any:
    """Return the earliest time of all queued rows, or ``none`` if there is no row."""
    buckets, heap, counters = due[1], due[3], due[4]
    return buckets[heap[0]].time if counters[USED] != 0 else none


# --- Taking rows in order ------------------------------------------------------------------------


@helper
def _is_less(row: Any, hashed: Any, other: Any, other_hash: Any, records: Any, arena: Any) -> bool:
    """Return whether ``row`` comes before ``other``: by hash, then by the bytes of the key."""
    if hashed != other_hash:
        return bool(hashed < other_hash)
    return key_is_before(row, other, records, arena)


@helper
def _insert(rows: Any, hashes: Any, first: Any, stop: Any, records: Any, arena: Any) -> None:
    for i in range(first + 1, stop):
        row, hashed, at = rows[i], hashes[i], i
        while at > first and _is_less(row, hashed, rows[at - 1], hashes[at - 1], records, arena):
            rows[at], hashes[at] = rows[at - 1], hashes[at - 1]
            at -= 1
        rows[at], hashes[at] = row, hashed


@helper
def _sift(rows: Any, hashes: Any, first: Any, at: Any, size: Any, records: Any, arena: Any) -> None:
    """Move the item at ``at`` down to its place. The heap begins at ``first`` and has the greatest item on top."""
    row, hashed = rows[first + at], hashes[first + at]
    while 2 * at + 1 < size:
        child = first + 2 * at + 1
        if child + 1 < first + size and _is_less(
            rows[child], hashes[child], rows[child + 1], hashes[child + 1], records, arena
        ):
            child += 1
        if not _is_less(row, hashed, rows[child], hashes[child], records, arena):
            break
        rows[first + at], hashes[first + at] = rows[child], hashes[child]
        at = child - first
    rows[first + at], hashes[first + at] = row, hashed


@helper
def _sort(rows: Any, hashes: Any, first: Any, stop: Any, records: Any, arena: Any) -> None:
    """Sort rows of one cell: a few by insertion, many by a heap.

    A cell has many rows only if somebody chose keys with equal hashes.
    """
    if stop - first <= _SHORT:
        _insert(rows, hashes, first, stop, records, arena)
        return
    size = stop - first
    for at in range((size - 2) // 2, -1, -1):
        _sift(rows, hashes, first, at, size, records, arena)
    for last in range(size - 1, 0, -1):
        rows[first], rows[first + last] = rows[first + last], rows[first]
        hashes[first], hashes[first + last] = hashes[first + last], hashes[first]
        _sift(rows, hashes, first, 0, last, records, arena)


@helper
def _put_in_order(
    head: Any,
    links: Any,
    records: Any,
    arena: Any,
    listed: Any,
    listed_hashes: Any,
    rows: Any,
    hashes: Any,
    cells: Any,
) -> Any:
    """Write the rows of the list that begins at ``head`` to ``rows``, in order. Return how many they are.

    Hashes are spread evenly, so the top bits of a hash say about where its row belongs. The rows are
    distributed over about as many cells as there are rows. Then the few rows of each cell are sorted.
    """
    count, row = 0, np.int64(head)
    while row != _END:
        listed[count], listed_hashes[count] = row, records[row].hash
        count += 1
        row = np.int64(links[2 * row])
    bits = 1
    while (1 << bits) < count:
        bits += 1
    shift = np.uint64(64 - bits)
    for cell in range((1 << bits) + 1):
        cells[cell] = 0
    for i in range(count):
        cells[np.int64(listed_hashes[i] >> shift) + 1] += 1
    for cell in range(1 << bits):
        cells[cell + 1] += cells[cell]
    for i in range(count):
        at = np.int64(listed_hashes[i] >> shift)
        rows[cells[at]], hashes[cells[at]] = listed[i], listed_hashes[i]
        cells[at] += 1
    first: Any = np.int64(0)
    for cell in range(1 << bits):  # each ``cells[cell]`` is the end of the cell now
        stop = np.int64(cells[cell])
        if stop - first > 1:
            _sort(rows, hashes, first, stop, records, arena)
        first = stop
    return count


@helper
def _relink(bucket: Any, rows: Any, first: Any, stop: Any, links: Any, buckets: Any) -> None:
    """Make ``rows[first:stop]`` the rows of a bucket, in this order."""
    buckets[bucket].head = rows[first]
    buckets[bucket].ordered = 1
    ahead = ~bucket
    for i in range(first, stop):
        links[2 * np.int64(rows[i]) + 1] = ahead
        links[2 * np.int64(rows[i])] = rows[i + 1] if i + 1 < stop else _END
        ahead = np.int64(rows[i])


@kernel(INT, TABLE, DUE, SCRATCH, INT, OUT_I32)
def take_due(table: Any, due: Any, scratch: Any, bound: int, taken: Any) -> Any:
    """Take rows whose time is at or before ``bound`` off the queue, in order. Return how many.

    At most ``taken.size`` rows are taken. The others stay queued, and their bucket stays in order.
    """
    records, arena = table[2], table[3]
    links, buckets, slots, heap, counters = due
    listed, listed_hashes, rows, hashes, cells = scratch
    found = 0
    while found < taken.size and counters[USED] != 0:
        bucket = np.int64(heap[0])
        if buckets[bucket].time > bound:
            break
        begun = found
        if buckets[bucket].ordered == 0:
            head = buckets[bucket].head
            count = _put_in_order(head, links, records, arena, listed, listed_hashes, rows, hashes, cells)
            counters[SORTED] = max(counters[SORTED], count)
            found += min(count, taken.size - begun)
            taken[begun:found] = rows[: found - begun]
            left = count > found - begun
            if left:
                _relink(bucket, rows, found - begun, count, links, buckets)
        else:
            row = np.int64(buckets[bucket].head)
            while row != _END and found < taken.size:
                taken[found] = row
                found += 1
                row = np.int64(links[2 * row])
            left = row != _END
            if left:
                buckets[bucket].head = row
                links[2 * row + 1] = ~bucket
        for i in range(begun, found):
            records[taken[i]].status &= ~QUEUED
        if not left:
            _drop_bucket(bucket, buckets, slots, heap, counters)
    return found
