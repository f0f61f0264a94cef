"""From hashes to key groups, from groups to destinations, and a stable split by destination."""

from typing import Any

import numpy as np

from penstock.model.kernels.jit import I32, INT, OUT_I32, OUT_I64, U64, VOID, kernel


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


@kernel(VOID, U64, I32, OUT_I32)
def look_up(hashes: Any, table: Any, destinations: Any) -> None:
    """Write ``table[key group]`` of every row; the table has one item for each group."""
    if table.size & (table.size - 1) == 0:
        mask = np.uint64(table.size - 1)
        for i in range(destinations.size):
            destinations[i] = table[np.int64(hashes[i] & mask)]
        return
    for i in range(destinations.size):
        destinations[i] = table[np.int64(hashes[i]) % table.size]


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
    for d in range(starts.size - 1, 0, -1):  # ... and is put back to the first one
        starts[d] = starts[d - 1]
    starts[0] = 0
