"""Which timers fire, and in which order, compared with a sorted list of those that are set.

Timers are set, set anew to earlier and later times, and cleared. Slices of firing, cuts and barriers between
slices, aborted epochs, restores, key groups that are lost and gained again, and rows that move to
disk and back come in any order.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.limits import STATE_TABLE_ROWS_MIN
from penstock.contract.graph import TimeKind
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import NO_TIMER, Value
from penstock.steps.base import StateSchema, TimerColumn
from tests.support.state_under_change import GROUPS, NEVER, StateUnderChange

CODEC = KeyCodec((pa.string(),), GROUPS)
TIMERS = (TimerColumn("idle"), TimerColumn("tick", TimeKind.CLOCK), TimerColumn("alarm"))
EVENT = ("idle", "alarm")
SCHEMA = StateSchema("t", (("k", pa.string()),), (Value("n", "int64"),), timers=TIMERS)
NAMES = [f"{'x' * (i % 11)}{i}" for i in range(1500)]
TIMES = [-(2**62), -7, 0, 1, 2, 3, 2**62, NO_TIMER, NO_TIMER]
BOUNDS = [-7, 0, 1, 2, 3, 2**62]
State = dict[str, dict[str, int]]  # name: the times of its timers


def _hashes() -> dict[str, tuple[int, int]]:
    made = CODEC.keys([pa.array(NAMES)])
    return dict(zip(NAMES, zip(made.hashes.tolist(), made.groups.tolist(), strict=True), strict=True))


HASHES = _hashes()
assert len(set(HASHES.values())) == len(NAMES)


def pending(state: State, fields: tuple[str, ...], bound: int = NEVER) -> list[tuple[int, int, int, str]]:
    """List the timers that are set, in the order of firing: time, hash, field and name."""
    found = [
        (timers[name], HASHES[key][0], place, key)
        for key, timers in state.items()
        for place, name in enumerate(fields)
        if NO_TIMER < timers[name] <= bound
    ]
    return sorted(found)


class TimersOfKeys(StateUnderChange[str, dict[str, int]]):
    """Keys with the times of their timers."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SCHEMA)
        self.reached = np.full(GROUPS, NO_TIMER, np.int64)

    def group(self, key: str) -> int:
        return HASHES[key][1]

    def copied(self, rows: State) -> State:
        return {name: dict(timers) for name, timers in rows.items()}

    def set(self, random: np.random.Generator, wanted: int) -> None:
        """Set and clear timers of some keys whose groups are here."""
        names = [n for n in random.choice(NAMES, wanted).tolist() if HASHES[n][1] in self.share]
        if not names:
            return
        rows = self.table.rows(CODEC.keys([pa.array(names, pa.string())]))
        for timer in TIMERS:
            times = random.choice(TIMES, len(names)).tolist()
            self.table.column(timer.name)[rows] = times  # of several the last one holds
            for name, time in zip(names, times, strict=True):
                self.rows.setdefault(name, {})[timer.name] = time
        self.arm(rows)

    def arm(self, rows: Any) -> None:
        self.table.arm(rows, self.reached)
        self.table.arm(rows, self.reached, TimeKind.CLOCK)

    def take(self, random: np.random.Generator, most: int) -> None:
        self._take(int(random.choice(BOUNDS)), most, EVENT, TimeKind.EVENT)

    def take_of_the_clock(self, random: np.random.Generator, most: int) -> None:
        self._take(int(random.choice(BOUNDS)), most, ("tick",), TimeKind.CLOCK)

    def _take(self, bound: int, most: int, fields: tuple[str, ...], kind: TimeKind) -> None:
        due = pending(self.rows, fields, bound)[:most]
        taken = self.table.take_timers(bound, most, kind)
        names = CODEC.columns(self.table.keys_of(taken.rows))[0].to_pylist()
        assert list(zip(taken.times.tolist(), taken.hashes.tolist(), taken.fields.tolist(), names, strict=True)) == due
        for row, place in zip(taken.rows.tolist(), taken.fields.tolist(), strict=True):
            self.table.column(fields[place])[row] = NO_TIMER
        for _, _, place, name in due:
            self.rows[name][fields[place]] = NO_TIMER

    def forget(self, random: np.random.Generator, wanted: int) -> None:
        """Delete keys, with their timers."""
        known = sorted(self.rows, key=HASHES.__getitem__)[: wanted % 50]
        self.table.delete(self.table.rows(CODEC.keys([pa.array(known, pa.string())])))
        for name in known:
            del self.rows[name]


WHAT = (
    *("set", "set", "set", "set", "take", "take", "take_of_the_clock", "forget", "barrier", "barrier"),
    *("copy", "commit", "restore", "lose", "gain", "squeeze", "squeeze"),
)
STEPS = st.lists(st.tuples(st.sampled_from(WHAT), st.integers(1, 900)), min_size=5, max_size=40)


@given(STEPS, st.integers(0, 2**32))
@settings(max_examples=25)
def test_timers_fire_as_in_a_sorted_list(steps: list[tuple[str, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        subject = TimersOfKeys(Path(folder))
        subject.set(random, 3 * STATE_TABLE_ROWS_MIN)  # enough to move some to disk
        for what, number in steps:
            perform: Callable[[np.random.Generator, int], None] = getattr(subject, what)
            perform(random, number)
            for kind, fields in ((TimeKind.EVENT, EVENT), (TimeKind.CLOCK, ("tick",))):
                first = pending(subject.rows, fields)[:1]
                assert subject.table.next_timer(kind) == (first[0][0] if first else NEVER), what
        while pending(subject.rows, EVENT):
            subject._take(NEVER, 700, EVENT, TimeKind.EVENT)
        subject.state.close()
