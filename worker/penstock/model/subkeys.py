"""The subkeys of child tables as bytes: their order as bytes is their order as values.

Whole numbers, bools, dates and times are eight bytes, the highest first, with the sign inverted. Floats are eight
bytes as well: 0.0 and -0.0 are one subkey, and NaN is one that comes after all others. Decimals are 16
bytes. Text and binary are their own bytes, and the order of UTF-8 is that of code points. A subkey is never null.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.model.arrays import (
    NO_BYTES,
    Bytes,
    Int64s,
    Text,
    bits,
    fixed,
    fixed_array,
    flat,
    narrow,
    text,
    variable_array,
)

_SIGN = np.uint64(1 << 63)
_WIDE = 16  # bytes of a decimal


@dataclass(frozen=True, slots=True)
class SubkeyCodec:
    """Encodes and decodes subkeys of one type."""

    kind: pa.DataType

    def __post_init__(self) -> None:
        if not (_is_text(self.kind) or _is_word(self.kind) or pa.types.is_decimal128(self.kind)):
            raise ConfigError(f"a subkey cannot be of type {self.kind}")

    def encode(self, subkeys: pa.Array) -> Text:
        """Return the bytes of n subkeys of this type, without nulls."""
        column = flat(subkeys)
        assert column.null_count == 0, "a subkey is never null"
        if _is_text(self.kind):
            offsets, data, _, _ = text(column)
            return offsets, data, NO_BYTES, 0
        if pa.types.is_decimal128(self.kind):
            raw = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * _WIDE :][: len(column) * _WIDE]
            wide = raw.reshape(-1, _WIDE)[:, ::-1].copy()
            wide[:, 0] ^= 0x80
            return _rows_of(wide)
        return self.encode_words(_words(column, self.kind))

    @staticmethod
    def encode_words(words: npt.NDArray[np.uint64]) -> Text:
        """Return the bytes of n subkeys that are words in the order of the subkeys."""
        return _rows_of(words.byteswap().view(np.uint8).reshape(-1, 8))

    def decode(self, ends: Int64s, data: Bytes) -> pa.Array:
        """Return n subkeys; subkey i is ``data[ends[i]:ends[i + 1]]``. Raises ConfigError for 2 GiB or more."""
        count = len(ends) - 1
        if _is_text(self.kind):
            plain = pa.string() if pa.types.is_string(self.kind) else pa.binary()
            return variable_array(plain, narrow(ends), data, None).cast(self.kind)
        if pa.types.is_decimal128(self.kind):
            wide = data.reshape(-1, _WIDE).copy()
            wide[:, 0] ^= 0x80
            return pa.Array.from_buffers(self.kind, count, [None, pa.py_buffer(np.ascontiguousarray(wide[:, ::-1]))])
        return _values(data.view(np.uint64).byteswap(), self.kind)


def _is_text(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(t.is_string(kind) or t.is_large_string(kind) or t.is_binary(kind) or t.is_large_binary(kind))


def _is_word(kind: pa.DataType) -> bool:
    t = pa.types
    number = t.is_integer(kind) or t.is_float32(kind) or t.is_float64(kind) or t.is_boolean(kind)
    return bool(number or (t.is_temporal(kind) and not t.is_interval(kind)))


def _rows_of(raw: npt.NDArray[np.uint8]) -> Text:
    count, width = raw.shape
    return np.arange(0, (count + 1) * width, width, dtype=np.int32), raw.reshape(-1), NO_BYTES, 0


def _words(column: pa.Array, kind: pa.DataType) -> npt.NDArray[np.uint64]:
    """Return words in the order of the values."""
    if pa.types.is_boolean(kind):
        return bits(column).astype(np.uint64)
    if pa.types.is_floating(kind):
        return _float_words(fixed(column, kind.to_pandas_dtype()).astype(np.float64))
    if pa.types.is_unsigned_integer(kind):
        return fixed(column, kind.to_pandas_dtype()).astype(np.uint64)
    signed = fixed(column, f"i{kind.bit_width // 8}").astype(np.int64)
    words: npt.NDArray[np.uint64] = signed.view(np.uint64) ^ _SIGN
    return words


def _float_words(values: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    canonical = values + 0.0  # -0.0 + 0.0 is 0.0
    canonical[np.isnan(canonical)] = np.nan
    raw = canonical.view(np.uint64)
    words: npt.NDArray[np.uint64] = np.where(raw & _SIGN != 0, ~raw, raw | _SIGN)
    return words


def _values(words: npt.NDArray[np.uint64], kind: pa.DataType) -> pa.Array:
    """Return the values of words."""
    if pa.types.is_boolean(kind):
        packed = pa.py_buffer(np.packbits(words != 0, bitorder="little"))
        return pa.Array.from_buffers(kind, len(words), [None, packed])
    raw: npt.NDArray[Any]
    if pa.types.is_floating(kind):
        raw = np.where(words & _SIGN != 0, words ^ _SIGN, ~words).view(np.float64).astype(kind.to_pandas_dtype())
    elif pa.types.is_unsigned_integer(kind):
        raw = words.astype(kind.to_pandas_dtype())
    else:
        raw = (words ^ _SIGN).view(np.int64).astype(f"i{kind.bit_width // 8}")
    return fixed_array(kind, raw)
