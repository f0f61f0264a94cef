"""Checks offsets and bytes from other processes, in one pass over each."""

from typing import Any

import numpy as np

from penstock.model.kernels.jit import I32, I64, INT, U8, helper, kernel, load64

BROKEN = 0  # offsets fall, or lie outside the bytes
ASCII = 1  # and so every text is UTF-8, wherever it is cut
BEYOND_ASCII = 2  # sound offsets; whether the bytes are UTF-8 is another question
_HIGH_BITS = np.uint64(0x8080808080808080)


@helper
def _fit(ends: Any, data: Any) -> Any:
    """Say whether offsets rise, within the bytes. No branch: eight at a time are compared."""
    rows = ends.size - 1
    if ends[0] < 0 or ends[rows] > data.size:
        return False
    falls = 0
    for i in range(rows):
        falls |= ends[i + 1] < ends[i]
    return falls == 0


@helper
def _kind(ends: Any, data: Any) -> Any:
    if not _fit(ends, data):
        return BROKEN
    first, stop = np.int64(ends[0]), np.int64(ends[ends.size - 1])
    eights = (stop - first) >> 3
    seen = np.uint64(0)
    for i in range(eights):
        seen |= load64(data, first + (i << 3))
    for j in range(first + (eights << 3), stop):
        seen |= np.uint64(data[j])
    return BEYOND_ASCII if seen & _HIGH_BITS else ASCII


@helper
def _cut(ends: Any, data: Any) -> Any:
    """Count offsets within a character. They have to fit."""
    stop = ends[ends.size - 1]
    found = 0
    for i in range(ends.size - 1):
        if ends[i] < stop:
            found += (data[ends[i]] & 0xC0) == 0x80
    return found


@kernel(INT, I32, U8)
def fit(ends: Any, data: Any) -> Any:
    """Say whether offsets (length n + 1) rise from 0 or more to the number of bytes at most."""
    return _fit(ends, data)


@kernel(INT, I64, U8)
def fit_large(ends: Any, data: Any) -> Any:
    """Like :func:`fit`, for offsets of 64 bits."""
    return _fit(ends, data)


@kernel(INT, I32, U8)
def kind(ends: Any, data: Any) -> Any:
    """Return BROKEN, ASCII or BEYOND_ASCII for offsets (length n + 1) and bytes of text."""
    return _kind(ends, data)


@kernel(INT, I64, U8)
def kind_large(ends: Any, data: Any) -> Any:
    """Like :func:`kind`, for offsets of 64 bits."""
    return _kind(ends, data)


@kernel(INT, I32, U8)
def cut(ends: Any, data: Any) -> Any:
    """Count texts that begin within a character of UTF-8. The offsets have to fit."""
    return _cut(ends, data)


@kernel(INT, I64, U8)
def cut_large(ends: Any, data: Any) -> Any:
    """Like :func:`cut`, for offsets of 64 bits."""
    return _cut(ends, data)
