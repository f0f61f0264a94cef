"""Key groups go to tasks by how many rows go to them; few move, and none for a small gain."""

import pytest

from penstock.contract.balance import Balance, StepBalance, balance_of_step, by_load, loads_of
from penstock.contract.codec import ABSENT
from penstock.contract.ids import Attempt, Epoch, JobUid, StageIndex, TaskId, Term
from penstock.contract.keygroups import Share, first_shares, groups_of, share_size, to_share
from penstock.contract.manifest import GroupRows, RootManifest, TaskManifest
from penstock.contract.plan import Assignment, PhysicalPlan, StagePlan, first_assignment, next_assignment
from penstock.protocol.leader.balanced_table import balanced

HALVES = first_shares(8, 2)
STAGES = (
    StagePlan(StageIndex(0), "read", ("read",), source="read"),
    StagePlan(StageIndex(1), "count", ("count",), keyed=True),
)
PLAN = PhysicalPlan("job", 8, STAGES, (), "plan")
TABLE = first_assignment(PLAN, 2, {})


def shares(*groups: list[int]) -> tuple[Share, ...]:
    return tuple(map(to_share, groups))


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([4, 3, 2, 1, 0, 0, 0, 0], shares([0, 3], [1, 2, 4, 5, 6, 7])),
        ([90, 5, 5, 0, 0, 0, 0, 0], shares([0, 3], [1, 2, 4, 5, 6, 7])),  # one group is heavier than a share
        ([50, 50, 0, 0, 0, 0, 0, 0], shares([0, 2, 3], [1, 4, 5, 6, 7])),
        ([0, 0, 0, 0, 7, 7, 7, 7], shares([0, 1, 2, 3, 6, 7], [4, 5])),
    ],
)
def test_what_is_more_than_a_share_goes_to_the_lightest(rows: list[int], wanted: tuple[Share, ...]) -> None:
    assert by_load(HALVES, rows) == wanted


@pytest.mark.parametrize("rows", [[0] * 8, [1] * 8, [9, 0, 0, 0, 1, 0, 0, 0], [51, 0, 0, 0, 49, 0, 0, 0]])
def test_nothing_moves_for_little(rows: list[int]) -> None:
    assert by_load(HALVES, rows) == HALVES


def test_a_gain_of_a_twentieth_of_a_share_is_enough() -> None:
    assert by_load(HALVES, [100, 5, 0, 0, 95, 0, 0, 0]) != HALVES
    assert by_load(HALVES, [100, 4, 0, 0, 96, 0, 0, 0]) == HALVES


def test_every_group_has_one_owner_afterwards() -> None:
    rows = [group * group for group in range(64)]
    before = first_shares(64, 5)
    after = by_load(before, rows)
    assert sorted(group for share in after for group in groups_of(share)) == list(range(64))
    assert max(loads_of(after, rows)) < max(loads_of(before, rows))
    said = balance_of_step("count", before, after, rows)
    assert 0 < said.moved < 32
    assert (said.rows, said.after) == (sum(rows), max(loads_of(after, rows)))


def root(*tasks: TaskManifest) -> RootManifest:
    return RootManifest(JobUid("j"), Epoch(1), Term(1), Attempt(1), "checkpoint", 8, "plan", TABLE, tasks)


def told(slot: int, *load: GroupRows) -> TaskManifest:
    return TaskManifest(TaskId(StageIndex(0), TABLE.stages[0].tasks[slot].worker, 0), load=load or ABSENT)


def test_the_rows_of_all_senders_count_and_those_to_other_steps_do_not() -> None:
    first = GroupRows("count", (0, 1), (2, 1)), GroupRows("gone", (3,), (100,))
    found = balanced(PLAN, TABLE, root(told(0, *first), told(1, GroupRows("count", (0, 1), (1, 2)))), 7)
    assert found.stages[1].shares == by_load(HALVES, [3, 3, 0, 0, 0, 0, 0, 0])
    assert found.balance == Balance(7, (StepBalance("count", 1, 6, 6, 3),))
    assert found.stages[0] == TABLE.stages[0]


def test_without_counts_the_table_stays_and_says_so() -> None:
    for none in (None, root(told(0), told(1))):
        found = balanced(PLAN, TABLE, none, 7)
        assert (found.stages, found.balance) == (TABLE.stages, Balance(7))
    assert "counted no rows" in str(Balance(7))


def test_a_balanced_table_stays_while_its_tasks_do() -> None:
    table = balanced(PLAN, TABLE, root(told(0, GroupRows("count", (0, 1), (3, 3)))), 7)
    assert next_assignment(PLAN, table, 2).stages == table.stages != TABLE.stages
    assert [share_size(share) for share in next_assignment(PLAN, table, 3).stages[1].shares] == [3, 3, 2]


def test_a_balance_is_spelled_in_percent() -> None:
    moved, stays = StepBalance("count", 12, 200, 150, 101), StepBalance("sum", 0, 10, 6, 6)
    assert str(Balance(1, (moved, stays))) == (
        "count: 12 key groups moved, its busiest task has 50 % of the rows instead of 75 %; "
        "sum: no key group moved, its busiest task has 60 % of the rows"
    )


def test_an_assignment_of_an_earlier_release_has_no_balance() -> None:
    assert Assignment(TABLE.version, 2, TABLE.stages).balance is ABSENT
