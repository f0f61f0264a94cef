"""Which rows come due, and in which order, compared with a sorted dict.

Rows, slices of firing, cuts and barriers between slices, aborted epochs, restores, key groups that
are lost and gained again, and rows that move to disk and back, in any order.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.limits import STATE_TABLE_ROWS_MIN
from penstock.contract.keygroups import Range, Share
from penstock.model.keys import KeyCodec, Keys
from penstock.model.table_columns import Value
from penstock.steps.base import StateSchema
from tests.support.state_under_change import GROUPS, NEVER, StateUnderChange

ALL: Share = (Range(0, GROUPS),)
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


class OpenWindows(StateUnderChange[Window, int]):
    """Windows with the counts of their rows."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SCHEMA)
        self.forgotten: list[Window] = []  # they come again, before their deletion is committed

    def group(self, key: Window) -> int:
        return ORDER[key][1]

    def add(self, random: np.random.Generator, wanted: int) -> None:
        """Count rows of some windows whose groups are here, a few of them twice."""
        ends = random.choice(ENDS, wanted).tolist()
        names = random.choice(NAMES, wanted).tolist()
        drawn = [*zip(ends, names, strict=True), *self.forgotten]
        drawn = [w for w in drawn if ORDER[w][1] in self.share]
        rows = self.table.rows(keys(drawn))
        self.table.set_due(rows, np.array([end for end, _ in drawn], np.int64))
        np.add.at(self.table.column("n"), rows, 1)
        for window in drawn:
            self.rows[window] = self.rows.get(window, 0) + 1

    def take(self, random: np.random.Generator, most: int) -> None:
        """Fire one slice, as a watermark would."""
        bound = int(random.choice(ENDS))
        due = sorted((w for w in self.rows if w[0] <= bound), key=ORDER.__getitem__)[:most]
        rows = self.table.take_due(bound, most)
        ends = self.table.column("end")[rows].tolist()
        names = CODEC.window_columns(self.table.keys_of(rows))[0].to_pylist()
        assert list(zip(ends, names, strict=True)) == due
        assert self.table.column("n")[rows].tolist() == [self.rows[w] for w in due]
        self.table.delete(rows)
        for window in due:
            del self.rows[window]

    def forget(self, random: np.random.Generator, wanted: int) -> None:
        """Delete windows before they are due."""
        known = sorted(self.rows, key=lambda w: ORDER[w][2])[: wanted % 50]
        self.forgotten = known[::2]
        self.table.delete(self.table.rows(keys(known)))
        for window in known:
            del self.rows[window]


WHAT = (
    *("add", "add", "add", "add", "take", "take", "take", "forget", "barrier", "barrier"),
    *("copy", "commit", "restore", "lose", "gain", "squeeze", "squeeze"),
)
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(1, 900)), min_size=5, max_size=40)


@given(STEPS, st.integers(0, 2**32))
@settings(max_examples=25)
def test_rows_come_due_as_in_a_sorted_dict(steps: list[tuple[str, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        subject = OpenWindows(Path(folder))
        subject.add(random, 3 * STATE_TABLE_ROWS_MIN)  # enough to move some to disk
        for what, number in steps:
            perform: Callable[[np.random.Generator, int], None] = getattr(subject, what)
            perform(random, number)
            first = min((end for end, _ in subject.rows), default=NEVER)
            assert subject.table.next_due() == first, what
        while subject.rows:
            subject.take(random, 700)
        subject.state.close()
