"""Choosing rows to move out of memory: the clock algorithm over a table's rows."""

from typing import Any

from penstock.model.kernels.hash_table import LISTED, LIVE, ROWS, SEEN, TABLE
from penstock.model.kernels.jit import INT, OUT_I32, OUT_I64, kernel


@kernel(INT, TABLE, INT, OUT_I64, OUT_I32)
def choose_victims(table: Any, changed_too: int, hand: Any, rows: Any) -> Any:
    """Write up to ``rows.size`` live rows that were not used since the hand last passed them.

    The hand passes every row at most twice. The first pass clears SEEN. Tombstones are never chosen.
    Rows with uncommitted changes are chosen only if ``changed_too`` is not 0. The next call begins at
    row ``hand[0]``.
    """
    records, total = table[2], table[6][ROWS]
    found = 0
    for _ in range(2 * total):
        row = hand[0] % total
        hand[0] = row + 1
        status = records[row].status
        if status & SEEN != 0:
            records[row].status = status & ~SEEN
        elif status & LIVE != 0 and (changed_too != 0 or status & LISTED == 0):
            rows[found] = row
            found += 1
            records[row].status |= SEEN  # so that a second round does not choose the row again
            if found == rows.size:
                break
    return found
