"""Converts the stored state of a step to that of another class, by the function that the job has for it.

::

    stored files ── a slab of key groups ──> tables of the earlier class ── function ──> tables of the class
                                                                                               │ a file for each table
    the next cut stores these files; from then on no manifest lists the earlier ones <─────────┘

Entries of a key are in files of their own, so a function needs all files of its key groups. Only the state of one
slab is in memory. The function is called once for each key: a cut stores what it has returned then.
"""

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.values import replace
from penstock.contract.keygroups import Share, intersect, to_share
from penstock.keyed_state.state_files import BlockReader, Fetched, Loadable, LocalFile, no_rest, write_file
from penstock.protocol.state_entries import groups_of_files
from penstock.steps.base import StateSchema

if TYPE_CHECKING:
    from penstock.keyed_state.keyed_backend import KeyedStateBackend

ROWS = 1024  # that are converted at once


class MigratedFiles:
    """The files of migrated states until a checkpoint has them."""

    def __init__(self, scratch: Path | None, max_key_groups: int) -> None:
        """Begin with no file. Files are made below ``scratch``; None means the system's temporary folder."""
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-migrated-", dir=scratch)
        self._numbers = itertools.count()
        self._groups = max_key_groups
        self.files: list[LocalFile] = []

    def convert(
        self,
        fetched: Fetched,
        schema: StateSchema,
        opened: "Callable[[StateSchema], KeyedStateBackend]",
        share: Share | None = None,
    ) -> None:
        """Convert the fetched files of a state and its entries, or of groups ``share`` only.

        ``opened`` makes empty tables of a schema.

        Raises StateError if a file does not have the earlier schema, or the function fails.
        """
        migration = schema.migration
        assert migration is not None, "the leader has found the function"
        stored = groups_of_files([f for f in fetched.files if f.step == schema.name])
        stored = stored if share is None else intersect(stored, share)
        for slab in fetched.slabs(schema.name, stored, self._groups):
            old, new = opened(migration.old), opened(replace(schema, migration=None))
            try:
                for table in old.tables:
                    fetched.load(table, table.schema.name, self._groups, slab)
                rows = old.live_rows(schema.name)
                for first in range(0, len(rows), ROWS):
                    migration.convert(old.tables[0], rows[first : first + ROWS], new.tables[0])
                self._write(new)
            finally:
                old.close()
                new.close()

    def _write(self, made: "KeyedStateBackend") -> None:
        for schema, rows in made.copied():
            groups = to_share(set(rows.groups()))
            if groups:
                path = Path(self._folder.name, f"{next(self._numbers)}.state")
                count = write_file(path, schema, self._groups, rows.parts(), no_rest())
                self.files.append(LocalFile(path, schema.name, groups, count))

    def load(self, table: Loadable) -> None:
        """Load the files of the table's state into it."""
        with table.loading():
            for file in self.files:
                if file.state == table.schema.name:
                    BlockReader(file.path, f"migrated state {file.state!r}").load(file.groups, table, self._groups)

    def close(self) -> None:
        """Remove the files; idempotent."""
        self.files.clear()
        self._folder.cleanup()
