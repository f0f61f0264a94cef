"""The parts of a checkpoint that a task reads: entries, splits and watermark of its stage."""

import pytest

from penstock.base.errors import StateError
from penstock.base.values import replace
from penstock.contract.ids import BlobName, Epoch, Ordinal, SplitId, StageIndex, TaskId
from penstock.contract.keygroups import Range
from penstock.contract.manifest import BlobRef, GroupsTime, RootManifest, SplitState, StateFile, TaskManifest
from penstock.contract.plan import PhysicalPlan, StagePlan, StepState
from penstock.protocol.state_entries import entries_of, fired_until, splits_of, watermark_of
from penstock.protocol.state_matching import without
from tests.support.running_jobs import running

LEFT, RIGHT = StageIndex(0), StageIndex(1)
A, B = SplitId("a"), SplitId("b")
PLAN = PhysicalPlan(
    "two",
    4,
    tuple(StagePlan(StageIndex(i), n, (n,), source=n) for i, n in enumerate(("left", "right"))),
    (),
    "two-1",
    tuple(StepState(name, "source") for name in ("left", "right")),
)


def task(stage: StageIndex, worker: int) -> TaskId:
    return TaskId(stage, Ordinal(worker), 0)


def two_sources() -> RootManifest:
    """Make a checkpoint of two sources whose splits have the same names."""
    plane = running()
    assert plane.latest.root is not None
    made = plane.blobs[plane.latest.root.name]
    assert isinstance(made, RootManifest)
    tasks = (
        TaskManifest(task(LEFT, 0), splits=(SplitState(A, "left", 1),), watermark_us=10),
        TaskManifest(task(LEFT, 1), splits=(SplitState(B, "left", 2),), watermark_us=5),
        TaskManifest(task(RIGHT, 0), splits=(SplitState(B, "right", 3),)),
        TaskManifest(task(RIGHT, 1), splits=(SplitState(A, "right", 4),), watermark_us=7),
    )
    return replace(made, tasks=tasks, states=PLAN.states, steps=PLAN.steps)


def test_a_split_stands_where_its_own_source_left_it() -> None:
    root = two_sources()
    assert splits_of(root, PLAN, "left", (B, A)) == (
        SplitState(B, "left", 2),
        SplitState(A, "left", 1),
    )
    assert splits_of(root, PLAN, "right", (A,)) == (SplitState(A, "right", 4),)


def test_a_split_that_only_another_source_knows_is_lost() -> None:
    root = two_sources()
    tasks = tuple(t for t in root.tasks if t.task != task(RIGHT, 0))
    with pytest.raises(StateError, match=r"does not know where splits stand: \['b'\]"):
        splits_of(replace(root, tasks=tasks), PLAN, "right", (A, B))


def test_files_of_child_tables_follow_the_step_of_their_parent() -> None:
    ref = BlobRef(BlobName("f"), "0", 1)
    files = tuple(StateFile(ref, name, (Range(0, 4),), 0, Epoch(1), 1) for name in ("add", "add.seen", "other.add"))
    root = replace(two_sources(), tasks=(TaskManifest(task(LEFT, 0), files=files),))
    assert [f.state for f in entries_of(root, ("add",), (Range(1, 2),))] == ["add", "add.seen"]
    dropped = without(replace(root, states=(StepState("add", "process"),), steps=(("add",),)), PLAN, ["add"])
    assert [f.state for f in dropped.tasks[0].files] == ["other.add"]


def test_a_task_that_joins_begins_at_the_lowest_watermark_of_its_stage() -> None:
    root = two_sources()
    assert watermark_of(root, PLAN, task(LEFT, 0), ()) == 10
    assert watermark_of(root, PLAN, task(LEFT, 2), ()) == 5
    assert watermark_of(root, PLAN, task(RIGHT, 2), ()) is None, "one of them knows none"


def test_a_step_that_moved_follows_all_tasks_that_had_it() -> None:
    root = two_sources()
    moved = replace(
        PLAN,
        stages=(
            StagePlan(LEFT, "head", ("head",)),
            StagePlan(RIGHT, "left", ("left",), source="left"),
        ),
        states=(StepState("left", "source"),),
    )
    assert watermark_of(root, moved, task(RIGHT, 0), ()) == 5, "the least: it has seen no more"
    all_groups = (Range(0, 4),)
    assert fired_until(root, moved, task(RIGHT, 0), all_groups) == (GroupsTime(all_groups, 10),), "nothing comes twice"
    assert watermark_of(root, moved, task(LEFT, 0), ()) is None, "a new stage"
    assert splits_of(root, moved, "left", (A,)) == (SplitState(A, "left", 1),)
