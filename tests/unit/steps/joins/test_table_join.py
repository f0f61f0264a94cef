"""Versions that rows of loaded key groups ask for are kept, although the task has come further itself."""

from pathlib import Path

from penstock.base.limits import JOIN_VERSIONS_PRUNED
from penstock.contract.graph import LEFT, RIGHT, How
from penstock.steps.joins.event_join import EventJoinStep
from tests.support.join_tasks import END, JoinTasks, Table, left, right


def test_behind_a_load_old_versions_stay_until_the_time_is_heard_again(tmp_path: Path) -> None:
    tasks = JoinTasks(tmp_path, How.LEFT, Table(0))
    task = tasks.tasks[0]
    many = [(1, 1_000 + n, str(n)) for n in range(JOIN_VERSIONS_PRUNED)]
    tasks.take(LEFT, left([(1, 1_002, 0)]))
    tasks.take(RIGHT, right(many))
    assert isinstance(task.step, EventJoinStep)
    task.step._partners.settle(5_000)  # as far as the task had come with its other groups
    task.step.on_groups_gained(task.share, 1_000)
    tasks.take(RIGHT, right([(1, 5_000, "newest")]))
    tasks.advance(END)
    assert tasks.rows() == [(1_002, 1, 0, "2", 1_002)]
    tasks.close()


def test_of_versions_of_one_time_the_greater_bytes_count_whatever_their_order(tmp_path: Path) -> None:
    for number, notes in enumerate((("a", "bc", None), ("bc", None, "a"))):
        (tmp_path / str(number)).mkdir()
        tasks = JoinTasks(tmp_path / str(number), How.LEFT, Table(0))
        tasks.take(RIGHT, right([(1, 5, note) for note in notes]))
        tasks.take(LEFT, left([(1, 5, 0), (1, 7, 1), (1, 4, 2)]))
        tasks.advance(END)
        assert tasks.rows() == [(4, 1, 2, None, None), (5, 1, 0, "bc", 5), (7, 1, 1, "bc", 5)]
        tasks.close()
