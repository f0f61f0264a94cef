from penstock.base.limits import LOAD_GROUPS_MAX
from penstock.contract.manifest import GroupRows
from penstock.engine.group_load import GroupLoad


def test_the_rows_of_each_group_are_told_once() -> None:
    load = GroupLoad("count", 8)
    load.rows[[5, 2]] += (3, 1)
    assert load.take() == (GroupRows("count", (2, 5), (1, 3)),)
    assert load.take() == ()


def test_of_many_groups_the_heaviest_are_told() -> None:
    load = GroupLoad("count", LOAD_GROUPS_MAX + 2)
    load.rows[:] = 2
    load.rows[[1, 7]] = 1
    (told,) = load.take()
    assert told.groups == tuple(g for g in range(LOAD_GROUPS_MAX + 2) if g not in {1, 7})
    assert set(told.rows) == {2}
