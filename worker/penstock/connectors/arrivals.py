"""Receives the rows of one sender's stream: checks sizes, decodes, validates values, converts.

    message ─ sizes (model/ipc) ─> Arrow's reader ─ values (model/ipc) ─> declared columns

A sender is trusted to send its own rows, but not with the memory of a worker. A batch has at most
``INGEST_BATCH_BYTES_MAX`` bytes and ``INGEST_BATCH_ROWS_MAX`` rows. The limit holds whatever sizes
the batch announces, and even when many values refer to the same bytes.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base import limits
from penstock.base.errors import PeerError
from penstock.connectors.flight_data import FlightData
from penstock.connectors.parquet_source import fits, to_schema, value_type
from penstock.model import ipc
from penstock.model.ipc import validate

_READ = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False)
_VIEWS = (pa.string_view(), pa.binary_view())
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_CONTINUES = b"\xff\xff\xff\xff"


class Arrivals:
    """Decodes the messages of one stream. Only one thread uses it."""

    def __init__(self, schema: pa.Schema) -> None:
        """Take the columns of ``schema``; a sender may have more."""
        self._schema = schema
        self._accepted = _AcceptedMessages()
        self._reader: Any = None
        self._dictionaries: dict[int, int] = {}
        self._waiting = 0

    def rows(self, message: FlightData) -> pa.RecordBatch | None:
        """Return the rows of a message; None for a schema or a dictionary.

        Raises PeerError when the message is broken or too large, or lacks a declared column.
        """
        sizes = ipc.message_sizes(message.header, message.body)
        if (sizes.kind == ipc.SCHEMA) is (self._reader is not None):
            raise PeerError("a stream has one schema, before its rows")
        if sizes.kind == ipc.DICTIONARIES:
            self._count_dictionary(sizes)
            self._count_waiting(message)
        ipc.check(sizes, limits.INGEST_BATCH_BYTES_MAX, limits.INGEST_BATCH_ROWS_MAX)
        self._accepted.add(message)
        try:
            if sizes.kind == ipc.SCHEMA:
                self._begin()
            return self._decode() if sizes.kind == ipc.ROWS else None
        except ipc.READ_ERRORS as error:
            raise PeerError(f"rows cannot be decoded: {error}") from error

    def _begin(self) -> None:
        self._reader = pa.ipc.open_stream(pa.PythonFile(self._accepted, "r"), options=_READ)
        found = self._reader.schema
        for field in self._schema:
            if found.names.count(field.name) != 1:
                has = ", ".join(found.names)
                raise PeerError(f"rows with {', '.join(self._schema.names)} are taken, got {has}")
            kind = found.field(field.name).type
            if not fits(value_type(kind), field.type):
                raise PeerError(f"column {field.name!r} is {kind}, declared is {field.type}")

    def _decode(self) -> pa.RecordBatch:
        batch = self._reader.read_next_batch().select(self._schema.names)
        self._waiting = 0
        validate(batch)
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            size = _plain_bytes(column, self._schema.field(name).type)
            if size > limits.INGEST_BATCH_BYTES_MAX:
                raise PeerError(
                    f"column {name!r} has {size} bytes where each value is written out, at most "
                    f"{limits.INGEST_BATCH_BYTES_MAX} are taken: send fewer rows at once"
                )
        return to_schema(batch, self._schema)

    def _count_dictionary(self, sizes: ipc.Sizes) -> None:
        """Count the memory of all dictionaries of the stream, deltas included."""
        before = self._dictionaries.get(sizes.dictionary, 0) if sizes.is_delta else 0
        self._dictionaries[sizes.dictionary] = before + sizes.size
        total = sum(self._dictionaries.values())
        if total > limits.INGEST_BATCH_BYTES_MAX:
            raise PeerError(
                f"the dictionaries of a stream take {total} bytes, at most {limits.INGEST_BATCH_BYTES_MAX} are taken"
            )

    def _count_waiting(self, message: FlightData) -> None:
        """Count the dictionary messages kept for the next rows, with which they are decoded."""
        self._waiting += max(len(message.header) + len(message.body), limits.INGEST_CHARGE_BYTES_MIN)
        if self._waiting > limits.INGEST_MESSAGE_BYTES_MAX:
            raise PeerError(
                f"{self._waiting} bytes of dictionaries came without rows, at most "
                f"{limits.INGEST_MESSAGE_BYTES_MAX} are kept for them"
            )


def _plain_bytes(column: pa.Array, wanted: pa.DataType) -> int:
    """Return the written-out size of values that may share memory; 0 for types that never do.

    The array has been validated, and will be converted to ``wanted``. An array of the type null has
    no values in memory, but takes memory once it is converted to ``wanted``.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return len(column) * _width(wanted)
    if kind in _VIEWS:
        return int(_view_lengths(column).sum())
    if pa.types.is_dictionary(kind):
        return _written_out(column, wanted)
    return sum(_plain_bytes(child, child.type) for child in _children(column))


def _written_out(column: pa.DictionaryArray, wanted: pa.DataType) -> int:
    """Return the size of a dictionary column when each row's value is written out."""
    values = column.dictionary
    if pa.types.is_null(values.type):
        return len(column) * _width(wanted)
    if values.type in _VIEWS:
        lengths = pa.array(_view_lengths(values))
    elif values.type in _TEXTS:
        lengths = pc.binary_length(values).cast(pa.int64())
    else:  # an upper bound: exact for numbers, high for lists, which are rare in a dictionary
        return len(column) * (_width(values.type) or int(values.nbytes))
    return pc.sum(lengths.take(column.indices)).as_py() or 0


def _width(kind: pa.DataType) -> int:
    """Return the size of one value in bytes; 0 when sizes differ."""
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    if pa.types.is_struct(kind):
        return sum(_width(field.type) for field in kind)
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:
        return 0


def _children(column: pa.Array) -> list[pa.Array]:
    kind = column.type
    if pa.types.is_struct(kind):
        return [column.field(i) for i in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [column.keys, column.items]
    return [column.values] if pa.types.is_nested(kind) else []


def _view_lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the length of each text or binary of a view (16 bytes: length, prefix, place)."""
    first = 16 * column.offset
    views = np.frombuffer(column.buffers()[1], np.int32, 4 * len(column), first).reshape(-1, 4)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, views[:, 0], 0).astype(np.int64)


class _AcceptedMessages:
    """The accepted messages, as the file that Arrow's reader reads. Copies nothing."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[memoryview] = []

    def add(self, message: FlightData) -> None:
        """Append a message, framed as in an IPC stream."""
        size = len(message.header)
        padding = bytes(-size % 8)
        length = (size + len(padding)).to_bytes(4, "little")
        self._parts += [memoryview(_CONTINUES), memoryview(length), message.header]
        self._parts += [memoryview(padding), message.body]

    def read(self, size: int) -> "memoryview | bytes":
        """Return the next ``size`` bytes; fewer only when no more messages are there."""
        found: list[memoryview] = []
        while size and self._parts:
            part = self._parts[0]
            found.append(part[:size])
            if len(part) > size:
                self._parts[0] = part[size:]
            else:
                del self._parts[0]
            size -= len(found[-1])
        found = [part for part in found if part]
        return found[0] if len(found) == 1 else b"".join(found)

    def close(self) -> None:
        """Drop all messages: Arrow's reader closes its file."""
        self._parts.clear()
