"""Steps fire in slices: what a task says, stores and takes between two of them, and behind a load."""

from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.ids import BlobName, Epoch, Version
from penstock.contract.keygroups import Range, Share
from penstock.contract.manifest import BlobRef, GroupsTime, RootManifest, StateFile, TaskManifest
from penstock.model.elements import Active, BarrierKind, EndOfStream, Idle, Watermark
from penstock.protocol.state_entries import fired_until, watermark_of
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.input_progress import BEGIN_OF_TIME, END_OF_TIME
from tests.support.task_harness import (
    COUNT,
    ONE,
    PLAN,
    TWO,
    Rig,
    barrier,
    rescale,
    rig,
    root,
    rows,
    sends,
    task,
    to_count,
    to_out,
)

FIRST, SECOND = TWO.share_of(task(COUNT, 0)), TWO.share_of(task(COUNT, 1))


def firing(worker: int = 0) -> Rig:
    """Make a task that was told 100 and has reached 30 with its first slice."""
    counter = rig(COUNT, worker)
    counter.slice_us = 30
    counter.arrive(to_count(0, worker), Watermark(120))
    assert counter.arrive(to_count(1, worker), Watermark(100)) == [ev.AdvanceWatermark(100)]
    return counter


def said(actions: list[ev.Action]) -> list[object]:
    return [element for channel, element in sends(actions) if channel == to_out(channel.sender.worker, 0)]


def told(actions: list[ev.Action]) -> list[int]:
    return [a.time_us for a in actions if isinstance(a, ev.AdvanceWatermark)]


def test_a_task_says_and_stores_what_its_steps_have_reached_and_rows_flow_between_slices() -> None:
    counter = firing()
    assert said(counter(ev.InputIdle())) == [Watermark(30)]
    assert counter.arrive(to_count(0, 0), rows("x")) == [ev.ProcessRows(to_count(0, 0), rows("x"))]
    counter.arrive(to_count(0, 0), barrier(1))
    cut = counter.arrive(to_count(1, 0), barrier(1))
    assert ev.Snapshot(barrier(1), Epoch(0), 30) in cut
    (ack,) = counter.store(1)
    assert isinstance(ack, ev.Ack)
    assert (ack.manifest.watermark_us, ack.manifest.firing) == (30, (GroupsTime(FIRST, 100),))


def test_firing_goes_on_until_the_time_heard_and_then_it_is_said_without_another_order() -> None:
    counter = firing()
    counter(ev.InputIdle())
    while counter.core.fires:
        last = counter(ev.FireOn())
    assert counter.core.state.time.task_us == 100
    assert (told(last), said(last)) == ([100], [Watermark(100)])
    assert counter(ev.FireOn()) == []


def test_a_time_heard_meanwhile_is_told_with_the_next_slice() -> None:
    counter = firing()
    counter.arrive(to_count(1, 0), Watermark(110))
    assert told(counter.done)[-1] == 110


def test_idleness_is_said_behind_the_last_slice() -> None:
    counter = firing()
    counter.arrive(to_count(0, 0), Idle())
    assert said(counter.arrive(to_count(1, 0), Idle())) == [Watermark(60)]
    assert said(counter(ev.FireOn())) == [Watermark(100), Idle()]


def test_a_task_ends_behind_its_last_slice() -> None:
    counter = firing()
    counter.slice_us = 1
    for sender in (0, 1):
        actions = counter.arrive(to_count(sender, 0), EndOfStream())
    assert EndOfStream() not in said(actions)
    counter.slice_us = None
    last = counter(ev.FireOn())
    assert said(last) == [Watermark(100), EndOfStream()]
    assert last[-1] == ev.ReportFinished()


def test_the_last_epoch_is_cut_when_all_has_fired() -> None:
    counter = firing()
    final = barrier(1, kind=BarrierKind.FINAL)
    counter.arrive(to_count(0, 0), final)
    counter.arrive(to_count(1, 0), final)
    assert not [a for a in counter.done if isinstance(a, ev.Snapshot)]
    assert not counter.core.reads(to_count(0, 0))
    while counter.core.fires:
        last = counter(ev.FireOn())
    assert said(last) == [Watermark(100), final]
    (ack,) = counter.store(1)
    assert isinstance(ack, ev.Ack)
    assert (ack.manifest.watermark_us, ack.manifest.firing) == (100, ABSENT)


def test_nothing_fires_while_a_rescale_is_undecided_and_then_it_goes_on() -> None:
    counter = firing()
    counter(ev.Proposed(ONE, None))
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), rescale(1))
    assert not counter.core.fires
    assert counter(ev.FireOn()) == []
    counter(ev.Cancelled(Version(2)))
    for sender in (0, 1):
        last = counter.arrive(to_count(sender, 0), Watermark(100))
    assert told(last) == [100]


# --- The clock


def test_the_clock_fires_in_a_task_that_runs_and_ends_idle_marks_first() -> None:
    counter = rig(COUNT)
    assert counter(ev.ClockReached()) == [ev.AdvanceClock()]
    counter.arrive(to_count(0, 0), Idle())
    assert said(counter.arrive(to_count(1, 0), Idle())) == [Idle()]
    actions = counter(ev.ClockReached())
    assert said(actions) == [Active()]
    assert actions[-1] == ev.AdvanceClock()
    assert said(counter(ev.InputIdle())) == [Idle()], "all inputs are idle still"


def test_the_clock_stands_from_the_barrier_of_a_rescale_until_the_task_has_resumed() -> None:
    counter = rig(COUNT)
    counter(ev.Proposed(ONE, None))
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), rescale(1))
    assert not counter.core.follows_clock
    assert counter(ev.ClockReached()) == [], "the state of this barrier goes to the next owner"
    counter.store(1)
    (load,) = [a for a in counter(ev.RescaleCommitted(Version(2), two_times())) if isinstance(a, ev.LoadState)]
    counter(ev.Loaded(load.version))
    assert counter.core.follows_clock


# --- Answers


def test_answers_are_taken_by_a_task_that_runs_and_end_idle_marks_first() -> None:
    counter = rig(COUNT)
    assert counter(ev.AnswersCame()) == [ev.TakeAnswers()]
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), Idle())
    actions = counter(ev.AnswersCame())
    assert said(actions) == [Active()]
    assert actions[-1] == ev.TakeAnswers()


def test_answers_are_taken_while_the_last_barrier_waits_for_them() -> None:
    counter = firing()
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), barrier(1, kind=BarrierKind.FINAL))
    assert counter.core.takes_answers
    assert counter(ev.AnswersCame())[-1] == ev.TakeAnswers()


def test_no_answer_is_taken_from_the_barrier_of_a_rescale_until_the_task_has_resumed() -> None:
    counter = rig(COUNT)
    counter(ev.Proposed(ONE, None))
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), rescale(1))
    assert not counter.core.takes_answers
    assert counter(ev.AnswersCame()) == [], "the next owner of the rows asks for them"
    counter.store(1)
    (load,) = [a for a in counter(ev.RescaleCommitted(Version(2), two_times())) if isinstance(a, ev.LoadState)]
    counter(ev.Loaded(load.version))
    assert counter.core.takes_answers


# --- Groups that are loaded


def of(worker: int, share: Share, time_us: int | None, fires_until: int | None = None) -> TaskManifest:
    files = (StateFile(BlobRef(BlobName(f"f{worker}"), "0", 1), "count", share, 1, Epoch(1), 1),)
    fires = ABSENT if fires_until is None else (GroupsTime(share, fires_until),)
    return TaskManifest(task(COUNT, worker), files, watermark_us=time_us, firing=fires)


def two_times() -> RootManifest:
    return root(1, of(0, FIRST, 100), of(1, SECOND, 30, 90))


def test_a_task_that_gains_groups_goes_back_to_the_time_of_their_former_task() -> None:
    counter = rig(COUNT)
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), Watermark(100))
    counter(ev.Proposed(ONE, None))
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), rescale(1))
    counter.store(1)
    actions = counter(ev.RescaleCommitted(Version(2), two_times()))
    (load,) = [a for a in actions if isinstance(a, ev.LoadState)]
    assert (load.watermark_us, load.fired) == (30, (GroupsTime(SECOND, 90),))
    assert counter.core.state.time.task_us == 30
    assert told(counter.arrive(to_count(0, 0), Watermark(100))) == [100], "what the other had not fired"


def test_what_has_fired_further_than_the_task_says_is_stored_by_group() -> None:
    counter = rig(COUNT, assignment=ONE, root=two_times())
    assert counter.core.state.time.task_us == 30, "the least"
    counter.arrive(to_count(0, 0), barrier(2, version=2))
    (ack,) = counter.store(2)
    assert isinstance(ack, ev.Ack)
    assert ack.manifest.firing == (GroupsTime(FIRST, 100), GroupsTime(SECOND, 90))


def test_the_time_of_a_share_is_the_least_of_the_tasks_that_had_its_groups() -> None:
    manifests, all_groups = two_times(), (Range(0, 4),)
    assert watermark_of(manifests, PLAN, task(COUNT, 0), FIRST) == 100
    assert watermark_of(manifests, PLAN, task(COUNT, 0), all_groups) == 30
    assert fired_until(manifests, PLAN, task(COUNT, 0), all_groups) == (GroupsTime(FIRST, 100), GroupsTime(SECOND, 90))
    unknown = root(1, of(0, FIRST, 100), TaskManifest(task(COUNT, 1)))
    assert fired_until(unknown, PLAN, task(COUNT, 0), all_groups) == (GroupsTime(FIRST, 100), GroupsTime(SECOND, 100))
    assert watermark_of(root(1, of(0, FIRST, 100), of(1, SECOND, None)), PLAN, task(COUNT, 0), all_groups) is None


def holding(root: RootManifest | None = None) -> Rig:
    """Make a task whose results lie up to 25 before the time that its steps have reached."""
    stages = tuple(replace(stage, held_us=25) if stage.index == COUNT else stage for stage in PLAN.stages)
    return rig(COUNT, root=root, plan=replace(PLAN, stages=stages))


def test_a_task_whose_results_lie_behind_its_time_says_less_and_stores_what_was_reached() -> None:
    counter = holding()
    counter.arrive(to_count(0, 0), Watermark(100))
    assert told(counter.arrive(to_count(1, 0), Watermark(100))) == [100]
    assert said(counter(ev.InputIdle())) == [Watermark(75)]
    counter.arrive(to_count(0, 0), barrier(1))
    assert ev.Snapshot(barrier(1), Epoch(0), 100) in counter.arrive(to_count(1, 0), barrier(1))


def test_a_task_whose_results_lie_behind_its_time_says_the_end_of_time_when_all_has_fired() -> None:
    counter = holding()
    counter.slice_us = END_OF_TIME - 10
    counter.arrive(to_count(0, 0), Watermark(END_OF_TIME))
    counter.arrive(to_count(1, 0), Watermark(END_OF_TIME))
    assert said(counter(ev.InputIdle())) == [Watermark(END_OF_TIME - 35)]
    assert said(counter(ev.FireOn())) == [Watermark(END_OF_TIME)]


def test_the_first_time_is_not_held_back_beyond_the_begin_of_time() -> None:
    counter = holding()
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), Watermark(BEGIN_OF_TIME + 5))
    assert said(counter(ev.InputIdle())) == [Watermark(BEGIN_OF_TIME)]
