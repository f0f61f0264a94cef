"""Batches whose buffers are compressed, behind their metadata in one message.

    metadata, sealed | Arrow IPC stream: schema, one batch with LZ4 buffers, end

Flight's own codec holds for a whole stream. These travel beside batches that are not packed.
"""

import pyarrow as pa

from penstock.base.errors import PeerError
from penstock.contract.settings import CompressionMode, CompressionSettings
from penstock.model.ipc import READ_ERRORS, ROWS, SCHEMA, check, spelt, stream_sizes
from penstock.model.wire import DATA_HEAD_BYTES, ELEMENT_HEAD_BYTES_MAX, PACKED, DataHead
from penstock.transport.batches import CHARGES_MAX, has_dictionaries

CODEC = "lz4"
_PACKED = bytes((PACKED,))
_WRITE = pa.ipc.IpcWriteOptions(compression=CODEC, use_threads=False)
# What is not compressed lies in the message as it came, which is anywhere in memory.
_READ = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False)


def can_pack(settings: CompressionSettings, schema: pa.Schema) -> bool:
    """Say whether batches of a schema may travel packed: not with dictionaries.

    Each message would carry them whole; a stream sends them once.
    """
    return settings.mode is not CompressionMode.NONE and not has_dictionaries(schema)


def pack(rows: pa.RecordBatch, schema: pa.Schema, metadata: bytes) -> pa.Buffer:
    """Return a message of a batch, under the schema of its stream, and the metadata before it."""
    sink = pa.BufferOutputStream()
    sink.write(metadata)
    with pa.ipc.new_stream(sink, schema, options=_WRITE) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def split(message: pa.Buffer) -> tuple[bytes, pa.Buffer | None]:
    """Return the metadata of an element, and what is packed behind it.

    Raises PeerError when nothing is behind metadata that announces it.
    """
    if message.size <= ELEMENT_HEAD_BYTES_MAX:
        metadata: bytes = message.to_pybytes()
        if metadata[:1] == _PACKED:
            raise PeerError(f"a packed batch of {message.size} bytes with its metadata")
        return metadata, None
    return message.slice(0, DATA_HEAD_BYTES).to_pybytes(), message.slice(DATA_HEAD_BYTES)


def unpack(packed: pa.Buffer, head: DataHead, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a packed batch, exactly one. Raises PeerError when it is anything else.

    What it would take in memory is known, and compared with its charge, before it is unpacked. Its
    values are still to be validated.
    """
    if packed.size > head.charge:
        raise PeerError(f"a packed batch of {packed.size} bytes is charged as {head.charge}")
    sizes = list(stream_sizes(packed))
    if [s.kind for s in sizes] != [SCHEMA, ROWS]:
        raise PeerError(f"{len(sizes)} messages are packed, not a schema and one batch")
    check(sizes[1], CHARGES_MAX * head.charge, head.rows)
    try:
        with pa.ipc.open_stream(packed, options=_READ) as reader:
            if not reader.schema.equals(schema):
                raise PeerError(f"packed are [{spelt(reader.schema)}], announced was [{schema}]")
            return reader.read_next_batch()
    except READ_ERRORS as error:
        raise PeerError(f"{packed.size} bytes are no packed batch: {error}") from error
