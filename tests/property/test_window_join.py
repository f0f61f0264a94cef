"""Window joins against brute force: any order of the inputs gives the same rows, also through restores."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.graph import LEFT, RIGHT, How
from penstock.steps.joins.window_join import JoinWindows
from tests.support.join_tasks import END, JoinTasks, Row, left, right

WINDOWS = JoinWindows(size_us=10, offset_us=3, lateness_us=0)
KEY = st.none() | st.integers(0, 2)
LEFT_ROW = st.tuples(KEY, st.integers(-15, 30), st.none() | st.integers(0, 2))
RIGHT_ROW = st.tuples(KEY, st.integers(-15, 30), st.none() | st.sampled_from(["", "a", "bc"]))
LEFTS, RIGHTS = st.lists(LEFT_ROW, max_size=30), st.lists(RIGHT_ROW, max_size=30)
HOWS = st.sampled_from(list(How))


def end_of(time: int) -> int:
    return time - (time - 3) % 10 + 10


def brute_force(how: How, lefts: list[Row], rights: list[Row]) -> list[tuple[Any, ...]]:
    """Compare each left row with each right row."""
    found: list[tuple[Any, ...]] = []
    matched: set[int] = set()
    for key, at, x in lefts:
        partners = [
            (number, note, paid)
            for number, (other, paid, note) in enumerate(rights)
            if key is not None and other == key and end_of(paid) == end_of(at)
        ]
        matched |= {number for number, _, _ in partners}
        found += [(at, key, x, note, paid) for _, note, paid in partners]
        if not partners and how in (How.LEFT, How.FULL):
            found.append((at, key, x, None, None))
    if how in (How.RIGHT, How.FULL):
        found += [(None, k, None, note, paid) for n, (k, paid, note) in enumerate(rights) if n not in matched]
    return found


def in_random_order(lefts: list[Row], rights: list[Row], seed: int) -> list[tuple[str, list[Row]]]:
    """Return batches of both sides, mixed and of random sizes."""
    random = np.random.default_rng(seed)
    both: list[tuple[str, Row]] = [(LEFT, r) for r in lefts] + [(RIGHT, r) for r in rights]
    mixed = [both[i] for i in random.permutation(len(both))]
    batches: list[tuple[str, list[Row]]] = []
    for side, row in mixed:
        if batches and batches[-1][0] == side and random.integers(3):
            batches[-1][1].append(row)
        else:
            batches.append((side, [row]))
    return batches


def take(tasks: JoinTasks, side: str, rows: list[Row]) -> None:
    tasks.take(side, left(rows) if side == LEFT else right(rows))


@given(HOWS, LEFTS, RIGHTS, st.integers(0, 9), st.sampled_from([1, 1, 90]))
def test_the_order_of_the_inputs_does_not_matter(
    how: How, lefts: list[Row], rights: list[Row], one: int, copies: int
) -> None:
    """With many ``copies`` of a row its window has several parts in the state."""
    results = []
    lefts = lefts[:1] * (copies - 1) + lefts
    for seed in (one, 10 + one):
        with tempfile.TemporaryDirectory() as folder:
            tasks = JoinTasks(Path(folder), how, WINDOWS)
            for side, rows in in_random_order(lefts, rights, seed):
                take(tasks, side, rows)
            tasks.advance(END)
            results.append(tasks.rows())
            tasks.close()
    assert results[0] == results[1]
    assert sorted(results[0], key=str) == sorted(brute_force(how, lefts, rights), key=str)


@given(HOWS, LEFTS, RIGHTS, st.integers(0, 9))
def test_restores_to_other_tasks_lose_no_pair_and_add_none(
    how: How, lefts: list[Row], rights: list[Row], seed: int
) -> None:
    """The rows come in order of time, with checkpoints and restores 2 -> 3 -> 2 between them."""
    random = np.random.default_rng(seed)
    timed = sorted([(r[1], LEFT, r) for r in lefts] + [(r[1], RIGHT, r) for r in rights], key=lambda each: each[0])
    with tempfile.TemporaryDirectory() as folder:
        tasks = JoinTasks(Path(folder), how, WINDOWS)
        sizes = iter((2, 3, 2) * len(timed))
        for time, side, row in timed:
            tasks.advance(time)
            if not random.integers(4):
                tasks.rescale(next(sizes))
            take(tasks, side, [row])
        tasks.rescale(3)
        tasks.advance(END)
        assert sorted(tasks.rows(), key=str) == sorted(brute_force(how, lefts, rights), key=str)
        assert not tasks.lates
        tasks.close()


@given(HOWS, LEFTS, RIGHTS, st.lists(st.integers(-20, 40), min_size=60, max_size=60), st.sampled_from([0, 4]))
def test_a_row_is_late_by_its_own_bound(
    how: How, lefts: list[Row], rights: list[Row], bounds: list[int], lateness: int
) -> None:
    def on_time(rows: list[Row], of: list[int]) -> list[Row]:
        return [row for row, bound in zip(rows, of, strict=False) if end_of(row[1]) + lateness > bound]

    with tempfile.TemporaryDirectory() as folder:
        tasks = JoinTasks(Path(folder), how, JoinWindows(10, 3, lateness))
        tasks.take(LEFT, left(lefts, bounds[: len(lefts)]))
        tasks.take(RIGHT, right(rights, bounds[30 : 30 + len(rights)]))
        tasks.advance(END)
        kept = on_time(lefts, bounds), on_time(rights, bounds[30:])
        assert sorted(tasks.rows(), key=str) == sorted(brute_force(how, *kept), key=str)
        assert len(tasks.lates) == len(lefts) + len(rights) - len(kept[0]) - len(kept[1])
        tasks.close()
