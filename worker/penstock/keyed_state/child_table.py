"""A child table: several rows for each row of its parent table, by (parent row, subkey).

Lists, maps and sets of a state are kept in such tables. A child table is stored like any other state table: it has
its own rows, deltas, files and database, and its files name it ``<step>.<field>``. Only changed rows are in a delta, so
a map of a million entries costs a checkpoint what was changed in it. Beyond that, parent and children are a family:

- Child rows are in the key group of their parent row.
- Deleting a parent row deletes its child rows.
- A family shares one budget of memory. Only the lookup of a parent's rows moves rows to disk. So row numbers of
  child rows are valid as long as those of their parents are.
- While a child row is in memory, its parent row is as well: a parent row moves to disk after its child rows.

The child rows of one parent in memory are linked in the order of their subkeys (``model.kernels.child_links``).
Links are never stored: loading makes them again. For child rows on disk, each parent row has a flag which says that
some may be there. Where it is not set, a subkey without a row in memory is not looked for on disk.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.keyed_state.copies import gathered
from penstock.keyed_state.memory import doubled, reserve
from penstock.model.arrays import NO_BYTES, Int32s, Int64s, Text, narrow
from penstock.model.kernels import child_links, hash_table
from penstock.model.keys import EncodedKeys, KeyCodec, Keys
from penstock.model.subkeys import SubkeyCodec
from penstock.steps.base import ChildSchema

if TYPE_CHECKING:
    from penstock.keyed_state.tiered import TieredTable

FIRST_ROWS = 1 << 24
LINKED_ROWS = 65_536  # at once, after loading
_LONE_NULL = 0xFF  # the first byte of the length of a parent's key that is a lone null


class ChildLinks:
    """The links of child rows, and for each parent row their order, their number and whether some may be on disk."""

    def __init__(self) -> None:
        """Begin without rows: reserves address space, but no memory."""
        self._heads = reserve(child_links.HEAD, FIRST_ROWS)
        self._links = reserve(child_links.LINK, FIRST_ROWS)
        self._on_disk = reserve("uint8", FIRST_ROWS)

    def make_room(self, parent_rows: int, child_rows: int) -> None:
        """Make room for row numbers below ``parent_rows`` and ``child_rows``."""
        if parent_rows > len(self._heads):
            self._heads = doubled(self._heads, len(self._heads), parent_rows)
            self._on_disk = doubled(self._on_disk, len(self._on_disk), parent_rows)
        if child_rows > len(self._links):
            self._links = doubled(self._links, len(self._links), child_rows)

    @property
    def trees(self) -> Any:
        """Return the arrays in the form that kernels take. They are replaced when they grow."""
        return self._heads, self._links

    def unlink(self, table: Any, rows: Int32s) -> None:
        """Take child rows out of the order. ``table`` is the child table in the form that kernels take."""
        if len(rows) and int(rows.max()) < len(self._links):  # a row beyond was never linked
            child_links.unlink(table, self.trees, rows)

    def unlinked(self, rows: Int32s) -> Int32s:
        """Return those of some live child rows that are not linked."""
        found: Int32s = rows[self._links["parent"][rows] == 0]
        return found

    def listed(self, parents: Int32s) -> tuple[Int64s, Int32s]:
        """Return the child rows in memory of n parent rows in order, and where those of each parent end (n + 1)."""
        ends = np.empty(len(parents) + 1, np.int64)
        rows = np.empty(child_links.count_children(self.trees, parents, ends), np.int32)
        child_links.list_children(self.trees, parents, rows)
        return ends, rows

    def first(self, parent: int, most: int) -> Int32s:
        """Return the first child rows in memory of a parent row in order, at most so many."""
        rows = np.empty(most, np.int32)
        return rows[: child_links.list_first(self.trees, parent, rows)]

    def note_on_disk(self, rows: Int32s) -> None:
        """Note that linked child rows move to disk."""
        parents = self._links["parent"][rows]
        self._on_disk[parents[parents > 0] - 1] = 1

    def set_on_disk(self, parents: Int32s | slice, flag: bool) -> None:
        """Say of parent rows whether child rows may be on disk."""
        self._on_disk[parents] = flag

    def on_disk(self, parents: Int32s) -> npt.NDArray[np.bool_]:
        """Return of parent rows whether child rows may be on disk."""
        found: npt.NDArray[np.bool_] = self._on_disk[parents] != 0
        return found

    def size_bytes(self, parent_rows: int, child_rows: int) -> int:
        """Return the memory in use for tables whose highest rows were ``parent_rows - 1`` and ``child_rows - 1``."""
        return parent_rows * (child_links.HEAD.itemsize + 1) + child_rows * child_links.LINK.itemsize


class ChildTable:
    """A :class:`penstock.steps.base.ChildState`. ``table`` has its rows; ``parent`` has the rows above them."""

    def __init__(self, schema: ChildSchema, parent: "TieredTable", table: "TieredTable", max_key_groups: int) -> None:
        """Join two empty tables."""
        self.schema = schema
        self.table, self.parent = table, parent
        self._subkeys = SubkeyCodec(schema.subkey)
        self._keys = KeyCodec(tuple(kind for _, kind in parent.schema.keys), max_key_groups)
        self.links = ChildLinks()
        table.hot.links = self.links
        table.above = self
        parent.children.append(self)

    # --- The handle that steps use ----------------------------------------------------------

    def find(self, parents: Int32s, subkeys: pa.Array) -> Int32s:
        """Return the row of each of n (parent row, subkey), -1 if there is none. Marks nothing as changed."""
        keys = self._child_keys(parents, self._subkeys.encode(subkeys))
        rows = self.table.hot.found(keys)
        if self.table.on_disk and self._bring(parents, keys, rows):
            rows = self.table.hot.found(keys)
        self._make_room()
        child_links.only_linked(self.links.trees, rows)
        return rows

    def rows(self, parents: Int32s, subkeys: pa.Array) -> Int32s:
        """Return the row of each of n (parent row, subkey), made if needed, and mark the rows as changed."""
        keys = self._child_keys(parents, self._subkeys.encode(subkeys))
        if self.table.on_disk:
            self._bring(parents, keys, self.table.hot.found(keys))
        rows = self.table.hot.rows(keys)
        self._link(parents, rows)
        return rows

    def entries(self, parents: Int32s) -> tuple[Int64s, Int32s]:
        """Return the rows of n parent rows in the order of their subkeys, and where those of each parent end (n + 1).

        All of them are brought into memory.
        """
        self._make_room()
        self._bring_all(parents)
        return self.links.listed(parents)

    def first(self, parent: int, most: int) -> Int32s:
        """Return the first rows of a parent row in order, at most so many. All of its rows are brought into memory."""
        self._make_room()
        self._bring_all(np.array([parent], np.int32))
        return self.links.first(parent, most)

    def subkeys_of(self, rows: Int32s) -> pa.Array:
        """Return the subkeys of rows."""
        keys = self.table.hot.keys_of(rows)
        _, subkeys = _split(keys)
        return self._subkeys.decode(*gathered(keys.data, subkeys, keys.ends[1:] - subkeys))

    def delete(self, rows: Int32s) -> None:
        """Delete rows, each given once."""
        self.table.delete(rows)

    def mark(self, rows: Int32s) -> None:
        """Mark live rows as changed."""
        self.table.hot.mark(rows)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a live view of a fixed-width column by row."""
        return self.table.column(name)

    def read_bytes(self, name: str, rows: Int32s) -> pa.Array:
        """Return a bytes column of the listed rows."""
        return self.table.read_bytes(name, rows)

    def write_bytes(self, name: str, rows: Int32s, values: pa.Array) -> None:
        """Store binary values in the listed rows."""
        self.table.write_bytes(name, rows, values)

    # --- What the parent table needs ----------------------------------------------------------

    def delete_of(self, parents: Int32s) -> None:
        """Delete all rows of parent rows."""
        self.delete(self.entries(parents)[1])

    def move_out_of(self, parents: Int32s) -> None:
        """Move the rows of parent rows to disk: the parent rows will follow."""
        self._make_room()
        self.table.move_out(self.links.listed(parents)[1])

    def forget(self, parents: Int32s) -> None:
        """Note that the numbers of parent rows are free: no child row in memory has one of them above it."""
        self._make_room()
        self.links.set_on_disk(parents, False)

    def parents_came(self, parents: Int32s) -> None:
        """Note that parent rows came back from disk, where they may have child rows."""
        self._make_room()
        self.links.set_on_disk(parents, self.table.on_disk)

    @property
    def size_bytes(self) -> int:
        """Return the memory that rows and links use."""
        rows = self.parent.hot.high_row, self.table.hot.high_row
        return self.table.hot.size_bytes + self.links.size_bytes(*rows)

    # --- What the table of the rows needs -----------------------------------------------------

    def link_loaded(self) -> None:
        """Link all rows that were loaded from files. Rows whose parents are on disk follow them."""
        self._make_room()
        loaded = self.links.unlinked(self.table.hot.all_rows(tombstones=False))
        for first in range(0, len(loaded), LINKED_ROWS):
            self.link_by_key(loaded[first : first + LINKED_ROWS])
        if self.table.on_disk:
            self.links.set_on_disk(slice(0, self.parent.hot.high_row), True)

    def link_by_key(self, rows: Int32s) -> None:
        """Link rows, whose parents are found by the keys."""
        keys = self.table.hot.keys_of(rows)
        starts, subkeys = _split(keys)
        sizes = subkeys - starts - child_links.LENGTH_BYTES
        null = (sizes == 0) & (keys.data[starts] == _LONE_NULL)
        encoded = EncodedKeys(*gathered(keys.data, starts + child_links.LENGTH_BYTES, sizes), null)
        parents = self.parent.hot.found(self._keys.keys(self._keys.columns(encoded)))
        here = parents != hash_table.NO_ROW
        self._link(parents[here], rows[here])
        if not here.all():
            if not self.parent.on_disk:
                raise StateError(
                    f"state {self.table.schema.name!r}: {np.count_nonzero(~here)} entries belong to no key of "
                    f"{self.parent.schema.name!r}: the files are not of one checkpoint"
                )
            self.table.move_out(rows[~here])

    # --- Inside -------------------------------------------------------------------------------

    def _make_room(self) -> None:
        self.links.make_room(self.parent.hot.high_row, self.table.hot.high_row)

    def _link(self, parents: Int32s, rows: Int32s) -> None:
        self._make_room()
        child_links.link(self.table.hot.kernel_form, self.links.trees, parents, rows)

    def _child_keys(self, parents: Int32s, subkeys: Text) -> Keys:
        count, above = len(parents), self.parent.hot.kernel_form
        sums = np.empty(count + 1, np.int64)
        child_links.key_ends(above[2], parents, subkeys, sums)
        ends = narrow(sums)
        made = ends, np.empty(ends[-1], np.uint8), np.empty(count, np.uint64), np.empty(count, np.int32)
        child_links.compose(above, parents, subkeys, made)
        return Keys((ends, made[1], NO_BYTES, 0), made[2], made[3])

    def _bring(self, parents: Int32s, keys: Keys, rows: Int32s) -> bool:
        """Bring those rows into memory that are not in it (-1) and may be on disk; return whether there were any."""
        self._make_room()
        places = np.flatnonzero((rows == hash_table.NO_ROW) & self.links.on_disk(parents))
        return len(places) > 0 and self.table.bring(keys, places.astype(np.int32)) > 0

    def _bring_all(self, parents: Int32s) -> None:
        """Bring all rows of parent rows into memory."""
        if not self.table.on_disk:
            return
        partly = np.unique(parents[self.links.on_disk(parents)])
        if len(partly):
            nothing = np.zeros(len(partly) + 1, np.int32), NO_BYTES, NO_BYTES, 0
            self.table.bring_prefixed(self._child_keys(partly, nothing))
            self.links.set_on_disk(partly, False)


def _split(keys: EncodedKeys) -> tuple[Int64s, Int64s]:
    """Return where each key begins, and where its subkey begins."""
    starts = np.ascontiguousarray(keys.ends[:-1])
    subkeys = np.empty(len(starts), np.int64)
    child_links.split_keys(keys.data, starts, subkeys)
    return starts, subkeys
