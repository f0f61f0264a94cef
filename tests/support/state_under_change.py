"""A task's keyed state that a property test changes in any order, beside a model of what must be in it.

Cuts, commits, restores, key groups that are lost and gained again, and rows that move to disk and back.
A test adds what its rows are, and what it does with them.
"""

from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from penstock.base.values import replace
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, intersect, to_share
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.protocol.state_entries import Files
from penstock.steps.base import StateSchema
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 4
NEVER = 2**63 - 1
K = TypeVar("K")
V = TypeVar("V")


class StateUnderChange(Generic[K, V]):
    """The state of ``schema`` in ``table``. ``rows`` has what must be in it, ``share`` the groups that are here."""

    def __init__(self, folder: Path, schema: StateSchema) -> None:
        self.folder, self.schema = folder, schema
        self.rows: dict[K, V] = {}
        self.committed: dict[K, V] = {}
        self.share = set(range(GROUPS))
        self.blobs = DirectoryBlobStore(folder / "blobs")
        self.files: Files = ()
        self.numbers, self.epochs = count(), count(1)
        self.cut: Any = None
        self.at_cut: dict[K, V] = {}
        self.open()

    def group(self, key: K) -> int:
        """Return the key group of a row."""
        raise NotImplementedError

    def copied(self, rows: dict[K, V]) -> dict[K, V]:
        """Return rows that no later change reaches."""
        return dict(rows)

    def open(self) -> None:
        self.state = KeyedStateBackend(StateSettings(), to_share(self.share), GROUPS, self.folder)
        self.table: Any = self.state.open(self.schema)

    def barrier(self, random: np.random.Generator, wanted: int) -> None:
        self.cut, self.at_cut = self.state.flip(Epoch(next(self.epochs))), self.copied(self.rows)

    def copy(self, random: np.random.Generator, wanted: int) -> None:
        self.state.copy_on()

    def commit(self, random: np.random.Generator, wanted: int) -> None:
        if self.cut is None:
            return
        while not self.state.copy_on():
            pass
        self.files = self.cut.write(lambda end: BlobName(f"{next(self.numbers)}{end}"), self.blobs)
        self.state.committed(self.cut.epoch)
        self.committed, self.cut = self.at_cut, None

    def restore(self, random: np.random.Generator, wanted: int) -> None:
        """Go back to the last commit, as after a crash."""
        self.state.close()
        self.cut = None
        self.share = set(range(GROUPS))
        self.rows = self.copied(self.committed)
        self.open()
        self.state.load(self.files, self.blobs)

    def lose(self, random: np.random.Generator, wanted: int) -> None:
        self.commit(random, wanted)
        group = wanted % GROUPS
        self.state.drop_groups((Range(group, group + 1),))
        self.share.discard(group)
        self.rows = {key: value for key, value in self.rows.items() if self.group(key) != group}

    def gain(self, random: np.random.Generator, wanted: int) -> None:
        """Get lost groups back as they were at the last commit."""
        self.commit(random, wanted)
        lost = set(range(GROUPS)) - self.share
        self.state.load(narrowed(self.files, to_share(lost)), self.blobs)
        self.share |= lost
        self.rows |= self.copied({key: value for key, value in self.committed.items() if self.group(key) in lost})

    def squeeze(self, random: np.random.Generator, wanted: int) -> None:
        """Set the memory so low that rows move to disk, or so high that they stay."""
        self.state.limit(1 if wanted % 4 else 1 << 30)


def narrowed(files: Files, share: Share) -> Files:
    """Return state files of which a task may read only the groups of ``share``."""
    return tuple(replace(f, groups=groups) for f in files if (groups := intersect(f.groups, share)))
