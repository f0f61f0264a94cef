"""Keeps the best rows of each key, row by row, and says which rows enter and leave.

Rows have numbers: first those that were stored, then those of the batch. Of two rows the one with the greater number
to rank by is better. A row without such a number is worse than all that have one. Of equal ones the row with
the greater bytes is better, so which rows are kept does not depend on their order.
"""

from typing import Any

from penstock.model.kernels.jit import I32, I64, INT, OUT_I32, OUT_I64, OUT_U8, U8, helper, kernel, tuple_of

ENTERS, LEAVES = 0, 1

# by row: the number to rank by, whether there is one, and where the bytes lie
RANKED = tuple_of((I64, U8, U8, I64, I64))
# by slot of a key: its best rows (equally many places each), and how many there are
BEST = tuple_of((OUT_I32, OUT_I64))
# rows that enter and leave, in order, and which of both
CHANGES = tuple_of((OUT_I32, OUT_U8))


@helper
def _greater_bytes(data: Any, start: Any, size: Any, other: Any, other_size: Any) -> Any:
    for i in range(min(size, other_size)):
        if data[start + i] != data[other + i]:
            return data[start + i] > data[other + i]
    return size > other_size


@helper
def _is_better(row: Any, other: Any, ranked: Any) -> Any:
    words, valid, data, starts, sizes = ranked
    if valid[row] != valid[other]:
        return valid[row] > valid[other]
    if valid[row] and words[row] != words[other]:
        return words[row] > words[other]
    return _greater_bytes(data, starts[row], sizes[row], starts[other], sizes[other])


@kernel(INT, INT, I32, RANKED, BEST, CHANGES)
def rank(first: Any, slots: Any, ranked: Any, best: Any, changes: Any) -> Any:
    """Let the rows from number ``first`` on enter the best rows of their keys, which are at ``slots``.

    Returns how many changes there are: at most two for each row. A row that another one displaces leaves before that
    one enters.
    """
    rows, counts = best
    changed, kinds = changes
    made, most = 0, rows.size // counts.size
    for i in range(slots.size):
        row, slot = first + i, slots[i]
        begin, count = slot * most, counts[slot]
        place = count
        while place > 0 and _is_better(row, rows[begin + place - 1], ranked):
            place -= 1
        if place == most:
            continue
        if count == most:
            changed[made], kinds[made] = rows[begin + most - 1], LEAVES
            made += 1
            count -= 1
        for at in range(count, place, -1):
            rows[begin + at] = rows[begin + at - 1]
        rows[begin + place] = row
        counts[slot] = count + 1
        changed[made], kinds[made] = row, ENTERS
        made += 1
    return made
