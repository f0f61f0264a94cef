"""The keys of rows: their hashes, their key groups, and their bytes in state tables.

The hash is exactly Spark SQL's ``xxhash64`` with seed 42: strings and binary by their bytes,
bool, int8, int16, int32 and date32 as 4 bytes, int64, timestamp(us) and decimal up to 18 digits
as 8, floats by their bits with -0.0 and NaN made canonical. A null does not change the running
hash. With several columns, the hash of one column is the seed of the next. Equal keys have equal
hashes in every layout of an array: plain, dictionary, chunked or sliced.

Keys in a table are encoded bytes. One variable-width column is its own encoding, without a copy.
One fixed-width column is encoded as canonical words. Several columns are tagged and concatenated
(``kernels.key_bytes``). Equal keys have equal bytes: floats are canonical, and a null is a value of
its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.limits import HASH_SEED
from penstock.base.suggest import unknown
from penstock.base.values import hot_dataclass
from penstock.model.arrays import (
    NO_BYTES,
    Bytes,
    Int32s,
    Int64s,
    Text,
    UInt64s,
    bits,
    fixed,
    fixed_array,
    flat,
    narrow,
    pack_validity,
    text,
    validity,
    variable_array,
)
from penstock.model.kernels import key_bytes, routing

_DECIMAL_DIGITS_MAX = 18  # more digits do not fit the 8 bytes that Spark hashes

WORD_BYTES = 8


class KeyKind(Enum):
    """How a key column is hashed and stored: its own bytes, or 4 or 8 canonical bytes."""

    VARIABLE = 0
    FOUR = 4
    EIGHT = 8


Words = Callable[[pa.Array], UInt64s]


@cache
def key_kind(kind: pa.DataType) -> KeyKind:
    """Return how a column of this type is hashed. Raises ConfigError for types without a rule."""
    return _rule(kind)[0]


@cache
def _rule(kind: pa.DataType) -> tuple[KeyKind, Words | None]:
    """Return the rule of a type: its kind, and a function that gives canonical words (uint64)."""
    t = pa.types
    if t.is_dictionary(kind):
        return _rule(kind.value_type)
    if _is_text(kind):
        return KeyKind.VARIABLE, None
    if t.is_boolean(kind):
        return KeyKind.FOUR, lambda array: bits(array).astype(np.uint64)
    if t.is_signed_integer(kind) and kind.bit_width < 64:
        return KeyKind.FOUR, _small_integer(np.dtype(f"i{kind.bit_width // 8}"))
    if t.is_date32(kind):
        return KeyKind.FOUR, _small_integer(np.dtype(np.int32))
    if t.is_int64(kind) or (t.is_timestamp(kind) and kind.unit == "us"):
        return KeyKind.EIGHT, lambda array: fixed(array, np.uint64)
    if t.is_float32(kind):
        return KeyKind.FOUR, lambda a: _float_bits(fixed(a, np.float32)).astype(np.uint64)
    if t.is_float64(kind):
        return KeyKind.EIGHT, lambda a: _float_bits(fixed(a, np.float64))
    if t.is_decimal128(kind) and kind.precision <= _DECIMAL_DIGITS_MAX:
        return KeyKind.EIGHT, _decimal_low
    raise ConfigError(f"a key cannot be of type {kind}{_advice(kind)}")


def _is_text(kind: pa.DataType) -> bool:
    t = pa.types
    strings = t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind)
    binary = t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind)
    return bool(strings or binary)


def _advice(kind: pa.DataType) -> str:
    t = pa.types
    if t.is_unsigned_integer(kind):
        return ": cast it to a signed integer"
    if t.is_temporal(kind):
        return ": cast it to timestamp('us') or date32"
    if t.is_decimal(kind):
        return f": a decimal key has at most {_DECIMAL_DIGITS_MAX} digits and 128 bits"
    if t.is_nested(kind):
        return ": use its fields as key columns instead"
    return ": cast it to a string, binary, bool, signed integer, date32, timestamp or float"


def _small_integer(dtype: np.dtype[Any]) -> Words:
    """Extend to 32 bits with the sign, as the JVM does, in the low half of 64 bits."""

    def words(array: pa.Array) -> UInt64s:
        return fixed(array, dtype).astype(np.int32).view(np.uint32).astype(np.uint64)

    return words


def _float_bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    canonical = values + values.dtype.type(0)  # -0.0 + 0.0 is 0.0
    canonical[np.isnan(canonical)] = np.nan  # one bit pattern for all NaNs
    words: npt.NDArray[Any] = canonical.view(f"u{values.dtype.itemsize}")
    return words


def _decimal_low(array: pa.Array) -> UInt64s:
    pairs = array.buffers()[1]
    words = np.frombuffer(pairs, np.uint64) if len(array) else np.zeros(0, np.uint64)
    stop = array.offset + len(array)
    return np.ascontiguousarray(words[2 * array.offset : 2 * stop : 2])


def canonical_words(array: pa.Array) -> UInt64s:
    """Return the canonical words of a flat, fixed-width key column. Equal keys have equal words."""
    words = _rule(array.type)[1]
    assert words is not None, "a variable-width column has no words"
    return words(array)


def check_key_columns(schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise ConfigError for key columns that are missing, repeated or of a type without a rule."""
    if not names:
        raise ConfigError("a key needs at least one column")
    for name in names:
        if schema.get_field_index(name) < 0:
            raise ConfigError(f"key column: {unknown('column', name, schema.names)}")
        try:
            key_kind(schema.field(name).type)
        except ConfigError as error:
            raise ConfigError(f"key column {name!r}: {error}") from error
    if len(set(names)) != len(names):
        raise ConfigError(f"key columns are repeated: {', '.join(names)}")


def hash_columns(columns: Sequence[pa.Array | pa.ChunkedArray], seed: int = HASH_SEED) -> UInt64s:
    """Hash rows over one or more columns of equal length n (uint64, length n).

    Raises ConfigError for a type that Spark has no rule for. About 70 M rows/s for 32-byte strings.
    """
    hashes = np.empty(len(columns[0]), np.uint64)
    hashes.fill(seed)
    for column in columns:
        chain_hash(flat(column), hashes)
    return hashes


def destinations(columns: Sequence[pa.Array | pa.ChunkedArray], table: Int32s, rows: Int64s) -> Int32s:
    """Return ``table[key group]`` of every row (int32, length n), and add each row to ``rows`` of its group.

    ``table`` and ``rows`` have one item for each group.
    Raises ConfigError as :func:`hash_columns` does.
    """
    found = np.empty(len(columns[0]), np.int32)
    if len(columns) == 1 and key_kind(columns[0].type) is KeyKind.VARIABLE:
        key_bytes.look_up_keys(text(flat(columns[0])), table, rows, found)
    else:
        routing.look_up(hash_columns(columns), table, rows, found)
    return found


def chain_hash(array: pa.Array, hashes: UInt64s) -> None:
    """Update the running ``hashes`` (length n) with one flat column, in place."""
    kind, words = _rule(array.type)
    if words is None:
        key_bytes.hash_variable(text(array), hashes)
    elif kind is KeyKind.FOUR:
        key_bytes.hash_four((words(array), *validity(array)), hashes)
    else:
        key_bytes.hash_eight((words(array), *validity(array)), hashes)


def key_groups(hashes: UInt64s, max_key_groups: int) -> Int32s:
    """Return ``pmod(hash, max_key_groups)`` of every row (int32, length n)."""
    groups = np.empty(len(hashes), np.int32)
    routing.key_groups(hashes, max_key_groups, groups)
    return groups


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
            key_bytes.hash_keys(encoded, self.max_key_groups, hashes, groups)
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
        key_bytes.hash_eight((words, NO_BYTES, 0), hashes)
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
            return [_texts(kind, narrow(keys.ends), keys.data, bitmap)]
        words = np.zeros(len(keys.null), np.uint64)
        words[~keys.null] = keys.data.view(np.uint64)
        return [from_words(kind, words, bitmap)]

    def window_columns(self, keys: EncodedKeys) -> list[pa.Array]:
        """Decode the key columns of what :meth:`window_keys` encoded, without the window end."""
        return _decode_several(self.kinds, keys, keys.ends[:-1] + key_bytes.WORD_SIZE)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _encode_several(columns: Sequence[Any]) -> Text:
    """Encode several columns (arrays, or plain words, which are never null) into one key per row."""
    count = len(columns[0])
    parts = [_part(column) for column in columns]
    fixed = sum(key_bytes.WORD_SIZE for is_text, _ in parts if not is_text)
    sizes = np.full(count, fixed, np.int64)
    for is_text, part in parts:
        if is_text:
            key_bytes.add_text_sizes(part, sizes)
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    target, cursors = np.empty(ends[-1], np.uint8), ends[:-1].copy()
    for is_text, part in parts:
        if is_text:
            key_bytes.put_text(part, cursors, target)
        else:
            key_bytes.put_words(part, cursors, target)
    return narrow(ends), target, NO_BYTES, 0


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
            sums = np.empty(count + 1, np.int64)
            key_bytes.take_text_ends(keys.data, cursors, sums, valid)
            ends = narrow(sums)
            data = np.empty(ends[-1], np.uint8)
            key_bytes.take_text_bytes(keys.data, cursors, ends, data)
            columns.append(_texts(kind, ends, data, pack_validity(valid != 0)))
        else:
            words = np.empty(count, np.uint64)
            key_bytes.take_words(keys.data, cursors, words, valid)
            columns.append(from_words(kind, words, pack_validity(valid != 0)))
    return columns


def _texts(kind: pa.DataType, ends: Int32s, data: Bytes, bitmap: pa.Buffer | None) -> pa.Array:
    t = pa.types
    is_string = t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind)
    narrow = variable_array(pa.string() if is_string else pa.binary(), ends, data, bitmap)
    return narrow if narrow.type == kind else narrow.cast(kind)


def from_words(kind: pa.DataType, words: UInt64s, bitmap: pa.Buffer | None) -> pa.Array:
    """Convert canonical words (see :func:`canonical_words`) back to an array of ``kind``."""
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
