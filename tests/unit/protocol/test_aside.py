"""Inputs that do not hold the time of a task back: its steps are told apart how far these have come."""

from penstock.base.values import replace
from penstock.contract.ids import BlobName, ChannelId, Epoch, Version
from penstock.contract.keygroups import Range, Share
from penstock.contract.manifest import BlobRef, StateFile, TaskManifest
from penstock.contract.plan import EdgePlan, Partitioning, first_assignment, next_assignment
from penstock.model.elements import Active, Idle, Watermark
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.input_progress import END_OF_TIME
from tests.support.task_harness import (
    COUNT,
    PLAN,
    SOURCE,
    SPLITS,
    Rig,
    barrier,
    rescale,
    rig,
    root,
    rows,
    task,
    to_count,
)

TABLE = EdgePlan(2, SOURCE, COUNT, Partitioning.KEY)
JOINED = replace(
    PLAN,
    edges=(*PLAN.edges, TABLE),
    stages=(PLAN.stages[0], replace(PLAN.stages[1], aside=(TABLE.index,)), PLAN.stages[2]),
)
TWO = first_assignment(JOINED, 2, {SOURCE: tuple(s.split for s in SPLITS)})
ONE = next_assignment(JOINED, TWO, 1)


def of_table(sender: int, receiver: int = 0) -> ChannelId:
    return ChannelId(TABLE.index, task(SOURCE, sender), task(COUNT, receiver))


def joined() -> Rig:
    return rig(COUNT, 0, TWO, plan=JOINED)


def asides(actions: list[ev.Action]) -> list[int]:
    return [a.time_us for a in actions if isinstance(a, ev.AdvanceAside)]


def told(actions: list[ev.Action]) -> list[int]:
    return [a.time_us for a in actions if isinstance(a, ev.AdvanceWatermark)]


def test_a_table_holds_no_time_back_and_the_steps_are_told_when_all_of_it_has_come_so_far() -> None:
    join = joined()
    join.arrive(to_count(0, 0), Watermark(70))
    assert told(join.arrive(to_count(1, 0), Watermark(60))) == [60], "the table has said nothing"
    assert join.arrive(of_table(0), Watermark(END_OF_TIME)) == []
    assert join.arrive(of_table(1), Watermark(5)) == [ev.AdvanceAside(TABLE.index, 5)]
    assert join.arrive(of_table(1), Watermark(END_OF_TIME)) == [ev.AdvanceAside(TABLE.index, END_OF_TIME)]


def test_while_nothing_is_known_of_a_table_rows_are_taken_and_the_barrier_behind_them_is_cut() -> None:
    join = joined()
    inputs = [channel(sender) for sender in (0, 1) for channel in (of_table, lambda s: to_count(s, 0))]
    for channel in inputs:
        assert join.core.reads(channel)
        join.arrive(channel, rows("a"))
    for channel in inputs[:-1]:
        assert not any(isinstance(a, ev.Snapshot) for a in join.arrive(channel, barrier(1)))
    assert any(isinstance(a, ev.Snapshot) for a in join.arrive(inputs[-1], barrier(1)))


def test_each_table_is_told_for_itself() -> None:
    other = EdgePlan(3, SOURCE, COUNT, Partitioning.KEY)
    stage = replace(JOINED.stages[1], aside=(TABLE.index, other.index))
    two = replace(JOINED, edges=(*JOINED.edges, other), stages=(JOINED.stages[0], stage, JOINED.stages[2]))
    join = rig(COUNT, 0, TWO, plan=two)
    join.arrive(of_table(0), Watermark(7))
    assert join.arrive(of_table(1), Watermark(9)) == [ev.AdvanceAside(TABLE.index, 7)], "the other one is silent"
    join.arrive(ChannelId(other.index, task(SOURCE, 0), task(COUNT, 0)), Watermark(3))
    last = ChannelId(other.index, task(SOURCE, 1), task(COUNT, 0))
    assert join.arrive(last, Watermark(END_OF_TIME)) == [ev.AdvanceAside(other.index, 3)]


def test_a_table_that_is_idle_says_nothing_and_does_not_make_the_task_idle() -> None:
    join = joined()
    join.arrive(of_table(0), Watermark(9))
    assert join.arrive(of_table(1), Idle()) == [ev.AdvanceAside(TABLE.index, 9)]
    assert join.arrive(of_table(0), Idle()) == []
    assert join.arrive(of_table(1), Active()) == []
    assert not join.core.state.time.any_idle


def test_behind_a_rescale_the_steps_are_told_nothing_that_they_know() -> None:
    join = joined()
    for sender in (0, 1):
        join.arrive(of_table(sender), Watermark(9))
    join(ev.Proposed(ONE, None))
    for sender in (0, 1):
        join.arrive(to_count(sender, 0), rescale(1))
        join.arrive(of_table(sender), rescale(1))
    assert asides(join.done) == [9]
    join.store(1)
    manifest = next(a.manifest for a in join.done if isinstance(a, ev.Ack))
    join(ev.RescaleCommitted(Version(2), root(1, manifest)))
    assert asides(join.arrive(of_table(0), Watermark(4))) == [], "a split that it gained is behind"
    assert asides(join.arrive(of_table(0), Watermark(11))) == [11]


COPIED = replace(
    JOINED, stages=(JOINED.stages[0], replace(JOINED.stages[1], copies=("rules.count",)), JOINED.stages[2])
)
THREE = next_assignment(COPIED, TWO, 3)


def stored(worker: int, state: str, groups: Share) -> TaskManifest:
    file = StateFile(BlobRef(BlobName(f"{worker}{state}"), "00", 1), state, groups, 1, Epoch(1), 3)
    return TaskManifest(task(COUNT, worker), (file,))


def loads(driven: Rig) -> list[str]:
    return [f.state for a in driven.done if isinstance(a, ev.LoadState) for f in a.files]


def test_every_task_begins_with_the_copy_that_one_task_stored() -> None:
    begun = root(1, stored(0, "rules.count", (Range(0, 4),)))
    for worker in (0, 1):
        assert loads(rig(COUNT, worker, TWO, plan=COPIED, root=begun)) == ["rules.count"]


def test_a_task_that_joins_loads_the_copy_before_it_goes_on_and_others_keep_theirs() -> None:
    joiner = rig(COUNT, 2, THREE, plan=COPIED, joining=True)
    cut = root(1, stored(0, "rules.count", (Range(0, 4),)), stored(1, "count", (Range(0, 4),)))
    joiner(ev.RescaleCommitted(THREE.version, cut))
    assert set(loads(joiner)) == {"rules.count", "count"}

    other = rig(COUNT, 0, TWO, plan=COPIED)
    other(ev.Proposed(next_assignment(COPIED, TWO, 1), None))
    for sender in (0, 1):
        other.arrive(to_count(sender, 0), rescale(1))
        other.arrive(of_table(sender), rescale(1))
    other.store(1)
    other.done.clear()
    other(ev.RescaleCommitted(Version(2), cut))
    assert set(loads(other)) == {"count"}, "its copy is newer"
