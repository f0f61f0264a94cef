"""Windows of processing time against windows of event time whose rows have the time of the clock, through moves."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.by_clock import CLOCK, ClockStep
from penstock.steps.windows.by_shape import window
from penstock.steps.windows.late_rows import WindowShape
from penstock.steps.windows.sessions import SessionShape
from tests.support.window_tasks import COMPUTE, NAME, OUTPUT, PLAIN, ROW, Tasks, all_deleted, batch, plain

SHAPES = (WindowShape(20, 3, 0, "TIME"), WindowShape(30, 0, 0, "TIME", 10), SessionShape(7, 0, "TIME"))
TURNS = st.lists(st.tuples(st.lists(ROW, max_size=10), st.integers(0, 15), st.sampled_from([0, 0, 2, 3])), max_size=8)


class Wall:
    """A clock that tests set."""

    us = 1_000


def at(shape: Any, time: str) -> Any:
    if isinstance(shape, SessionShape):
        return SessionShape(shape.gap_us, 0, time)
    return WindowShape(shape.size_us, shape.offset_us, 0, time, shape.slide_us)


def by_clock(shape: Any, wall: Wall, *, timed: bool = True) -> Any:
    def made(keys: KeyColumns) -> ClockStep:
        inner = window(NAME, at(shape, CLOCK.name), keys, COMPUTE, (PLAIN.append(CLOCK), OUTPUT))
        step = ClockStep(inner, timed=timed)
        step.clock.follow(lambda: wall.us)
        return step

    return made


def tick(tasks: Tasks, wall: Wall) -> None:
    for task in tasks.tasks:
        while isinstance(task.step, ClockStep) and task.step.next_tick() <= wall.us:
            task.step.on_clock()


@given(TURNS, st.sampled_from(SHAPES))
def test_windows_by_the_clock_are_those_of_rows_that_have_its_time(turns: Any, shape: Any) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        wall = Wall()
        tasks, others = Tasks(by_clock(shape, wall), Path(one)), Tasks(at(shape, "ts"), Path(two))
        for rows, pause, workers in turns:
            if rows:
                tasks.push(batch(rows, [-(10**6)] * len(rows)))
                others.push(batch([(m, wall.us, v, w) for m, _, v, w in rows], [-(10**6)] * len(rows)))
            if workers:
                tasks.rescale(workers, 10**15)  # an event time, which is none of the clock
            wall.us += pause
            tick(tasks, wall)
            others.watermark(wall.us)
            assert same(tasks, others)
        tasks.watermark(2**63 - 1)
        others.watermark(2**63 - 1)
        assert same(tasks, others)
        assert all(task.state.keys == 0 or all_deleted(task) for task in tasks.tasks), "nothing is kept for ever"
        for task in (*tasks.tasks, *others.tasks):
            task.state.close()


def same(tasks: Tasks, others: Tasks) -> bool:
    """Compare all columns but the last one, which is a time of the rows."""
    found, wanted = ([row[:-1] for row in plain(each.main)] for each in (tasks, others))
    return sorted(found, key=str) == sorted(wanted, key=str)


@pytest.mark.parametrize("timed", [True, False])
def test_results_have_the_hidden_bound_only_where_rows_have_it(tmp_path: Path, timed: bool) -> None:
    wall = Wall()
    tasks = Tasks(by_clock(SHAPES[0], wall, timed=timed), tmp_path)
    tasks.push(batch([(1, 2, 1, 1)], [0]))
    tasks.watermark(10**15)
    assert not tasks.main, "event time ends no window"
    wall.us += 20
    tick(tasks, wall)
    assert [len(b.schema) - len(OUTPUT) for b in tasks.main] == [int(timed)]


def test_a_clock_that_is_set_back_gives_no_late_row(tmp_path: Path) -> None:
    wall = Wall()
    tasks = Tasks(by_clock(SHAPES[0], wall), tmp_path)
    tasks.push(batch([(1, 2, 1, 1)], [0]))
    wall.us += 40
    tick(tasks, wall)
    wall.us = 0
    tasks.push(batch([(1, 2, 1, 1)], [0]))
    tasks.watermark(2**63 - 1)
    starts = [row[1] for row in plain(tasks.main)]
    assert starts == [983, 1023]
    assert np.all(np.diff(starts) > 0)
