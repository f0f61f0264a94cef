"""Assignments place tasks, deal splits and follow the number of workers."""

from penstock.contract.ids import Ordinal, SplitId, StageIndex, TaskId
from penstock.contract.keygroups import groups_of, share_size
from penstock.contract.plan import (
    EdgePlan,
    Partitioning,
    PhysicalPlan,
    StagePlan,
    channels_of,
    first_assignment,
    next_assignment,
)

SOURCE = StagePlan(StageIndex(0), "lines", ("lines",), source="lines", bounded=True)
COUNT = StagePlan(StageIndex(1), "count", ("count",), parallelism=3, keyed=True)
SINK = StagePlan(StageIndex(2), "out", ("out",), parallelism=3, sinks=("out",))
PLAN = PhysicalPlan(
    "job",
    256,
    (SOURCE, COUNT, SINK),
    (
        EdgePlan(0, StageIndex(0), StageIndex(1), Partitioning.KEY),
        EdgePlan(1, StageIndex(1), StageIndex(2), Partitioning.FORWARD),
    ),
    "f",
)
SPLITS = {StageIndex(0): tuple(SplitId(f"s{i}") for i in range(7))}


def test_a_stage_without_parallelism_has_a_task_on_every_worker() -> None:
    first = first_assignment(PLAN, 2, SPLITS)
    assert [str(t) for t in first.stages[0].tasks] == ["0.0.0", "0.1.0"]


def test_a_fixed_parallelism_is_spread_over_the_workers() -> None:
    first = first_assignment(PLAN, 2, SPLITS)
    assert [str(t) for t in first.stages[1].tasks] == ["1.0.0", "1.0.1", "1.1.0"]


def test_every_split_has_one_owner_through_rescales() -> None:
    table = first_assignment(PLAN, 2, SPLITS)
    for workers in (3, 1, 4, 2):
        following = next_assignment(PLAN, table, workers)
        assert following.version == table.version + 1
        dealt = [s for splits in following.stages[0].splits for s in splits]
        assert sorted(dealt) == sorted(SPLITS[StageIndex(0)])
        sizes = [len(splits) for splits in following.stages[0].splits]
        assert max(sizes) - min(sizes) <= 1
        groups = [g for share in following.stages[1].shares for g in groups_of(share)]
        assert sorted(groups) == list(range(256))
        table = following


def test_a_task_that_stays_keeps_most_of_what_it_had() -> None:
    first = first_assignment(PLAN, 2, SPLITS)
    following = next_assignment(PLAN, first, 3)
    stays = TaskId(StageIndex(1), Ordinal(0), 0)
    assert share_size(following.share_of(stays)) >= 85
    assert set(groups_of(following.share_of(stays))) <= set(groups_of(first.share_of(stays)))


def test_keyed_edges_join_all_pairs_and_forward_edges_slot_by_slot() -> None:
    channels = channels_of(PLAN, first_assignment(PLAN, 2, SPLITS))
    keyed = [c for c in channels if c.edge == 0]
    forward = [c for c in channels if c.edge == 1]
    assert len(keyed) == 2 * 3
    assert [(str(c.sender), str(c.receiver)) for c in forward] == [
        ("1.0.0", "2.0.0"),
        ("1.0.1", "2.0.1"),
        ("1.1.0", "2.1.0"),
    ]


def test_a_task_outside_the_table_owns_nothing() -> None:
    first = first_assignment(PLAN, 2, SPLITS)
    stranger = TaskId(StageIndex(1), Ordinal(5), 0)
    assert first.share_of(stranger) == ()
    assert first.splits_of(TaskId(StageIndex(0), Ordinal(5), 0)) == ()


def test_a_task_is_spelled_by_its_numbers() -> None:
    assert str(TaskId(StageIndex(2), Ordinal(11), 3)) == "2.11.3"
