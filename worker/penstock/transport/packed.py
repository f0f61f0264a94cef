"""Packed batches: a batch with compressed buffers, sent in one message behind its metadata.

    metadata | Arrow IPC stream: schema, one batch with LZ4 buffers, end

Flight's own compression is for a whole stream. Packed batches share a stream with plain ones.
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
# Buffers that are not compressed are used where they lie in the message, at any address.
_READ = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False)


def can_pack(settings: CompressionSettings, schema: pa.Schema) -> bool:
    """Say whether batches of a schema may be packed. Batches with dictionaries may not.

    Each message would carry the whole dictionary, which a stream sends once.
    """
    return settings.mode is not CompressionMode.NONE and not has_dictionaries(schema)


def pack(rows: pa.RecordBatch, schema: pa.Schema, metadata: bytes) -> pa.Buffer:
    """Return a message: the metadata, then a batch with the schema of its stream, compressed."""
    sink = pa.BufferOutputStream()
    sink.write(metadata)
    with pa.ipc.new_stream(sink, schema, options=_WRITE) as writer:
        writer.write_batch(rows)
    return sink.getvalue()


def split(message: pa.Buffer) -> tuple[bytes, pa.Buffer | None]:
    """Return the metadata of an element, and the packed batch behind it, if there is one.

    Raises PeerError when the metadata announces a packed batch and none follows.
    """
    if message.size <= ELEMENT_HEAD_BYTES_MAX:
        metadata: bytes = message.to_pybytes()
        if metadata[:1] == _PACKED:
            raise PeerError(f"a packed batch of {message.size} bytes with its metadata")
        return metadata, None
    return message.slice(0, DATA_HEAD_BYTES).to_pybytes(), message.slice(DATA_HEAD_BYTES)


def unpack(packed: pa.Buffer, head: DataHead, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a packed batch. Raises PeerError unless it is exactly one batch.

    The size in memory is computed and compared with the charge before anything is decompressed.
    The caller still has to validate the values.
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
