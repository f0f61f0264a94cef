"""The rows of a child table that belong to one row of its parent table, in the order of their subkeys.

The key of a child row is the key of its parent row and a subkey, as bytes::

    length of the parent's key (32 bits, little-endian; all ones if that key is a lone null), its bytes, the subkey

The bytes of subkeys are in the order of the subkeys (``model.subkeys``). So the child rows of one parent stand
together, and in order, wherever keys are sorted by their bytes. Here they are a search tree by subkey, which is
also a heap by hash (a treap). The hash of a child row does not depend on when it came. So the shape of the tree
depends only on the rows that are in it, and its depth grows with the logarithm of their number.

    head   of a parent row: the tree's root, its first and last row, and how many rows there are
    link   of a child row: the row above, the rows below to the left and right, and the parent row

All of them are row numbers plus one, so zeros are an empty tree and a row in no tree. Costs for n rows of one parent:
a new first or last row, and taking the first or last one out, O(1) on the average; any other O(log n); the next row
in order O(1) on the average. So a list that grows at its end and shrinks at its beginning never searches.
"""

from typing import Any

import numpy as np
from numba import from_dtype

from penstock.model.kernels.hash_table import NO_ROW, OUT_ROWS, TABLE
from penstock.model.kernels.jit import (
    I32,
    INT,
    OUT_I32,
    OUT_I64,
    OUT_U8,
    OUT_U64,
    TEXT,
    U8,
    VOID,
    copy_bytes,
    helper,
    kernel,
    load32,
    load64,
    prefetch,
    trailing_zeros,
    tuple_of,
)
from penstock.model.kernels.key_bytes import hash_bytes

HEAD = np.dtype([("root", "i4"), ("first", "i4"), ("last", "i4"), ("count", "i4")])
LINK = np.dtype([("up", "i4"), ("left", "i4"), ("right", "i4"), ("parent", "i4")])
OUT_HEADS = from_dtype(HEAD)[::1]
OUT_LINKS = from_dtype(LINK)[::1]
TREES = tuple_of((OUT_HEADS, OUT_LINKS))  # by parent row, by child row

LENGTH_BYTES = 4  # of a parent's key, before it
_LONE_NULL = np.uint32(0xFFFFFFFF)
_STRIDE = 8  # rows from one step of reading ahead to the next

# Helpers take arrays one by one: see ``kernels.hash_table``.
# ruff: noqa: PLR0917


# --- Keys --------------------------------------------------------------------------------------


@kernel(VOID, OUT_ROWS, I32, TEXT, OUT_I64)
def key_ends(records: Any, parents: Any, subkeys: Any, ends: Any) -> None:
    """Write where the keys of n child rows end (n + 1), the key i being of ``parents[i]`` and subkey i."""
    offsets = subkeys[0]
    ends[0] = 0
    last = parents.size - 1
    for i in range(parents.size):
        prefetch(records, np.int64(parents[min(i + _STRIDE, last)]))
        size = max(np.int64(records[parents[i]].length), np.int64(0))
        ends[i + 1] = ends[i] + LENGTH_BYTES + size + (offsets[i + 1] - offsets[i])


@kernel(VOID, TABLE, I32, TEXT, tuple_of((OUT_I32, OUT_U8, OUT_U64, OUT_I32)))
def compose(parent: Any, parents: Any, subkeys: Any, made: Any) -> None:
    """Write the bytes of child keys, whose ends are known, with their hashes and key groups.

    A hash is that of the subkey, seeded with the hash of the parent's key.
    """
    records, arena = parent[2], parent[3]
    offsets, data, _, _ = subkeys
    ends, target, hashes, groups = made
    last = parents.size - 1
    for i in range(parents.size):
        prefetch(arena, records[parents[min(i + _STRIDE, last)]].start)
        row, at = np.int64(parents[i]), np.int64(ends[i])
        size = np.int64(records[row].length)
        for shift in range(LENGTH_BYTES):
            target[at + shift] = (size >> (8 * shift)) & 0xFF
        at += LENGTH_BYTES
        if size > 0:
            copy_bytes(arena, records[row].start, size, target, at)
            at += size
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        copy_bytes(data, start, stop - start, target, at)
        hashes[i] = hash_bytes(data, start, stop, records[row].hash)
        groups[i] = records[row].group


@helper
def _subkey_at(data: Any, at: Any) -> Any:
    """Return where the subkey of the child key at ``at`` begins."""
    size = load32(data, at)
    return at + LENGTH_BYTES + (np.int64(0) if size == _LONE_NULL else np.int64(size))


@kernel(VOID, U8, OUT_I64, OUT_I64)
def split_keys(data: Any, starts: Any, subkeys: Any) -> None:
    """Write where the subkey of each key begins. Each key is at ``starts[i]``."""
    for i in range(starts.size):
        subkeys[i] = _subkey_at(data, starts[i])


# --- The tree ----------------------------------------------------------------------------------


@helper
def _is_before(row: Any, other: Any, records: Any, arena: Any) -> bool:
    """Compare the subkeys of two rows of one parent, by bytes. A shorter one comes before a longer one."""
    at = _subkey_at(arena, records[row].start)
    there = _subkey_at(arena, records[other].start)
    stop, other_stop = records[row].start + records[row].length, records[other].start + records[other].length
    while at + 8 <= stop and there + 8 <= other_stop:
        differ = load64(arena, at) ^ load64(arena, there)
        if differ != 0:
            place = np.int64(trailing_zeros(differ) >> np.uint64(3))
            return bool(arena[at + place] < arena[there + place])
        at += 8
        there += 8
    while at < stop and there < other_stop:
        if arena[at] != arena[there]:
            return bool(arena[at] < arena[there])
        at += 1
        there += 1
    return bool(other_stop - there > stop - at)


@helper
def _replace(row: Any, by: Any, heads: Any, links: Any) -> None:
    """Put ``by`` (a row plus one, or 0) into the place of ``row`` below the row above it."""
    up = links[row].up
    if by != 0:
        links[by - 1].up = up
    if up == 0:
        heads[links[row].parent - 1].root = by
    elif links[up - 1].left == row + 1:
        links[up - 1].left = by
    else:
        links[up - 1].right = by


@helper
def _lift(row: Any, heads: Any, links: Any) -> None:
    """Rotate a row up: it changes places with the row above it."""
    above = links[row].up - 1
    _replace(above, row + 1, heads, links)
    if links[above].left == row + 1:
        inner = links[row].right
        links[above].left = inner
        links[row].right = above + 1
    else:
        inner = links[row].left
        links[above].right = inner
        links[row].left = above + 1
    if inner != 0:
        links[inner - 1].up = above + 1
    links[above].up = row + 1


@helper
def _hang(row: Any, head: Any, heads: Any, links: Any, records: Any, arena: Any) -> None:
    """Put a row below the tree of its parent, at the place of its subkey."""
    first, last = heads[head].first - 1, heads[head].last - 1
    if first < 0:
        heads[head].root = heads[head].first = heads[head].last = row + 1
        return
    if _is_before(last, row, records, arena):
        links[last].right = row + 1
        links[row].up = heads[head].last
        heads[head].last = row + 1
        return
    if _is_before(row, first, records, arena):
        links[first].left = row + 1
        links[row].up = heads[head].first
        heads[head].first = row + 1
        return
    below, at = heads[head].root, np.int32(0)
    left = False
    while below != 0:
        at = below
        left = _is_before(row, at - 1, records, arena)
        below = links[at - 1].left if left else links[at - 1].right
    links[row].up = at
    if left:
        links[at - 1].left = row + 1
    else:
        links[at - 1].right = row + 1


@kernel(VOID, TABLE, TREES, I32, I32)
def link(table: Any, trees: Any, parents: Any, rows: Any) -> None:
    """Put the live child row ``rows[i]`` into the tree of ``parents[i]``, unless it is in it."""
    records, arena = table[2], table[3]
    heads, links = trees
    for i in range(rows.size):
        row, head = np.int64(rows[i]), np.int64(parents[i])
        if links[row].parent != 0:
            continue
        links[row].parent = head + 1
        heads[head].count += 1
        _hang(row, head, heads, links, records, arena)
        while links[row].up != 0 and records[links[row].up - 1].hash < records[row].hash:
            _lift(row, heads, links)


@helper
def _next(row: Any, links: Any) -> Any:
    """Return the row after ``row``, plus one; 0 if it is the last one."""
    at = links[row].right
    if at != 0:
        while links[at - 1].left != 0:
            at = links[at - 1].left
        return at
    at, below = links[row].up, np.int32(row + 1)
    while at != 0 and links[at - 1].right == below:
        at, below = links[at - 1].up, at
    return at


@helper
def _before(row: Any, links: Any) -> Any:
    """Return the row before ``row``, plus one; 0 if it is the first one."""
    at = links[row].left
    if at != 0:
        while links[at - 1].right != 0:
            at = links[at - 1].right
        return at
    at, below = links[row].up, np.int32(row + 1)
    while at != 0 and links[at - 1].left == below:
        at, below = links[at - 1].up, at
    return at


@kernel(VOID, TABLE, TREES, I32)
def unlink(table: Any, trees: Any, rows: Any) -> None:
    """Take child rows out of their trees. A row in no tree is ignored."""
    records = table[2]
    heads, links = trees
    for i in range(rows.size):
        row = np.int64(rows[i])
        if links[row].parent == 0:
            continue
        head = links[row].parent - 1
        heads[head].count -= 1
        if heads[head].first == row + 1:
            heads[head].first = _next(row, links)
        if heads[head].last == row + 1:
            heads[head].last = _before(row, links)
        while links[row].left != 0 and links[row].right != 0:
            left, right = links[row].left - 1, links[row].right - 1
            _lift(left if records[left].hash > records[right].hash else right, heads, links)
        _replace(row, links[row].left + links[row].right, heads, links)
        links[row].up = links[row].left = links[row].right = links[row].parent = 0


@kernel(INT, TREES, I32, OUT_I64)
def count_children(trees: Any, parents: Any, ends: Any) -> Any:
    """Write the running sums (n + 1) of how many child rows each parent row has; return their number."""
    heads = trees[0]
    ends[0] = 0
    for i in range(parents.size):
        ends[i + 1] = ends[i] + heads[parents[i]].count
    return ends[parents.size]


@kernel(VOID, TREES, I32, OUT_I32)
def list_children(trees: Any, parents: Any, rows: Any) -> None:
    """Write the child rows of each parent row in the order of their subkeys, parent after parent."""
    heads, links = trees
    at = 0
    for i in range(parents.size):
        row = heads[parents[i]].first
        while row != 0:
            rows[at] = row - 1
            at += 1
            row = _next(np.int64(row - 1), links)


@kernel(INT, TREES, INT, OUT_I32)
def list_first(trees: Any, parent: int, rows: Any) -> Any:
    """Write the first child rows of a parent row, in order, as many as there is room for; return how many they are."""
    heads, links = trees
    found, row = 0, heads[parent].first
    while row != 0 and found < rows.size:
        rows[found] = row - 1
        found += 1
        row = _next(np.int64(row - 1), links)
    return found


@kernel(VOID, TREES, OUT_I32)
def only_linked(trees: Any, rows: Any) -> None:
    """Replace each row that is in no tree, because it is deleted, by NO_ROW."""
    links = trees[1]
    last = rows.size - 1
    for i in range(rows.size):
        prefetch(links, np.int64(rows[min(i + _STRIDE, last)]))
        if rows[i] >= 0 and links[rows[i]].parent == 0:
            rows[i] = NO_ROW
