"""Sliding windows: rows enter slices, and a window that fires combines the slices that it covers.

Time is cut into slices as long as the slide. Slice q ends at ``offset + q * slide``; the window with this end covers
slices ``q - n + 1`` to q. Some slices that follow each other share a state row, their *page*: slice q is place
``q % width`` of page ``q // width``. State columns have one item for each place. ``filled`` has a bit for each place
that has had a row. At most one window begins inside a page, and at most one ends, because a page is not longer than
a window.

Of the pages of a key that a window covers, the newest one with a filled place answers for the window. Its timer
is the end of the next window for which it answers. A page behind it has no timer: newer slices of the key are in
every later window, so it never answers again. The last window that covers a page deletes it.
"""

from typing import Any

import numpy as np

from penstock.model.kernels.aggregate import SUM, folded, overflows
from penstock.model.kernels.jit import (
    F64,
    I32,
    I64,
    INT,
    OUT_F64,
    OUT_I32,
    OUT_I64,
    OUT_I64_2D,
    OUT_U8,
    VOID,
    helper,
    kernel,
    prefetch,
    tuple_of,
)
from penstock.model.table_columns import NO_TIMER

SILENT, ANSWERS = 0, 1  # whether a page answers for the window that fires

SLICING = tuple_of((INT, INT, INT))  # offset, slide, places of a page
# The pages of n windows with one end: rows of the oldest pages (n of them, -1 where there is none), then of the pages
# that follow, up to the newest; how many pages a window has; the first place of the oldest page and the last
# place of the newest page that windows cover; places of a page.
PAGES = tuple_of((I32, INT, INT, INT, INT))
TIMERS = tuple_of((OUT_I64, INT))  # by row: the next window; the end of the window that follows this one
FOUND = tuple_of((OUT_U8, OUT_I32))  # by window: SILENT or ANSWERS; rows to delete, at most two for each window
INTEGER_STATE = tuple_of((I64, I64))  # by place: accumulated, values seen
FLOAT_STATE = tuple_of((F64, I64))
INTEGER_RESULT = tuple_of((OUT_I64, OUT_I64))  # by window
FLOAT_RESULT = tuple_of((OUT_F64, OUT_I64))
WIDE_RESULT = tuple_of((OUT_I64, OUT_I64, OUT_I64))

_SIGN = np.int64(-(2**63))  # with this bit flipped in both, int64 values compare as uint64
_AHEAD = 6  # how many windows ahead memory is prefetched

# Helpers take arrays one by one: see ``kernels.hash_table``.
# ruff: noqa: PLR0917


@kernel(VOID, SLICING, I64, OUT_I64, OUT_I32)
def locate(slicing: Any, ends: Any, pages: Any, places: Any) -> None:
    """Write the page and the place in it of the slices with these ends."""
    offset, slide, width = slicing
    for i in range(ends.size):
        number = (ends[i] - offset) // slide
        pages[i] = number // width
        places[i] = number - pages[i] * width


@kernel(VOID, I32, I64, INT, OUT_I64, OUT_I64, OUT_I32)
def enter(rows: Any, ends: Any, width: int, filled: Any, timers: Any, places: Any) -> None:
    """Mark the places of rows as filled, and let each page answer for its earliest slice.

    ``places`` are those in the page of ``rows``, and become those in a column of all pages.
    """
    for i in range(rows.size):
        row = np.int64(rows[i])
        filled[row] |= 1 << np.int64(places[i])
        if timers[row] == NO_TIMER or ends[i] < timers[row]:
            timers[row] = ends[i]
        places[i] += row * width


@helper
def _covered(page: Any, count: Any, first: Any, last: Any, width: Any) -> Any:
    """Return the first and the last place that a window covers of its page number ``page``."""
    return (first if page == 0 else 0), (last if page == count - 1 else width - 1)


@helper
def _bits(low: Any, high: Any) -> Any:
    """Return an integer with the bits ``low`` to ``high``."""
    return ((np.int64(1) << (high - low + 1)) - 1) << low


@kernel(INT, I32, PAGES, I64, TIMERS, FOUND)
def answer(rows: Any, pages: Any, filled: Any, timers: Any, found: Any) -> Any:
    """Tell for which of n due rows the window that fires is theirs, and set the timers of all.

    Writes the rows that no later window covers to the list of rows to delete; returns how many they are.
    """
    table, count, first, last, width = pages
    due, following = timers
    verdicts, gone = found
    deleted = 0
    for i in range(rows.size):
        verdicts[i] = SILENT
        due[rows[i]] = NO_TIMER
        newest = np.int64(-1)
        page = count
        while newest < 0 and page > 0:
            page -= 1
            row = np.int64(table[page * rows.size + i])
            low, high = _covered(page, count, first, last, width)
            if row >= 0 and filled[row] & _bits(low, high) != 0:
                newest = row
        if newest != rows[i]:
            continue
        verdicts[i] = ANSWERS
        leaves = np.int64(first if page == 0 else -1)  # the last place that the next window does not cover
        if filled[newest] >> (leaves + 1) != 0:
            due[newest] = following
        else:
            gone[deleted] = newest
            deleted += 1
        oldest = np.int64(table[i])
        if first == width - 1 and oldest >= 0 and oldest != newest and filled[oldest] != 0:
            gone[deleted] = oldest
            deleted += 1
    return deleted


@helper
def _ask_ahead(i: Any, table: Any, count: Any, width: Any, size: Any, column: Any) -> None:
    """Ask for the memory of a window that comes later."""
    soon = min(i + _AHEAD, size - 1)
    for page in range(count):
        row = np.int64(table[page * size + soon])
        if row >= 0:
            prefetch(column, row * width)


@kernel(VOID, PAGES, I64, OUT_I64)
def combine_counts(pages: Any, counts: Any, seen: Any) -> None:
    """Add up the counts of the slices of n windows."""
    table, count, first, last, width = pages
    for i in range(seen.size):
        _ask_ahead(i, table, count, width, seen.size, counts)
        total = np.int64(0)
        for page in range(count):
            row = np.int64(table[page * seen.size + i])
            if row < 0:
                continue
            low, high = _covered(page, count, first, last, width)
            for place in range(row * width + low, row * width + high + 1):
                total += counts[place]
        seen[i] = total


@kernel(INT, INT, PAGES, INTEGER_STATE, INTEGER_RESULT)
def combine_integers(operation: int, pages: Any, state: Any, result: Any) -> Any:
    """Fold the accumulators of the slices of n windows, old to new. Returns how many were done before an overflow."""
    table, count, first, last, width = pages
    accumulated, counts = state
    values, seen = result
    for i in range(seen.size):
        _ask_ahead(i, table, count, width, seen.size, accumulated)
        _ask_ahead(i, table, count, width, seen.size, counts)
        total, number = np.int64(0), np.int64(0)
        for page in range(count):
            row = np.int64(table[page * seen.size + i])
            if row < 0:
                continue
            low, high = _covered(page, count, first, last, width)
            for place in range(row * width + low, row * width + high + 1):
                if counts[place] == 0:
                    continue
                if number == 0:
                    total = accumulated[place]
                elif operation == SUM and overflows(total, accumulated[place]):
                    return i
                else:
                    total = folded(operation, total, accumulated[place])
                number += counts[place]
        values[i], seen[i] = total, number
    return seen.size


@kernel(INT, INT, PAGES, FLOAT_STATE, FLOAT_RESULT)
def combine_floats(operation: int, pages: Any, state: Any, result: Any) -> Any:
    """Fold the accumulators of the slices of n windows, old to new; NaN is the largest. Returns n."""
    table, count, first, last, width = pages
    accumulated, counts = state
    values, seen = result
    for i in range(seen.size):
        _ask_ahead(i, table, count, width, seen.size, accumulated)
        _ask_ahead(i, table, count, width, seen.size, counts)
        total, number = 0.0, np.int64(0)
        for page in range(count):
            row = np.int64(table[page * seen.size + i])
            if row < 0:
                continue
            low, high = _covered(page, count, first, last, width)
            for place in range(row * width + low, row * width + high + 1):
                if counts[place] != 0:
                    value = accumulated[place]
                    total = value if number == 0 else folded(operation, total, value)
                    number += counts[place]
        values[i], seen[i] = total, number
    return seen.size


@kernel(INT, PAGES, INTEGER_STATE, INTEGER_RESULT)
def combine_unsigned(pages: Any, state: Any, result: Any) -> Any:
    """Add up uint64 sums, given as int64 of the same bits; else like :func:`combine_integers`."""
    table, count, first, last, width = pages
    accumulated, counts = state
    values, seen = result
    for i in range(seen.size):
        total, number = np.int64(0), np.int64(0)
        for page in range(count):
            row = np.int64(table[page * seen.size + i])
            if row < 0:
                continue
            low, high = _covered(page, count, first, last, width)
            for place in range(row * width + low, row * width + high + 1):
                total += accumulated[place]
                if (total ^ _SIGN) < (accumulated[place] ^ _SIGN):
                    return i
                number += counts[place]
        values[i], seen[i] = total, number
    return seen.size


@kernel(INT, PAGES, OUT_I64_2D, WIDE_RESULT)
def combine_wide(pages: Any, state: Any, result: Any) -> Any:
    """Add up the sums of 128 bits of the slices of n windows. Returns how many sums leave an int64.

    ``state`` has by place the low half, the high half and the number of values.
    """
    table, count, first, last, width = pages
    lows, highs, seen = result
    wide = 0
    for i in range(seen.size):
        total_low, total_high, number = np.int64(0), np.int64(0), np.int64(0)
        for page in range(count):
            row = np.int64(table[page * seen.size + i])
            if row < 0:
                continue
            low, high = _covered(page, count, first, last, width)
            for place in range(row * width + low, row * width + high + 1):
                total_low += state[place, 0]
                total_high += state[place, 1] + int((total_low ^ _SIGN) < (state[place, 0] ^ _SIGN))  # the carry
                number += state[place, 2]
        lows[i], highs[i], seen[i] = total_low, total_high, number
        wide += int(total_high != total_low >> 63)
    return wide
