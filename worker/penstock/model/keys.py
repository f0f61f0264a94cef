"""Keys in the form of state tables: encoded bytes, a hash and a key group for each row.

One variable-width column is its own encoding, without a copy. One fixed-width column is encoded as
canonical words. Several columns are tagged and concatenated (``kernels.encode``). Equal keys have
equal bytes: floats are canonical, and a null is a value of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.values import hot_dataclass
from penstock.model.arrays import (
    NO_BYTES,
    Bytes,
    Int32s,
    Int64s,
    Text,
    UInt64s,
    fixed_array,
    flat,
    pack_validity,
    text,
    validity,
    variable_array,
)
from penstock.model.kernels import encode, xxhash
from penstock.model.keyhash import KeyKind, canonical_words, hash_columns, key_groups, key_kind

WORD_BYTES = 8


@hot_dataclass
class Keys:
    """The keys of n rows: encoded bytes, hashes (which find slots) and key groups."""

    text: Text
    hashes: UInt64s
    groups: Int32s


@dataclass(frozen=True, slots=True)
class EncodedKeys:
    """Encoded keys read from a table: ends (int64, n + 1), bytes, and which keys are a single null."""

    ends: Int64s
    data: Bytes
    null: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyCodec:
    """Encodes and decodes keys of the given column types: one array of length n per column."""

    kinds: tuple[pa.DataType, ...]
    max_key_groups: int

    def keys(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> Keys:
        """Encode n rows. Raises ConfigError for a type that cannot be a key."""
        if len(columns) == 1 and key_kind(self.kinds[0]) is KeyKind.VARIABLE:
            encoded = text(flat(columns[0]))  # read once, which matters for small batches
            count = len(encoded[0]) - 1
            hashes, groups = np.empty(count, np.uint64), np.empty(count, np.int32)
            xxhash.hash_keys(encoded, self.max_key_groups, hashes, groups)
            return Keys(encoded, hashes, groups)
        flats = [flat(column) for column in columns]
        hashes = hash_columns(flats)
        return Keys(self._encode(flats), hashes, key_groups(hashes, self.max_key_groups))

    def hashed(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[UInt64s, Int32s]:
        """Return the hashes and key groups of n rows without encoding the keys."""
        hashes = hash_columns(columns)
        return hashes, key_groups(hashes, self.max_key_groups)

    def window_keys(
        self,
        columns: Sequence[pa.Array | pa.ChunkedArray],
        ends: Int64s,
        hashed: tuple[UInt64s, Int32s],
    ) -> Keys:
        """Encode (window end, key) of n rows. ``hashed`` (hash, group) is of the key alone."""
        hashes = hashed[0].copy()
        words = ends.view(np.uint64)
        xxhash.hash_eight((words, NO_BYTES, 0), hashes)
        flats: list[Any] = [words, *(flat(column) for column in columns)]
        return Keys(_encode_several(flats), hashes, hashed[1])

    def _encode(self, flats: list[pa.Array]) -> Text:
        if len(flats) > 1:
            return _encode_several(flats)
        words = canonical_words(flats[0])
        stop = WORD_BYTES * (len(words) + 1)
        offsets = np.arange(0, stop, WORD_BYTES, dtype=np.int32)
        return (offsets, words.view(np.uint8), *validity(flats[0]))

    def columns(self, keys: EncodedKeys) -> list[pa.Array]:
        """Decode what :meth:`keys` encoded; a dictionary is decoded to plain values."""
        if len(self.kinds) > 1:
            return _decode_several(self.kinds, keys, keys.ends[:-1].copy())
        kind = _plain(self.kinds[0])
        bitmap = pack_validity(~keys.null)
        if key_kind(kind) is KeyKind.VARIABLE:
            return [_texts(kind, keys.ends.astype(np.int32), keys.data, bitmap)]
        words = np.zeros(len(keys.null), np.uint64)
        words[~keys.null] = keys.data.view(np.uint64)
        return [from_words(kind, words, bitmap)]

    def window_columns(self, keys: EncodedKeys) -> list[pa.Array]:
        """Decode the key columns of what :meth:`window_keys` encoded, without the window end."""
        return _decode_several(self.kinds, keys, keys.ends[:-1] + encode.WORD_SIZE)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _encode_several(columns: Sequence[Any]) -> Text:
    """Encode several columns (arrays, or plain words, which are never null) into one key per row."""
    count = len(columns[0])
    parts = [_part(column) for column in columns]
    fixed = sum(encode.WORD_SIZE for is_text, _ in parts if not is_text)
    sizes = np.full(count, fixed, np.int64)
    for is_text, part in parts:
        if is_text:
            encode.add_text_sizes(part, sizes)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    target, cursors = np.empty(ends[-1], np.uint8), ends[:-1].copy()
    for is_text, part in parts:
        if is_text:
            encode.put_text(part, cursors, target)
        else:
            encode.put_words(part, cursors, target)
    return ends.astype(np.int32), target, NO_BYTES, 0


def _part(column: Any) -> tuple[bool, Any]:
    if isinstance(column, np.ndarray):
        return False, (column, NO_BYTES, 0)
    if key_kind(column.type) is KeyKind.VARIABLE:
        return True, text(column)
    return False, (canonical_words(column), *validity(column))


def _decode_several(kinds: Sequence[pa.DataType], keys: EncodedKeys, cursors: Int64s) -> list[pa.Array]:
    count = len(cursors)
    columns = []
    for kind in map(_plain, kinds):
        valid = np.empty(count, np.uint8)
        if key_kind(kind) is KeyKind.VARIABLE:
            ends = np.empty(count + 1, np.int32)
            encode.take_text_ends(keys.data, cursors, ends, valid)
            data = np.empty(ends[-1], np.uint8)
            encode.take_text_bytes(keys.data, cursors, ends, data)
            columns.append(_texts(kind, ends, data, pack_validity(valid != 0)))
        else:
            words = np.empty(count, np.uint64)
            encode.take_words(keys.data, cursors, words, valid)
            columns.append(from_words(kind, words, pack_validity(valid != 0)))
    return columns


def _texts(kind: pa.DataType, ends: Int32s, data: Bytes, bitmap: pa.Buffer | None) -> pa.Array:
    t = pa.types
    is_string = t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind)
    narrow = variable_array(pa.string() if is_string else pa.binary(), ends, data, bitmap)
    return narrow if narrow.type == kind else narrow.cast(kind)


def from_words(kind: pa.DataType, words: UInt64s, bitmap: pa.Buffer | None) -> pa.Array:
    """Convert canonical words (see ``keyhash.canonical_words``) back to an array of ``kind``."""
    t = pa.types
    if t.is_boolean(kind):
        packed = pa.py_buffer(np.packbits(words != 0, bitorder="little"))
        return pa.Array.from_buffers(kind, len(words), [bitmap, packed])
    if t.is_decimal128(kind):
        pairs = np.stack([words.view(np.int64), words.view(np.int64) >> 63], axis=1)
        return fixed_array_of(kind, len(words), pairs, bitmap)
    width = kind.bit_width // 8
    narrow = words if width == WORD_BYTES else words.astype(f"u{width}")
    return fixed_array(kind, narrow, bitmap)


def fixed_array_of(kind: pa.DataType, count: int, raw: npt.NDArray[Any], bitmap: pa.Buffer | None) -> pa.Array:
    """Wrap raw values of any shape as ``count`` items of ``kind``, without a copy."""
    return pa.Array.from_buffers(kind, count, [bitmap, pa.py_buffer(np.ascontiguousarray(raw))])
