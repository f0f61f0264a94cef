"""Joins in compiled loops: rows of both sides that are kept as bytes, and the pairs that are made of them.

A stored row is a 32-bit length and its bytes (:class:`penstock.model.rows.RowCodec`). Several rows lie one after
the other in one value. All numbers are little-endian.
"""

from typing import Any

import numpy as np

from penstock.model.kernels.jit import (
    I32,
    I64,
    OUT_I32,
    OUT_I64,
    OUT_U8,
    U8,
    VOID,
    copy_bytes,
    helper,
    kernel,
    load32,
    tuple_of,
)

LENGTH_BYTES = 4
NO_ROW = -1  # the row of the side that has none, in a pair

# offsets (length n + 1) and bytes of n values
VALUES = tuple_of((I32, U8))
# of each window: its first left and right row, and how many left and right rows it has
SIDES = tuple_of((I64, I64, I64, I64))
# of each window: whether its rows match each other, and how many left rows it emits if they do not
MATCHES = tuple_of((U8, I64))
# of each window: its first pair, and how many pairs
PAIRS = tuple_of((I64, I64))

# of each pair: its window, left row and right row
PICKS = tuple_of((OUT_I32, OUT_I32, OUT_I32))


@kernel(VOID, I32, OUT_I64, OUT_I64)
def number_rows(windows: Any, counts: Any, numbers: Any) -> None:
    """Write the number of each row in its window, and add the row to the count of the window."""
    for i in range(windows.size):
        window = np.int64(windows[i])
        numbers[i] = counts[window]
        counts[window] += 1


@kernel(VOID, VALUES, I32, VALUES, OUT_I64)
def appended_sizes(old: Any, slots: Any, rows: Any, sizes: Any) -> None:
    """Write how many bytes each value has when the rows are added. Row i is added to value ``slots[i]``."""
    for i in range(sizes.size):
        sizes[i] = old[0][i + 1] - old[0][i]
    for i in range(slots.size):
        sizes[slots[i]] += LENGTH_BYTES + rows[0][i + 1] - rows[0][i]


@helper
def _store_length(target: Any, at: Any, size: Any) -> None:
    for shift in range(LENGTH_BYTES):
        target[at + shift] = (size >> (8 * shift)) & 0xFF


@kernel(VOID, VALUES, I32, VALUES, OUT_I64, OUT_U8)
def append_rows(old: Any, slots: Any, rows: Any, cursors: Any, target: Any) -> None:
    """Copy each value to its cursor, and rows behind the value that they are added to. Moves the cursors."""
    for i in range(cursors.size):
        size = np.int64(old[0][i + 1] - old[0][i])
        copy_bytes(old[1], np.int64(old[0][i]), size, target, cursors[i])
        cursors[i] += size
    for i in range(slots.size):
        size, slot = np.int64(rows[0][i + 1] - rows[0][i]), np.int64(slots[i])
        _store_length(target, cursors[slot], size)
        copy_bytes(rows[1], np.int64(rows[0][i]), size, target, cursors[slot] + LENGTH_BYTES)
        cursors[slot] += LENGTH_BYTES + size


@kernel(VOID, U8, OUT_I64, OUT_I64)
def find_rows(data: Any, starts: Any, sizes: Any) -> None:
    """Write start and size of all rows of values that lie one after the other."""
    at = np.int64(0)
    for i in range(starts.size):
        sizes[i] = load32(data, at)
        starts[i] = at + LENGTH_BYTES
        at = starts[i] + sizes[i]


@kernel(VOID, U8, I64, I64, OUT_U8)
def copy_rows(data: Any, starts: Any, ends: Any, target: Any) -> None:
    """Copy rows one behind the other: row i to ``ends[i]`` up to ``ends[i + 1]``."""
    for i in range(starts.size):
        copy_bytes(data, starts[i], ends[i + 1] - ends[i], target, ends[i])


@kernel(VOID, SIDES, MATCHES, PAIRS, PICKS)
def pair_up(sides: Any, matches: Any, pairs: Any, picks: Any) -> None:
    """Write window, left row and right row of each pair, window by window.

    Where rows match, each left row comes with all right rows before the next left row. Where they do not, left rows
    come first, each without a right one, and then right rows.
    """
    first_left, first_right, _, right_rows = sides
    matched, unmatched_left = matches
    first, count = pairs
    windows, lefts, rights = picks
    at = 0
    for window in range(count.size):
        for pair in range(first[window], first[window] + count[window]):
            windows[at] = window
            lefts[at] = rights[at] = NO_ROW
            if matched[window]:
                lefts[at] = first_left[window] + pair // right_rows[window]
                rights[at] = first_right[window] + pair % right_rows[window]
            elif pair < unmatched_left[window]:
                lefts[at] = first_left[window] + pair
            else:
                rights[at] = first_right[window] + pair - unmatched_left[window]
            at += 1
