"""Which rows come due, and in which order, compared with a sorted dict.

Rows, slices of firing, cuts and barriers between slices, aborted epochs, restores, key groups that
are lost and gained again, and rows that move to disk and back, in any order.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range, Share, intersect, to_share
from penstock.contract.manifest import StateFile
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.keyed_state.tiered import ROWS_MIN
from penstock.model.keys import KeyCodec, Keys
from penstock.model.table_columns import Value
from penstock.protocol.state_entries import Files
from penstock.steps.base import StateSchema
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 4
ALL: Share = (Range(0, GROUPS),)
NEVER = 2**63 - 1
CODEC = KeyCodec((pa.string(),), GROUPS)
SCHEMA = StateSchema("w", (("k", pa.string()),), (Value("n", "int64"),), timed=True)
NAMES = [f"{'x' * (i % 11)}{i}" for i in range(1500)]
ENDS = [-(2**62), -7, 0, 1, 2, 3, 2**62]
Window = tuple[int, str]  # end, name


def keys(windows: list[Window]) -> Keys:
    names = pa.array([name for _, name in windows], pa.string())
    ends = np.array([end for end, _ in windows], np.int64)
    return CODEC.window_keys([names], ends, CODEC.hashed([names]))


def _orders() -> dict[Window, tuple[int, int, int]]:
    """Return what orders windows: end, group and hash. No two windows have the same hash."""
    windows = [(end, name) for end in ENDS for name in NAMES]
    made = keys(windows)
    found = zip(windows, made.groups.tolist(), made.hashes.tolist(), strict=True)
    return {w: (w[0], group, hashed) for w, group, hashed in found}


ORDER = _orders()
assert len(set(ORDER.values())) == len(ORDER)


@dataclass
class Model:
    """Open windows with their counts, those of the last commit, and the groups that are here."""

    open: dict[Window, int] = field(default_factory=dict)
    committed: dict[Window, int] = field(default_factory=dict)
    share: set[int] = field(default_factory=lambda: set(range(GROUPS)))


class Subject:
    """A task's state and the model beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.model = folder, Model()
        self.blobs = DirectoryBlobStore(folder / "blobs")
        self.files: Files = ()
        self.numbers = count()
        self.epochs = count(1)
        self.cut: Any = None
        self.at_cut: dict[Window, int] = {}
        self.forgotten: list[Window] = []  # they come again, before their deletion is committed
        self.open()

    def open(self) -> None:
        self.state = KeyedStateBackend(StateSettings(), to_share(self.model.share), GROUPS, self.folder)
        self.table: Any = self.state.open(SCHEMA)

    def rows(self, random: np.random.Generator, wanted: int) -> None:
        """Count rows of some windows whose groups are here, a few of them twice."""
        ends = random.choice(ENDS, wanted).tolist()
        names = random.choice(NAMES, wanted).tolist()
        drawn = [*zip(ends, names, strict=True), *self.forgotten]
        drawn = [w for w in drawn if ORDER[w][1] in self.model.share]
        rows = self.table.rows(keys(drawn))
        self.table.set_due(rows, np.array([end for end, _ in drawn], np.int64))
        np.add.at(self.table.column("n"), rows, 1)
        for window in drawn:
            self.model.open[window] = self.model.open.get(window, 0) + 1

    def take(self, random: np.random.Generator, most: int) -> None:
        """Fire one slice, as a watermark would."""
        bound = int(random.choice(ENDS))
        due = sorted((w for w in self.model.open if w[0] <= bound), key=ORDER.__getitem__)[:most]
        rows = self.table.take_due(bound, most)
        ends = self.table.column("end")[rows].tolist()
        names = CODEC.window_columns(self.table.keys_of(rows))[0].to_pylist()
        assert list(zip(ends, names, strict=True)) == due
        assert self.table.column("n")[rows].tolist() == [self.model.open[w] for w in due]
        self.table.delete(rows)
        for window in due:
            del self.model.open[window]

    def forget(self, random: np.random.Generator, wanted: int) -> None:
        """Delete windows before they are due."""
        known = sorted(self.model.open, key=lambda w: ORDER[w][2])[: wanted % 50]
        self.forgotten = known[::2]
        self.table.delete(self.table.rows(keys(known)))
        for window in known:
            del self.model.open[window]

    def barrier(self, random: np.random.Generator, wanted: int) -> None:
        self.cut, self.at_cut = self.state.flip(Epoch(next(self.epochs))), dict(self.model.open)

    def copy(self, random: np.random.Generator, wanted: int) -> None:
        self.state.copy_on()

    def commit(self, random: np.random.Generator, wanted: int) -> None:
        if self.cut is None:
            return
        while not self.state.copy_on():
            pass
        self.files = self.cut.write(lambda end: BlobName(f"{next(self.numbers)}{end}"), self.blobs)
        self.state.committed(self.cut.epoch)
        self.model.committed, self.cut = self.at_cut, None

    def restore(self, random: np.random.Generator, wanted: int) -> None:
        """Go back to the last commit, as after a crash."""
        self.state.close()
        self.cut = None
        self.model.share = set(range(GROUPS))
        self.model.open = dict(self.model.committed)
        self.open()
        self.state.load(self.files, self.blobs)

    def lose(self, random: np.random.Generator, wanted: int) -> None:
        self.commit(random, wanted)
        group = wanted % GROUPS
        self.state.drop_groups((Range(group, group + 1),))
        self.model.share.discard(group)
        self.model.open = {w: n for w, n in self.model.open.items() if ORDER[w][1] != group}

    def gain(self, random: np.random.Generator, wanted: int) -> None:
        """Get lost groups back as they were at the last commit."""
        self.commit(random, wanted)
        lost = set(range(GROUPS)) - self.model.share
        self.state.load(narrowed(self.files, to_share(lost)), self.blobs)
        self.model.share |= lost
        self.model.open |= {w: n for w, n in self.model.committed.items() if ORDER[w][1] in lost}

    def squeeze(self, random: np.random.Generator, wanted: int) -> None:
        """Set the memory so low that rows move to disk, or so high that they stay."""
        self.state.limit(1 if wanted % 4 else 1 << 30)


def narrowed(files: Files, share: Share) -> Files:
    return tuple(
        StateFile(f.blob, f.state, groups, f.order, f.epoch, f.rows)
        for f in files
        if (groups := intersect(f.groups, share))
    )


WHAT = (
    *("rows", "rows", "rows", "rows", "take", "take", "take", "forget", "barrier", "barrier"),
    *("copy", "commit", "restore", "lose", "gain", "squeeze", "squeeze"),
)
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(1, 900)), min_size=5, max_size=40)


@given(STEPS, st.integers(0, 2**32))
@settings(max_examples=25)
def test_rows_come_due_as_in_a_sorted_dict(steps: list[tuple[str, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(Path(folder))
        subject.rows(random, 3 * ROWS_MIN)  # enough to move some to disk
        for what, number in steps:
            perform: Callable[[np.random.Generator, int], None] = getattr(subject, what)
            perform(random, number)
            first = min((end for end, _ in subject.model.open), default=NEVER)
            assert subject.table.next_due() == first, what
        while subject.model.open:
            subject.take(random, 700)
        subject.state.close()
