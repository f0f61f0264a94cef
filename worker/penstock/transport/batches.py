"""Batches as elements of a channel: their sizes, how they are joined, cut and packed, and when to pack.

A packed batch has compressed buffers, and is sent in one message behind its metadata:

    metadata | Arrow IPC stream: schema, one batch with LZ4 buffers, end

Flight's own compression is for a whole stream. Packed batches share a stream with plain ones.

The entropy of a sample, and measured speed, decide which batches to pack (:class:`Packing`):

    none   never
    lz4    when rows look compressible: the entropy of a sample is below the threshold
    auto   when rows look compressible and packed rows are sent faster than plain ones

``auto`` measures. It sends packed or plain, and now and then tries the other for a while: soon after
rows begin to flow, and less and less often while nothing changes. A rate counts the time to pack, to
write, and to wait for credit. If packing a sample takes longer than sending as many bytes, no trial
is made.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.base.errors import ConfigError, PeerError, RowNotSentError
from penstock.base.limits import (
    COMPRESSION_AUTO_BATCH_BYTES_MIN,
    COMPRESSION_BATCH_BYTES_MIN,
    COMPRESSION_RATE_BYTES,
    COMPRESSION_SAMPLE_BYTES,
    COMPRESSION_SAMPLE_EVERY_BYTES,
    COMPRESSION_SKIPPED_BYTES,
    COMPRESSION_STALLED_BYTES_PER_S,
    COMPRESSION_TRY_AFTER_BYTES,
    COMPRESSION_TRY_AFTER_BYTES_MAX,
    COMPRESSION_TRY_AFTER_S_MAX,
    COMPRESSION_TRY_BYTES,
    COMPRESSION_TRY_SHARE,
    ELEMENT_BYTES_MAX,
    ELEMENT_FIXED_CHARGE_BYTES,
)
from penstock.base.threads import thread_time
from penstock.contract.settings import CompressionMode, CompressionSettings
from penstock.model import ipc
from penstock.model.elements import Data
from penstock.model.ipc import validate
from penstock.model.wire import CHARGE_MAX, DATA_HEAD_BYTES, ELEMENT_HEAD_BYTES_MAX, PACKED, DataHead
from penstock.steps.user_calls import record_text

CHARGES_MAX = 2  # a decoded batch may use this many times its charge: columns may share memory
_PINNED_TO_COMPACT = 2  # a slice may keep alive this many times its own size
_SLICE_BYTES = 64  # Arrow writes up to so many bytes behind the end of a slice, for each buffer
_CHEAP_BYTES = 4096  # up to this size, the cheap measure (whole buffers) is exact enough

CODEC = "lz4"
_PACKED = bytes((PACKED,))
_WRITE = pa.ipc.IpcWriteOptions(compression=CODEC, use_threads=False)
# Buffers that are not compressed are used where they lie in the message, at any address.
_READ = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False)

_BETTER = 1.05  # a trial must be this much faster: less is noise, or not worth the processor time
_LATER = 4  # after a trial without gain, the next one comes after this many times as many bytes


def measure(batch: pa.RecordBatch) -> int:
    """Return the charge of a batch in bytes: the size of its decoded body plus a fixed cost."""
    pinned: int = batch.get_total_buffer_size()
    if pinned <= _CHEAP_BYTES and _is_plain(batch):
        return pinned + ELEMENT_FIXED_CHARGE_BYTES
    size: int = batch.nbytes
    return size + ELEMENT_FIXED_CHARGE_BYTES


def _is_plain(batch: pa.RecordBatch) -> bool:
    """Say whether decoding at most doubles memory: at most two columns can share a buffer."""
    return batch.num_columns <= _PINNED_TO_COMPACT and not any(column.type.num_fields for column in batch.columns)


def measure_fresh(batch: pa.RecordBatch) -> int:
    """Like :func:`measure`, at a tenth of its cost; the batch must share no buffer with others."""
    size: int = batch.get_total_buffer_size()
    return size + ELEMENT_FIXED_CHARGE_BYTES


def compact(data: Data[pa.RecordBatch]) -> Data[pa.RecordBatch]:
    """Copy a slice whose buffers are more than twice its own size; return other batches as is."""
    if data.payload.get_total_buffer_size() <= _PINNED_TO_COMPACT * data.charge:
        return data
    return _copied(data)


def _copied(data: Data[pa.RecordBatch]) -> Data[pa.RecordBatch]:
    """Return the same rows with buffers of their own, which have no other bytes."""
    batch = pa.concat_batches([data.payload])
    return Data(batch, data.rows, data.charge, data.min_ts, data.max_ts)


def join(parts: Sequence[Data[pa.RecordBatch]]) -> pa.RecordBatch:
    """Return the rows of all parts, in order, as one batch. A single part is not copied.

    The schema is that of the first part. Raises ConfigError as :func:`conform` does.
    """
    if len(parts) == 1:
        return parts[0].payload
    schema = parts[0].payload.schema
    return pa.concat_batches([conform(part.payload, schema) for part in parts])


def whole(slices: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return adjacent slices of one batch as one slice, without a copy.

    Each slice must begin where the slice before it ends; otherwise the result is None. All slices
    must have the same schema.
    """
    arrays = [_whole(columns) for columns in zip(*(s.columns for s in slices), strict=True)]
    if None in arrays:
        return None
    return pa.RecordBatch.from_arrays(arrays, schema=slices[0].schema)


def _whole(arrays: Sequence[pa.Array]) -> pa.Array | None:
    first = arrays[0]
    buffers, end = first.buffers(), first.offset
    if first.type.num_fields or pa.types.is_dictionary(first.type):
        return None  # child arrays have offsets of their own
    memory = [b and (b.address, b.size) for b in buffers]
    for array in arrays:
        if array.offset != end or [b and (b.address, b.size) for b in array.buffers()] != memory:
            return None
        end += len(array)
    return pa.Array.from_buffers(first.type, end - first.offset, buffers, offset=first.offset)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with exactly the schema of their stream, without a copy.

    The batches of a step may differ in nullability and in metadata. Raises ConfigError when column
    names or types differ: then the steps do not make the rows that the job declares.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names or batch.schema.types != schema.types:
        got, known = _schema_text(batch.schema), _schema_text(schema)
        raise ConfigError(f"rows of [{got}] on an edge with rows of [{known}]")
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def has_dictionaries(schema: pa.Schema) -> bool:
    """Say whether any column is dictionary-encoded, at any depth."""
    return any(map(_has_dictionary, schema.types))


def _has_dictionary(kind: pa.DataType) -> bool:
    inner = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, inner))


def _schema_text(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)


def bounds(parts: Sequence[Data[pa.RecordBatch]]) -> tuple[int | None, int | None]:
    """Return the lowest and highest event time of all parts (us); None if any part's is unknown."""
    if len(parts) == 1:
        return parts[0].min_ts, parts[0].max_ts
    low = [p.min_ts for p in parts if p.min_ts is not None]
    high = [p.max_ts for p in parts if p.max_ts is not None]
    if len(low) < len(parts) or len(high) < len(parts):
        return None, None
    return min(low), max(high)


def _largest(row: pa.RecordBatch) -> str:
    sizes = {name: row.column(name).nbytes for name in row.schema.names}
    name = max(sizes, key=sizes.__getitem__)
    return f"column {name!r}, which has {sizes[name]} of them"


def pieces(data: Data[pa.RecordBatch], charge_max: int) -> Iterator[Data[pa.RecordBatch]]:
    """Cut a batch, in order, into pieces of at most ``charge_max`` or one row.

    A piece is a slice. Arrow writes each buffer of a slice up to the next multiple of 64 bytes, and all offsets of
    the values of an empty list. So a slice with few bytes in many columns, or with lists, may arrive as many times
    its charge: such a piece is copied.

    The charge of a piece is the size of its own rows, not of the buffers that it shares with the
    other pieces. Otherwise rows in small pieces would look larger, and flow control follows the
    size of rows. Dictionaries are whole in each piece, so no cut makes them smaller: they come on top of
    ``charge_max``. Raises RowNotSentError when a single row is larger than an element may be.
    """
    columns = data.payload.columns
    written_too = _SLICE_BYTES * sum(len(column.buffers()) for column in columns)
    if any(column.type.num_fields for column in columns):
        written_too = CHARGE_MAX
    for piece in _pieces(data, min(charge_max + _dictionary_bytes(data.payload), CHARGE_MAX)):
        yield _copied(piece) if written_too > piece.charge else piece


def _dictionary_bytes(batch: pa.RecordBatch) -> int:
    """Return the size of the dictionaries of columns, which slices share."""
    return sum(c.dictionary.nbytes for c in batch.columns if pa.types.is_dictionary(c.type))


def _pieces(data: Data[pa.RecordBatch], charge_max: int) -> Iterator[Data[pa.RecordBatch]]:
    if data.charge <= charge_max:
        yield data
        return
    if data.rows == 1:
        if data.charge > CHARGE_MAX:
            raise RowNotSentError(
                f"a row of {data.charge} bytes is larger than an element may be "
                f"({ELEMENT_BYTES_MAX} bytes): split it in the job, or leave out "
                f"{_largest(data.payload)}\nrecord: {record_text(data.payload)}"
            )
        yield data
        return
    half = data.rows // 2
    for batch in (data.payload.slice(0, half), data.payload.slice(half)):
        charge = batch.nbytes + ELEMENT_FIXED_CHARGE_BYTES
        piece = Data(batch, batch.num_rows, charge, data.min_ts, data.max_ts)
        yield from _pieces(piece, charge_max)


def check(batch: pa.RecordBatch) -> None:
    """Raise RowNotSentError unless every value is valid for its type: text must be UTF-8.

    A receiver would refuse such rows as the fault of a peer, and would do so after each recovery.
    """
    try:
        validate(batch)
    except PeerError as error:
        bad, rows = batch, batch.num_rows
        while rows > 1:
            first = bad.slice(0, rows // 2)
            bad = bad.slice(rows // 2) if _is_valid(first) else first
            rows = bad.num_rows
        raise RowNotSentError(
            f"{error}: write what the type of the column says, or read it as binary\nrecord: {_as_bytes(bad)}"
        ) from error


def _is_valid(batch: pa.RecordBatch) -> bool:
    try:
        validate(batch)
    except PeerError:
        return False
    return True


def _as_bytes(row: pa.RecordBatch) -> str:
    """Show a row whose texts may be invalid UTF-8."""
    texts = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    columns = [c.view(texts[c.type]) if c.type in texts else c for c in row.columns]
    return record_text(pa.RecordBatch.from_arrays(columns, names=row.schema.names))


def fingerprint(schema: pa.Schema) -> bytes:
    """Return the SHA-256 of a schema without its metadata: equal schemas have equal fingerprints."""
    bare = schema.remove_metadata()
    return hashlib.sha256(bare.serialize().to_pybytes()).digest()


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


def split_message(message: pa.Buffer) -> tuple[bytes, pa.Buffer | None]:
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
    sizes = list(ipc.stream_sizes(packed))
    if [s.kind for s in sizes] != [ipc.SCHEMA, ipc.ROWS]:
        raise PeerError(f"{len(sizes)} messages are packed, not a schema and one batch")
    ipc.check(sizes[1], CHARGES_MAX * head.charge, head.rows)
    try:
        with pa.ipc.open_stream(packed, options=_READ) as reader:
            if not reader.schema.equals(schema):
                raise PeerError(f"packed are [{ipc.spelt(reader.schema)}], announced was [{schema}]")
            return reader.read_next_batch()
    except ipc.READ_ERRORS as error:
        raise PeerError(f"{packed.size} bytes are no packed batch: {error}") from error


class Rate:
    """A moving average of bytes per second, over about COMPRESSION_RATE_BYTES."""

    __slots__ = ("_bytes", "_seconds")

    def __init__(self) -> None:
        self._bytes = self._seconds = 0.0

    def count(self, size: int, seconds: float) -> None:
        """Count ``size`` bytes that took ``seconds``."""
        keep = COMPRESSION_RATE_BYTES / (COMPRESSION_RATE_BYTES + size)
        self._bytes = keep * self._bytes + size
        self._seconds = keep * self._seconds + seconds

    @property
    def bytes_per_s(self) -> float:
        """The present rate; 0 before anything was counted."""
        return self._bytes / self._seconds if self._seconds else 0.0


class Packing:
    """Decides for the batches of one channel. Call ``packs`` before a batch, ``sent`` after it."""

    def __init__(self, settings: CompressionSettings) -> None:
        self._settings = settings
        self._mode = settings.mode
        self._bytes_min = COMPRESSION_BATCH_BYTES_MIN
        if self._mode is CompressionMode.AUTO:
            self._bytes_min = COMPRESSION_AUTO_BATCH_BYTES_MIN
        self._sampled_in = 0  # bytes until the entropy is measured again
        self._compressible = False
        self._asked = 0  # bytes of the batch that is being sent; 0: it is not measured
        self._prefers_packed = False
        self._trying = False  # whether a trial of the other form is under way
        self._pause = self._left = COMPRESSION_TRY_AFTER_BYTES
        self._left_s = COMPRESSION_TRY_AFTER_S_MAX
        self._skipped = COMPRESSION_SKIPPED_BYTES
        self._rate = Rate()
        self._tried = Rate()

    def packs(self, batch: pa.RecordBatch, size: int) -> bool:
        """Return whether to pack the next batch; ``size`` is its charge in bytes."""
        self._asked = 0
        if self._mode is CompressionMode.NONE:
            return False
        if size < self._bytes_min or not self._compresses(batch, size):
            return False
        if self._mode is CompressionMode.LZ4:
            return True
        if self._left <= 0 or (self._left_s <= 0 and not self._trying and self._rate.bytes_per_s):
            self._begin_or_end_trial(batch)
        self._asked = size
        return self._prefers_packed != self._trying

    def sent(self, seconds: float) -> None:
        """Count the time for the batch: to wait for credit, to pack and to write."""
        size = self._asked
        if not size:
            return
        seconds = min(seconds, size / COMPRESSION_STALLED_BYTES_PER_S)
        self._left_s -= seconds
        if self._skipped > 0:
            self._skipped -= size
        else:
            self._left -= size
            (self._tried if self._trying else self._rate).count(size, seconds)

    def _compresses(self, batch: pa.RecordBatch, size: int) -> bool:
        self._sampled_in -= size
        if self._sampled_in <= 0:
            self._sampled_in = COMPRESSION_SAMPLE_EVERY_BYTES
            self._compressible = entropy_bits(sample_of(batch)) <= self._settings.entropy_threshold
        return self._compressible

    def _begin_or_end_trial(self, batch: pa.RecordBatch) -> None:
        """Begin or end a trial of the other form."""
        self._skipped = COMPRESSION_SKIPPED_BYTES
        if not self._trying and self._may_gain(batch):
            self._trying, self._tried = True, Rate()
            self._left, self._left_s = COMPRESSION_TRY_BYTES, 0.0
            return
        if self._trying and self._tried.bytes_per_s > _BETTER * self._rate.bytes_per_s:
            self._prefers_packed, self._rate = not self._prefers_packed, self._tried
            self._pause = COMPRESSION_TRY_AFTER_BYTES
        else:
            self._pause = min(_LATER * self._pause, COMPRESSION_TRY_AFTER_BYTES_MAX)
        tried_s = -self._left_s if self._trying else 0.0
        self._left_s = max(COMPRESSION_TRY_AFTER_S_MAX, COMPRESSION_TRY_SHARE * tried_s)
        self._trying, self._left = False, self._pause

    def _may_gain(self, batch: pa.RecordBatch) -> bool:
        return self._prefers_packed or packed_per_s(sample_of(batch)) > self._rate.bytes_per_s


def sample_of(batch: pa.RecordBatch) -> bytes:
    """Return up to COMPRESSION_SAMPLE_BYTES of the batch: the same share of each buffer.

    The buffers of a slice are at most twice as large as the slice (``transport.batches``).
    """
    buffers = [b for c in batch.columns for b in c.buffers() if b is not None and b.size]
    share = min(COMPRESSION_SAMPLE_BYTES / max(sum(b.size for b in buffers), 1), 1.0)
    return b"".join(b.slice(0, int(share * b.size)).to_pybytes() for b in buffers)


def entropy_bits(sample: bytes) -> float:
    """Return the Shannon entropy of the bytes of a sample: 0 (all equal) to 8 bits per byte."""
    if not sample:
        return 0.0
    counts = np.bincount(np.frombuffer(sample, np.uint8), minlength=256)
    shares = counts[counts > 0] / len(sample)
    return float(-(shares * np.log2(shares)).sum())


def packed_per_s(sample: bytes) -> float:
    """Return how many bytes of the sample LZ4 compresses in a second of processor time."""
    start = thread_time()
    pa.compress(sample, codec="lz4_raw", asbytes=True)
    return len(sample) / max(thread_time() - start, 1e-6)
