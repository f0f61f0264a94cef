"""Splits lines at single spaces, and checks texts that another process has sent.

A check reads the offsets once and the bytes once.
"""

from typing import Any

import numpy as np

from penstock.model.kernels.jit import (
    I32,
    I64,
    INT,
    OUT_I32,
    OUT_U8,
    TEXT,
    U8,
    VOID,
    helper,
    is_valid,
    kernel,
    load64,
    store64,
    trailing_zeros,
)

_SPACE = 32
_SPACES = np.uint64(0x2020202020202020)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
COPY_SLACK = 8  # bytes that a copy by eights may write behind its end

BROKEN = 0  # an offset is below the one before it, or outside the bytes
ASCII = 1  # so every text is valid UTF-8
BEYOND_ASCII = 2  # the offsets are right; the bytes may or may not be UTF-8


@kernel(INT, TEXT, OUT_I32)
def count_words(lines: Any, counts: Any) -> Any:
    """Write the number of words of every row (length n) and return the sum of these numbers."""
    offsets, data, validity, bit = lines
    total = 0
    for i in range(counts.size):
        start, stop = offsets[i], offsets[i + 1]
        words = 0
        if stop > start and is_valid(validity, bit + i):
            for j in range(start, stop):
                words += data[j] == _SPACE
            words += data[stop - 1] != _SPACE  # one trailing empty word is dropped
        counts[i] = words
        total += words
    return total


@helper
def _copy_word(data: Any, at: Any, stop: Any, letters: Any, top: Any) -> Any:
    """Copy from ``at`` up to a space or ``stop``; return the length. Eight bytes at a time."""
    start = at
    while at + 8 <= stop:
        eight = load64(data, at)
        store64(letters, top, eight)
        diff = eight ^ _SPACES  # a zero byte where the space is
        found = (diff - _ONES) & ~diff & _HIGH_BITS
        if found != np.uint64(0):
            return at - start + np.int64(trailing_zeros(found) >> np.uint64(3))
        at += 8
        top += 8
    while at < stop and data[at] != _SPACE:
        letters[top] = data[at]
        at += 1
        top += 1
    return at - start


@kernel(VOID, TEXT, I32, OUT_I32, OUT_U8, OUT_I32)
def cut_words(lines: Any, counts: Any, ends: Any, letters: Any, parents: Any) -> None:
    """Write words one after another: ``ends`` (words + 1), their bytes, and the row of each.

    ``letters`` is as long as the lines and ``COPY_SLACK``.
    """
    offsets, data, _, _ = lines
    word, top = 0, 0
    ends[0] = 0
    for i in range(counts.size):
        at, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        for _ in range(counts[i]):
            size = _copy_word(data, at, stop, letters, top)
            at += size + 1  # over the space
            top += size
            parents[word] = i
            word += 1
            ends[word] = top


@helper
def _fit(ends: Any, data: Any) -> Any:
    """Return whether the offsets never fall and are within the bytes. The loop has no branch, so it is vectorised."""
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
    """Count offsets that point into a character. The caller has checked that they fit."""
    stop = ends[ends.size - 1]
    found = 0
    for i in range(ends.size - 1):
        if ends[i] < stop:
            found += (data[ends[i]] & 0xC0) == 0x80
    return found


@kernel(INT, I32, U8)
def fit(ends: Any, data: Any) -> Any:
    """Return whether offsets (length n + 1) never fall and are within 0 and the number of bytes."""
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
    """Count texts that begin inside a UTF-8 character. The caller has checked that the offsets fit."""
    return _cut(ends, data)


@kernel(INT, I64, U8)
def cut_large(ends: Any, data: Any) -> Any:
    """Like :func:`cut`, for offsets of 64 bits."""
    return _cut(ends, data)
