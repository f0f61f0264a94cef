"""The queue of the timers of one table: a heap that is made from the timer columns and never stored.

A timer is a column of the table: its time, or ``NO_TIMER``. So user code sets a timer with one store. After a
call, ``arm`` looks at the rows that were written, and queues a timer only if its time is *earlier* than that of
its entry in the queue. A later time needs nothing: when the old entry comes up, it is put back at the later time.
So a key that sets the same timer for each record has one entry, and a record costs a comparison.

    column   the time that holds                queued   the time of the entry that is in the heap; NO_TIMER: none
    entry    (time, hash, row, field)           it is the row's own iff ``queued`` is its time and the row has its hash

An entry that is not the row's own is stale: the timer was set to another time, or the row was deleted and
another key uses its number. A stale entry is dropped when it is the first of the heap. Where more than half
of the entries may be stale, the heap is made again from the others.

Timers fire in the order of time, hash, field and key bytes, which depends only on the keys. The field comes before the
key, because the key of a stale entry may be gone: entries of one key have one order, whichever rows it had. Costs: a
new entry O(1) on the average, taking O(log entries).
"""

from typing import Any

import numpy as np
from numba import from_dtype

from penstock.model.kernels.hash_table import LIVE, TABLE, key_is_before
from penstock.model.kernels.jit import I32, I64, INT, OUT_I32, OUT_I64, OUT_U64, VOID, helper, kernel, tuple_of
from penstock.model.table_columns import NO_TIMER

# Items of the array of counters: entries in the heap, and those that are their row's own.
ENTRIES, OWN, COUNTERS = range(3)

ENTRY = np.dtype([("time", "i8"), ("hash", "u8"), ("row", "i4"), ("field", "i4")], align=True)
OUT_ENTRIES = from_dtype(ENTRY)[::1]

# The heap, and field by field with room for ``rows`` rows each: the columns, and the times that are queued. Counters.
TIMERS = tuple_of((OUT_ENTRIES, OUT_I64, OUT_I64, OUT_I64, INT))
# What was taken: rows, fields, times and hashes, in the order of firing.
TAKEN = tuple_of((OUT_I32, OUT_I32, OUT_I64, OUT_U64))

_END_OF_TIME = np.iinfo(np.int64).max
_WAYS = 4  # children of a place in the heap: half the levels of two, and they stand together

# Helpers take arrays one by one: see ``kernels.hash_table``.
# ruff: noqa: PLR0917


@helper
def _is_before(one: Any, other: Any, records: Any, arena: Any) -> bool:
    if one.time != other.time:
        return bool(one.time < other.time)
    if one.hash != other.hash:
        return bool(one.hash < other.hash)
    if one.field != other.field:
        return bool(one.field < other.field)
    if one.row == other.row:
        return False
    if records[one.row].hash != one.hash or records[other.row].hash != other.hash:  # one is stale
        return bool(one.row < other.row)
    return key_is_before(one.row, other.row, records, arena)


@helper
def _copy(heap: Any, source: Any, target: Any) -> None:
    heap[target].time, heap[target].hash = heap[source].time, heap[source].hash
    heap[target].row, heap[target].field = heap[source].row, heap[source].field


@helper
def _push(time: Any, hashed: Any, row: Any, field: Any, heap: Any, counters: Any, records: Any, arena: Any) -> None:
    """Put an entry into the heap, which has room for it."""
    spare = heap.size - 1  # the last place is never used otherwise
    heap[spare].time, heap[spare].hash = time, hashed
    heap[spare].row, heap[spare].field = row, field
    at = counters[ENTRIES]
    counters[ENTRIES] += 1
    while at > 0:
        above = (at - 1) // _WAYS
        if not _is_before(heap[spare], heap[above], records, arena):
            break
        _copy(heap, above, at)
        at = above
    _copy(heap, spare, at)


@helper
def _sink(at: Any, heap: Any, size: Any, records: Any, arena: Any) -> None:
    """Let the entry at a place sink to where it belongs."""
    spare = heap.size - 1
    _copy(heap, at, spare)
    while _WAYS * at + 1 < size:
        least = _WAYS * at + 1
        for child in range(least + 1, min(least + _WAYS, size)):
            if _is_before(heap[child], heap[least], records, arena):
                least = child
        if not _is_before(heap[least], heap[spare], records, arena):
            break
        _copy(heap, least, at)
        at = least
    _copy(heap, spare, at)


@helper
def _drop_first(heap: Any, counters: Any, records: Any, arena: Any) -> None:
    counters[ENTRIES] -= 1
    if counters[ENTRIES] > 0:
        _copy(heap, counters[ENTRIES], np.int64(0))
        _sink(np.int64(0), heap, counters[ENTRIES], records, arena)


@helper
def _is_own(entry: Any, queued: Any, room: Any, records: Any) -> bool:
    """Tell whether an entry is the one that the queue has for its row."""
    return bool(
        queued[entry.field * room + entry.row] == entry.time
        and records[entry.row].hash == entry.hash
        and records[entry.row].status & LIVE != 0
    )


@helper
def _settle_first(heap: Any, columns: Any, queued: Any, counters: Any, room: Any, records: Any, arena: Any) -> bool:
    """Return whether the first entry is due at its time. If not, drop it or put it where it belongs."""
    row, field, time = np.int64(heap[0].row), np.int64(heap[0].field), heap[0].time
    place = field * room + row
    if not _is_own(heap[0], queued, room, records):
        _drop_first(heap, counters, records, arena)
        return False
    if columns[place] == time:
        return True
    queued[place] = columns[place]
    if columns[place] == NO_TIMER:
        counters[OWN] -= 1
        _drop_first(heap, counters, records, arena)
    else:
        heap[0].time = columns[place]
        _sink(np.int64(0), heap, counters[ENTRIES], records, arena)
    return False


@kernel(VOID, TABLE, TIMERS, I32, I64)
def arm(table: Any, timers: Any, rows: Any, reached: Any) -> None:
    """Queue the timers of rows that were written. Room for one entry for each row and field is there.

    A time at or before ``reached`` of the row's key group becomes the microsecond after it. At the end of time the
    timer is cleared.
    """
    records, arena = table[2], table[3]
    heap, columns, queued, counters, room = timers
    fields = columns.size // room
    for i in range(rows.size):
        row = np.int64(rows[i])
        for field in range(fields):
            place = field * room + row
            time = columns[place]
            if time == NO_TIMER:
                continue
            if time <= reached[records[row].group]:
                if reached[records[row].group] == _END_OF_TIME:
                    columns[place] = NO_TIMER  # no time comes after it
                    continue
                time = reached[records[row].group] + 1
                columns[place] = time
            if queued[place] != NO_TIMER and queued[place] <= time:
                continue
            counters[OWN] += queued[place] == NO_TIMER
            queued[place] = time
            _push(time, records[row].hash, row, field, heap, counters, records, arena)


@kernel(VOID, TIMERS, I32)
def disarm(timers: Any, rows: Any) -> None:
    """Clear the timers of rows, and forget their entries."""
    _, columns, queued, counters, room = timers
    for i in range(rows.size):
        for field in range(columns.size // room):
            place = field * room + np.int64(rows[i])
            counters[OWN] -= queued[place] != NO_TIMER
            columns[place] = queued[place] = NO_TIMER


@kernel(INT, TABLE, TIMERS, INT, TAKEN)
def take(table: Any, timers: Any, bound: int, taken: Any) -> Any:
    """Take timers whose time is at or before ``bound`` off the queue, in order; return how many.

    At most as many as ``taken`` has room for. Their columns keep the time, which the caller clears.
    """
    records, arena = table[2], table[3]
    heap, columns, queued, counters, room = timers
    rows, fields, times, hashes = taken
    found = 0
    while found < rows.size and counters[ENTRIES] > 0 and heap[0].time <= bound:
        if not _settle_first(heap, columns, queued, counters, room, records, arena):
            continue
        rows[found], fields[found] = heap[0].row, heap[0].field
        times[found], hashes[found] = heap[0].time, heap[0].hash
        queued[np.int64(fields[found]) * room + np.int64(rows[found])] = NO_TIMER
        counters[OWN] -= 1
        found += 1
        _drop_first(heap, counters, records, arena)
    return found


@kernel(INT, TABLE, TIMERS, INT)
def first(table: Any, timers: Any, none: int) -> Any:
    """Return the time of the timer that fires first; ``none`` when there is no timer."""
    records, arena = table[2], table[3]
    heap, columns, queued, counters, room = timers
    while counters[ENTRIES] > 0:
        if _settle_first(heap, columns, queued, counters, room, records, arena):
            return heap[0].time
    return none


@kernel(VOID, TABLE, TIMERS)
def rebuild(table: Any, timers: Any) -> None:
    """Drop all stale entries."""
    records, arena = table[2], table[3]
    heap, _, queued, counters, room = timers
    kept = np.int64(0)
    for at in range(counters[ENTRIES]):
        if _is_own(heap[at], queued, room, records):
            _copy(heap, at, kept)
            kept += 1
    counters[ENTRIES] = kept
    for at in range((kept - 2) // _WAYS, -1, -1):
        _sink(np.int64(at), heap, kept, records, arena)
