"""Rows of any columns as bytes, and back: values that a step keeps for later are exactly those that came.

A column of up to eight bytes is stored as a tag and a word, a longer one as a tag, a length and its bytes
(:mod:`penstock.model.kernels.key_bytes`). A value of a nested column (list, struct, map) or an interval is an Arrow
message of one row; that takes some microseconds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from penstock.model.arrays import (
    Bytes,
    Int32s,
    Int64s,
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
from penstock.model.kernels import key_bytes

_WORD_BITS = 64
_VALUE = "value"


@dataclass(frozen=True, slots=True)
class RowCodec:
    """Encodes and decodes rows with columns of the given types. A dictionary at any depth is stored as its values."""

    kinds: tuple[pa.DataType, ...]

    def encode(self, columns: Sequence[pa.Array], count: int) -> tuple[Int32s, Bytes]:
        """Return offsets (int32, length ``count`` + 1) and bytes of ``count`` rows."""
        flats = [_plain_array(column) for column in columns]
        parts = [(_is_word(a.type), _words(a) if _is_word(a.type) else _texts(a)) for a in flats]
        sizes = np.full(count, key_bytes.WORD_SIZE * sum(word for word, _ in parts), np.int64)
        for word, part in parts:
            if not word:
                key_bytes.add_text_sizes(part, sizes)
        ends = np.zeros(count + 1, np.int64)
        np.cumsum(sizes, out=ends[1:])
        target, cursors = np.empty(ends[-1], np.uint8), ends[:-1].copy()
        for word, part in parts:
            put = key_bytes.put_words if word else key_bytes.put_text
            put(part, cursors, target)
        return narrow(ends), target

    def decode(self, data: Bytes, starts: Int64s) -> list[pa.Array]:
        """Return the columns of rows that begin at ``starts`` in ``data``.

        Raises ConfigError when the values of one column have 2 GiB or more.
        """
        cursors = starts.copy()
        return [_column(kind, data, cursors) for kind in map(plain, self.kinds)]


@cache
def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type with that of its values in the place of each dictionary: a message of rows has none."""
    t = pa.types
    if t.is_dictionary(kind):
        return plain(kind.value_type)
    if t.is_struct(kind):
        return pa.struct([field.with_type(plain(field.type)) for field in kind])
    if t.is_map(kind):
        return pa.map_(plain(kind.key_type), kind.item_field.with_type(plain(kind.item_type)), kind.keys_sorted)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        item = kind.value_field.with_type(plain(kind.value_type))
        if t.is_large_list(kind):
            return pa.large_list(item)
        return pa.list_(item, kind.list_size if t.is_fixed_size_list(kind) else -1)
    return kind


def _plain_array(column: pa.Array) -> pa.Array:
    array = flat(column)
    kind = plain(array.type)
    return array if array.type == kind else array.cast(kind)


def _is_word(kind: pa.DataType) -> bool:
    t = pa.types
    if t.is_null(kind) or t.is_boolean(kind):
        return True
    number = t.is_integer(kind) or t.is_floating(kind) or (t.is_temporal(kind) and not t.is_interval(kind))
    return bool(number and kind.bit_width <= _WORD_BITS)


def _words(array: pa.Array) -> tuple[UInt64s, Bytes, int]:
    if pa.types.is_null(array.type):
        words = np.zeros(len(array), np.uint64)
    elif pa.types.is_boolean(array.type):
        words = bits(array).astype(np.uint64)
    else:
        words = fixed(array, np.dtype(f"u{array.type.bit_width // 8}")).astype(np.uint64)
    return (words, *validity(array))


def _texts(array: pa.Array) -> tuple[Int32s, Bytes, Bytes, int]:
    t, kind = pa.types, array.type
    if t.is_string(kind) or t.is_large_string(kind) or t.is_binary(kind) or t.is_large_binary(kind):
        return text(array)
    if t.is_decimal(kind):
        array = array.view(pa.binary(kind.bit_width // 8))
    if t.is_fixed_size_binary(array.type):
        return text(array.cast(pa.binary()))
    return text(pa.array([_message(array, i) for i in range(len(array))], pa.binary()))


def _message(array: pa.Array, row: int) -> bytes | None:
    """Return one nested value as an Arrow message without its schema; None for null."""
    if not array[row].is_valid:
        return None
    value = pa.concat_arrays([array.slice(row, 1)])  # no longer a part of the whole array
    return bytes(pa.RecordBatch.from_arrays([value], [_VALUE]).serialize())


def _column(kind: pa.DataType, data: Bytes, cursors: Int64s) -> pa.Array:
    """Read the next column of all rows, and move the cursors behind it."""
    valid = np.empty(len(cursors), np.uint8)
    if _is_word(kind):
        words = np.empty(len(cursors), np.uint64)
        key_bytes.take_words(data, cursors, words, valid)
        return _of_words(kind, words, pack_validity(valid != 0))
    sums = np.empty(len(cursors) + 1, np.int64)
    key_bytes.take_text_ends(data, cursors, sums, valid)
    ends = narrow(sums)
    values = np.empty(ends[-1], np.uint8)
    key_bytes.take_text_bytes(data, cursors, ends, values)
    return _of_texts(kind)(variable_array(pa.binary(), ends, values, pack_validity(valid != 0)))


def _of_words(kind: pa.DataType, words: UInt64s, bitmap: pa.Buffer | None) -> pa.Array:
    if pa.types.is_null(kind):
        return pa.nulls(len(words))
    if pa.types.is_boolean(kind):
        packed = pa.py_buffer(np.packbits(words != 0, bitorder="little"))
        return pa.Array.from_buffers(kind, len(words), [bitmap, packed])
    return fixed_array(kind, words.astype(f"u{kind.bit_width // 8}"), bitmap)


def _of_texts(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Return what turns stored bytes (binary) into values of a type."""
    t = pa.types
    if t.is_decimal(kind):
        return lambda found: found.cast(pa.binary(kind.bit_width // 8)).view(kind)
    if t.is_nested(kind) or t.is_interval(kind):
        return lambda found: _of_messages(kind, found)
    return lambda found: found.cast(kind)


def _of_messages(kind: pa.DataType, found: pa.Array) -> pa.Array:
    schema = pa.schema([pa.field(_VALUE, kind)])
    none = pa.nulls(1, kind)
    values = [
        pa.ipc.read_record_batch(value.as_buffer(), schema).column(0) if value.is_valid else none for value in found
    ]
    return pa.concat_arrays(values) if values else pa.nulls(0, kind)
