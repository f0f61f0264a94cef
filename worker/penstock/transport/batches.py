"""Sizes of Arrow batches, and putting small ones together."""

import hashlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.base.errors import ConfigError, PeerError, RowNotSentError
from penstock.base.limits import ELEMENT_BYTES_MAX, ELEMENT_FIXED_CHARGE_BYTES
from penstock.model.elements import Data
from penstock.model.validate import validate
from penstock.model.wire import CHARGE_MAX
from penstock.steps.calls import shown

CHARGES_MAX = 2  # a decoded batch may take so many times its charge: columns may share memory
_PINNED_TO_COMPACT = 2  # a slice may keep this many times its own size alive
_CHEAP_BYTES = 4096  # below it, what a batch pins is near enough to what it holds


def measure(batch: pa.RecordBatch) -> int:
    """Return the charge of a batch in bytes: its body as it will be decoded, and a fixed cost."""
    pinned: int = batch.get_total_buffer_size()
    if pinned <= _CHEAP_BYTES and _is_plain(batch):
        return pinned + ELEMENT_FIXED_CHARGE_BYTES
    size: int = batch.nbytes
    return size + ELEMENT_FIXED_CHARGE_BYTES


def _is_plain(batch: pa.RecordBatch) -> bool:
    """Say whether decoding doubles memory at most: two columns may share it, not more."""
    return batch.num_columns <= _PINNED_TO_COMPACT and not any(
        column.type.num_fields for column in batch.columns
    )


def measure_fresh(batch: pa.RecordBatch) -> int:
    """Like :func:`measure`, for a batch that shares no buffer with another: a tenth of the cost."""
    size: int = batch.get_total_buffer_size()
    return size + ELEMENT_FIXED_CHARGE_BYTES


def compact(data: Data[pa.RecordBatch]) -> Data[pa.RecordBatch]:
    """Copy a slice that keeps more than twice its size alive; return anything else as it is."""
    if data.payload.get_total_buffer_size() <= _PINNED_TO_COMPACT * data.charge:
        return data
    batch = pa.concat_batches([data.payload])
    return Data(batch, data.rows, data.charge, data.min_ts, data.max_ts)


def join(parts: Sequence[Data[pa.RecordBatch]]) -> pa.RecordBatch:
    """Return the rows of all parts, in order, as one batch; a single part is not copied.

    The schema is that of the first part. Raises ConfigError as :func:`conform` does.
    """
    if len(parts) == 1:
        return parts[0].payload
    schema = parts[0].payload.schema
    return pa.concat_batches([conform(part.payload, schema) for part in parts])


def whole(slices: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return slices of one batch, each beginning where the one before ends, as one slice of it.

    Nothing is copied; None when they are something else. The schemas are equal.
    """
    arrays = [_whole(columns) for columns in zip(*(s.columns for s in slices), strict=True)]
    if None in arrays:
        return None
    return pa.RecordBatch.from_arrays(arrays, schema=slices[0].schema)


def _whole(arrays: Sequence[pa.Array]) -> pa.Array | None:
    first = arrays[0]
    buffers, end = first.buffers(), first.offset
    if first.type.num_fields or pa.types.is_dictionary(first.type):
        return None  # what lies below has offsets of its own
    memory = [b and (b.address, b.size) for b in buffers]
    for array in arrays:
        if array.offset != end or [b and (b.address, b.size) for b in array.buffers()] != memory:
            return None
        end += len(array)
    return pa.Array.from_buffers(first.type, end - first.offset, buffers, offset=first.offset)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows under exactly the schema of their stream; nothing is copied.

    Steps may differ in what Arrow calls nullable and in notes. Raises ConfigError when columns or
    types differ: what the steps make is not what the job says.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names or batch.schema.types != schema.types:
        got, known = _spell(batch.schema), _spell(schema)
        raise ConfigError(f"rows of [{got}] on an edge with rows of [{known}]")
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def has_dictionaries(schema: pa.Schema) -> bool:
    """Say whether values of any column refer to a dictionary, at any depth."""
    return any(map(_has_dictionary, schema.types))


def _has_dictionary(kind: pa.DataType) -> bool:
    inner = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, inner))


def _spell(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name}: {f.type}" for f in schema)


def bounds(parts: Sequence[Data[pa.RecordBatch]]) -> tuple[int | None, int | None]:
    """Return the event-time bounds of all parts; unknown when those of any part are."""
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
    """Cut a batch into pieces of at most ``charge_max``, or of one row, in order; none is copied.

    Each is charged what it holds, never what it pins: else rows in small pieces would look larger,
    and windows follow the size of rows. Raises RowNotSentError when a single row is larger
    than an element may be.
    """
    if data.charge <= charge_max:
        yield data
        return
    if data.rows == 1:
        if data.charge > CHARGE_MAX:
            raise RowNotSentError(
                f"a row of {data.charge} bytes is larger than an element may be "
                f"({ELEMENT_BYTES_MAX} bytes): split it in the job, or leave out "
                f"{_largest(data.payload)}\nrecord: {shown(data.payload)}"
            )
        yield data
        return
    half = data.rows // 2
    for batch in (data.payload.slice(0, half), data.payload.slice(half)):
        charge = batch.nbytes + ELEMENT_FIXED_CHARGE_BYTES
        piece = Data(batch, batch.num_rows, charge, data.min_ts, data.max_ts)
        yield from pieces(piece, charge_max)


def check(batch: pa.RecordBatch) -> None:
    """Raise RowNotSentError unless every value is what its type says: texts are UTF-8, above all.

    A receiver refuses such rows as a peer's fault, and would again after each recovery.
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
            f"{error}: write what the type of the column says, or read it as binary\n"
            f"record: {_as_bytes(bad)}"
        ) from error


def _is_valid(batch: pa.RecordBatch) -> bool:
    try:
        validate(batch)
    except PeerError:
        return False
    return True


def _as_bytes(row: pa.RecordBatch) -> str:
    """Show a row of which texts may be anything."""
    texts = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    columns = [c.view(texts[c.type]) if c.type in texts else c for c in row.columns]
    return shown(pa.RecordBatch.from_arrays(columns, names=row.schema.names))


def fingerprint(schema: pa.Schema) -> bytes:
    """Return the SHA-256 of a schema without its metadata: equal types have equal prints."""
    bare = schema.remove_metadata()
    return hashlib.sha256(bare.serialize().to_pybytes()).digest()
