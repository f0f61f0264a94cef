"""Splits a batch by destination: hashes give key groups, key groups give destinations.

:func:`split_order` makes a stable order: ``order[starts[p]:starts[p + 1]]`` are the rows of part p.
The other kernels copy the rows in this order into the buffers of the batches that are sent. Some
take the part of each row instead of the order. The buffers of the parts are given by their addresses,
because one call takes any number of parts. A buffer has the size that an earlier kernel computed. A
buffer of texts also has ``COPY_SLACK`` spare bytes.
"""

from typing import Any

import numpy as np

from penstock.model.kernels.jit import (
    I32,
    I64,
    INT,
    OUT_I32,
    OUT_I64,
    TEXT,
    U8,
    U64,
    VOID,
    copy32_at,
    copy_at,
    kernel,
    load64,
    store8_at,
    store32_at,
    store64_at,
)

SHORT = 32  # shorter texts are copied as 32 bytes at once, with the bytes that follow them
COPY_SLACK = SHORT


@kernel(VOID, U64, INT, OUT_I32)
def key_groups(hashes: Any, max_key_groups: int, groups: Any) -> None:
    """Write ``pmod(hash as int64, max_key_groups)``: never negative, as in Spark."""
    if max_key_groups & (max_key_groups - 1) == 0:  # two's complement: the low bits are the pmod
        mask = np.uint64(max_key_groups - 1)
        for i in range(groups.size):
            groups[i] = np.int32(hashes[i] & mask)
        return
    for i in range(groups.size):
        groups[i] = np.int32(np.int64(hashes[i]) % max_key_groups)


@kernel(VOID, U64, I32, OUT_I64, OUT_I32)
def look_up(hashes: Any, table: Any, rows: Any, destinations: Any) -> None:
    """Write ``table[key group]`` of every row, and add it to ``rows[key group]``. Both have an item for each group."""
    power, mask = table.size & (table.size - 1) == 0, np.uint64(table.size - 1)
    for i in range(destinations.size):
        group = np.int64(hashes[i] & mask) if power else np.int64(hashes[i]) % table.size
        rows[group] += 1
        destinations[i] = table[group]


@kernel(VOID, I32, OUT_I64, OUT_I32)
def split_order(destinations: Any, starts: Any, order: Any) -> None:
    """Counting sort: ``order[starts[d]:starts[d + 1]]`` are the rows for d, in input order.

    ``starts`` has one item more than there are destinations and comes zeroed.
    """
    for i in range(destinations.size):
        starts[destinations[i] + 1] += 1
    for d in range(1, starts.size):
        starts[d] += starts[d - 1]
    for i in range(destinations.size):  # starts[d] is the next free place of d ...
        d = destinations[i]
        order[starts[d]] = i
        starts[d] += 1
    for d in range(starts.size - 1, 0, -1):  # ... and now the first place of d again
        starts[d] = starts[d - 1]
    starts[0] = 0


@kernel(VOID, I32, I32, I64, I64, OUT_I64)
def gather_offsets(offsets: Any, order: Any, starts: Any, places: Any, sizes: Any) -> None:
    """Write the offsets of the texts of part p to ``places[p]``, and how many bytes they take."""
    for part in range(sizes.size):
        to, top = places[part], np.int64(0)
        store32_at(to, top)
        for i in range(starts[part], starts[part + 1]):
            top += offsets[order[i] + 1] - offsets[order[i]]
            to += 4
            store32_at(to, top)
        sizes[part] = top


@kernel(VOID, TEXT, I32, OUT_I64)
def gather_texts(column: Any, parts: Any, places: Any) -> None:
    """Write the bytes of row i to the address ``places[parts[i]]``, and add their number to this address.

    The rows are read in input order, because the processor then prefetches them.
    """
    offsets, data, _, _ = column
    stop = np.int64(offsets[0])
    for i in range(parts.size):
        at, stop, part = stop, np.int64(offsets[i + 1]), parts[i]
        size = stop - at
        if size <= SHORT and at + SHORT <= data.size:
            copy32_at(places[part], data, at, size)
        else:
            copy_at(places[part], data, at, size)
        places[part] += size


@kernel(VOID, TEXT, INT, OUT_I32, INT)
def append_texts(column: Any, batch_rows: int, ends: Any, place: int) -> None:
    """Copy offsets to ``ends`` (length n + 1) and bytes to ``place``, ``batch_rows`` texts at a time."""
    offsets, data, _, _ = column
    ends[0] = 0
    for first in range(0, ends.size - 1, batch_rows):
        stop = min(first + batch_rows, ends.size - 1)
        at, top = np.int64(offsets[first]), np.int64(ends[first])
        for i in range(first, stop):
            ends[i + 1] = top + offsets[i + 1] - at
        size = offsets[stop] - at
        if size <= SHORT and at + SHORT <= data.size:
            copy32_at(place + top, data, at, size)
        else:
            copy_at(place + top, data, at, size)


@kernel(VOID, U8, INT, I32, I64, I64)
def gather_fixed(data: Any, width: int, order: Any, starts: Any, places: Any) -> None:
    """Write the values, ``width`` bytes each, of part p to ``places[p]``."""
    for part in range(starts.size - 1):
        to = places[part]
        for i in range(starts[part], starts[part + 1]):
            at = np.int64(order[i]) * width
            if width == 8:
                store64_at(to, np.int64(load64(data, at)))
            else:
                copy_at(to, data, at, width)
            to += width


@kernel(VOID, U8, INT, I32, I64, I64)
def gather_bits(bitmap: Any, bit: int, order: Any, starts: Any, places: Any) -> None:
    """Write the bits of part p to ``places[p]``. Row 0 has the bit ``bit``. Zeros fill the last byte."""
    for part in range(starts.size - 1):
        to, byte, filled = places[part], np.int64(0), np.int64(0)
        for i in range(starts[part], starts[part + 1]):
            at = bit + order[i]
            byte |= np.int64((bitmap[at >> 3] >> (at & 7)) & 1) << filled
            filled += 1
            if filled == 8:
                store8_at(to, byte)
                to, byte, filled = to + 1, np.int64(0), np.int64(0)
        if filled != 0:
            store8_at(to, byte)
