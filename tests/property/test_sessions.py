"""Session windows against a naive model that sorts the rows of each key, through moves of the state."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.steps.windows.sessions import SessionShape
from tests.support.window_tasks import TURNS, Tasks, all_deleted, batch, computed, plain


def sessions_of(rows: list[Any], gap: int) -> list[list[Any]]:
    """Cut the rows of a key into sessions. Rows of a session stay in the order in which they came."""
    times = sorted(t for t, _, _ in rows)
    begins = [t for before, t in zip([times[0] - gap, *times], times, strict=False) if t - before >= gap]
    ends = [*begins[1:], times[-1] + 1]
    return [[row for row in rows if begin <= row[0] < end] for begin, end in zip(begins, ends, strict=True)]


@given(TURNS, st.sampled_from([1, 5, 17, 60]), st.sampled_from([0, 3]))
def test_sessions_agree_with_a_naive_model(turns: Any, gap: int, lateness: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(SessionShape(gap, lateness, "ts"), Path(folder))
        kept: dict[Any, list[Any]] = defaultdict(list)
        dropped, largest, reached = 0, -(10**6), -(10**6)
        for rows, disorder, workers in turns:
            bounds = []
            for mote, ts, value, whole in rows:
                bounds.append(largest - disorder)
                if ts + lateness < max(bounds[-1], reached):
                    dropped += 1
                else:
                    kept[mote].append((ts, value, whole))
                largest = max(largest, ts)
            if rows:
                tasks.push(batch(rows, bounds))
            reached = max(reached, largest - disorder - 10)
            tasks.watermark(reached)
            over = [end for _, _, end, *_ in plain(tasks.main)]
            assert all(end + lateness <= reached for end in over), "too early"
            wanted = [s for rows in kept.values() for s in sessions_of(rows, gap)]
            ends = [max(t for t, _, _ in session) + gap for session in wanted]
            assert len(over) == sum(end + lateness <= reached for end in ends), "too late"
            if workers:
                tasks.rescale(workers, reached)
        tasks.watermark(2**63 - 1)
        expected = [
            (mote, min(t for t, _, _ in rows), max(t for t, _, _ in rows) + gap, *computed(rows, gap))
            for mote, of_key in kept.items()
            for rows in sessions_of(of_key, gap)
        ]
        assert sorted(plain(tasks.main), key=str) == sorted(expected, key=str)
        assert sum(b.num_rows for b in tasks.late) == dropped
        assert all(task.state.keys == 0 or all_deleted(task) for task in tasks.tasks), "nothing is kept for ever"
        for task in tasks.tasks:
            task.state.close()


def test_a_row_at_the_end_of_a_session_begins_another() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(SessionShape(10, 0, "ts"), Path(folder))
        tasks.push(batch([(1, 9, 1, 1), (1, 29, 1, 1), (1, 19, 1, 1), (1, 28, 1, 1)], [-99] * 4))
        tasks.watermark(2**63 - 1)
        assert [row[:4] for row in plain(tasks.main)] == [(1, 9, 19, 1), (1, 19, 39, 3)]


def test_sessions_emit_in_the_order_of_their_ends() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(SessionShape(10, 0, "ts"), Path(folder))
        rows = [(mote, 7 * mote % 90, 1, 1) for mote in range(90)]
        tasks.push(batch(rows, [-99] * 90))
        tasks.watermark(50)
        first = len(plain(tasks.main))
        tasks.watermark(2**63 - 1)
        for task in tasks.tasks:
            task.state.close()
        assert {row[2] <= 50 for row in plain(tasks.main)[:first]} == {True}
        assert 0 < first < 90


def test_a_long_session_keeps_the_parts_that_may_still_get_rows() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(SessionShape(10, 0, "ts"), Path(folder))
        for now in range(0, 2_000, 5):
            tasks.push(batch([(1, now, 1, 1)], [-99]))
            tasks.watermark(now)
            assert sum(len(task.state.live_rows("windows")) for task in tasks.tasks) <= 2
        tasks.watermark(2**63 - 1)
        assert [row[:4] for row in plain(tasks.main)] == [(1, 0, 2_005, 400)]


def test_parts_that_are_kept_can_be_looked_at() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(SessionShape(10, 0, "ts"), Path(folder))
        tasks.push(batch([(1, 3, 4, 4), (1, 12, 1, None), (1, 17, 2, 2)], [-99] * 3))
        tasks.watermark(13)
        shown = [
            row
            for task in tasks.tasks
            for row in task.step.contents(np.asarray(task.state.live_rows("windows"))).to_pylist()
        ]
        assert [(r["window_start"].microsecond, r["window_end"].microsecond, r["count"], r["sum"]) for r in shown] == [
            (3, 27, 3, 7.0)
        ]


def test_a_part_that_others_were_handed_on_to_is_in_the_next_checkpoint() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(SessionShape(10, 0, "ts"), Path(folder))
        others = [(mote, 90, 1, 1) for mote in range(2, 40)]
        tasks.push(batch([(1, 3, 1, 1), (1, 12, 1, 1), *others], [-99] * 40))
        tables = [task.state._tables["windows"].hot for task in tasks.tasks]
        for table in tables:
            generation, _ = table.cut()
            table.settle(generation)
        tasks.watermark(13)
        assert sum(table.changed for table in tables) == 2, "the part that is over, and the part behind it"
        for task in tasks.tasks:
            task.state.close()
