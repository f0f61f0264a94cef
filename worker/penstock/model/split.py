"""Splits a batch by the destination of its rows. Every value is copied once, into its part.

    destinations (one per row) --counting sort--> order of the rows --gather--> parts

Compiled loops gather texts, numbers, times and booleans, with or without nulls, for all parts at
once. Arrow's own ``take`` gathers columns of other types. A part has memory of its own, so a part
that waits for a slow receiver keeps no other part in memory.
"""

from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter

import numpy as np
import pyarrow as pa

from penstock.base.values import hot_dataclass
from penstock.model.arrays import Int32s, Int64s, text
from penstock.model.kernels import routing


@hot_dataclass
class RowGroups:
    """The rows of each part: ``order[starts[p]:starts[p + 1]]`` are the rows of part p, in order.

    Part p goes to ``destinations[p]``, one of ``total``; row i goes to ``of_rows[i]``.
    """

    of_rows: Int32s
    total: int
    destinations: list[int]
    counts: list[int]
    order: Int32s
    starts: Int64s


def parts_of(destinations: Int32s, count: int) -> RowGroups:
    """Group n rows by destination (0 <= d < count). A destination without rows has no part."""
    starts = np.zeros(count + 1, np.int64)
    order = np.empty(len(destinations), np.int32)
    routing.split_order(destinations, starts, order)
    ends = starts.tolist()
    filled = [d for d in range(count) if ends[d] < ends[d + 1]]
    if len(filled) < count:
        starts = starts[[*filled, count]]
    counts = [ends[d + 1] - ends[d] for d in filled]
    return RowGroups(destinations, count, filled, counts, order, starts)


def split_by(batch: pa.RecordBatch, destinations: Int32s, count: int) -> list[tuple[int, pa.RecordBatch]]:
    """Split rows by destination (0 <= d < count), each part in input order.

    Destinations without rows are left out. When all rows have the same destination, the batch
    itself is returned without a copy.
    """
    parts = parts_of(destinations, count)
    if len(parts.counts) <= 1:
        return [(d, batch) for d in parts.destinations]
    schema = batch.schema
    columns = [_gather_of(array.type)(array, parts) for array in batch.columns]
    return [
        (d, pa.RecordBatch.from_arrays(arrays, schema=schema))
        for d, *arrays in zip(parts.destinations, *columns, strict=True)
    ]


Gather = Callable[[pa.Array, RowGroups], Sequence[pa.Array]]


@cache
def _gather_of(kind: pa.DataType) -> Gather:
    """Choose the function that gathers a column of this type into one array for each part."""
    t = pa.types
    if t.is_string(kind) or t.is_binary(kind):
        return _texts
    if t.is_boolean(kind):
        return _booleans
    if t.is_primitive(kind) or t.is_decimal(kind) or t.is_fixed_size_binary(kind):
        return _fixed
    return _taken


def _texts(array: pa.Array, parts: RowGroups) -> list[pa.Array]:
    column = text(array)
    ends = [pa.allocate_buffer(4 * (rows + 1)) for rows in parts.counts]
    sizes = np.empty(len(ends), np.int64)
    routing.gather_offsets(column[0], parts.order, parts.starts, _places(ends), sizes)
    spans = sizes.tolist()
    blocks = [pa.allocate_buffer(size + routing.COPY_SLACK) for size in spans]
    places = np.zeros(parts.total, np.int64)
    places[parts.destinations] = _places(blocks)
    routing.gather_texts(column, parts.of_rows, places)
    kind, bitmaps = array.type, _bitmaps(array, parts)
    return [
        pa.Array.from_buffers(kind, rows, [bitmap, end, block.slice(0, size)])
        for rows, bitmap, end, block, size in zip(parts.counts, bitmaps, ends, blocks, spans, strict=True)
    ]


_address = attrgetter("address")


def _places(blocks: Sequence[pa.Buffer]) -> Int64s:
    return np.array(list(map(_address, blocks)), np.int64)


def _fixed(array: pa.Array, parts: RowGroups) -> list[pa.Array]:
    width = array.type.bit_width // 8
    start = array.offset * width
    values = np.frombuffer(array.buffers()[1], np.uint8)[start : start + len(array) * width]
    blocks = [pa.allocate_buffer(rows * width) for rows in parts.counts]
    routing.gather_fixed(values, width, parts.order, parts.starts, _places(blocks))
    return _arrays(array, parts, blocks)


def _booleans(array: pa.Array, parts: RowGroups) -> list[pa.Array]:
    return _arrays(array, parts, _bits(array.buffers()[1], array.offset, parts))


def _taken(array: pa.Array, parts: RowGroups) -> list[pa.Array]:
    starts = parts.starts.tolist()
    return [
        array.take(pa.array(parts.order[start : start + rows]))
        for start, rows in zip(starts, parts.counts, strict=False)
    ]


def _arrays(array: pa.Array, parts: RowGroups, blocks: Sequence[pa.Buffer]) -> list[pa.Array]:
    bitmaps = _bitmaps(array, parts)
    return [
        pa.Array.from_buffers(array.type, rows, [bitmap, block])
        for rows, bitmap, block in zip(parts.counts, bitmaps, blocks, strict=True)
    ]


def _bitmaps(array: pa.Array, parts: RowGroups) -> Sequence[pa.Buffer | None]:
    if array.null_count == 0:
        return [None] * len(parts.counts)
    return _bits(array.buffers()[0], array.offset, parts)


def _bits(bitmap: pa.Buffer, bit: int, parts: RowGroups) -> list[pa.Buffer]:
    blocks = [pa.allocate_buffer((rows + 7) // 8) for rows in parts.counts]
    source = np.frombuffer(bitmap, np.uint8)
    routing.gather_bits(source, bit, parts.order, parts.starts, _places(blocks))
    return blocks
