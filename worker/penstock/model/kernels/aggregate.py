"""Folding a column of values into per-key rows, giving the value after each input row.

State begins as zeros: a row whose ``counts`` is zero has seen no value, so the first one is taken
as it is by MIN and MAX. ``after[i]`` and ``seen[i]`` are the row's state right behind input i.
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
    U8,
    VOID,
    helper,
    kernel,
    tuple_of,
)
from penstock.model.kernels.xxhash import is_valid

SUM, MIN, MAX, LAST = 1, 2, 3, 4

MASK = tuple_of((U8, INT))  # validity bitmap, bit of row 0
INTEGERS = tuple_of((I64, U8, INT))  # values, validity bitmap, bit of row 0
FLOATS = tuple_of((F64, U8, INT))
INTEGER_STATE = tuple_of((OUT_I64, OUT_I64))  # accumulated, values seen (by state row)
FLOAT_STATE = tuple_of((OUT_F64, OUT_I64))
INTEGER_AFTER = tuple_of((OUT_I64, OUT_I64))  # the same, by input row
FLOAT_AFTER = tuple_of((OUT_F64, OUT_I64))


@kernel(VOID, I32, MASK, OUT_I64, OUT_I64)
def count_rows(rows: Any, mask: Any, counts: Any, after: Any) -> None:
    """Count the valid input rows per state row; ``after[i]`` is the count behind input i."""
    validity, bit = mask
    for i in range(rows.size):
        counts[rows[i]] += is_valid(validity, bit + i)
        after[i] = counts[rows[i]]


@helper
def _less(left: Any, right: Any) -> bool:
    """Compare as Spark does: NaN is the largest value and equal to itself."""
    return bool(left < right or (np.isnan(right) and not np.isnan(left)))


@helper
def _folded(operation: Any, old: Any, value: Any) -> Any:
    if operation == SUM:
        return old + value
    if operation == LAST:
        return value
    if operation == MIN:
        return value if _less(value, old) else old
    return value if _less(old, value) else old


@helper
def _overflows(old: Any, value: Any) -> bool:
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
            elif operation == SUM and _overflows(accumulated[row], values[i]):
                return i
            else:
                accumulated[row] = _folded(operation, accumulated[row], values[i])
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
                accumulated[row] = _folded(operation, accumulated[row], values[i])
            counts[row] += 1
        after[i] = accumulated[row]
        seen[i] = counts[row]
    return rows.size
