"""Joins with a table as it is now against brute force, through moves of the state while the table is loaded."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.graph import LEFT, RIGHT
from penstock.steps.base import BOUND_COLUMN, NO_BOUND
from penstock.steps.joins.now_join import NowJoinStep
from penstock.steps.joins.pairs import PairBatches
from penstock.steps.joins.sides import untimed_side
from penstock.steps.keyed import KeyColumns
from penstock.steps.load_first import HeldInput, LoadFirstStep
from tests.support.join_tasks import LEFT_ROWS, RIGHT_ROWS, left, plain, right
from tests.support.window_tasks import GROUPS, Tasks

JOINED = pa.schema([*LEFT_ROWS, ("note", pa.string()), ("paid", pa.timestamp("us"))])
TABLE, UNTIL = 7, 50  # an edge, and the time up to which it is loaded
KEY = st.none() | st.integers(0, 3)
ROWS = st.lists(st.tuples(KEY, st.integers(0, 99), st.integers(0, 9)), max_size=8)
VERSIONS = st.lists(st.tuples(KEY, st.integers(0, 99), st.none() | st.sampled_from(["", "a", "bc"])), max_size=8)
# rows of the table, rows, how far the table has come, the time that is heard, and how many tasks there are then
TURN = st.tuples(VERSIONS, ROWS, st.integers(0, 60), st.integers(0, 9), st.sampled_from([0, 0, 2, 3]))


def stepped(*, alone: bool) -> Any:
    def made(keys: KeyColumns) -> LoadFirstStep:
        table = KeyColumns(RIGHT_ROWS, ["order"], GROUPS)
        sides = untimed_side(0, keys, LEFT_ROWS, alone), untimed_side(1, table, RIGHT_ROWS, False)
        inner = NowJoinStep("windows", sides, PairBatches(sides, JOINED), RIGHT_ROWS, timed=True)
        return LoadFirstStep(inner, HeldInput(LEFT, "windows.waiting", keys, LEFT_ROWS, True), {TABLE: UNTIL})

    return made


class NowTasks(Tasks):
    """Tasks of the join. Rows of both sides go to the owners of their keys."""

    def __init__(self, folder: Path, *, alone: bool) -> None:
        super().__init__(stepped(alone=alone), folder, ["id"], LEFT_ROWS)
        self.aside = 0

    def take(self, side: str, rows: pa.RecordBatch) -> None:
        groups = self._keys.codec.hashed([rows.column("id" if side == LEFT else "order")])[1]
        for task in self.tasks:
            mine = [i for i, group in enumerate(groups) if any(r.start <= group < r.stop for r in task.share)]
            if mine:
                step(task).side(side)(rows.take(pa.array(mine)))

    def reach(self, aside: int) -> None:
        """Tell the steps how far the table has come, and let the rows leave that may."""
        self.aside = aside
        for task in self.tasks:
            step(task).on_aside(TABLE, aside)
            while step(task).ready:
                step(task).release()

    def rescale(self, workers: int, watermark: int) -> None:
        super().rescale(workers, watermark)
        for task in self.tasks:
            step(task).on_loaded()
        self.reach(self.aside)


def step(task: Any) -> LoadFirstStep:
    assert isinstance(task.step, LoadFirstStep)
    return task.step


@given(st.lists(TURN, min_size=1, max_size=8), st.booleans())
def test_rows_find_what_is_there_when_they_come_and_first_the_table_is_loaded(turns: Any, alone: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = NowTasks(Path(folder), alone=alone)
        table: dict[Any, Any] = {}
        waiting: list[Any] = []
        expected: list[Any] = []
        reached = 0
        for versions, rows, aside, pause, workers in turns:
            if versions:
                tasks.take(RIGHT, right(versions))
            table |= {key: (note, at) for key, at, note in versions if key is not None}
            if rows:
                tasks.take(LEFT, left(rows))
            waiting += rows
            tasks.reach(max(tasks.aside, aside))
            if tasks.aside >= UNTIL:
                found = [(at, key, x, *table.get(key, (None, None))) for key, at, x in waiting]
                expected += [row for row in found if alone or row[1] in table]
                waiting = []
            reached += pause
            for task in tasks.tasks:
                assert step(task).on_watermark(reached) <= reached
                assert (step(task).waiting == 0) or tasks.aside < UNTIL
            assert sum(step(task).waiting for task in tasks.tasks) == len(waiting)
            if workers:
                tasks.rescale(workers, reached)
        found = [row for each in tasks.main for row in plain(each)]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        for task in tasks.tasks:
            task.state.close()


def one_task(folder: Path, *, alone: bool = True) -> tuple[NowTasks, LoadFirstStep]:
    tasks = NowTasks(folder, alone=alone)
    tasks.tasks[1:] = []
    tasks.tasks[0].share = (type(tasks.tasks[0].share[0])(0, GROUPS),)
    return tasks, step(tasks.tasks[0])


def test_rows_leave_in_the_order_in_which_they_came_and_hold_the_time_meanwhile(tmp_path: Path) -> None:
    tasks, join = one_task(tmp_path)
    join.side(LEFT)(left([(1, 5, 0)], [3]))
    assert join.on_watermark(4) < 0, "the row came before any time was heard"
    join.side(LEFT)(left([(1, 6, 1), (2, 7, 2)], [4, 4]))
    assert join.on_watermark(9) < 0
    join.on_aside(TABLE, UNTIL - 1)
    join.release()
    assert tasks.main == []
    join.on_aside(TABLE, UNTIL)
    join.release()
    assert [row[2] for batch in tasks.main for row in plain(batch)] == [0, 1, 2]
    assert [bound for batch in tasks.main for bound in batch.column(BOUND_COLUMN).to_pylist()] == [3, 4, 4]
    assert join.on_watermark(9) == 9


def test_a_row_that_comes_while_others_wait_does_not_overtake_them(tmp_path: Path) -> None:
    tasks, join = one_task(tmp_path)
    join.side(LEFT)(left([(1, 5, 0)]))
    join.on_aside(TABLE, UNTIL)
    join.side(LEFT)(left([(1, 6, 1)]))
    assert tasks.main == []
    while join.ready:
        join.release()
    join.side(LEFT)(left([(1, 7, 2)]))
    assert [row[2] for batch in tasks.main for row in plain(batch)] == [0, 1, 2]


def test_a_loaded_table_stays_loaded(tmp_path: Path) -> None:
    tasks, join = one_task(tmp_path)
    join.on_aside(TABLE, UNTIL)
    join.on_aside(TABLE, UNTIL - 30)  # a split that was gained is behind
    join.side(LEFT)(left([(1, 7, 2)]))
    assert len(tasks.main) == 1
    assert join.waiting == 0


def test_every_edge_has_to_reach_its_time_and_others_do_not_count(tmp_path: Path) -> None:
    keys = KeyColumns(LEFT_ROWS, ["id"], GROUPS)
    held = HeldInput(LEFT, "windows.waiting", keys, LEFT_ROWS, True)
    _, join = one_task(tmp_path)
    both = LoadFirstStep(join.inner, held, {1: 10, 2: 20})
    both.waiting = 1
    for edge, time, ready in ((3, 99, False), (1, 10, False), (2, 19, False), (1, 5, False), (2, 20, True)):
        both.on_aside(edge, time)
        assert both.ready is ready


def test_a_table_keeps_the_last_row_of_each_key_and_can_be_looked_at(tmp_path: Path) -> None:
    tasks, join = one_task(tmp_path)
    join.side(RIGHT)(right([(1, 5, "a"), (None, 1, "x"), (2, 6, "b"), (1, 4, "c")]))
    shown = join.contents(np.asarray(tasks.tasks[0].state.live_rows("windows"))).to_pylist()
    assert sorted((row["order"], row["note"]) for row in shown) == [(1, "c"), (2, "b")]
    assert join.counters()["null_keys"] == 1


@pytest.mark.parametrize("alone", [True, False])
def test_null_keys_match_nothing(tmp_path: Path, alone: bool) -> None:
    tasks, join = one_task(tmp_path, alone=alone)
    join.on_aside(TABLE, UNTIL)
    join.side(RIGHT)(right([(None, 5, "a")]))
    join.side(LEFT)(left([(None, 5, 7)], [NO_BOUND]))
    assert [row[2:4] for batch in tasks.main for row in plain(batch)] == ([(7, None)] if alone else [])
