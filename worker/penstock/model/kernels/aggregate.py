"""Folds a column of values into one state row per key, and gives the value after each input row.

Whole numbers are added exactly. A sum that overflows 64 bits ends the loop. A mean uses 128 bits.

A new state row has zeros. As long as its count is zero, MIN and MAX take the next value as it is.
``after[i]`` and ``seen[i]`` are the state of the row directly after input i.
"""

from typing import Any

import numpy as np

from penstock.model.kernels.jit import (
    F64,
    I32,
    I64,
    INT,
    OUT_F64,
    OUT_I64,
    OUT_I64_2D,
    U8,
    VOID,
    helper,
    is_valid,
    kernel,
    tuple_of,
)

SUM, MIN, MAX, LAST = 1, 2, 3, 4

MASK = tuple_of((U8, INT))  # validity bitmap, bit of row 0
INTEGERS = tuple_of((I64, U8, INT))  # values, validity bitmap, bit of row 0
FLOATS = tuple_of((F64, U8, INT))
INTEGER_STATE = tuple_of((OUT_I64, OUT_I64))  # accumulated, values seen (by state row)
FLOAT_STATE = tuple_of((OUT_F64, OUT_I64))
INTEGER_AFTER = tuple_of((OUT_I64, OUT_I64))  # the same, by input row
FLOAT_AFTER = tuple_of((OUT_F64, OUT_I64))
WIDE_STATE = OUT_I64_2D  # by state row: the low and the high half of 128 bits, values seen
WIDE_AFTER = tuple_of((OUT_I64, OUT_I64, OUT_I64))
WIDE = tuple_of((OUT_I64, OUT_I64))

_SIGN = np.int64(-(2**63))  # with this bit flipped in both, int64 values compare as uint64
_ONE, _TO_TOP = np.uint64(1), np.uint64(63)


@kernel(VOID, I32, MASK, OUT_I64, OUT_I64)
def count_rows(rows: Any, mask: Any, counts: Any, after: Any) -> None:
    """Count the valid input rows per state row; ``after[i]`` is the count after input i."""
    validity, bit = mask
    for i in range(rows.size):
        counts[rows[i]] += is_valid(validity, bit + i)
        after[i] = counts[rows[i]]


@helper
def is_less(left: Any, right: Any) -> bool:
    """Compare as Spark does: NaN is the largest value and equal to itself."""
    return bool(left < right or (np.isnan(right) and not np.isnan(left)))


@helper
def folded(operation: Any, old: Any, value: Any) -> Any:
    """Fold a value into an accumulated one."""
    if operation == SUM:
        return old + value
    if operation == LAST:
        return value
    if operation == MIN:
        return value if is_less(value, old) else old
    return value if is_less(old, value) else old


@helper
def overflows(old: Any, value: Any) -> bool:
    """Return whether a sum leaves an int64."""
    total = old + value
    return bool(((old ^ total) & (value ^ total)) < 0)


@kernel(INT, INT, I32, INTEGERS, INTEGER_STATE, INTEGER_AFTER)
def fold_integers(operation: int, rows: Any, column: Any, state: Any, result: Any) -> Any:
    """Fold int64 values; nulls are skipped. Returns how many rows were done before an overflow."""
    values, validity, bit = column
    accumulated, counts = state
    after, seen = result
    for i in range(rows.size):
        row = rows[i]
        if is_valid(validity, bit + i):
            if counts[row] == 0:
                accumulated[row] = values[i]
            elif operation == SUM and overflows(accumulated[row], values[i]):
                return i
            else:
                accumulated[row] = folded(operation, accumulated[row], values[i])
            counts[row] += 1
        after[i] = accumulated[row]
        seen[i] = counts[row]
    return rows.size


@kernel(INT, INT, I32, FLOATS, FLOAT_STATE, FLOAT_AFTER)
def fold_floats(operation: int, rows: Any, column: Any, state: Any, result: Any) -> Any:
    """Fold float64 values; nulls are skipped; NaN is the largest. Returns the number of rows."""
    values, validity, bit = column
    accumulated, counts = state
    after, seen = result
    for i in range(rows.size):
        row = rows[i]
        if is_valid(validity, bit + i):
            if counts[row] == 0:
                accumulated[row] = values[i]
            else:
                accumulated[row] = folded(operation, accumulated[row], values[i])
            counts[row] += 1
        after[i] = accumulated[row]
        seen[i] = counts[row]
    return rows.size


@kernel(INT, I32, INTEGERS, INTEGER_STATE, INTEGER_AFTER)
def add_unsigned(rows: Any, column: Any, state: Any, result: Any) -> Any:
    """Add up uint64 values, given as int64 of the same bits; else like :func:`fold_integers`."""
    values, validity, bit = column
    accumulated, counts = state
    after, seen = result
    for i in range(rows.size):
        row = rows[i]
        if is_valid(validity, bit + i):
            total = accumulated[row] + values[i]
            if (total ^ _SIGN) < (values[i] ^ _SIGN):
                return i
            accumulated[row] = total
            counts[row] += 1
        after[i] = accumulated[row]
        seen[i] = counts[row]
    return rows.size


@kernel(INT, INT, I32, INTEGERS, WIDE_STATE, WIDE_AFTER)
def add_wide(signed: int, rows: Any, column: Any, state: Any, result: Any) -> Any:
    """Add up whole numbers in 128 bits; nulls are skipped. Returns how many sums leave an int64.

    Without ``signed`` the values are uint64, given as int64 of the same bits. ``state`` has the low
    half, the high half and the number of values side by side, because one cache line then has all three.
    """
    values, validity, bit = column
    after_low, after_high, seen = result
    wide = 0
    for i in range(rows.size):
        row = rows[i]
        low, high, count = state[row, 0], state[row, 1], state[row, 2]
        if is_valid(validity, bit + i):
            value = values[i]
            low += value
            high += int((low ^ _SIGN) < (value ^ _SIGN))  # the carry
            if signed:
                high += value >> 63
            count += 1
            state[row, 0], state[row, 1], state[row, 2] = low, high, count
        after_low[i], after_high[i], seen[i] = low, high, count
        wide += int(high != low >> 63)
    return wide


@helper
def nearest(low: Any, high: Any) -> float:
    """Round a whole number of 128 bits to the nearest double, once."""
    less, more, unit = np.uint64(low), np.uint64(high), 1.0
    if high < 0:
        unit = -1.0
        less, more = ~less + _ONE, ~more
        if less == 0:
            more += _ONE
    while more != 0:  # bits that leave to the right stay known in the last one
        less = (less >> _ONE) | (more << _TO_TOP) | (less & _ONE)
        more >>= _ONE
        unit *= 2.0
    return unit * np.float64(less)


@kernel(VOID, WIDE, OUT_F64)
def wide_sums(sums: Any, rounded: Any) -> None:
    """Round n sums of 128 bits to doubles."""
    low, high = sums
    for i in range(rounded.size):
        if high[i] == low[i] >> 63:
            rounded[i] = float(low[i])
        else:
            rounded[i] = nearest(low[i], high[i])
