"""Batches whose buffers are compressed, behind their metadata in one message.

    metadata, sealed | Arrow IPC stream: schema, dictionaries, one batch with LZ4 buffers

Flight's own codec holds for a whole stream. These travel beside batches that are not packed.
"""

import pyarrow as pa

from penstock.base.errors import PeerError
from penstock.model.wire import DATA_HEAD_BYTES, ELEMENT_HEAD_BYTES_MAX, PACKED

_PACKED = bytes((PACKED,))
CODEC = "lz4"
_WRITE = pa.ipc.IpcWriteOptions(compression=CODEC, use_threads=False)
_READ = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False)


def pack(rows: pa.RecordBatch, metadata: bytes) -> pa.Buffer:
    """Return a message of a batch and the metadata that announces it."""
    sink = pa.BufferOutputStream()
    sink.write(metadata)
    with pa.ipc.new_stream(sink, rows.schema, options=_WRITE) as writer:
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


def unpack(packed: pa.Buffer) -> pa.RecordBatch:
    """Return the rows of a packed batch. Raises PeerError when it is none."""
    try:
        with pa.ipc.open_stream(packed, options=_READ) as reader:
            return reader.read_next_batch()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise PeerError(f"{packed.size} bytes are no packed batch: {error}") from error
