"""The best rows of windows against sorted lists: any order of rows gives the same ones, through moves of the state."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.steps.keyed import KeyColumns
from penstock.steps.ranked import Ranking
from penstock.steps.windows.top import WindowTopStep
from tests.support.window_tasks import NAME, PLAIN, Tasks, all_deleted, batch, plain

ROW = st.tuples(st.integers(0, 3), st.integers(0, 9), st.none() | st.integers(-3, 3), st.none() | st.integers(-9, 9))
TURNS = st.lists(st.tuples(st.lists(ROW, max_size=12), st.integers(0, 3), st.sampled_from([0, 0, 2, 3])), max_size=7)
WINDOW = ("mote", "ts")  # in place of window_start and window_end


def stepped(most: int) -> Any:
    def made(keys: KeyColumns) -> WindowTopStep:
        return WindowTopStep(NAME, Ranking("value", most, leaving=False), keys, PLAIN, "ts")

    return made


def values(rows: list[Any]) -> list[Any]:
    """Return the values of rows as they are ranked: the greatest first, null last."""
    return sorted((row[2] for row in rows), key=lambda v: (v is not None, v or 0), reverse=True)


@given(TURNS, st.integers(1, 4), st.integers(0, 9))
def test_the_best_rows_of_each_window_come_when_it_is_over(turns: Any, most: int, seed: int) -> None:
    results = []
    for order in (0, seed + 1):
        random = np.random.default_rng(order)
        with tempfile.TemporaryDirectory() as folder:
            tasks = Tasks(stepped(most), Path(folder), WINDOW)
            on_time: dict[Any, list[Any]] = defaultdict(list)
            late, reached = 0, -1
            for given_rows, pause, workers in turns:
                rows = [given_rows[i] for i in random.permutation(len(given_rows))] if order else given_rows
                for row in rows:
                    if row[1] <= reached:
                        late += 1
                    else:
                        on_time[row[:2]].append(row)
                if rows:
                    tasks.push(batch(rows, [-(10**6)] * len(rows)))
                reached += pause
                tasks.watermark(reached)
                assert {row[:2] for row in plain(tasks.main)} == {key for key in on_time if key[1] <= reached}
                if workers:
                    tasks.rescale(workers, reached)
            tasks.watermark(2**63 - 1)
            found: dict[Any, list[Any]] = defaultdict(list)
            for row in plain(tasks.main):
                found[row[:2]].append(row)
            for key, of_window in on_time.items():
                assert [row[2] for row in found[key]] == values(of_window)[:most], "the best first"
            assert set(found) == set(on_time)
            assert sum(b.num_rows for b in tasks.late) == late
            assert all(task.state.keys == 0 or all_deleted(task) for task in tasks.tasks), "nothing is kept for ever"
            results.append(sorted(plain(tasks.main), key=str))
            for task in tasks.tasks:
                task.state.close()
    assert results[0] == results[1], "ties go by the columns, not by the order of rows"


def test_a_window_comes_with_the_watermark_of_its_end(tmp_path: Path) -> None:
    tasks = Tasks(stepped(2), tmp_path, WINDOW)
    tasks.push(batch([(0, 10, 1, 1), (0, 10, 5, 1), (0, 10, 3, 1), (1, 11, 1, 1)], [0] * 4))
    tasks.watermark(9)
    assert not tasks.main
    tasks.watermark(10)
    assert [row[:3] for row in plain(tasks.main)] == [(0, 10, 5.0), (0, 10, 3.0)]
    tasks.push(batch([(0, 10, 9, 1)], [0]))
    assert sum(b.num_rows for b in tasks.late) == 1
