"""All keyed state of one task: one table per stateful step, cut and restored together.

The task's thread uses it. Only :meth:`penstock.keyed_state.state_files.StateSnapshot.write` runs on another
thread, on values that were copied before.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import ref

from penstock.base.errors import StateError
from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Share, groups_of, subtract, to_share
from penstock.contract.manifest import StateFile, step_of
from penstock.contract.settings import StateBackend, StateSettings
from penstock.keyed_state.child_table import ChildTable
from penstock.keyed_state.copies import CutRows
from penstock.keyed_state.migration import MigratedFiles
from penstock.keyed_state.state_files import Fetched, StateSnapshot, flags
from penstock.keyed_state.tiered import TieredTable
from penstock.model.arrays import Int32s
from penstock.protocol.state_entries import FileList, groups_of_files
from penstock.steps.base import KeyedState, StateSchema

if TYPE_CHECKING:
    from penstock.ports import BlobStore


UNLIMITED = 1 << 60  # bytes
CACHE_PART = 8  # with the backend ``rocksdb`` an eighth of the budget caches rows in memory


class KeyedStateBackend:
    """The keyed state of one task. First ``open`` every state, then ``load``, then process."""

    def __init__(
        self,
        settings: StateSettings,
        share: Share,
        max_key_groups: int,
        scratch: Path | None = None,
        *,
        stores_copies: bool = True,
    ) -> None:
        """Own the key groups ``share`` of ``max_key_groups``.

        Local files are made below ``scratch``; None means the system's temporary folder. Of states that each task has
        a copy of, only a task with ``stores_copies`` stores and lists files.
        """
        self.max_key_groups = max_key_groups
        self._settings = settings
        self._budget = 0
        self.closed = False
        self._scratch = scratch
        self._folder: Path | None = None
        self._share = share
        self._stores_copies = stores_copies
        self._tables: dict[str, TieredTable] = {}
        self._files = FileList()
        self._renamed: dict[str, str] = {}  # the states of child tables by their earlier names
        self._outdated: set[BlobName] = set()  # listed files whose rows had another schema
        self._migrated: MigratedFiles | None = None  # until a checkpoint has them
        self._cuts: dict[Epoch, tuple[StateSnapshot, dict[str, int]]] = {}
        self.limit(settings.memory_bytes)

    def limit(self, memory_bytes: int) -> None:
        """Keep at most this much of rows in memory, from the next batch on; others move to disk.

        Any thread may call it.
        """
        part = CACHE_PART if self._settings.backend is StateBackend.ROCKSDB else 1
        self._budget = memory_bytes // part
        self._share_out()

    def _share_out(self) -> None:
        families = [table for table in self._tables.values() if table.above is None]
        for table in families:
            table.budget_bytes = self._budget // len(families)

    def open(self, schema: StateSchema) -> KeyedState:
        """Make the empty state of a step, with its child tables. Its name must not be in use."""
        table = self._open(schema)
        for child in schema.children:
            ChildTable(child, table, self._open(schema.of_child(child)), self.max_key_groups)
        self._share_out()
        return table

    def _open(self, schema: StateSchema) -> TieredTable:
        assert schema.name not in self._tables, f"state {schema.name!r} is opened twice"
        number = str(len(self._tables))
        table = TieredTable(schema, self._budget, lambda: self._cold_folder() / number)
        self._tables[schema.name] = table
        if schema.was is not None:
            self._renamed[schema.was] = schema.name
        return table

    def _cold_folder(self) -> Path:
        """Return the folder of rows on disk; makes it when the first row leaves memory."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="penstock-state-", dir=self._scratch))
        return self._folder

    def flip(self, epoch: Epoch, *, merges: bool = True) -> StateSnapshot:
        """Cut: list what has changed since the last commit, and begin another generation.

        Runs on the task's thread and is quick: it copies the first few thousand rows, and
        :meth:`copy_on` copies the others. The snapshot may be written when all rows are copied.
        With ``merges=False`` it only adds files and merges none.
        """
        ended = {name: table.cut() for name, table in self._tables.items()}
        stored = (name for name in ended if self._stores_copies or name not in self._copies)
        changes = tuple((self._tables[name].schema, ended[name][1]) for name in stored)
        seen = (self._share, self.max_key_groups, self._files.committed)
        migrated = () if self._migrated is None else tuple(self._migrated.files)
        cut = StateSnapshot(epoch, *seen, changes, self._scratch, merges, frozenset(self._outdated), migrated)
        self._cuts[epoch] = (cut, {name: generation for name, (generation, _) in ended.items()})
        self.copy_on()
        return cut

    def copy_on(self) -> bool:
        """Copy more rows of the last cut for about a millisecond; return whether all are copied.

        The tables are copied one after the other.
        """
        return all(table.copy_on() for table in self._tables.values())

    def committed(self, epoch: Epoch) -> None:
        """Mark the changes of ``epoch`` as committed, and remove their tombstones."""
        found = self._cuts.get(epoch)
        self._cuts = {e: c for e, c in self._cuts.items() if e > epoch}
        if found is None:  # another task made the cut, or it is older than this task
            return
        cut, generations = found
        if cut.listing is not None:
            self._files.propose(epoch, cut.listing)
            self._files.confirm(epoch)
            self._outdated.intersection_update(f.blob.name for f in self._files.committed)
            self._forget_migrated()
            for name, generation in generations.items():
                self._tables[name].settle(generation)

    def fetch(self, files: Sequence[StateFile], blobs: "BlobStore", migrated: Sequence[str] = ()) -> Fetched:
        """Copy state files to this machine and open them, for :meth:`take`. Blocking; any thread.

        Files of a field that a state has no longer are left out. Those of the steps ``migrated`` hold an earlier
        state. Raises StateError when a file is altered or missing, or belongs to no step here.
        """
        files = [f if f.step in migrated else replace(f, state=self._renamed.get(f.state, f.state)) for f in files]
        for name in dict.fromkeys(f.state for f in files):
            if name not in self._tables and not self._is_dropped(name):
                raise StateError(f"stored state has no step: {unknown('state', name, self._tables)}")
        used = [f for f in files if f.step in migrated or f.state in self._tables]
        return Fetched(used, blobs, self._scratch, frozenset(migrated))

    def _is_dropped(self, state: str) -> bool:
        """Return whether the state belongs to a field that the type of its step no longer has."""
        step = self._tables.get(step_of(state))
        return step is not None and step.schema.evolves

    def take(self, fetched: Fetched) -> None:
        """Load fetched state files, whose groups become this task's, and close them.

        Raises StateError when a file is damaged or has another schema.
        """
        kept = tuple(f for f in fetched.files if f.step not in fetched.migrated)
        try:
            self.show(fetched)
        finally:
            fetched.close()
        grouped = tuple(f for f in fetched.files if f.state not in self._copies)
        self._files.gain(kept if self._stores_copies else tuple(f for f in kept if f.state not in self._copies))
        self._share = to_share({*groups_of(self._share), *groups_of(groups_of_files(grouped))})

    def show(self, fetched: Fetched, share: Share | None = None) -> None:
        """Load fetched state files, or the groups ``share`` of them, but list none of them. They stay open.

        Raises StateError when a file is damaged or has another schema.
        """
        stored = {f.state for f in fetched.files if f.step not in fetched.migrated}
        for name in (n for n in self._tables if n in stored):  # parents before children
            self._outdated |= fetched.load(self._tables[name], name, self.max_key_groups, share)
        if any(f.step in fetched.migrated for f in fetched.files):
            self._migrate(fetched, share)

    def _migrate(self, fetched: Fetched, share: Share | None) -> None:
        """Convert the state of some steps, and load it. The next cut stores it, and lists no earlier file of it."""
        self._migrated = made = MigratedFiles(self._scratch, self.max_key_groups)
        for name in fetched.migrated & self._tables.keys():
            made.convert(fetched, self._tables[name].schema, self._opened, share)
        for table in self._tables.values():  # parents before children
            if step_of(table.schema.name) in fetched.migrated:
                made.load(table)

    def _opened(self, schema: StateSchema) -> "KeyedStateBackend":
        """Make empty tables whose rows are all in memory."""
        made = KeyedStateBackend(self._settings, (), self.max_key_groups, self._scratch)
        made.limit(UNLIMITED)
        made.open(schema)
        return made

    def _forget_migrated(self) -> None:
        if self._migrated is not None:
            self._migrated.close()
            self._migrated = None

    def load(self, files: Sequence[StateFile], blobs: "BlobStore", migrated: Sequence[str] = ()) -> None:
        """Fetch state files and load them at once."""
        self.take(self.fetch(files, blobs, migrated))

    @property
    def _copies(self) -> frozenset[str]:
        """Return the states that each task has a copy of, whatever groups it owns."""
        return frozenset(name for name, table in self._tables.items() if table.schema.copied)

    @property
    def tables(self) -> list[TieredTable]:
        """List the tables of all states, parents before children."""
        return list(self._tables.values())

    def copied(self) -> Iterator[tuple[StateSchema, CutRows]]:
        """Copy all changed rows at once, table after table."""
        for table in self._tables.values():
            _, rows = table.cut()
            while not table.copy_on():
                pass
            yield table.schema, rows

    def drop_groups(self, share: Share) -> None:
        """Forget key groups that belong to another task now."""
        lost = flags(share, self.max_key_groups)
        for name, table in reversed(self._tables.items()):  # children before parents
            if name not in self._copies:
                table.drop(lost)
        self._files.lose(share, self._copies)
        self._share = subtract(self._share, share)

    def live_rows(self, state: str) -> Int32s:
        """Return the rows of all keys of a state. Raises StateError when some are on disk."""
        return self._tables[state].live_rows()

    def rows_by_group(self, state: str) -> Int32s:
        """Return the rows of all keys of a state in the order of key groups, as :meth:`live_rows` does."""
        return self._tables[state].hot.by_group(self.live_rows(state))

    @property
    def size_bytes(self) -> int:
        """Return the memory that the tables use."""
        sizes = (t.size_bytes if t.above is None else t.above.size_bytes for t in self._tables.values())
        return sum(sizes)

    @property
    def keys(self) -> int:
        """Return how many keys are in memory, tombstones included. Entries of child tables are no keys."""
        return sum(table.used for table in self._tables.values() if table.above is None)

    def close(self) -> None:
        """Release memory and files; idempotent."""
        self.closed = True
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        self._cuts.clear()
        self._forget_migrated()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class StateBudget:
    """Gives every task an equal part of ``memory_bytes``; divides again when a task is added.

    Only the thread that makes tasks calls it.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._states: list[ref[KeyedStateBackend]] = []

    def admit(self, state: KeyedStateBackend) -> None:
        """Add a new task. The parts of the others shrink; closed tasks give up their part."""
        live = [s for r in self._states if (s := r()) is not None and not s.closed]
        live.append(state)
        self._states = [ref(s) for s in live]
        for each in live:
            each.limit(self._memory_bytes // len(live))
