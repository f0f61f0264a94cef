"""Keys of several columns as one row of bytes each, and back.

A column adds one tag byte (0 null, 1 value) and then either eight bytes (a fixed-width column's
canonical word) or a 32-bit length and the bytes. With the types known this is unique. All numbers
are little-endian. ``cursors[i]`` is where row i goes on; each kernel moves it over its column.
"""

from typing import Any

import numpy as np

from penstock.model.kernels.arena import copy_bytes
from penstock.model.kernels.jit import (
    OUT_I32,
    OUT_I64,
    OUT_U8,
    OUT_U64,
    TEXT,
    U8,
    VOID,
    WORDS,
    helper,
    kernel,
    load32,
    load64,
    store64,
)
from penstock.model.kernels.xxhash import is_valid

WORD_SIZE = 9  # tag and eight bytes
TEXT_HEAD = 5  # tag and length


@kernel(VOID, TEXT, OUT_I64)
def add_text_sizes(column: Any, sizes: Any) -> None:
    """Add to every row's size what this column will take."""
    offsets, _, validity, bit = column
    for i in range(sizes.size):
        sizes[i] += TEXT_HEAD
        if is_valid(validity, bit + i):
            sizes[i] += offsets[i + 1] - offsets[i]


@helper
def _put_length(target: Any, at: Any, size: Any) -> None:
    for shift in range(4):
        target[at + shift] = (size >> (8 * shift)) & 0xFF


@kernel(VOID, TEXT, OUT_I64, OUT_U8)
def put_text(column: Any, cursors: Any, target: Any) -> None:
    """Write a variable-width column."""
    offsets, data, validity, bit = column
    for i in range(cursors.size):
        at, start, size = cursors[i], np.int64(offsets[i]), np.int64(0)
        valid = is_valid(validity, bit + i)
        if valid:
            size = np.int64(offsets[i + 1]) - start
        target[at] = valid
        _put_length(target, at + 1, size)
        copy_bytes(data, start, size, target, at + TEXT_HEAD)
        cursors[i] = at + TEXT_HEAD + size


@kernel(VOID, WORDS, OUT_I64, OUT_U8)
def put_words(column: Any, cursors: Any, target: Any) -> None:
    """Write a fixed-width column; a null's word is zero, whatever its row holds."""
    words, validity, bit = column
    for i in range(cursors.size):
        valid = is_valid(validity, bit + i)
        target[cursors[i]] = valid
        store64(target, cursors[i] + 1, words[i] if valid else np.uint64(0))
        cursors[i] += WORD_SIZE


@kernel(VOID, U8, OUT_I64, OUT_U64, OUT_U8)
def take_words(source: Any, cursors: Any, words: Any, valid: Any) -> None:
    """Read what :func:`put_words` wrote."""
    for i in range(cursors.size):
        valid[i] = source[cursors[i]]
        words[i] = load64(source, cursors[i] + 1)
        cursors[i] += WORD_SIZE


@kernel(VOID, U8, OUT_I64, OUT_I32, OUT_U8)
def take_text_ends(source: Any, cursors: Any, ends: Any, valid: Any) -> None:
    """Read the lengths that :func:`put_text` wrote, summed up; the cursors move over the bytes."""
    ends[0] = 0
    for i in range(cursors.size):
        size = np.int64(load32(source, cursors[i] + 1))
        valid[i] = source[cursors[i]]
        ends[i + 1] = ends[i] + size
        cursors[i] += TEXT_HEAD + size


@kernel(VOID, U8, OUT_I64, OUT_I32, OUT_U8)
def take_text_bytes(source: Any, cursors: Any, ends: Any, target: Any) -> None:
    """Copy the bytes that stand before each (moved) cursor to the places of ``ends``."""
    for i in range(cursors.size):
        size = np.int64(ends[i + 1] - ends[i])
        copy_bytes(source, cursors[i] - size, size, target, np.int64(ends[i]))
