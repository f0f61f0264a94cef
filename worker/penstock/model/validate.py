"""Validates batches from other processes in full, before a kernel reads them.

Kernels check no bounds: an offset beyond its buffer, or an index beyond its dictionary, would read
any memory of the process. ``RecordBatch.validate`` checks the sizes of buffers only, at no cost per
row. Arrow's full validation takes 3 to 5 ns per text. Most data is text or binary. Kernels of our
own validate those faster, and accept nothing that Arrow would refuse. Arrow validates what they do
not accept, and all other types.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import PeerError
from penstock.model.arrays import NO_BYTES, view
from penstock.model.kernels import strings

_TEXT, _LARGE_TEXT = pa.string(), pa.large_string()
_BINARY, _LARGE_BINARY = pa.binary(), pa.large_binary()
# The type of offsets, the kernel that checks them, and the kernel for cut characters of text.
_VARIABLE: dict[pa.DataType, tuple[Any, Any, Any]] = {
    _TEXT: (np.int32, strings.kind, strings.cut),
    _LARGE_TEXT: (np.int64, strings.kind_large, strings.cut_large),
    _BINARY: (np.int32, strings.fit, None),
    _LARGE_BINARY: (np.int64, strings.fit_large, None),
}


def validate(batch: pa.RecordBatch) -> None:
    """Raise PeerError unless every value of a batch can be read safely.

    At any depth, offsets must rise and lie within their buffer, texts must be UTF-8, indices must
    lie within their dictionary, and bitmaps must be long enough and have the announced null count.
    """
    try:
        batch.validate()
        names, columns = batch.schema.names, batch.columns
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise PeerError(f"invalid batch: {error}") from error
    for name, column in zip(names, columns, strict=True):
        if not _is_surely_valid(column):
            _validate_by_arrow(name, column)


def _validate_by_arrow(name: str, column: pa.Array) -> None:
    try:
        column.validate(full=True)
    except pa.ArrowException as error:
        raise PeerError(f"invalid batch, column {name!r}: {error}") from error


def _is_surely_valid(column: pa.Array) -> bool:
    """Return True if an array of texts or binaries is valid; False: not known. Sizes must fit."""
    known = _VARIABLE.get(column.type)
    if known is None or column.null_count < 0 or not len(column):
        return False
    dtype, look, cut = known
    bitmap, offsets, data = column.buffers()
    if bitmap is not None and column.null_count != _nulls(column):
        return False
    if bitmap is None and column.null_count:
        return False
    ends = view(offsets, dtype, column.offset, len(column) + 1)
    found = NO_BYTES if data is None else np.frombuffer(data, np.uint8)
    seen = look(ends, found)
    if cut is None or seen != strings.BEYOND_ASCII:
        return bool(seen)
    return not cut(ends, found) and _is_utf8(data, int(ends[0]), int(ends[-1]))


def _nulls(column: pa.Array) -> int:
    """Count the nulls of an array by its bitmap, ignoring the announced count."""
    counted: int = pa.Array.from_buffers(column.type, len(column), column.buffers(), -1, column.offset).null_count
    return counted


def _is_utf8(data: pa.Buffer, first: int, last: int) -> bool:
    """Return whether all bytes together are UTF-8: Arrow checks eight bytes at a time."""
    ends = pa.py_buffer(np.array([first, last], np.int64))
    try:
        pa.Array.from_buffers(_LARGE_TEXT, 1, [None, ends, data]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
