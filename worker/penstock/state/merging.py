"""Many small files of a state become one: beside processing, and beside the epochs.

    a commit finds many entries --> Compaction on a thread of its own --> a file on local disk
    the next cut whose entries are still those lists the file in their place

Merging reads all that it merges, which takes seconds for a large state; a snapshot that waited for
it would hold up a rescale, and what a recovery repeats. The file gets its name, and leaves this
disk, in the epoch that lists it: before, nobody could tell it from what an aborted epoch left.
"""

import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.base.errors import PenstockError, StateError
from penstock.base.limits import STATE_FILES_PER_TASK_MAX, STATE_MERGE_BYTES_MAX
from penstock.contract.keygroups import Share, groups_of, to_share
from penstock.protocol.files import Files, drops_tombstones, groups_of_files, to_merge
from penstock.state.blocks import write_file
from penstock.state.copies import RowsCopy
from penstock.state.fetched import OpenFile
from penstock.state.hot import HotTable
from penstock.steps.base import StateSchema

if TYPE_CHECKING:
    from penstock.ports import BlobStore

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Merged:
    """Entries of one state as one local file of ``rows`` rows; without any there is no file.

    ``seen`` are all entries of the state that there were, ``chosen`` those that were merged.
    """

    seen: Files
    chosen: Files
    path: Path
    rows: int

    def fits(self, files: Files) -> bool:
        """Say whether the entries are still as they were, with none but newer ones beside them."""
        newest = max(f.order for f in self.seen)
        return set(self.seen) == {f for f in files if f.order <= newest}

    @property
    def order(self) -> int:
        """Return the order of the merged entry: behind those left, before what came since."""
        return max(f.order for f in self.chosen)

    @property
    def groups(self) -> Share:
        """Return every group of the merged entries."""
        return groups_of_files(self.chosen)


@dataclass(frozen=True, slots=True)
class Place:
    """Where files are read and merged: the blob store, a local folder, the number of groups.

    ``over`` says whether nobody wants the result any more.
    """

    blobs: "BlobStore"
    folder: Path
    max_key_groups: int
    over: Callable[[], bool] = lambda: False

    def merge(self, schema: StateSchema, files: Files, files_max: int) -> Merged | None:
        """Merge the newest entries of a state if there are ``files_max``. Raises StateError."""
        chosen = to_merge(files, files_max)
        if not chosen:
            return None
        keep_tombstones = not drops_tombstones(chosen, files)
        path = self.folder / f"merged-{max(f.order for f in chosen)}-{schema.name}.sst"
        with ExitStack() as stack:
            opened = [
                OpenFile(file, self.folder / f"{number}-{schema.name}.sst", self.blobs)
                for number, file in enumerate(chosen)
            ]
            for file in opened:
                stack.callback(file.close)
            pairs = [(f.groups, file) for f, file in zip(chosen, opened, strict=True)]
            parts = self._parts(schema, pairs, _slabs(chosen), keep_tombstones)
            rows = write_file(path, schema, self.max_key_groups, parts)
        return Merged(files, chosen, path, rows)

    def _parts(
        self,
        schema: StateSchema,
        files: Sequence[tuple[Share, OpenFile]],
        slabs: Sequence[Share],
        keep_tombstones: bool,
    ) -> Iterator[RowsCopy]:
        """Merge slab by slab: only one slab of the state is in memory at a time."""
        for slab in slabs:
            table = HotTable(schema)
            for groups, file in files:
                if self.over():
                    raise StateError("the attempt is over")
                visible = to_share(set(groups_of(groups)) & set(groups_of(slab)))
                file.reader.load(visible, table, self.max_key_groups)
            copied = table.copy_rows(table.all_rows(tombstones=keep_tombstones))
            if len(copied.groups):
                yield copied


def _slabs(files: Files) -> list[Share]:
    """Cut groups into runs whose files hold about ``STATE_MERGE_BYTES_MAX`` together."""
    size = sum(f.blob.size for f in files)
    listed = groups_of(groups_of_files(files))
    count = min(max(1, -(-size // STATE_MERGE_BYTES_MAX)), len(listed))
    return [to_share(part.tolist()) for part in np.array_split(np.array(listed), count)]


class Compaction:
    """Merges of one task's states, made on another thread. ``merged`` is whole when ``done``."""

    def __init__(
        self,
        files: Files,
        schemas: Sequence[StateSchema],
        max_key_groups: int,
        blobs: "BlobStore",
        scratch: Path | None,
    ) -> None:
        """Prepare to merge committed ``files`` in a folder below ``scratch``."""
        self._files = files
        self._schemas = schemas
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-merge-", dir=scratch)
        self._lock = threading.Lock()
        self._closed = False
        folder = Path(self._folder.name)
        self._place = Place(blobs, folder, max_key_groups, lambda: self._closed)
        self.done = False
        self.merged: dict[str, Merged] = {}

    def run(self) -> None:
        """Merge. What cannot be read is left as it is: a later commit begins again."""
        try:
            for schema in self._schemas:
                own = tuple(f for f in self._files if f.state == schema.name)
                found = self._place.merge(schema, own, STATE_FILES_PER_TASK_MAX)
                if found is not None:
                    self.merged[schema.name] = found
        except (PenstockError, OSError) as error:
            if not self._closed:
                log.warning("event=compaction_failed reason=%s", error)
        with self._lock:
            self.done = True
            if self._closed:
                self._folder.cleanup()

    def close(self) -> None:
        """Remove the files, at the latest when the merge has ended."""
        with self._lock:
            self._closed = True
            if self.done:
                self._folder.cleanup()


def wanted(files: Files, schemas: Sequence[StateSchema]) -> bool:
    """Say whether some state has many entries."""
    return any(
        to_merge(tuple(f for f in files if f.state == s.name), STATE_FILES_PER_TASK_MAX)
        for s in schemas
    )
