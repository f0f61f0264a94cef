"""Splitting lines at single spaces, in compiled loops over Arrow buffers."""

from typing import Any

import numpy as np

from penstock.model.kernels.jit import (
    I32,
    INT,
    OUT_I32,
    OUT_U8,
    TEXT,
    VOID,
    helper,
    kernel,
    load64,
    store64,
    trailing_zeros,
)
from penstock.model.kernels.xxhash import is_valid

_SPACE = 32
_SPACES = np.uint64(0x2020202020202020)
_ONES = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)
COPY_SLACK = 8  # bytes that a copy by eights may write behind its end


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
