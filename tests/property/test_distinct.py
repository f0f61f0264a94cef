"""Rows without duplicates against a naive model, through moves of the state: forgetting a key changes no answer."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.steps.distinct import DistinctStep
from penstock.steps.keyed import KeyColumns
from penstock.steps.windows.late_rows import LateRows, instants
from tests.support.window_tasks import NAME, TURNS, Tasks, all_deleted, batch, plain


def within(us: int, lateness: int) -> Any:
    return lambda keys: DistinctStep(NAME, keys, us, LateRows(instants(lateness, "ts"), keys))


def for_ever(keys: KeyColumns) -> DistinctStep:
    return DistinctStep(NAME, keys, None, None)


@given(TURNS, st.sampled_from([1, 5, 17, 60]), st.sampled_from([0, 3]))
def test_a_row_is_emitted_if_none_was_for_so_long(turns: Any, us: int, lateness: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(within(us, lateness), Path(folder))
        until: dict[Any, int] = {}
        expected, dropped, largest, reached = [], 0, -(10**6), -(10**6)
        for rows, disorder, workers in turns:
            bounds = []
            for row in rows:
                mote, ts, _, _ = row
                bounds.append(largest - disorder)
                if ts + lateness < max(bounds[-1], reached):
                    dropped += 1
                elif ts >= until.get(mote, ts):
                    until[mote] = ts + us
                    expected.append(row)
                largest = max(largest, ts)
            if rows:
                tasks.push(batch(rows, bounds))
            reached = max(reached, largest - disorder - 10)
            tasks.watermark(reached)
            if workers:
                tasks.rescale(workers, reached)
        assert sorted((row[:4] for row in plain(tasks.main)), key=str) == sorted(expected, key=str)
        assert sum(b.num_rows for b in tasks.late) == dropped
        tasks.watermark(2**63 - 1)
        assert all(task.state.keys == 0 or all_deleted(task) for task in tasks.tasks), "nothing is kept for ever"
        for task in tasks.tasks:
            task.state.close()


@given(TURNS)
def test_without_a_time_a_key_has_one_row_for_ever(turns: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(for_ever, Path(folder))
        expected: dict[Any, Any] = {}
        for rows, _, workers in turns:
            for row in rows:
                expected.setdefault(row[0], row)
            if rows:
                tasks.push(batch(rows, [0] * len(rows)))
            tasks.watermark(10**6)
            if workers:
                tasks.rescale(workers, 10**6)
        assert sorted((row[:4] for row in plain(tasks.main)), key=str) == sorted(expected.values(), key=str)
        for task in tasks.tasks:
            task.state.close()


def test_duplicates_are_not_in_the_next_checkpoint() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(within(10, 0), Path(folder))
        rows = [(mote, 0, None, 1) for mote in range(40)]
        tasks.push(batch(rows, [-99] * 40))
        tables = [task.state._tables[NAME].hot for task in tasks.tasks]
        for table in tables:
            generation, _ = table.cut()
            table.settle(generation)
        tasks.push(batch([*rows, (7, 10, None, 1)], [-99] * 41))
        assert sum(table.changed for table in tables) == 1, "that of the row that is none"
        for task in tasks.tasks:
            task.state.close()


def test_a_row_exactly_so_much_later_is_no_duplicate() -> None:
    assert emitted([0, 9, 10, 19, 20], us=10) == [0, 10, 20]


def test_a_duplicate_that_is_not_yet_late_is_dropped_behind_the_watermark() -> None:
    assert emitted([0], us=10, lateness=5, watermark=12, then=[9, 11]) == [0, 11]


def emitted(times: list[int], us: int, lateness: int = 0, watermark: int = -99, then: list[int] | None = None) -> Any:
    """Return the times of the rows of a key that are emitted: some before a watermark, the others after it."""
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(within(us, lateness), Path(folder))
        for rows in (times, then or []):
            if rows:
                tasks.push(batch([(1, time, None, 1) for time in rows], [-99] * len(rows)))
            tasks.watermark(watermark)
        for task in tasks.tasks:
            task.state.close()
        assert not tasks.late
        return [row[1] for row in plain(tasks.main)]
