"""Windows that emit panes against a naive model with two timers for each window, through moves of the state."""

import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.graph import TimeKind, Trigger
from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.by_shape import window
from penstock.steps.windows.late_rows import WindowShape
from penstock.steps.windows.panes import PaneStep
from tests.support.window_tasks import COMPUTE, NAME, OUTPUT, PLAIN, TURNS, Tasks, all_deleted, batch, computed, plain

FIELDS = list(OUTPUT)
WITH_PANES = pa.schema([*FIELDS[:3], ("pane", pa.int64()), ("final", pa.bool_()), *FIELDS[3:]])
SIZE, LATENESS = 20, 7
BEGIN = -(10**6)
TRIGGERS = (
    Trigger(6), Trigger(5), Trigger(5, on_late=True), Trigger(on_late=True), Trigger(8, TimeKind.CLOCK),
    Trigger(3, TimeKind.CLOCK, on_late=True),
)  # fmt: skip


class Wall:
    """A clock that tests set."""

    us = 0


def stepped(trigger: Trigger, wall: Wall) -> Any:
    def made(keys: KeyColumns) -> PaneStep:
        shape = WindowShape(SIZE, 0, LATENESS, "ts")
        step = window(NAME, shape, keys, COMPUTE, (PLAIN, WITH_PANES), trigger=trigger)
        assert isinstance(step, PaneStep)
        step.clock.follow(lambda: wall.us)
        return step

    return made


@dataclass
class Open:
    """An open window: its rows, the number of its next pane, and when this is due by event time and by the clock."""

    rows: list[Any] = field(default_factory=list)
    pane: int = 0
    next: int | None = None
    wait: int | None = None


class Model:
    """What windows with a trigger emit."""

    def __init__(self, trigger: Trigger) -> None:
        self.trigger = trigger
        self.windows: dict[Any, Open] = defaultdict(Open)
        self.emitted: list[Any] = []
        self.reached, self.dropped = BEGIN, 0

    def row(self, bound: int, row: Any, wall: int) -> None:
        mote, ts, value, whole = row
        end = ts - ts % SIZE + SIZE
        if end + LATENESS <= max(bound, self.reached):
            self.dropped += 1
            return
        one = self.windows[end, mote]
        one.rows.append((ts, value, whole))
        if self.trigger.time is TimeKind.CLOCK and self.trigger.early_us and one.wait is None:
            one.wait = wall + self.trigger.early_us
        if one.next is None:
            one.next = self.next_pane(end)

    def next_pane(self, end: int) -> int | None:
        every = self.trigger.early_us
        if every and self.trigger.time is TimeKind.EVENT:
            for time in range(end - SIZE + every, end, every):
                if time > self.reached:
                    return time
        return max(end, self.reached + 1) if self.trigger.on_late else None

    def watermark(self, time: int) -> None:
        self.reached = time
        for (end, mote), one in list(self.windows.items()):
            if end + LATENESS <= time:
                self.emit(end, mote, one, final=True)
                del self.windows[end, mote]
            elif one.next is not None and one.next <= time:
                self.emit(end, mote, one, final=False)

    def clock(self, wall: int) -> None:
        for (end, mote), one in self.windows.items():
            if one.wait is not None and one.wait <= wall:
                self.emit(end, mote, one, final=False)

    def emit(self, end: int, mote: Any, one: Open, *, final: bool) -> None:
        self.emitted.append((mote, end - SIZE, end, one.pane, final, *computed(one.rows, 10**9)))
        one.pane, one.next, one.wait = one.pane + 1, None, None


def tick(tasks: Tasks, wall: int) -> None:
    for task in tasks.tasks:
        while isinstance(task.step, PaneStep) and task.step.next_tick() <= wall:
            task.step.on_clock()


@given(TURNS, st.sampled_from(TRIGGERS), st.integers(0, 9))
def test_panes_agree_with_a_naive_model(turns: Any, trigger: Trigger, pause: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        wall, model = Wall(), Model(trigger)
        tasks = Tasks(stepped(trigger, wall), Path(folder))
        largest = BEGIN
        for rows, disorder, workers in turns:
            bounds = []
            for row in rows:
                bounds.append(largest - disorder)
                model.row(bounds[-1], row, wall.us)
                largest = max(largest, row[1])
            if rows:
                tasks.push(batch(rows, bounds))
            if workers:
                tasks.rescale(workers, model.reached)
            wall.us += pause
            tick(tasks, wall.us)
            model.clock(wall.us)
            time = max(model.reached, largest - disorder - 10)
            tasks.watermark(time)
            model.watermark(time)
            assert sorted(plain(tasks.main), key=str) == sorted(model.emitted, key=str)
        tasks.watermark(2**63 - 1)
        model.watermark(2**63 - 1)
        assert sorted(plain(tasks.main), key=str) == sorted(model.emitted, key=str)
        assert sum(b.num_rows for b in tasks.late) == model.dropped
        assert all(task.state.keys == 0 or all_deleted(task) for task in tasks.tasks), "nothing is kept for ever"
        for task in tasks.tasks:
            task.state.close()


def panes(tasks: Tasks) -> list[Any]:
    """Return the end, number, finality and row count of each pane."""
    return [(row[2], row[3], row[4], row[5]) for row in plain(tasks.main)]


@pytest.fixture
def wall() -> Wall:
    return Wall()


def test_an_early_pane_comes_once_and_again_only_after_new_rows(tmp_path: Path, wall: Wall) -> None:
    tasks = Tasks(stepped(Trigger(5), wall), tmp_path)
    tasks.push(batch([(1, 2, 1, 1), (1, 3, 1, 1)], [BEGIN] * 2))
    for time in (4, 5, 6, 10, 11):
        tasks.watermark(time)
    assert panes(tasks) == [(20, 0, False, 2)]
    tasks.push(batch([(1, 12, 1, 1)], [BEGIN]))
    tasks.watermark(14)
    tasks.watermark(19)
    tasks.push(batch([(1, 18, 1, 1)], [BEGIN]))
    tasks.watermark(26)  # the next multiple is the end, which is none of the early times
    tasks.watermark(27)
    assert panes(tasks) == [(20, 0, False, 2), (20, 1, False, 3), (20, 2, True, 4)]


def test_a_window_emits_at_its_end_and_after_late_rows(tmp_path: Path, wall: Wall) -> None:
    tasks = Tasks(stepped(Trigger(on_late=True), wall), tmp_path)
    tasks.push(batch([(1, 2, 1, 1)], [BEGIN]))
    tasks.watermark(20)
    tasks.push(batch([(1, 3, 1, 1), (1, 4, 1, 1)], [BEGIN] * 2))
    tasks.watermark(20)
    tasks.watermark(21)
    tasks.watermark(27)
    assert panes(tasks) == [(20, 0, False, 1), (20, 1, False, 3), (20, 2, True, 3)]


def test_a_watermark_that_passes_all_times_gives_the_last_pane_only(tmp_path: Path, wall: Wall) -> None:
    tasks = Tasks(stepped(Trigger(5, on_late=True), wall), tmp_path)
    tasks.push(batch([(1, 2, 1, 1)], [BEGIN]))
    tasks.watermark(100)
    assert panes(tasks) == [(20, 0, True, 1)]


def test_a_pane_comes_by_the_clock_while_no_row_comes_also_in_another_task(tmp_path: Path, wall: Wall) -> None:
    tasks = Tasks(stepped(Trigger(5, TimeKind.CLOCK), wall), tmp_path)
    wall.us = 3
    tasks.push(batch([(1, 2, 1, 1)], [BEGIN]))
    tick(tasks, 7)
    assert panes(tasks) == []
    tasks.rescale(3, BEGIN)
    wall.us = 8
    tick(tasks, 8)
    tasks.rescale(2, BEGIN)
    wall.us = 99
    tick(tasks, 99)
    tasks.watermark(27)
    assert panes(tasks) == [(20, 0, False, 1), (20, 1, True, 1)]
