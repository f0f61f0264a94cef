"""Converts Arrow arrays to the numpy arrays that kernels take, without a copy, and back.

Buffers that a peer sent may start at any address. They are copied only when the type needs an
alignment that they lack.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import ConfigError

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]

_STRING = pa.string()
_SIZES = {np.int32: 4, np.int64: 8, np.uint64: 8, np.float64: 8}
NO_BYTES: Bytes = np.zeros(0, np.uint8)
_NO_OFFSETS: Int32s = np.zeros(1, np.int32)
VARIABLE_BYTES_MAX = 2**31 - 1  # with 32-bit offsets; an element of a channel is far smaller


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one plain array: join chunks, decode a dictionary. Often without a copy."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if isinstance(column, pa.ChunkedArray):  # there was no chunk
            column = pa.array([], column.type)
    kind = column.type
    if kind == _STRING:
        return column
    if pa.types.is_dictionary(kind):
        return column.dictionary_decode()
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return column.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
    return column


def as_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column in another type, as Arrow's safe cast does. Of that, only texts and bytes become a dictionary."""
    if column.type == kind:
        return column
    if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(column.type):
        column = column.cast(kind.value_type).dictionary_encode()
    return column.cast(kind)


def view(buffer: pa.Buffer | None, dtype: Any, start: int, count: int) -> npt.NDArray[Any]:
    """Return a view of ``count`` items of a buffer from item ``start`` on; a copy if misaligned."""
    if buffer is None or count == 0:
        return np.zeros(count, dtype)
    size = _SIZES.get(dtype) or np.dtype(dtype).itemsize
    found: npt.NDArray[Any] = np.frombuffer(buffer, dtype, count, start * size)
    return found if buffer.address % size == 0 else found.copy()


def validity(array: pa.Array) -> tuple[Bytes, int]:
    """Return the validity bitmap and the bit of row 0; an empty bitmap when no row is null."""
    if array.null_count == 0:
        return NO_BYTES, 0
    bitmap = array.buffers()[0]
    if bitmap is None:  # an array of the type null
        return np.zeros((len(array) + 7) // 8, np.uint8), 0
    return np.frombuffer(bitmap, np.uint8), array.offset


Text = tuple[Int32s, Bytes, Bytes, int]  # offsets, bytes, validity bitmap, bit of row 0


def text(array: pa.Array) -> Text:
    """Return a string or binary array in the form of kernels: :func:`variable` and `validity`."""
    rows = len(array)
    if rows and array.type == _STRING and not array.null_count:  # the common case, made fast
        _, ends, data = array.buffers()
        if data is not None and ends.address % _SIZES[np.int32] == 0:
            offsets = np.frombuffer(ends, np.int32, rows + 1, array.offset * _SIZES[np.int32])
            return offsets, np.frombuffer(data, np.uint8), NO_BYTES, 0
    return (*variable(array), *validity(array))


def variable(array: pa.Array) -> tuple[Int32s, Bytes]:
    """Return offsets (int32, length n + 1) and bytes of a string or binary array, large or not.

    Raises ConfigError when one array holds 2 GiB or more.
    """
    rows, kind = len(array), array.type
    if rows == 0:
        return _NO_OFFSETS, NO_BYTES
    _, offsets, data = array.buffers()
    data = NO_BYTES if data is None else np.frombuffer(data, np.uint8)
    if kind == _STRING or not _is_large(kind):
        return view(offsets, np.int32, array.offset, rows + 1), data
    wide = view(offsets, np.int64, array.offset, rows + 1)
    first, last = int(wide[0]), int(wide[-1])
    return narrow(wide - first), data[first:last]


def narrow(ends: Int64s) -> Int32s:
    """Return rising offsets, the first of which is 0, in 32 bits. Raises ConfigError for 2 GiB or more."""
    if len(ends) and ends[-1] > VARIABLE_BYTES_MAX:
        raise ConfigError(f"one array holds {ends[-1]} bytes; split it below 2 GiB")
    return ends.astype(np.int32)


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def fixed(array: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    """Return a view of the values of a fixed-width array (length n); a null row may hold any value."""
    return view(array.buffers()[1], dtype, array.offset, len(array))


def bits(array: pa.Array) -> Bytes:
    """Unpack a boolean array to 0 and 1 (uint8, length n)."""
    packed = np.frombuffer(array.buffers()[1], np.uint8) if len(array) else NO_BYTES
    unpacked = np.unpackbits(packed, count=array.offset + len(array), bitorder="little")
    return unpacked[array.offset :]


def pack_validity(valid: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    """Pack one flag per row into an Arrow bitmap; None when every row is valid."""
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def variable_array(kind: pa.DataType, offsets: Int32s, data: Bytes, bitmap: pa.Buffer | None = None) -> pa.Array:
    """Wrap offsets (length n + 1) and bytes as a string or binary array, without a copy."""
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def fixed_array(kind: pa.DataType, values: npt.NDArray[Any], bitmap: pa.Buffer | None = None) -> pa.Array:
    """Wrap values with the width of ``kind`` as an array, without a copy."""
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(values)])
