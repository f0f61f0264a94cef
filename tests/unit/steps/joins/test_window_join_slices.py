"""Windows with very many pairs are emitted slice by slice, and go on behind the last pair after a restore."""

from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import StateError
from penstock.base.limits import FIRED_ROWS_MAX, JOIN_SIDE_ROWS_MAX, STATE_TABLE_ROWS_MIN
from penstock.contract.graph import LEFT, RIGHT, How
from penstock.keyed_state.copies import COPIED_ROWS_MAX
from penstock.steps.base import NO_BOUND
from penstock.steps.joins import window_join
from penstock.steps.joins.window_join import JoinWindows
from tests.support.join_tasks import END, JoinTasks, filled, left, right

WINDOWS = JoinWindows(size_us=1000, offset_us=0, lateness_us=0)
ROWS = 300  # 90,000 pairs: more than a slice
TIMES = [(i, i) for i in range(ROWS)]


def every_pair(*more: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    return {(i, 1, i, str(j), j) for i in range(ROWS) for j in range(ROWS)} | set(more)


def test_a_call_emits_at_most_one_slice(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.INNER, WINDOWS, TIMES)
    task, out = tasks.tasks[0], tasks.tasks[0].out
    assert task.fire(1000) == 999, "the window at 1000 has more pairs"
    assert sum(b.num_rows for b in out) <= FIRED_ROWS_MAX
    while task.fire(1000) < 1000:
        pass
    assert all(b.num_rows <= FIRED_ROWS_MAX for b in out)
    assert sum(b.num_rows for b in out) == ROWS * ROWS
    assert set(tasks.rows()) == every_pair()
    tasks.close()


def test_a_restore_between_two_slices_goes_on_behind_the_last_pair(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.FULL, WINDOWS, TIMES)
    while not any(b.num_rows == FIRED_ROWS_MAX for b in tasks.tasks[0].out):
        assert tasks.tasks[0].fire(1000) < 1000
    tasks.reached = None  # the time reached was stored before the slice
    tasks.rescale(3)
    tasks.take(LEFT, left([(1, 7, 7)], [NO_BOUND]))
    assert sum(len(t.late) for t in tasks.tasks) == 1, "no row enters a window that has emitted a part"
    tasks.advance(END)
    rows = tasks.rows()
    assert len(rows) == ROWS * ROWS + 2
    assert set(rows) == every_pair((None, 2, None, "alone", 5), (None, None, None, "null", 5))
    tasks.close()


def one_slice(tasks: JoinTasks) -> None:
    """Fire until one more slice of the window at 1000 was emitted."""
    out = tasks.tasks[0].out
    before = len(out)
    while len(out) == before:
        assert tasks.tasks[0].fire(1000) < 1000


def test_a_checkpoint_has_the_slices_that_were_emitted_since_the_one_before(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.INNER, WINDOWS, TIMES)
    for _ in range(2):
        one_slice(tasks)
        tasks.checkpoint()
    one_slice(tasks)
    tasks.rescale(1)
    tasks.advance(END)
    rows = tasks.rows()
    assert len(rows) == ROWS * ROWS, "each pair once"
    assert set(rows) == every_pair()
    tasks.close()


def test_a_slice_that_is_emitted_while_a_checkpoint_is_copied_is_not_in_it(tmp_path: Path) -> None:
    tasks = JoinTasks(tmp_path, How.INNER, WINDOWS)
    tasks.take(LEFT, left([(100 + i, 5000, i) for i in range(COPIED_ROWS_MAX)]))  # these rows are copied first
    tasks.take(LEFT, left([(1, at, i) for i, (at, _) in enumerate(TIMES)]))
    tasks.take(RIGHT, right([(1, at, str(i)) for i, (_, at) in enumerate(TIMES)]))
    one_slice(tasks)
    before = tasks.rows()
    task = tasks.tasks[0]
    cut = tasks.cut(task)
    one_slice(tasks)
    task.out.clear()  # a restore from this checkpoint drops what came behind it
    files = tasks.written(task, cut)
    task.state.close()
    tasks.start(1, files)
    tasks.advance(1000)
    assert len(before) == FIRED_ROWS_MAX
    assert set(tasks.rows()) == every_pair(), "no pair is lost"
    assert len(tasks.rows()) == ROWS * ROWS
    tasks.close()


def test_nothing_is_kept_of_a_window_that_has_emitted(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.LEFT, WINDOWS, TIMES)
    tasks.advance(END)
    assert len(tasks.tasks[0].state.live_rows("j")) == 0
    tasks.close()


def test_windows_on_disk_emit_in_the_order_of_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts behind the first one are stored by the end of their window, and never come due."""
    monkeypatch.setattr(window_join, "JOIN_WINDOWS_MAX", 8)
    tasks = JoinTasks(tmp_path, How.LEFT, WINDOWS)
    task = tasks.tasks[0]
    task.state.limit(1)
    tasks.take(LEFT, left([(key, i, i) for key in range(20) for i in range(300)]))
    for first in range(1000, 1000 + 3 * STATE_TABLE_ROWS_MIN, STATE_TABLE_ROWS_MIN):
        tasks.take(LEFT, left([(key, 1500, 0) for key in range(first, first + STATE_TABLE_ROWS_MIN)]))
    task.advance(5000)
    times = [row[0] for row in tasks.rows()]
    assert len(times) == 20 * 300 + 3 * STATE_TABLE_ROWS_MIN
    ends = [at // 1000 for at in times]
    assert ends == sorted(ends)
    tasks.close()


def test_a_side_with_too_many_rows_of_a_key_is_named(tmp_path: Path) -> None:
    tasks = JoinTasks(tmp_path, How.INNER, WINDOWS)
    many = [(1, 1, 1)] * (JOIN_SIDE_ROWS_MAX // 4)
    for _ in range(4):
        tasks.take(LEFT, left(many))
    with pytest.raises(StateError, match="step 'j': a key has more than 1000000 left rows in one window"):
        tasks.take(LEFT, left(many[:1]))
    tasks.close()


def test_what_is_kept_of_open_windows_can_be_looked_at(tmp_path: Path) -> None:
    tasks = filled(tmp_path, How.RIGHT, WINDOWS, TIMES)
    task = tasks.tasks[0]
    found = {row["id"]: row for row in task.step.contents(task.state.live_rows("j")).to_pylist()}
    assert {key: (row["left_rows"], row["right_rows"]) for key, row in found.items()} == {
        1: (ROWS, ROWS),
        2: (0, 1),
        None: (0, 1),
    }
    assert found[1]["window_end"].microsecond == 1000
    tasks.close()
