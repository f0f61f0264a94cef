"""Writes the snapshot of a cut: a state file of its rows; many small files are merged.

It runs off the task's thread, on values that the cut has copied. Files are written on local disk
and then stored in the blob store under names from the caller, who uses each name once. Files
written for an epoch that aborts are never listed: the next cut starts from the committed entries.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.base.errors import StateError
from penstock.base.limits import STATE_FILES_PER_TASK_MAX, STATE_MERGE_BYTES_MAX
from penstock.base.threads import Event
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Share, groups_of, to_share
from penstock.contract.manifest import StateFile
from penstock.protocol.state_entries import (
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
    """The state of a task at a barrier: copied changes, and the state files they add to.

    With ``merges`` many small files are merged to one. The changes are written at half speed until
    ``expedite`` is set. :meth:`write` uses up the copies and sets ``listing``, the state files that
    the epoch's manifest lists.
    """

    epoch: Epoch
    share: Share
    max_key_groups: int
    base: Files
    changes: tuple[tuple[StateSchema, CutRows], ...]
    scratch: Path | None = None
    merges: bool = True
    expedite: Event = field(default_factory=Event)
    listing: Files | None = field(default=None)

    def write(self, naming: Naming, blobs: "BlobStore") -> Files:
        """Write the changes of every state, merge where there are many files; return all files.

        A state that was cut whole keeps no older file.

        Raises StorageError (the epoch aborts) or StateError (a committed file cannot be read).
        """
        listing: list[StateFile] = []
        order = next_order(self.base)
        with tempfile.TemporaryDirectory(prefix="penstock-cut-", dir=self.scratch) as folder:
            files = SnapshotFiles(self, Path(folder), naming, blobs)
            for schema, rows in self.changes:
                changed = rows.groups()
                own = tuple(f for f in self.base if f.state == schema.name and not rows.whole)
                listing += files.merged(schema, own) if self.merges else own
                if changed:
                    groups = to_share({*groups_of(self.share), *changed})
                    listing.append(files.store(schema, rows.parts(), order, groups, expedite=self.expedite))
        self.listing = in_order(listing)
        return self.listing


@dataclass(slots=True)
class SnapshotFiles:
    """Writes the files of one cut in ``folder``, a scratch folder that only it uses."""

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
        expedite: Event,
    ) -> StateFile:
        """Write one file and put it into the blob store."""
        path = self._new_path()
        rows = write_file(path, schema, self.cut.max_key_groups, parts, expedite)
        blob = self.blobs.put_file(self.naming(SUFFIX), str(path))
        path.unlink()
        return StateFile(blob, schema.name, groups, order, self.cut.epoch, rows)

    def merged(self, schema: StateSchema, files: Files) -> Files:
        """Return the files of one state; when there are many, the newest are merged to one."""
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
            if first is None:  # all keys are deleted
                return left
            again = _chained(first, parts)
            order = max(f.order for f in chosen)
            return (*left, self.store(schema, again, order, groups, expedite=_no_rest()))

    def _parts(
        self,
        schema: StateSchema,
        readers: Sequence[tuple[Share, "OpenFile"]],
        slabs: Sequence[Share],
        keep_tombstones: bool,
    ) -> Iterator[RowsCopy]:
        """Merge by ranges of key groups (slabs), so that only one slab is in memory at a time."""
        for slab in slabs:
            table = HotTable(schema)
            for groups, file in readers:
                visible = to_share(set(groups_of(groups)) & set(groups_of(slab)))
                file.reader.load(visible, table, self.cut.max_key_groups)
            copied = table.copy_rows(table.all_rows(tombstones=keep_tombstones))
            if len(copied.groups):
                yield copied

    def _open(self, file: StateFile) -> "OpenFile":
        return OpenFile(file, self._new_path(), self.blobs)

    def _new_path(self) -> Path:
        self._count += 1
        return self.folder / f"{self._count}.state"


class OpenFile:
    """A listed file that is fetched, checked by its hash and open for reading; a context manager."""

    def __init__(self, file: StateFile, path: Path, blobs: "BlobStore") -> None:
        """Fetch ``file`` to ``path``. Raises StateError, with file and epoch, when it is altered."""
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
    """State files that are fetched, checked and open: the slow part of loading, done in advance.

    Any thread may make it; one thread loads it. The caller must ``close`` it, loaded or not.
    """

    def __init__(self, files: Sequence[StateFile], blobs: "BlobStore", scratch: Path | None) -> None:
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
        """Load the files of one state in order, each for its listed groups. Raises StateError."""
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
    """Divide groups into ranges with about ``STATE_MERGE_BYTES_MAX`` of files each."""
    size = sum(f.blob.size for f in files)
    listed = groups_of(groups)
    count = min(max(1, -(-size // STATE_MERGE_BYTES_MAX)), len(listed))
    return [to_share(part.tolist()) for part in np.array_split(np.array(listed), count)]


def _no_rest() -> Event:
    """Return an event that is set: a merge never rests, or it may not end before the next failure."""
    expedited = Event()
    expedited.set()
    return expedited


def _chained(first: RowsCopy, rest: Iterator[RowsCopy]) -> Iterator[RowsCopy]:
    yield first
    yield from rest


def flags(share: Share, max_key_groups: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return one byte per key group: 1 where the share has it."""
    found = np.zeros(max_key_groups, np.uint8)
    for r in share:
        found[r.start : r.stop] = 1
    return found
