"""From a cut to listed files: what it holds is written, and small files are merged beside it.

All of it runs off the task's thread, on values that the cut has copied. Files are built on local
disk and handed to the blob store under names from the caller, who uses each name once. What is
written for an epoch that aborts is never listed: the next cut starts from the committed entries.
"""

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.base.errors import StateError
from penstock.base.limits import STATE_FILES_PER_TASK_MAX, STATE_MERGE_BYTES_MAX
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Share, groups_of, to_share
from penstock.contract.manifest import StateFile
from penstock.protocol.task.state_files import (
    Files,
    drops_tombstones,
    groups_of_files,
    in_order,
    next_order,
    to_merge,
)
from penstock.state.blocks import BlockReader, Loadable, write_file
from penstock.state.copies import CutRows, RowsCopy
from penstock.state.hot import HotTable
from penstock.steps.base import StateSchema

if TYPE_CHECKING:
    from penstock.ports import BlobStore

SUFFIX = ".state"
Naming = Callable[[str], BlobName]


@dataclass(slots=True)
class StateSnapshot:
    """What a task's state was at a barrier: copied changes, and the entries they build on.

    With ``merges`` many small files become one on the way. The changes are written at half speed
    until somebody is in a ``hurry``. ``listing`` is what the epoch's manifest lists, once
    :meth:`write`, which uses up the copies, has returned it.
    """

    epoch: Epoch
    share: Share
    max_key_groups: int
    base: Files
    changes: tuple[tuple[StateSchema, CutRows], ...]
    scratch: Path | None = None
    merges: bool = True
    hurry: threading.Event = field(default_factory=threading.Event)
    listing: Files | None = field(default=None)

    def write(self, naming: Naming, blobs: "BlobStore") -> Files:
        """Write the changes of every state, merge where there are many files; return all entries.

        Of a state that was cut whole no older entry stays.

        Raises StorageError (the epoch aborts) or StateError (a committed file cannot be read).
        """
        listing: list[StateFile] = []
        order = next_order(self.base)
        with tempfile.TemporaryDirectory(prefix="penstock-cut-", dir=self.scratch) as folder:
            shelf = SnapshotFiles(self, Path(folder), naming, blobs)
            for schema, rows in self.changes:
                changed = rows.groups()
                own = tuple(f for f in self.base if f.state == schema.name and not rows.whole)
                listing += shelf.merged(schema, own) if self.merges else own
                if changed:
                    groups = to_share({*groups_of(self.share), *changed})
                    listing.append(
                        shelf.store(schema, rows.parts(), order, groups, hurry=self.hurry)
                    )
        self.listing = in_order(listing)
        return self.listing


@dataclass(slots=True)
class SnapshotFiles:
    """Writes files of one cut. ``folder`` is a scratch folder of its own."""

    cut: StateSnapshot
    folder: Path
    naming: Naming
    blobs: "BlobStore"
    _count: int = 0

    def store(
        self,
        schema: StateSchema,
        parts: Iterator[RowsCopy],
        order: int,
        groups: Share,
        *,
        hurry: threading.Event,
    ) -> StateFile:
        """Write one file and hand it to the blob store."""
        path = self._fresh()
        rows = write_file(path, schema, self.cut.max_key_groups, parts, hurry)
        blob = self.blobs.put_file(self.naming(SUFFIX), str(path))
        path.unlink()
        return StateFile(blob, schema.name, groups, order, self.cut.epoch, rows)

    def merged(self, schema: StateSchema, files: Files) -> Files:
        """Return the entries of one state, the newest ones merged to one when there are many."""
        chosen = to_merge(files, STATE_FILES_PER_TASK_MAX)
        if not chosen:
            return files
        left = tuple(f for f in files if f not in chosen)
        keep_tombstones = not drops_tombstones(chosen, files)
        groups = groups_of_files(chosen)
        with ExitStack() as stack:
            readers = [(f.groups, stack.enter_context(self._open(f))) for f in chosen]
            parts = self._parts(schema, readers, _slabs(chosen, groups), keep_tombstones)
            first = next(parts, None)
            if first is None:  # nothing but deleted keys
                return left
            again = _chained(first, parts)
            order = max(f.order for f in chosen)
            return (*left, self.store(schema, again, order, groups, hurry=_at_once()))

    def _parts(
        self,
        schema: StateSchema,
        readers: Sequence[tuple[Share, "OpenFile"]],
        slabs: Sequence[Share],
        keep_tombstones: bool,
    ) -> Iterator[RowsCopy]:
        """Merge slab by slab: only one slab of the state is in memory at a time."""
        for slab in slabs:
            table = HotTable(schema)
            for groups, file in readers:
                visible = to_share(set(groups_of(groups)) & set(groups_of(slab)))
                file.reader.load(visible, table, self.cut.max_key_groups)
            copied = table.copy_rows(table.all_rows(tombstones=keep_tombstones))
            if len(copied.groups):
                yield copied

    def _open(self, file: StateFile) -> "OpenFile":
        return OpenFile(file, self._fresh(), self.blobs)

    def _fresh(self) -> Path:
        self._count += 1
        return self.folder / f"{self._count}.state"


class OpenFile:
    """A listed file, fetched, checked against its hash and open for reading; a context manager."""

    def __init__(self, file: StateFile, path: Path, blobs: "BlobStore") -> None:
        """Fetch ``file`` to ``path``. Raises StateError naming file and epoch when altered."""
        origin = f"state file {file.blob.name} (state {file.state!r}, epoch {file.epoch})"
        try:
            blobs.fetch(file.blob, str(path))
        except StateError as error:
            raise StateError(f"{origin}: {error}") from error
        self._path = path
        self.reader = BlockReader(path, origin)

    def __enter__(self) -> "OpenFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the local copy."""
        self._path.unlink(missing_ok=True)


class Fetched:
    """Entries whose files are here, checked and open: what is slow about loading, done before.

    Made on any thread, used up by one. ``close`` it, loaded or not.
    """

    def __init__(
        self, files: Sequence[StateFile], blobs: "BlobStore", scratch: Path | None
    ) -> None:
        """Fetch ``files`` to a folder in ``scratch`` (None: the system's temporary folder).

        Raises StateError naming file and epoch when one is altered or missing.
        """
        self.files = in_order(files)
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-load-", dir=scratch)
        self._open: list[OpenFile] = []
        try:
            for number, file in enumerate(self.files):
                path = Path(self._folder.name) / f"{number}.state"
                self._open.append(OpenFile(file, path, blobs))
        except BaseException:
            self.close()
            raise

    def load(self, table: Loadable, state: str, max_key_groups: int) -> None:
        """Load the entries of one state in order, each as narrow as listed. Raises StateError."""
        with table.loading():
            for file, opened in zip(self.files, self._open, strict=True):
                if file.state == state:
                    opened.reader.load(file.groups, table, max_key_groups)

    def close(self) -> None:
        """Close and remove the local copies; idempotent."""
        for opened in self._open:
            opened.close()
        self._open.clear()
        self._folder.cleanup()


def _slabs(files: Files, groups: Share) -> list[Share]:
    """Cut groups into runs whose files hold about ``STATE_MERGE_BYTES_MAX`` together."""
    size = sum(f.blob.size for f in files)
    listed = groups_of(groups)
    count = min(max(1, -(-size // STATE_MERGE_BYTES_MAX)), len(listed))
    return [to_share(part.tolist()) for part in np.array_split(np.array(listed), count)]


def _at_once() -> threading.Event:
    """Return the hurry of a merge: under kills every few seconds a slow one came to no end."""
    hurry = threading.Event()
    hurry.set()
    return hurry


def _chained(first: RowsCopy, rest: Iterator[RowsCopy]) -> Iterator[RowsCopy]:
    yield first
    yield from rest


def flags(share: Share, max_key_groups: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return one byte per key group: 1 where the share has it."""
    found = np.zeros(max_key_groups, np.uint8)
    for r in share:
        found[r.start : r.stop] = 1
    return found
