"""Interval joins with very many pairs emit slice by slice, and go on behind the last pair after a restore."""

from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import StateError
from penstock.base.limits import FIRED_ROWS_MAX, JOIN_SIDE_ROWS_MAX
from penstock.contract.graph import LEFT, RIGHT, How
from penstock.steps.base import NO_BOUND
from penstock.steps.joins.bucket_rows import BucketRows, StoredRows
from penstock.steps.joins.events import Interval
from tests.support.join_tasks import END, JoinTasks, filled, left, right

S = 1_000_000
INTERVAL = Interval(-S, 2 * S, 0)
ROWS = 300  # 90,000 pairs: more than a slice
TIMES = [
    (i, ROWS) for i in range(ROWS)
]  # all pairs happen at time 300: the right rows of key 1 come after all left ones


def every_pair(*more: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    return {(i, 1, i, str(j), ROWS) for i in range(ROWS) for j in range(ROWS)} | set(more)


def test_a_call_emits_at_most_one_slice(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.INNER, INTERVAL, TIMES)
    task, out = tasks.tasks[0], tasks.tasks[0].out
    while task.fire(S) < S and not out:
        pass
    assert sum(b.num_rows for b in out) == FIRED_ROWS_MAX
    while task.fire(S) < S:
        pass
    assert sum(b.num_rows for b in out) == ROWS * ROWS
    assert set(tasks.rows()) == every_pair()
    tasks.close()


def test_a_restore_between_two_slices_goes_on_behind_the_last_pair(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.FULL, INTERVAL, TIMES)
    while not any(b.num_rows == FIRED_ROWS_MAX for b in tasks.tasks[0].out):
        assert tasks.tasks[0].fire(S) < S
    first = len(tasks.rows())
    assert first == FIRED_ROWS_MAX
    tasks.rescale(3)
    tasks.advance(END)
    rows = tasks.rows()
    assert len(rows) == ROWS * ROWS + 2
    assert set(rows) == every_pair((None, 2, None, "alone", 5), (None, None, None, "null", 5))
    tasks.close()


def test_one_row_with_very_many_partners_is_emitted_in_slices(tmp_path: Path) -> None:
    tasks = JoinTasks(tmp_path, How.RIGHT, INTERVAL)
    for part in range(10):
        tasks.take(LEFT, left([(1, 5, 10_000 * part + i) for i in range(10_000)]))
    tasks.take(RIGHT, right([(1, 7, "one")]))
    task = tasks.tasks[0]
    while not task.out:
        assert task.fire(S) < S
    tasks.rescale(2)
    tasks.advance(S)
    assert all(b.num_rows <= FIRED_ROWS_MAX for t in tasks.tasks for b in t.out)
    rows = tasks.rows()
    assert len(rows) == len(set(rows)) == 100_000
    tasks.close()


def test_more_units_than_a_slice_takes_may_be_due_at_one_time(tmp_path: Path) -> None:
    tasks = JoinTasks(tmp_path, How.FULL, INTERVAL)
    keys = 20_000
    tasks.take(LEFT, left([(k, 5, k) for k in range(keys)]))
    tasks.take(RIGHT, right([(k, 5, "r") for k in range(keys)]))
    tasks.rescale(2)
    tasks.advance(END)
    assert sorted(tasks.rows()) == [(5, k, k, "r", 5) for k in range(keys)]
    tasks.close()


def test_nothing_is_kept_of_rows_that_no_later_row_needs(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.LEFT, INTERVAL, TIMES)
    state = tasks.tasks[0].state
    tasks.advance(5 * S)
    assert len(state.live_rows("j")) > 0
    tasks.advance(6 * S + 1)
    assert len(state.live_rows("j")) == 0
    tasks.close()


def test_a_row_is_kept_while_it_decides_on_a_miss_of_the_other_side(tmp_path: Path) -> None:
    """The right row passes out of the interval of later left rows before the left row is missed."""
    tasks = JoinTasks(tmp_path, How.LEFT, INTERVAL)
    tasks.take(RIGHT, right([(1, 0, "r")]))
    tasks.take(LEFT, left([(1, 10, 1)]))
    for second in range(1, 8):
        tasks.advance(second * S)
    assert tasks.rows() == [(10, 1, 1, "r", 0)]
    tasks.close()


def test_a_part_knows_its_earliest_row_when_that_came_later(tmp_path: Path) -> None:
    tasks = JoinTasks(tmp_path, How.INNER, INTERVAL)
    tasks.take(RIGHT, right([(1, 900, "b"), (1, 100, "a")]))
    tasks.take(LEFT, left([(1, 200, 1)]))
    tasks.advance(300)
    tasks.advance(END)
    assert tasks.rows() == [(200, 1, 1, "a", 100), (200, 1, 1, "b", 900)]
    tasks.close()


def test_a_miss_is_said_when_the_other_side_has_passed(tmp_path: Path) -> None:
    tasks = JoinTasks(tmp_path, How.LEFT, INTERVAL)
    tasks.take(LEFT, left([(1, 10, 1)]))
    tasks.advance(10 + 2 * S)
    assert tasks.rows() == []
    tasks.take(RIGHT, right([(2, 10 + 2 * S, "other")]))
    tasks.advance(11 + 2 * S)
    assert tasks.rows() == [(10, 1, 1, None, None)]
    tasks.close()


def test_a_row_of_an_idle_split_is_late_when_its_time_has_passed(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.INNER, INTERVAL, TIMES)
    tasks.advance(S)
    tasks.take(LEFT, left([(1, S - 1, 0), (1, S, 1)], [NO_BOUND, NO_BOUND]))
    assert tasks.tasks[0].step.counters()["late_after_idle"] == 1
    assert len(tasks.tasks[0].late) == 1
    tasks.close()


def test_a_side_with_too_many_rows_of_a_key_is_named(tmp_path: Path) -> None:
    tasks = JoinTasks(tmp_path, How.INNER, INTERVAL)
    many = [(1, 1, 1)] * (JOIN_SIDE_ROWS_MAX // 4)
    for _ in range(4):
        tasks.take(LEFT, left(many))
    with pytest.raises(StateError, match="step 'j': a key has more than 1,000,000 left rows in 3s"):
        tasks.take(LEFT, left(many[:1]))
    tasks.close()


def test_what_is_kept_can_be_looked_at(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.RIGHT, INTERVAL, TIMES)
    task = tasks.tasks[0]
    found = task.step.contents(task.state.live_rows("j")).to_pylist()
    assert {(row["id"], row["side"], row["rows"]) for row in found} == {
        (1, LEFT, ROWS),
        (1, RIGHT, ROWS),
        (2, RIGHT, 1),
        (None, RIGHT, 1),
    }
    assert found[0]["bucket_end"].second == 3
    tasks.close()


def test_a_row_is_read_when_its_time_comes_however_far_ahead_it_was_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(self: BucketRows, *asked: Any) -> tuple[StoredRows, Any]:
        found = read_with_next(self, *asked)
        read.append(len(found[0].times))
        return found

    read_with_next = BucketRows.read_with_next
    monkeypatch.setattr(BucketRows, "read_with_next", counted)
    tasks = JoinTasks(tmp_path, How.LEFT, Interval(-60 * S, 0, 0))
    rows = [(1, second * S + i, i) for second in range(60) for i in range(100)]
    tasks.take(LEFT, left(rows))
    for second in range(1, 61):
        tasks.advance(second * S)
    assert tasks.rows() == [(time, 1, i, None, None) for _, time, i in rows]
    assert sum(read) < 2 * len(rows), "of a unit of 6,000 rows, only those of one second are read in each second"
    tasks.close()
