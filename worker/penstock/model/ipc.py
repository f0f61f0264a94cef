"""Checks Arrow data from other processes before it is used: the sizes of messages, and every value.

How much memory a message of Arrow's IPC format would use is read from its metadata alone:

    metadata (flatbuffer): rows, length of each array, place of each buffer, codec
    body: buffers; a compressed buffer begins with 8 bytes that hold its decompressed size

Arrow trusts these sizes: it allocates the memory, then decompresses. So a sender of 100 KB can make
it allocate a gigabyte. This module adds up the sizes first, from the same bytes that Arrow reads
afterwards.

Source of the layout: ``format/Message.fbs`` of Apache Arrow, and the encoding of flatbuffers. Arrow
has verified the flatbuffer before (``Message``); this module checks every position once more.

Then batches are validated in full, before a kernel reads them. Kernels check no bounds: an offset
beyond its buffer, or an index beyond its dictionary, would read any memory of the process.
``RecordBatch.validate`` checks the sizes of buffers only, at no cost per row. Arrow's full validation
takes 3 to 5 ns per text. Most data is text or binary. Kernels of our own validate those faster, and
accept nothing that Arrow would refuse. Arrow validates what they do not accept, and all other types.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct, error
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.base.errors import PeerError
from penstock.model.arrays import NO_BYTES, view
from penstock.model.kernels import strings

SCHEMA, DICTIONARIES, ROWS = 1, 2, 3
V5 = 4  # the value of MetadataVersion.V5 in Message.fbs
RAW = -1  # the announced size of a buffer that is not compressed
LZ4 = 0
LZ4_RATIO_MAX = 256  # a byte of LZ4 decompresses to at most 255 bytes
_I8, _I16, _U16, _I32, _U32, _I64 = (
    Struct("<b"),
    Struct("<h"),
    Struct("<H"),
    Struct("<i"),
    Struct("<I"),
    Struct("<q"),
)
_PAIR = Struct("<qq")
_PREFIX_BYTES = 8
# What Arrow raises for broken bytes; UnicodeDecodeError is for column names that are not UTF-8.
READ_ERRORS = (pa.ArrowException, OSError, StopIteration, UnicodeDecodeError)

_TEXT, _LARGE_TEXT = pa.string(), pa.large_string()
_BINARY, _LARGE_BINARY = pa.binary(), pa.large_binary()
# The type of offsets, the kernel that checks them, and the kernel for cut characters of text.
_VARIABLE: dict[pa.DataType, tuple[Any, Any, Any]] = {
    _TEXT: (np.int32, strings.kind, strings.cut),
    _LARGE_TEXT: (np.int64, strings.kind_large, strings.cut_large),
    _BINARY: (np.int32, strings.fit, None),
    _LARGE_BINARY: (np.int64, strings.fit_large, None),
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes in a message: ``kind`` (SCHEMA, DICTIONARIES, ROWS), rows, decompressed bytes.

    ``items`` is the length of the longest array at any depth. For DICTIONARIES, ``dictionary`` is
    the number by which columns refer to it, and ``is_delta`` says that it extends an earlier one.
    """

    kind: int
    rows: int = 0
    items: int = 0
    size: int = 0
    body: int = 0
    dictionary: int = 0
    is_delta: bool = False


def stream_sizes(stream: pa.Buffer) -> Iterator[Sizes]:
    """Yield the sizes of each message of an IPC stream. Raises PeerError when it is no stream.

    Arrow's own reader finds the messages, because it also reads them afterwards.
    """
    try:
        for message in pa.ipc.MessageReader.open_stream(stream):
            yield message_sizes(message.metadata, message.body)
    except (pa.ArrowException, OSError) as broken:
        raise PeerError(f"{stream.size} bytes are no Arrow stream: {broken}") from broken


def message_sizes(metadata: "pa.Buffer | bytes", body: "pa.Buffer | None") -> Sizes:
    """Return the sizes of one message. Raises PeerError when they contradict each other."""
    data = memoryview(b"") if body is None else memoryview(body)
    try:
        return _sizes(memoryview(metadata).cast("B"), data.cast("B"))
    except (error, IndexError) as broken:
        raise PeerError(f"the metadata of an Arrow message is broken: {broken}") from broken


def spelt(schema: pa.Schema) -> str:
    """Return the text of a schema that a peer wrote; its names may be invalid UTF-8."""
    try:
        return str(schema)
    except UnicodeDecodeError:
        return "columns whose names are no UTF-8"


def check(sizes: Sizes, size_max: int, rows_max: int) -> None:
    """Raise PeerError when a message has more than ``size_max`` bytes or ``rows_max`` rows.

    An array inside a column may have more items than there are rows. At most 8 * ``size_max`` are
    allowed (one per bit), because arrays of the type null use no memory at all.
    """
    if sizes.size > size_max:
        raise PeerError(f"a batch unpacks to {sizes.size} bytes, at most {size_max} are taken")
    if sizes.rows > rows_max:
        raise PeerError(f"a batch has {sizes.rows} rows, at most {rows_max} are taken")
    if sizes.items > 8 * size_max:
        raise PeerError(f"a batch has {sizes.items} items, at most {8 * size_max} are taken")


def _sizes(metadata: memoryview, body: memoryview) -> Sizes:
    message = _Table(metadata, _u32(metadata, 0))
    # Before V5, custom metadata could say that a message is compressed, and Arrow obeys it.
    if message.number(0, _I16, 0) != V5:
        raise PeerError("an Arrow message of before Arrow 1.0: write it with metadata version V5")
    kind = message.number(1, _I8, 0)
    if message.number(3, _I64, 0) != len(body):
        raise PeerError(f"an Arrow message with {len(body)} bytes announces another length")
    header = message.table(2)
    if kind == ROWS and header is not None:
        return _batch(header, body, kind)
    if kind == DICTIONARIES and header is not None:
        inner = header.table(1)
        if inner is None:
            raise PeerError("an Arrow message of dictionaries holds none")
        number, is_delta = header.number(0, _I64, 0), bool(header.number(2, _I8, 0))
        return _batch(inner, body, kind, number, is_delta=is_delta)
    if kind == SCHEMA and not len(body):
        return Sizes(kind)
    raise PeerError(f"an Arrow message of kind {kind} is neither schema, dictionaries nor rows")


def _batch(table: "_Table", body: memoryview, kind: int, dictionary: int = 0, *, is_delta: bool = False) -> Sizes:
    rows = table.number(0, _I64, 0)
    lengths = [length for length, _ in table.pairs(1)]
    if rows < 0 or any(length < 0 for length in lengths):
        raise PeerError("an Arrow message announces less than no rows")
    codec = table.table(3)
    lz4 = codec is not None and codec.number(0, _I8, LZ4) == LZ4
    size = 0
    for place, length in table.pairs(2):
        if place < 0 or length < 0 or place + length > len(body):
            raise PeerError(f"a buffer of an Arrow message lies outside its {len(body)} bytes")
        size += length if codec is None or not length else _unpacked(body, place, length, lz4=lz4)
    items = max((rows, *lengths))
    return Sizes(kind, rows, items, size, len(body), dictionary, is_delta)


def _unpacked(body: memoryview, place: int, length: int, *, lz4: bool) -> int:
    """Return the decompressed size that a compressed buffer announces."""
    packed = length - _PREFIX_BYTES
    size: int = _I64.unpack_from(body, place)[0] if packed >= 0 else RAW - 1
    if size == RAW:
        return packed
    if size < 0 or (lz4 and size > packed * LZ4_RATIO_MAX):
        raise PeerError(f"a buffer of {length} compressed bytes cannot unpack to {size}")
    return size


class _Table:
    """A table of a flatbuffer. Fields are read by number; a missing field has its default."""

    __slots__ = ("_at", "_data", "_fields")

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        fields = at - _read(data, at, _I32)
        self._fields = [
            _read(data, place, _U16) for place in range(fields + 4, fields + _read(data, fields, _U16) - 1, 2)
        ]

    def number(self, field: int, kind: Struct, default: int) -> int:
        """Return a number; ``default`` when the field is missing."""
        place = self._place(field)
        return _read(self._data, place, kind) if place else default

    def table(self, field: int) -> "_Table | None":
        """Return a table; None when the field is missing."""
        place = self._place(field)
        return _Table(self._data, place + _u32(self._data, place)) if place else None

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """Return the structs of a vector; each has two numbers of 64 bits."""
        place = self._place(field)
        if not place:
            return iter(())
        vector = place + _u32(self._data, place)
        first = vector + _U32.size
        stop = first + _u32(self._data, vector) * _PAIR.size
        if stop > len(self._data):
            raise PeerError("a list of an Arrow message is longer than its metadata")
        return _PAIR.iter_unpack(self._data[first:stop])

    def _place(self, field: int) -> int:
        offset = self._fields[field] if field < len(self._fields) else 0
        return self._at + offset if offset else 0


def _u32(data: memoryview, at: int) -> int:
    return _read(data, at, _U32)


def _read(data: memoryview, at: int, kind: Struct) -> int:
    if at < 0:  # Python would count a negative position from the end
        raise PeerError("the metadata of an Arrow message points before its beginning")
    value: int = kind.unpack_from(data, at)[0]
    return value


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
