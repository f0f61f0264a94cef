"""Session windows: rows enter parts of sessions, and each part is handed on to the one behind it.

Time is cut into pages as long as the gap. All rows of a key in one page are less than a gap apart, so they are of one
session: together they are a *part*, which is one state row. A session is the parts of pages that follow each other,
each of which begins before the end of the one before it. So no row ever merges two sessions.

    starts   the first row of a part; once the parts before it were handed on, that of the session
    ends     the last row of a part plus the gap: its timer. NO_TIMER: there is no such part
    place 0  what was handed on by the parts before       place 1  the part's own rows

A part is over when time has reached its end: no row that is still on time can come before this end. The parts that are
over come in the order of their ends. Each one folds what it got from the parts before with its own rows, and hands that
on to the part of the next page, if that begins before its end. If not, this was the last part, and the session is over.
So the result does not depend on when parts were over, and what is kept does not grow with the length of a session.
"""

from typing import Any

import numpy as np

from penstock.model.kernels.aggregate import SUM, folded, overflows
from penstock.model.kernels.jit import (
    I32,
    I64,
    INT,
    OUT_F64,
    OUT_I32,
    OUT_I64,
    OUT_I64_2D,
    VOID,
    kernel,
    tuple_of,
)
from penstock.model.table_columns import NO_TIMER

PLACES = 2  # of a part: what was handed on to it, and its own rows

PARTS = tuple_of((OUT_I64, OUT_I64))  # by row: starts, ends
HANDED = tuple_of((I32, I32))  # rows of parts that are over, in order; the row of the part behind, -1 without one
INTEGER_STATE = tuple_of((OUT_I64, OUT_I64))  # by place: accumulated, values seen
FLOAT_STATE = tuple_of((OUT_F64, OUT_I64))
INTEGER_RESULT = tuple_of((OUT_I64, OUT_I64))  # by part that is over
FLOAT_RESULT = tuple_of((OUT_F64, OUT_I64))
WIDE_RESULT = tuple_of((OUT_I64, OUT_I64, OUT_I64))

_SIGN = np.int64(-(2**63))  # with this bit flipped in both, int64 values compare as uint64


@kernel(VOID, I32, I64, INT, PARTS, OUT_I32)
def enter(rows: Any, times: Any, gap: int, parts: Any, places: Any) -> None:
    """Let parts begin and end as rows at these times say; write the place of each row's values."""
    starts, ends = parts
    for i in range(rows.size):
        row = np.int64(rows[i])
        if ends[row] == NO_TIMER:
            starts[row], ends[row] = times[i], times[i] + gap
        else:
            starts[row] = min(starts[row], times[i])
            ends[row] = max(ends[row], times[i] + gap)
        places[i] = PLACES * row + 1


@kernel(INT, I64, PARTS, OUT_I32)
def follow(over: Any, parts: Any, following: Any) -> Any:
    """Keep in ``following`` those parts of the next pages that go on with the sessions of parts that are over.

    ``over`` are the ends of the parts that are over. Writes -1 for all others; returns how many go on.
    """
    starts, ends = parts
    count = 0
    for i in range(following.size):
        row = np.int64(following[i])
        if row >= 0 and ends[row] != NO_TIMER and starts[row] < over[i]:
            count += 1
        else:
            following[i] = -1
    return count


@kernel(VOID, HANDED, OUT_I64)
def hand_on_starts(handed: Any, starts: Any) -> None:
    """Let each part behind begin where the session began."""
    rows, following = handed
    for i in range(rows.size):
        if following[i] >= 0:
            starts[following[i]] = starts[rows[i]]


@kernel(VOID, HANDED, OUT_I64, OUT_I64)
def hand_on_counts(handed: Any, counts: Any, seen: Any) -> None:
    """Add the own rows of parts to those before, and hand the counts on."""
    rows, following = handed
    for i in range(rows.size):
        place = PLACES * np.int64(rows[i])
        seen[i] = counts[place] + counts[place + 1]
        if following[i] >= 0:
            counts[PLACES * np.int64(following[i])] = seen[i]


@kernel(INT, INT, HANDED, INTEGER_STATE, INTEGER_RESULT)
def hand_on_integers(operation: int, handed: Any, state: Any, result: Any) -> Any:
    """Fold the own values of parts behind those before, and hand them on. Returns how many before an overflow."""
    rows, following = handed
    accumulated, counts = state
    values, seen = result
    for i in range(rows.size):
        place = PLACES * np.int64(rows[i])
        total, own = accumulated[place], accumulated[place + 1]
        if counts[place + 1] == 0:
            pass
        elif counts[place] == 0:
            total = own
        elif operation == SUM and overflows(total, own):
            return i
        else:
            total = folded(operation, total, own)
        values[i], seen[i] = total, counts[place] + counts[place + 1]
        if following[i] >= 0:
            place = PLACES * np.int64(following[i])
            accumulated[place], counts[place] = values[i], seen[i]
    return rows.size


@kernel(INT, INT, HANDED, FLOAT_STATE, FLOAT_RESULT)
def hand_on_floats(operation: int, handed: Any, state: Any, result: Any) -> Any:
    """Fold the own values of parts behind those before, and hand them on; NaN is the largest. Returns n."""
    rows, following = handed
    accumulated, counts = state
    values, seen = result
    for i in range(rows.size):
        place = PLACES * np.int64(rows[i])
        total, own = accumulated[place], accumulated[place + 1]
        if counts[place + 1] != 0:
            total = own if counts[place] == 0 else folded(operation, total, own)
        values[i], seen[i] = total, counts[place] + counts[place + 1]
        if following[i] >= 0:
            place = PLACES * np.int64(following[i])
            accumulated[place], counts[place] = values[i], seen[i]
    return rows.size


@kernel(INT, HANDED, INTEGER_STATE, INTEGER_RESULT)
def hand_on_unsigned(handed: Any, state: Any, result: Any) -> Any:
    """Add up uint64 sums, given as int64 of the same bits; else like :func:`hand_on_integers`."""
    rows, following = handed
    accumulated, counts = state
    values, seen = result
    for i in range(rows.size):
        place = PLACES * np.int64(rows[i])
        total = accumulated[place] + accumulated[place + 1]
        if (total ^ _SIGN) < (accumulated[place] ^ _SIGN):
            return i
        values[i], seen[i] = total, counts[place] + counts[place + 1]
        if following[i] >= 0:
            place = PLACES * np.int64(following[i])
            accumulated[place], counts[place] = values[i], seen[i]
    return rows.size


@kernel(INT, HANDED, OUT_I64_2D, WIDE_RESULT)
def hand_on_wide(handed: Any, state: Any, result: Any) -> Any:
    """Add up sums of 128 bits, and hand them on. Returns how many sums leave an int64.

    ``state`` has by place the low half, the high half and the number of values.
    """
    rows, following = handed
    lows, highs, seen = result
    wide = 0
    for i in range(rows.size):
        place = PLACES * np.int64(rows[i])
        low = state[place, 0] + state[place + 1, 0]
        high = state[place, 1] + state[place + 1, 1] + int((low ^ _SIGN) < (state[place, 0] ^ _SIGN))  # the carry
        lows[i], highs[i], seen[i] = low, high, state[place, 2] + state[place + 1, 2]
        wide += int(high != low >> 63)
        if following[i] >= 0:
            place = PLACES * np.int64(following[i])
            state[place, 0], state[place, 1], state[place, 2] = low, high, seen[i]
    return wide
