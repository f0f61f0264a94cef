"""Sliding windows against a naive model that adds each row to each of its windows, through moves of the state."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.steps.windows.late_rows import WindowShape
from tests.support.window_tasks import TURNS, Tasks, all_deleted, batch, computed, plain

SHAPES = st.sampled_from([(20, 5), (10, 5), (6, 2), (40, 2), (34, 1), (5, 1)])


@given(TURNS, SHAPES, st.sampled_from([0, 3]))
def test_sliding_windows_agree_with_a_naive_model(turns: Any, shape: tuple[int, int], lateness: int) -> None:
    size, slide = shape
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(WindowShape(size, 0, lateness, "ts", slide), Path(folder))
        windows: dict[Any, list[Any]] = defaultdict(list)
        dropped, largest, reached = 0, -(10**6), -(10**6)
        for rows, disorder, workers in turns:
            bounds = []
            for mote, ts, value, whole in rows:
                bounds.append(largest - disorder)
                first = ts // slide * slide + slide
                if first + lateness <= max(bounds[-1], reached):
                    dropped += 1
                else:
                    for end in range(first, first + size, slide):
                        windows[mote, end].append((ts, value, whole))
                largest = max(largest, ts)
            if rows:
                tasks.push(batch(rows, bounds))
            reached = max(reached, largest - disorder - 10)
            tasks.watermark(reached)
            assert all(end + lateness <= reached for _, _, end, *_ in plain(tasks.main)), "too early"
            if workers:
                tasks.rescale(workers, reached)
        tasks.watermark(2**63 - 1)
        found = plain(tasks.main)
        expected = [(mote, end - size, end, *computed(rows, slide)) for (mote, end), rows in windows.items()]
        assert sorted(found, key=str) == sorted(expected, key=str)
        assert sum(b.num_rows for b in tasks.late) == dropped
        assert all(task.state.keys == 0 or all_deleted(task) for task in tasks.tasks), "nothing is kept for ever"
        for task in tasks.tasks:
            task.state.close()


def test_slices_that_are_kept_can_be_looked_at() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(WindowShape(6, 0, 0, "ts", 2), Path(folder))
        tasks.push(batch([(1, -3, 4, 4), (1, 5, 1, None), (1, 5, 2, 2)], [-99] * 3))
        shown = [
            row
            for task in tasks.tasks
            for row in task.step.contents(np.asarray(task.state.live_rows("windows"))).to_pylist()
        ]
        micros = [{k: v for k, v in row.items() if k in {"count", "sum"}} for row in shown]
        ends = [row["window_end"].microsecond for row in shown]
        assert sorted(ends) == [6, 999_998]
        assert sorted(m["count"] for m in micros) == [1, 2]
        assert sorted(m["sum"] for m in micros) == [3.0, 4.0]
