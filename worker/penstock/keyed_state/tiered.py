"""A table whose unused rows are on disk: the table in memory is a write-back cache of them.

A row is in memory while it is used. When memory is over the budget, the clock algorithm finds rows
that were not used recently, and they move to disk between two batches, unchanged rows first. If a
row is in memory, its copy on disk is stale and never read. A changed row on disk stays dirty until
it is committed. A cut copies it to a file, so a cut costs more when more rows have changed than fit
in memory.

When rows on disk come due is known by a lower bound for each key group (:class:`ColdDue`). Database
keys of timed state are in the order in which rows come due. So one key per key group is
enough: no row before that key is on disk only. The key is a lower bound; one read of the database
makes it exact when that matters. So the memory used grows with the key groups, not with the rows.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.base.errors import StateError
from penstock.base.limits import KEY_GROUPS_MAX, STATE_TABLE_ROWS_MIN
from penstock.contract.graph import TimeKind
from penstock.keyed_state.child_table import ChildTable
from penstock.keyed_state.copies import CutRows, RowsCopy
from penstock.keyed_state.hot import HotTable
from penstock.keyed_state.memory import NEVER
from penstock.keyed_state.rocks import DUE_BYTES, ColdRow, ColdRows, ColdTimer, end_of, group_of
from penstock.keyed_state.set_aside import RowsSetAside
from penstock.model.arrays import Bytes, Int32s, Int64s
from penstock.model.keys import EncodedKeys, Keys
from penstock.steps.base import ChildState, DueTimers, StateSchema

_PAST = b"\xff" * 9  # greater than any hash and tag

EVICT_SHARE = 4  # a quarter of the rows moves out at once, so that sweeps are rare


class ColdDue:
    """The order in which the rows in ``cold``, the database of a timed state, come due."""

    def __init__(self, cold: ColdRows) -> None:
        """Begin with no row."""
        self._cold = cold
        self._from: dict[int, bytes] = {}
        self._ends: Int64s = np.full(KEY_GROUPS_MAX, NEVER, np.int64)

    def add(self, keys: Iterable[bytes]) -> None:
        """Add rows that have moved from memory to disk, by their database keys."""
        for key in keys:
            known = self._from.get(group_of(key))
            if known is None or key < known:
                self._put(key)

    def first(self) -> int:
        """Return the earliest end of the rows on disk; NEVER when there is none."""
        key = self._first_key()
        return NEVER if key is None else end_of(key)

    def take(self, bound: int, most: int) -> list[ColdRow]:
        """Return up to ``most`` rows due at ``bound``, the first of all rows on disk.

        Some may be stale copies of rows in memory. The caller must bring the others into memory at
        once: from now on they do not count as rows on disk.
        """
        found: list[ColdRow] = []
        while len(found) < most:
            key = self._first_key()
            if key is None or end_of(key) > bound:
                break
            room = most - len(found)
            part = self._cold.from_key(key, end_of(key), room)
            found += part
            all_of_end = len(part) < room
            self._put(key[:DUE_BYTES] + _PAST if all_of_end else part[-1].key + b"\0")
        return found

    def _put(self, key: bytes) -> None:
        group = group_of(key)
        self._from[group], self._ends[group] = key, end_of(key)

    def _first_key(self) -> bytes | None:
        """Return the first key by end and group; None when there is none."""
        while True:
            group = int(np.argmin(self._ends))
            if self._ends[group] == NEVER:
                return None
            key = self._cold.next_key(self._from[group])
            if key is None:
                del self._from[group]
                self._ends[group] = NEVER
            elif end_of(key) == self._ends[group]:
                return key
            else:
                self._put(key)


class TieredTable:
    """A :class:`penstock.steps.base.KeyedState` of any size within ``budget_bytes`` of memory."""

    def __init__(self, schema: StateSchema, budget_bytes: int, folder: Callable[[], Path]) -> None:
        """Begin empty; ``folder()`` gives the database's folder when the first row moves out."""
        self.schema = schema
        self.children: list[ChildTable] = []
        self.above: ChildTable | None = None  # what joins this table, if it is one of children, to its parent
        self.hot = HotTable(schema)
        self.budget_bytes = budget_bytes
        self._folder = folder
        self._cold: ColdRows | None = None
        self._hand = np.zeros(1, np.int64)
        self._groups: set[int] = set()  # groups with rows on disk; always iterated in sorted order
        self._cold_due: ColdDue | None = None  # of timed state on disk
        self._only_cold = 0

    # --- The handle that steps use ----------------------------------------------------------

    def rows(self, keys: Keys) -> Int32s:
        """Return the row of each of n keys, loaded from disk or made if needed, and mark the rows as changed."""
        self.make_room()
        self._fetch(keys)
        return self.hot.rows(keys)

    def found(self, keys: Keys) -> Int32s:
        """Return the row of each of n keys, loaded from disk if needed; -1 where there is none."""
        self._fetch(keys)
        return self.hot.found(keys)

    def _fetch(self, keys: Keys) -> None:
        """Bring those of some keys into memory whose rows are on disk only."""
        if self._cold is not None:
            self.bring(keys, self.hot.missing(keys))

    def child(self, name: str) -> ChildState:
        """Return a child table by the name in its schema."""
        return next(child for child in self.children if child.schema.name == name)

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a live view of a fixed-width column by row."""
        return self.hot.column(name)

    def read_bytes(self, name: str, rows: Int32s) -> pa.Array:
        """Return a bytes column of the listed rows."""
        return self.hot.read_bytes(name, rows)

    def write_bytes(self, name: str, rows: Int32s, values: pa.Array) -> None:
        """Store binary values in the listed rows."""
        self.hot.write_bytes(name, rows, values)

    def keys_of(self, rows: Int32s) -> EncodedKeys:
        """Return the encoded keys of rows."""
        return self.hot.keys_of(rows)

    def mark(self, rows: Int32s) -> None:
        """Mark live rows as changed."""
        self.hot.mark(rows)

    def delete(self, rows: Int32s) -> None:
        """Delete rows with their child rows, and their stale copies on disk, which would otherwise come back."""
        for child in self.children:
            child.delete_of(rows)
        self._purge(rows)
        self.hot.delete(rows)

    def set_due(self, rows: Int32s, times: Int64s) -> None:
        """Set the times at which rows come due."""
        self.hot.set_due(rows, times)

    def take_due(self, bound: int, most: int) -> Int32s:
        """Return up to ``most`` live rows that are due: see :meth:`HotTable.take_due`.

        First brings as many due rows from disk, so that all rows that come first are in memory.
        """
        left = most
        while self._cold is not None and self._cold_due is not None and left > 0:
            found = self._cold_due.take(bound, left)
            if not found:
                break
            self._warm(self._not_hot(found))
            left -= int(np.count_nonzero(self._cold.due_times(found) <= bound))
        return self.hot.take_due(bound, most)

    def next_due(self) -> int:
        """Return the time at which the first row comes due, in memory or on disk."""
        ends = self.hot.next_due()
        return ends if self._cold_due is None else min(ends, self._cold_due.first())

    def arm(self, rows: Int32s, reached: Int64s, time: TimeKind = TimeKind.EVENT) -> None:
        """Queue the timers of rows whose timer columns were written."""
        self.hot.arm(rows, reached, time)

    def take_timers(self, bound: int, most: int, time: TimeKind = TimeKind.EVENT) -> DueTimers:
        """Take up to ``most`` timers that are due at ``bound`` off the queue.

        First brings the rows of as many due timers from disk, so that all that fire first are in memory.
        """
        if self._cold is not None:
            left = most
            while left > 0 and (due := self._cold.timers(time, bound, left)):
                rows = self._rows_of(due)
                self._warm(rows)
                self._cold.forget_timers(due)
                left -= len(rows)
        return self.hot.take_timers(bound, most, time)

    def next_timer(self, time: TimeKind = TimeKind.EVENT) -> int:
        """Return the time of the timer that fires first, of a row in memory or on disk."""
        first = self.hot.next_timer(time)
        while self._cold is not None and (found := self._cold.timers(time, first, 1)):
            if self._rows_of(found):
                return found[0].time
            self._cold.forget_timers(found)
        return first

    def _rows_of(self, timers: list[ColdTimer]) -> list[ColdRow]:
        """Return the rows on disk that still have one of these timers, each once."""
        assert self._cold is not None, "rows on disk have a database"
        stored = {row.key: row for row in self._not_hot(self._cold.get([*dict.fromkeys(t.row for t in timers)]))}
        cold = self._cold
        own = {t.row: None for t in timers if t.row in stored and cold.has_timer(stored[t.row], t)}
        return [stored[key] for key in own]

    def about_keys(self) -> int:
        """Return about how many rows there are, in memory or only on disk."""
        return self.hot.used + self._only_cold

    def live_rows(self) -> Int32s:
        """Return the rows of all keys. Raises StateError when some of them are on disk."""
        if self._only_cold:
            raise StateError(
                f"state {self.schema.name!r}: {self._only_cold:,} keys are on disk: "
                "only state that fits its memory can be looked at"
            )
        return self.hot.all_rows(tombstones=False)

    # --- Cuts -------------------------------------------------------------------------------

    def cut(self) -> tuple[int, CutRows]:
        """List every row changed since the last commit: see :meth:`HotTable.cut`.

        Changed rows on disk are set aside at once, in a file. Raises StorageError where that cannot be written.
        """
        generation, cut = self.hot.cut(all_here=self._cold is None)
        if self._cold is not None:
            self._set_aside(self._cold, cut)
        return generation, cut

    def _set_aside(self, cold: ColdRows, cut: CutRows) -> None:
        aside: RowsSetAside | None = None
        for few in cold.dirty_rows():
            aside = aside or RowsSetAside(self.schema.name, self._folder().parent)
            aside.add(few)
        if aside is not None:
            found = aside.few()
            cut.add_later(aside.groups, (_copied(self.schema, cold, few) for few in found))

    def copy_on(self) -> bool:
        """Copy some more rows of the last cut; return whether all are copied."""
        return self.hot.copy_on()

    def settle(self, generation: int) -> None:
        """Mark all changes up to ``generation`` as committed."""
        self.hot.settle(generation)
        if self._cold is not None:
            self._cold.settle(generation)

    def drop(self, groups: Bytes) -> None:
        """Forget all rows of the flagged groups. Child tables come first."""
        for child in self.children:
            child.forget(self.hot.rows_of_groups(groups))
        self.hot.drop(groups)
        lost = [g for g in sorted(self._groups) if groups[g]]
        for group in lost:
            assert self._cold is not None, "a group on disk has a database"
            self._cold.delete_group(group)
        if lost:
            left = len(self._groups) - len(lost)
            self._only_cold = self._only_cold * left // len(self._groups)
        self._groups.difference_update(lost)

    @contextmanager
    def loading(self) -> Iterator[None]:
        """See :meth:`HotTable.loading`. At the end child rows are linked, so parents are loaded first."""
        with self.hot.loading():
            yield
        if self.above is not None:
            self.above.link_loaded()

    def load(self, keys: Keys, deleted: npt.NDArray[np.bool_], values: dict[str, Any]) -> None:
        """Load rows of a file; rows that do not fit in memory move to disk at once."""
        self.make_room()
        if self._cold is not None and deleted.any():
            gone = np.flatnonzero(deleted).tolist()
            self._cold.delete(self._cold.keys_at(keys, gone))
        self.hot.load(keys, deleted, values)

    # --- Sizes ------------------------------------------------------------------------------

    @property
    def used(self) -> int:
        """Return how many rows are in memory, tombstones included."""
        return self.hot.used

    @property
    def size_bytes(self) -> int:
        """Return the memory that the rows in memory use."""
        return self.hot.size_bytes

    def close(self) -> None:
        """Close the database, if there is one."""
        if self._cold is not None:
            self._cold.close()
            self._cold = self._cold_due = None

    # --- Moving rows ------------------------------------------------------------------------

    @property
    def on_disk(self) -> bool:
        """Return whether a row has ever moved to disk."""
        return self._cold is not None

    def bring(self, keys: Keys, places: Int32s) -> int:
        """Bring the rows of the keys at ``places``, which are not in memory, from disk; return how many were there."""
        if self._cold is None or not len(places):
            return 0
        rows = self._cold.get(self._cold.keys_at(keys, places.tolist()))
        self._warm(rows)
        return len(rows)

    def bring_prefixed(self, prefixes: Keys) -> None:
        """Bring all rows whose keys begin with one of some keys, a few at a time."""
        if self._cold is not None:
            for prefix in self._cold.keys_at(prefixes, range(len(prefixes.hashes))):
                for rows in self._cold.prefixed(prefix):
                    self._warm(self._not_hot(rows))

    def make_room(self) -> None:
        """Move rows of this family of tables to disk when its memory is over the budget."""
        head = self if self.above is None else self.above.parent
        size = head.hot.size_bytes + sum(child.size_bytes for child in head.children)
        if size > head.budget_bytes:
            for table in (*(child.table for child in head.children), head):
                table._shrink(head.budget_bytes, size)

    def _shrink(self, budget_bytes: int, size_bytes: int) -> None:
        """Move rows to disk: the part of them by which ``size_bytes`` is over the budget."""
        hot = self.hot
        if hot.used <= STATE_TABLE_ROWS_MIN:
            return
        allowed = max(STATE_TABLE_ROWS_MIN, budget_bytes * hot.high_row // size_bytes)
        if hot.used <= allowed:
            return
        most = min(hot.used - STATE_TABLE_ROWS_MIN // 2, hot.used - allowed + hot.used // EVICT_SHARE)
        rows = hot.victims(most, self._hand, changed_too=False)
        if hot.used - len(rows) > allowed:
            self.move_out(rows)
            most -= len(rows)
            rows = hot.victims(most, self._hand, changed_too=True)
        self.move_out(rows)

    def move_out(self, rows: Int32s) -> None:
        """Move rows to disk, their child rows first."""
        if not len(rows):
            return
        for child in self.children:
            child.move_out_of(rows)
        if self._cold is None:
            self._cold = ColdRows(self._folder(), self.schema)
            self._cold_due = ColdDue(self._cold) if self.schema.timed else None
        copied = self.hot.copy_rows(rows)
        keys = self._cold.put(copied, self.hot.dirty_marks(rows), self.hot.queued_timers(rows))
        self._groups.update(np.unique(copied.groups).tolist())
        if self._cold_due is not None:
            self._cold_due.add(keys)
        if self.above is not None:
            self.above.links.note_on_disk(rows)
        self.hot.release(rows)
        for child in self.children:
            child.forget(rows)
        self._only_cold += len(rows)

    def _warm(self, rows: list[ColdRow]) -> None:
        """Bring rows into memory. Only those whose last change is not committed count as changed."""
        if rows and self._cold is not None:
            keys, values = self._cold.decoded(rows)
            dirty = set(self._cold.take_dirty([r.key for r in rows]))
            self.hot.bring(keys, values, np.array([r.key in dirty for r in rows]))
            self._only_cold = max(0, self._only_cold - len(rows))
            if self.above is not None:
                self.above.link_by_key(self.hot.found(keys))
            for child in self.children:
                child.parents_came(self.hot.found(keys))

    def _not_hot(self, rows: list[ColdRow]) -> list[ColdRow]:
        if not rows or self._cold is None:
            return []
        return [rows[i] for i in self.hot.missing(self._cold.decoded(rows)[0]).tolist()]

    def _purge(self, rows: Int32s) -> None:
        if self._cold is not None and len(rows):
            copied = self.hot.copy_rows(rows)
            self._cold.delete(self._cold.keys_of(copied))


def _copied(schema: StateSchema, cold: ColdRows, rows: list[ColdRow]) -> RowsCopy:
    """Turn rows of a database, which may be closed, into a copy, through a temporary table. On any thread."""
    table = HotTable(schema)
    keys, values = cold.decoded(rows)
    table.load(keys, np.zeros(len(rows), np.bool_), values)
    return table.copy_rows(table.all_rows(tombstones=False))
