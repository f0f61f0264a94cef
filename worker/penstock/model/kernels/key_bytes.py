"""Keys of rows in compiled loops: their hashes, and keys of several columns as bytes and back.

XXH64: the running hash of each row is the seed of the next column. The algorithm is Yann Collet's;
its use per type is that of Spark SQL's ``xxhash64``.

A key of several columns is one row of bytes. A column adds one tag byte (0 null, 1 value) and then
either eight bytes (a fixed-width column's canonical word) or a 32-bit length and the bytes. With the
types known this is unique. All numbers are little-endian. ``cursors[i]`` is the place of the next
column of row i; each kernel moves it behind the column that it reads or writes.
"""

from typing import Any

import numpy as np

from penstock.base.limits import HASH_SEED
from penstock.model.kernels.jit import (
    I32,
    INT,
    OUT_I32,
    OUT_I64,
    OUT_U8,
    OUT_U64,
    TEXT,
    U8,
    VOID,
    WORDS,
    copy_bytes,
    helper,
    is_valid,
    kernel,
    load32,
    load64,
    prefetch,
    store64,
)

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_ZERO = np.uint64(0)
_AHEAD = 1024  # how many bytes ahead texts are prefetched
_SEED = np.uint64(HASH_SEED)

WORD_SIZE = 9  # tag and eight bytes
TEXT_HEAD = 5  # tag and length


@helper
def _rotate(x: Any, bits: int) -> Any:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@helper
def _round(lane: Any, word: Any) -> Any:
    return _rotate(lane + word * _P2, 31) * _P1


@helper
def _avalanche(h: Any) -> Any:
    h ^= h >> np.uint64(33)
    h *= _P2
    h ^= h >> np.uint64(29)
    h *= _P3
    return h ^ (h >> np.uint64(32))


@helper
def _merge(h: Any, lane: Any) -> Any:
    return (h ^ _round(_ZERO, lane)) * _P1 + _P4


@helper
def _stripes(data: Any, at: int, stop: int, seed: Any) -> Any:
    """Mix whole 32-byte stripes with four lanes.

    The processor prefetches by itself, but not beyond a page. Rows of 1 KiB would wait at every page.
    """
    v1, v2, v3, v4 = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
    while at + 32 <= stop:
        prefetch(data, at + _AHEAD)
        v1 = _round(v1, load64(data, at))
        v2 = _round(v2, load64(data, at + 8))
        v3 = _round(v3, load64(data, at + 16))
        v4 = _round(v4, load64(data, at + 24))
        at += 32
    h = _rotate(v1, 1) + _rotate(v2, 7) + _rotate(v3, 12) + _rotate(v4, 18)
    return _merge(_merge(_merge(_merge(h, v1), v2), v3), v4)


@helper
def hash_bytes(data: Any, start: Any, stop: Any, seed: Any) -> Any:
    """Return XXH64 of ``data[start:stop]``."""
    size = stop - start
    at = start
    if size >= 32:
        h = _stripes(data, start, stop, seed)
        at = start + (size // 32) * 32
    else:
        h = seed + _P5
    h += np.uint64(size)
    while at + 8 <= stop:
        h = _rotate(h ^ _round(_ZERO, load64(data, at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= stop:
        h = _rotate(h ^ (np.uint64(load32(data, at)) * _P1), 23) * _P2 + _P3
        at += 4
    while at < stop:
        h = _rotate(h ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    return _avalanche(h)


@kernel(VOID, TEXT, OUT_U64)
def hash_variable(column: Any, hashes: Any) -> None:
    """Chain ``hashes[i]`` with the bytes of row i; a null row leaves its hash as it is."""
    offsets, data, validity, bit = column
    stop = np.int64(offsets[0])
    for i in range(hashes.size):
        start, stop = stop, np.int64(offsets[i + 1])
        if is_valid(validity, bit + i):
            hashes[i] = hash_bytes(data, start, stop, hashes[i])


@kernel(VOID, TEXT, INT, OUT_U64, OUT_I32)
def hash_keys(column: Any, max_key_groups: int, hashes: Any, groups: Any) -> None:
    """Write the hash and the key group of each row, for a key of one column, in one pass."""
    offsets, data, validity, bit = column
    stop, power = np.int64(offsets[0]), max_key_groups & (max_key_groups - 1) == 0
    mask = np.uint64(max_key_groups - 1)
    for i in range(hashes.size):
        start, stop, h = stop, np.int64(offsets[i + 1]), _SEED
        if is_valid(validity, bit + i):
            h = hash_bytes(data, start, stop, _SEED)
        hashes[i] = h
        groups[i] = np.int64(h & mask) if power else np.int64(h) % max_key_groups


@kernel(VOID, TEXT, I32, OUT_I64, OUT_I32)
def look_up_keys(column: Any, table: Any, rows: Any, destinations: Any) -> None:
    """Do what ``routing.look_up`` does, for a key of one column. The hashes are not stored."""
    offsets, data, validity, bit = column
    stop, power = np.int64(offsets[0]), table.size & (table.size - 1) == 0
    mask = np.uint64(table.size - 1)
    for i in range(destinations.size):
        start, stop, h = stop, np.int64(offsets[i + 1]), _SEED
        if is_valid(validity, bit + i):
            h = hash_bytes(data, start, stop, _SEED)
        group = np.int64(h & mask) if power else np.int64(h) % table.size
        rows[group] += 1
        destinations[i] = table[group]


@helper
def hash_word(word: Any, seed: Any) -> Any:
    """Return XXH64 of the eight little-endian bytes of ``word``."""
    h = seed + _P5 + np.uint64(8)
    return _avalanche(_rotate(h ^ _round(_ZERO, word), 27) * _P1 + _P4)


@kernel(VOID, WORDS, OUT_U64)
def hash_eight(column: Any, hashes: Any) -> None:
    """Chain ``hashes[i]`` with the eight little-endian bytes of word i, unless row i is null."""
    words, validity, bit = column
    for i in range(hashes.size):
        if is_valid(validity, bit + i):
            hashes[i] = hash_word(words[i], hashes[i])


@kernel(VOID, WORDS, OUT_U64)
def hash_four(column: Any, hashes: Any) -> None:
    """Chain ``hashes[i]`` with the four low little-endian bytes of word i, unless row i is null."""
    words, validity, bit = column
    for i in range(hashes.size):
        if is_valid(validity, bit + i):
            h = hashes[i] + _P5 + np.uint64(4)
            hashes[i] = _avalanche(_rotate(h ^ (words[i] * _P1), 23) * _P2 + _P3)


@kernel(VOID, TEXT, OUT_I64)
def add_text_sizes(column: Any, sizes: Any) -> None:
    """Add to the size of every row the bytes that this column needs."""
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
    """Write a fixed-width column. A null is written as the word zero."""
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


@kernel(VOID, U8, OUT_I64, OUT_I64, OUT_U8)
def take_text_ends(source: Any, cursors: Any, ends: Any, valid: Any) -> None:
    """Read the lengths that :func:`put_text` wrote, as running sums. Moves the cursors behind the bytes.

    Lengths that fit 32 bits may have a sum that does not.
    """
    ends[0] = 0
    for i in range(cursors.size):
        size = np.int64(load32(source, cursors[i] + 1))
        valid[i] = source[cursors[i]]
        ends[i + 1] = ends[i] + size
        cursors[i] += TEXT_HEAD + size


@kernel(VOID, U8, OUT_I64, OUT_I32, OUT_U8)
def take_text_bytes(source: Any, cursors: Any, ends: Any, target: Any) -> None:
    """Copy the bytes before each cursor, which :func:`take_text_ends` has moved, to the places in ``ends``."""
    for i in range(cursors.size):
        size = np.int64(ends[i + 1] - ends[i])
        copy_bytes(source, cursors[i] - size, size, target, np.int64(ends[i]))
