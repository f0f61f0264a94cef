"""From a cut to listed files: the delta is written, and what was merged meanwhile is taken over.

All of it runs off the task's thread, on values that the cut has copied. Files are built on local
disk and handed to the blob store under names from the caller, who uses each name once. What is
written for an epoch that aborts is never listed: the next cut starts from the committed entries.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.base.limits import STATE_FILES_UNMERGED_MAX
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Share, groups_of, to_share
from penstock.contract.manifest import StateFile
from penstock.protocol.files import Files, in_order, next_order
from penstock.state.blocks import write_file
from penstock.state.copies import CutRows
from penstock.state.merging import Merged, Place
from penstock.steps.base import StateSchema

if TYPE_CHECKING:
    from penstock.ports import BlobStore

SUFFIX = ".state.sst"
Naming = Callable[[str], BlobName]


@dataclass(slots=True)
class Cut:
    """What a task's state was at a barrier: copied changes, and the entries they build on.

    ``merged`` is what was merged of them since, by state; ``listing`` what the epoch's manifest
    lists, once :meth:`write` has returned it.
    """

    epoch: Epoch
    share: Share
    max_key_groups: int
    base: Files
    changes: tuple[tuple[StateSchema, CutRows], ...]
    merged: Mapping[str, Merged]
    scratch: Path | None = None
    listing: Files | None = field(default=None)

    def write(self, naming: Naming, blobs: "BlobStore") -> Files:
        """Write the delta of every state, and list what was merged; return all entries.

        Raises StorageError (the epoch aborts) or StateError (a committed file cannot be read).
        """
        listing: list[StateFile] = []
        order = next_order(self.base)
        with tempfile.TemporaryDirectory(prefix="penstock-cut-", dir=self.scratch) as folder:
            shelf = Shelf(self, Place(blobs, Path(folder), self.max_key_groups), naming)
            for schema, rows in self.changes:
                copied = rows.joined()
                own = tuple(f for f in self.base if f.state == schema.name)
                listing += shelf.merged(schema, own)
                if len(copied.groups):
                    groups = to_share({*groups_of(self.share), *copied.groups.tolist()})
                    path = Path(folder) / f"delta-{schema.name}.sst"
                    count = write_file(path, schema, self.max_key_groups, iter([copied]))
                    listing.append(shelf.put(path, schema, order, groups, count))
        self.listing = in_order(listing)
        return self.listing


@dataclass(frozen=True, slots=True)
class Shelf:
    """Hands the files of one cut to the blob store."""

    cut: Cut
    place: Place
    naming: Naming

    def put(
        self, path: Path, schema: StateSchema, order: int, groups: Share, rows: int
    ) -> StateFile:
        """Hand a local file over."""
        blob = self.place.blobs.put_file(self.naming(SUFFIX), str(path))
        return StateFile(blob, schema.name, groups, order, self.cut.epoch, rows)

    def merged(self, schema: StateSchema, files: Files) -> Files:
        """Return the entries of one state, with those that were merged since replaced.

        When merging does not keep up, and there are very many, they are merged now.
        """
        found = self.cut.merged.get(schema.name)
        if found is None or not found.fits(files):
            found = self.place.merge(schema, files, STATE_FILES_UNMERGED_MAX)
        if found is None:
            return files
        left = tuple(f for f in files if f not in found.chosen)
        if not found.rows:  # nothing but deleted keys
            return left
        return (*left, self.put(found.path, schema, found.order, found.groups, found.rows))


def flags(share: Share, max_key_groups: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    """Return one byte per key group: 1 where the share has it."""
    found = np.zeros(max_key_groups, np.uint8)
    for r in share:
        found[r.start : r.stop] = 1
    return found
