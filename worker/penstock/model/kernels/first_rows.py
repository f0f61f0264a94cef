"""Finds the rows of keys that are no duplicates: a key has none again until a time."""

from typing import Any

from penstock.model.kernels.jit import I32, I64, INT, OUT_I64, OUT_U8, kernel

_END = (1 << 63) - 1


@kernel(INT, INT, I32, I64, OUT_I64, OUT_U8)
def first_rows(within: Any, rows: Any, times: Any, until: Any, firsts: Any) -> Any:
    """Write which rows are no duplicates, in order, and note until when each makes the next ones duplicates.

    ``rows`` are state rows and ``until`` a column by state row: a row before this time is a duplicate. Its least
    value means that there was none. ``within`` is positive, or negative for ever. Returns how many firsts there are.
    """
    found = 0
    for i in range(rows.size):
        row = rows[i]
        firsts[i] = times[i] >= until[row]
        if firsts[i]:
            until[row] = _END if within < 0 else times[i] + within
            found += 1
    return found
