"""Joins with a table against brute force: any order of the inputs gives the same rows, also through restores."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.limits import JOIN_VERSIONS_PRUNED
from penstock.contract.graph import LEFT, RIGHT, How
from tests.property.test_interval_join import interleaved, take
from tests.support.join_tasks import END, JoinTasks, Row, Table, left, right

S = 4_000_000
TIME = st.integers(-12, 24).map(lambda n: n * S // 4)
KEY = st.none() | st.integers(0, 2)
LEFT_ROW = st.tuples(KEY, TIME, st.none() | st.integers(0, 2))
VERSION = st.tuples(KEY, TIME, st.none() | st.sampled_from(["", "a", "bc"]))
LEFTS, VERSIONS = st.lists(LEFT_ROW, max_size=25), st.lists(VERSION, max_size=50)
HOWS = st.sampled_from([How.INNER, How.LEFT])
SEED = st.integers(0, 99)


def brute_force(how: How, lefts: list[Row], versions: list[Row]) -> list[tuple[Any, ...]]:
    """Look for the newest version of each row. Of equal times the rule is that of bytes: no note, "", "a", "bc"."""
    found: list[tuple[Any, ...]] = []
    for key, at, x in lefts:
        of_key = [(paid, note is not None, note) for other, paid, note in versions if other == key and paid <= at]
        if key is not None and of_key:
            paid, _, note = max(of_key, key=lambda v: (v[0], v[1], len(v[2] or ""), v[2] or ""))
            found.append((at, key, x, note, paid))
        elif how is How.LEFT:
            found.append((at, key, x, None, None))
    return found


@given(HOWS, LEFTS, VERSIONS, SEED, st.sampled_from([0, 3 * S]))
def test_the_order_of_the_inputs_and_their_watermarks_does_not_matter(
    how: How, lefts: list[Row], versions: list[Row], seed: int, lateness: int
) -> None:
    results = []
    for number in range(2):
        with tempfile.TemporaryDirectory() as folder:
            tasks = JoinTasks(Path(folder), how, Table(lateness))
            for reached, side, rows in interleaved(lefts, versions, np.random.default_rng([seed, number])):
                take(tasks, side, rows)
                if reached is not None:
                    tasks.advance(reached)
            tasks.advance(END)
            results.append(tasks.rows())
            assert not tasks.lates
            tasks.close()
    assert results[0] == results[1]
    assert sorted(results[0], key=str) == sorted(brute_force(how, lefts, versions), key=str)


@given(HOWS, LEFTS, VERSIONS, SEED)
def test_restores_to_other_tasks_lose_no_row_and_add_none(
    how: How, lefts: list[Row], versions: list[Row], seed: int
) -> None:
    """There are checkpoints and restores 2 -> 3 -> 2 between the batches."""
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        tasks = JoinTasks(Path(folder), how, Table(0))
        turns = interleaved(lefts, versions, random)
        sizes = iter((2, 3, 2) * (len(turns) + 1))
        for reached, side, rows in turns:
            take(tasks, side, rows)
            if not random.integers(3):
                tasks.rescale(next(sizes))
            if reached is not None:
                tasks.advance(reached)
        tasks.rescale(next(sizes))
        tasks.advance(END)
        assert sorted(tasks.rows(), key=str) == sorted(brute_force(how, lefts, versions), key=str)
        assert not tasks.lates
        tasks.close()


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6), st.booleans()), min_size=30, max_size=90))
def test_old_versions_go_and_the_newest_one_at_the_horizon_stays(steps: list[tuple[int, int, bool]]) -> None:
    """Versions come in the order of time, and rows now and then: each finds the version before it."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = JoinTasks(Path(folder), How.LEFT, Table(0))
        now, newest, expected = 0, dict.fromkeys((0, 1), None), []
        for key, pause, asks in steps:
            now += 1
            tasks.take(RIGHT, right([(key, now, str(now))]))
            newest[key] = now
            now += pause + 1
            if asks:
                tasks.take(LEFT, left([(key, now, now)]))
                expected.append((now, key, now, str(newest[key]), newest[key]))
            tasks.advance(now)
        kept = tasks.tasks[0].step.contents(np.asarray(tasks.tasks[0].state.live_rows("j"))).to_pylist()
        assert all(row["rows"] <= JOIN_VERSIONS_PRUNED for row in kept if row["side"] == RIGHT)
        tasks.advance(END)
        assert tasks.rows() == expected
        tasks.close()


def test_a_version_that_is_late_is_not_used_and_not_lost() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = JoinTasks(Path(folder), How.LEFT, Table(5))
        tasks.take(RIGHT, right([(1, 10, "on time"), (1, 5, "at its bound"), (1, 4, "late")], [-99, 10, 10]))
        tasks.take(LEFT, left([(1, 7, 0), (1, 12, 1)]))
        tasks.advance(END)
        assert tasks.rows() == [(7, 1, 0, "at its bound", 5), (12, 1, 1, "on time", 10)]
        assert tasks.lates == [(1, "late", 4)]
        tasks.close()


def test_a_row_waits_as_long_as_a_version_of_its_time_may_come() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = JoinTasks(Path(folder), How.LEFT, Table(5))
        tasks.take(LEFT, left([(1, 7, 0)]))
        tasks.advance(10)
        tasks.take(RIGHT, right([(1, 6, "within the lateness")], [10]))
        tasks.advance(END)
        assert tasks.rows() == [(7, 1, 0, "within the lateness", 6)]
        tasks.close()
