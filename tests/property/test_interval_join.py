"""Interval joins against brute force: any order of the inputs gives the same rows, also through restores."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.graph import LEFT, RIGHT, How
from penstock.steps.joins.events import Interval
from tests.support.join_tasks import END, JoinTasks, Row, left, right

S = 4_000  # with equal ends, rows of a millisecond are kept together, so times are whole milliseconds
TIME = st.integers(-12, 24).map(lambda n: n * S // 4)
KEY = st.none() | st.integers(0, 2)
LEFT_ROW = st.tuples(KEY, TIME, st.none() | st.integers(0, 2))
RIGHT_ROW = st.tuples(KEY, TIME, st.none() | st.sampled_from(["", "a", "bc"]))
LEFTS, RIGHTS = st.lists(LEFT_ROW, max_size=25), st.lists(RIGHT_ROW, max_size=25)
HOWS = st.sampled_from(list(How))
INTERVALS = st.tuples(st.integers(-9, 9), st.integers(0, 9), st.sampled_from([0, 0, 3])).map(
    lambda n: Interval(n[0] * S // 4, (n[0] + n[1]) * S // 4, n[2] * S // 4)
)
SEED = st.integers(0, 99)


def brute_force(interval: Interval, how: How, lefts: list[Row], rights: list[Row]) -> list[tuple[Any, ...]]:
    """Compare each left row with each right row."""
    found: list[tuple[Any, ...]] = []
    matched: set[int] = set()
    for key, at, x in lefts:
        partners = [
            (number, note, paid)
            for number, (other, paid, note) in enumerate(rights)
            if key is not None and other == key and interval.lower_us <= paid - at <= interval.upper_us
        ]
        matched |= {number for number, _, _ in partners}
        found += [(at, key, x, note, paid) for _, note, paid in partners]
        if not partners and how in (How.LEFT, How.FULL):
            found.append((at, key, x, None, None))
    if how in (How.RIGHT, How.FULL):
        found += [(None, k, None, note, paid) for n, (k, paid, note) in enumerate(rights) if n not in matched]
    return found


def take(tasks: JoinTasks, side: str, rows: list[Row]) -> None:
    tasks.take(side, left(rows) if side == LEFT else right(rows))


def interleaved(
    lefts: list[Row], rights: list[Row], random: np.random.Generator
) -> list[tuple[int | None, str, list[Row]]]:
    """Return batches of both sides with the watermark that stands behind each, or None.

    Each side is in some order of its own, and its time is the least of the rows that are still to come.
    """
    sides: dict[str, list[Row]] = {}
    for side, rows in ((LEFT, lefts), (RIGHT, rights)):
        noise = random.integers(0, 4 * S, len(rows))
        sides[side] = [rows[i] for i in np.argsort([r[1] + n for r, n in zip(rows, noise, strict=True)])]
    turns: list[tuple[int | None, str, list[Row]]] = []
    while sides[LEFT] or sides[RIGHT]:
        side = LEFT if not sides[RIGHT] or (sides[LEFT] and random.integers(2)) else RIGHT
        count = int(random.integers(1, 5))
        batch, sides[side] = sides[side][:count], sides[side][count:]
        reached = min((r[1] for rows in sides.values() for r in rows), default=END)
        turns.append((reached if random.integers(2) else None, side, batch))
    return turns


def joined(interval: Interval, how: How, turns: list[tuple[int | None, str, list[Row]]], folder: str) -> JoinTasks:
    tasks = JoinTasks(Path(folder), how, interval)
    for reached, side, rows in turns:
        take(tasks, side, rows)
        if reached is not None:
            tasks.advance(reached)
    tasks.advance(END)
    return tasks


@given(INTERVALS, HOWS, LEFTS, RIGHTS, SEED, st.sampled_from([1, 1, 90]))
def test_the_order_of_the_inputs_and_their_watermarks_does_not_matter(
    interval: Interval, how: How, lefts: list[Row], rights: list[Row], seed: int, copies: int
) -> None:
    """With many ``copies`` of a row its unit has several parts in the state."""
    results = []
    lefts = lefts[:1] * (copies - 1) + lefts
    for number in range(2):
        with tempfile.TemporaryDirectory() as folder:
            turns = interleaved(lefts, rights, np.random.default_rng([seed, number]))
            tasks = joined(interval, how, turns, folder)
            results.append(tasks.rows())
            assert not tasks.lates
            assert len(tasks.tasks[0].state.live_rows("j")) == 0, "nothing is kept at the end"
            tasks.close()
    assert results[0] == results[1]
    assert sorted(results[0], key=str) == sorted(brute_force(interval, how, lefts, rights), key=str)


@given(INTERVALS, HOWS, LEFTS, RIGHTS, SEED)
def test_restores_to_other_tasks_lose_no_pair_and_add_none(
    interval: Interval, how: How, lefts: list[Row], rights: list[Row], seed: int
) -> None:
    """There are checkpoints and restores 2 -> 3 -> 2 between the batches."""
    random = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        tasks = JoinTasks(Path(folder), how, interval)
        turns = interleaved(lefts, rights, random)
        sizes = iter((2, 3, 2) * (len(turns) + 1))
        for reached, side, rows in turns:
            take(tasks, side, rows)
            if not random.integers(3):
                tasks.rescale(next(sizes))
            if reached is not None:
                tasks.advance(reached)
        tasks.rescale(next(sizes))
        tasks.advance(END)
        assert sorted(tasks.rows(), key=str) == sorted(brute_force(interval, how, lefts, rights), key=str)
        assert not tasks.lates
        tasks.close()


@given(INTERVALS, HOWS, LEFTS, RIGHTS, st.lists(TIME, min_size=50, max_size=50), st.sampled_from([0, S]))
def test_a_row_is_late_by_its_own_bound(
    interval: Interval, how: How, lefts: list[Row], rights: list[Row], bounds: list[int], lateness: int
) -> None:
    def on_time(rows: list[Row], of: list[int]) -> list[Row]:
        return [row for row, bound in zip(rows, of, strict=False) if row[1] + lateness >= bound]

    with tempfile.TemporaryDirectory() as folder:
        tasks = JoinTasks(Path(folder), how, Interval(interval.lower_us, interval.upper_us, lateness))
        tasks.take(LEFT, left(lefts, bounds[: len(lefts)]))
        tasks.take(RIGHT, right(rights, bounds[25 : 25 + len(rights)]))
        tasks.advance(END)
        kept = on_time(lefts, bounds), on_time(rights, bounds[25:])
        assert sorted(tasks.rows(), key=str) == sorted(brute_force(interval, how, *kept), key=str)
        assert len(tasks.lates) == len(lefts) + len(rights) - len(kept[0]) - len(kept[1])
        tasks.close()
