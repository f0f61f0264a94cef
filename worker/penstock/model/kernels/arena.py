"""Blocks of bytes for keys and values of any length, in one growing array.

A block has one of 64 sizes: every multiple of eight up to 256 bytes, and powers of two above. The
first eight bytes of a free block name the next free block of its size. So a block is freed and used
again in a few steps, whatever its size, and blocks are never moved.
"""

from typing import Any

import numpy as np

from penstock.model.kernels.jit import (
    I32,
    I64,
    OUT_I32,
    OUT_I64,
    OUT_U8,
    TEXT,
    U8,
    VOID,
    copy_bytes,
    helper,
    is_valid,
    kernel,
    load64,
    prefetch,
    store64,
    tuple_of,
)

CLASSES = 64
TOP = CLASSES  # the index, after the heads of the lists, of the first byte never used
HEADS = CLASSES + 1  # length of the heads array; a head is the place of a free block plus one
EXACT = 32  # classes of 8, 16 .. 256 bytes
_AHEAD = 1024  # how many bytes ahead of the comparison memory is prefetched

ARENA = tuple_of((OUT_U8, OUT_I64))  # bytes, heads
SPANS = tuple_of((OUT_I64, OUT_I32))  # start and length of each row's value


@helper
def size_class(size: Any) -> Any:
    """Return (class, bytes of the block) for a value of ``size`` bytes."""
    words = max((size + 7) >> 3, 1)
    if words <= EXACT:
        return words - 1, words << 3
    power = 6
    while (1 << power) < words:
        power += 1
    return EXACT + power - 6, 8 << power


@helper
def take_block(arena: Any, heads: Any, size: Any) -> Any:
    """Return the start of a block. The caller has reserved enough bytes after ``heads[TOP]``."""
    kind, block = size_class(size)
    if heads[kind] != 0:
        at = heads[kind] - 1
        heads[kind] = np.int64(load64(arena, at))
        return at
    at = heads[TOP]
    heads[TOP] = at + block
    return at


@helper
def free_block(arena: Any, heads: Any, at: Any, size: Any) -> None:
    """Put the block of a value on the list of free blocks of its size."""
    kind, _ = size_class(size)
    store64(arena, at, np.uint64(heads[kind]))
    heads[kind] = at + 1


@helper
def _differ(left: Any, at: Any, right: Any, other: Any) -> Any:
    return load64(left, at) ^ load64(right, other)


@helper
def equal_bytes(left: Any, at: Any, right: Any, other: Any, size: Any) -> bool:
    """Compare ``size`` bytes of two arrays, 32 at a time with one branch.

    The calls of a batch read ``right`` in order, so its next bytes are prefetched.
    """
    end = at + size
    while at + 32 <= end:
        prefetch(right, other + _AHEAD)
        low = _differ(left, at, right, other) | _differ(left, at + 8, right, other + 8)
        high = _differ(left, at + 16, right, other + 16) | _differ(left, at + 24, right, other + 24)
        if low | high != 0:
            return False
        at += 32
        other += 32
    while at + 8 <= end:
        if _differ(left, at, right, other) != 0:
            return False
        at += 8
        other += 8
    while at < end:
        if left[at] != right[other]:
            return False
        at += 1
        other += 1
    return True


@kernel(VOID, U8, I64, I64, OUT_U8)
def gather_bytes(arena: Any, starts: Any, ends: Any, target: Any) -> None:
    """Copy n values one after another: value i begins at ``starts[i]`` and goes to ``ends[i]``."""
    for i in range(starts.size):
        copy_bytes(arena, starts[i], ends[i + 1] - ends[i], target, ends[i])


@kernel(VOID, ARENA, SPANS, I32)
def clear_values(blocks: Any, spans: Any, rows: Any) -> None:
    """Free the blocks of the listed rows' values, which become null. Lengths are stored plus one."""
    arena, heads = blocks
    starts, lengths = spans
    for i in range(rows.size):
        row = rows[i]
        if lengths[row] > 0:
            free_block(arena, heads, starts[row], np.int64(lengths[row] - 1))
            lengths[row] = 0


@kernel(VOID, ARENA, SPANS, I32, TEXT)
def store_values(blocks: Any, spans: Any, rows: Any, values: Any) -> None:
    """Store value i in row ``rows[i]``, in order. A row keeps its block if the new value needs the same size.

    Lengths are stored plus one, so that a row of zeros is null.
    """
    arena, heads = blocks
    starts, lengths = spans
    offsets, data, validity, bit = values
    for i in range(rows.size):
        row: Any = rows[i]
        old: Any = np.int64(lengths[row]) - 1
        size: Any = np.int64(-1)
        if is_valid(validity, bit + i):
            size = np.int64(offsets[i + 1] - offsets[i])
        if old >= 0 and (size < 0 or size_class(size)[0] != size_class(old)[0]):
            free_block(arena, heads, starts[row], old)
            old = -1
        if size >= 0:
            if old < 0:
                starts[row] = take_block(arena, heads, size)
            copy_bytes(data, np.int64(offsets[i]), size, arena, starts[row])
        lengths[row] = size + 1
