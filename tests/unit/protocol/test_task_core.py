"""One task's protocol, event by event: what it sends, holds, stores and reports."""

import pytest

from penstock.base.errors import PeerError
from penstock.base.values import replace
from penstock.contract.ids import Epoch, SplitId, Term, Version
from penstock.contract.manifest import GroupsTime, SplitState, TaskManifest
from penstock.model.elements import Active, EndOfStream, Idle, Watermark
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.input_progress import END_OF_TIME
from penstock.protocol.task.task_state import TaskLifecycle
from tests.support.task_harness import (
    COUNT,
    ONE,
    OUT,
    SOURCE,
    SPLITS,
    THREE,
    TWO,
    barrier,
    handle,
    rescale,
    rig,
    root,
    rows,
    sends,
    task,
    to_count,
    to_out,
)


def test_a_cut_comes_after_all_barriers_and_goes_out_on_every_channel() -> None:
    counter = rig(COUNT)
    assert counter.arrive(to_count(0, 0), barrier(1)) == [ev.RelayBarrier(barrier(1))]
    assert not counter.core.reads(to_count(0, 0))
    assert counter.arrive(to_count(1, 0), rows("x")) == [ev.ProcessRows(to_count(1, 0), rows("x"))]
    actions = counter.arrive(to_count(1, 0), barrier(1))
    assert actions[0] == ev.Snapshot(barrier(1), Epoch(0), None)
    assert sends(actions) == [(to_out(0, 0), barrier(1)), (to_out(0, 1), barrier(1))]
    assert counter.core.reads(to_count(0, 0))


def test_the_first_barrier_of_an_epoch_begins_the_sources_beside() -> None:
    counter = rig(COUNT)
    assert counter.arrive(to_count(0, 0), barrier(1)) == [ev.RelayBarrier(barrier(1))]
    assert ev.RelayBarrier(barrier(1)) not in counter.arrive(to_count(1, 0), barrier(1))
    counter(ev.Aborted(Term(1), Epoch(2)))
    assert counter.arrive(to_count(0, 0), barrier(2)) == [], "given up: nobody else begins it"


def test_a_source_cuts_once_at_a_barrier_whoever_brings_it() -> None:
    source = rig(SOURCE)
    assert sends(source(ev.Injected(barrier(1))))
    source(ev.SnapshotStored(Term(1), Epoch(1), ev.SnapshotParts((), (), ())))
    assert source(ev.Injected(barrier(1))) == []
    source(ev.Aborted(Term(1), Epoch(2)))
    assert source(ev.Injected(barrier(2))) == []
    assert source.core.state.aligner.late == 0, "it was told, no channel was late"


def test_a_barrier_of_a_term_that_is_announced_later_is_cut_behind_the_old_one() -> None:
    source = rig(SOURCE)
    source(ev.Injected(barrier(1)))
    newer = replace(barrier(1), term=Term(2))
    assert source(ev.Injected(newer)) == [ev.ExpediteSnapshot()], "the first snapshot is still being stored"
    actions = source(ev.SnapshotStored(Term(1), Epoch(1), ev.SnapshotParts((), (), ())))
    assert ev.Snapshot(newer, Epoch(0), None) in actions
    source(ev.TermAnnounced(Term(2), Epoch(0), Version(1)))
    (ack,) = source(ev.SnapshotStored(Term(2), Epoch(1), ev.SnapshotParts((), (), ())))
    assert isinstance(ack, ev.Ack)
    assert (ack.term, ack.epoch) == (2, 1)


def test_a_late_barrier_is_dropped_and_counted() -> None:
    counter = rig(COUNT)
    counter.arrive(to_count(0, 0), barrier(1))
    counter(ev.Aborted(Term(1), Epoch(1)))
    assert counter.core.reads(to_count(0, 0))
    assert counter.arrive(to_count(1, 0), barrier(1)) == []
    assert counter.core.reads(to_count(1, 0))
    assert counter.core.state.aligner.late == 1


def test_an_aborted_number_may_come_again_under_a_higher_term() -> None:
    counter = rig(COUNT)
    counter.arrive(to_count(0, 0), barrier(1))
    counter(ev.TermAnnounced(Term(2), Epoch(0), Version(1)))
    counter.arrive(to_count(0, 0), barrier(1, term=2))
    actions = counter.arrive(to_count(1, 0), barrier(1, term=2))
    assert ev.Snapshot(barrier(1, term=2), Epoch(0), None) in actions


def test_an_ended_channel_counts_as_aligned() -> None:
    counter = rig(COUNT)
    counter.arrive(to_count(0, 0), barrier(1))
    actions = counter.arrive(to_count(1, 0), EndOfStream())
    assert ev.Snapshot(barrier(1), Epoch(0), None) in actions


def test_a_delta_counts_from_the_last_epoch_known_committed() -> None:
    counter = rig(COUNT)
    for epoch, committed, since in ((1, 0, 0), (2, 0, 0), (3, 2, 2)):
        for sender in (0, 1):
            actions = counter.arrive(to_count(sender, 0), barrier(epoch, committed=committed))
        snapshot = next(a for a in actions if isinstance(a, ev.Snapshot))
        assert snapshot.since == since
        counter.store(epoch)


def test_the_next_cut_waits_until_the_snapshot_before_has_ended() -> None:
    counter = rig(COUNT)
    for epoch in (1, 2):
        counter.arrive(to_count(0, 0), barrier(epoch))
        last = counter.arrive(to_count(1, 0), barrier(epoch))
    assert last == [ev.ExpediteSnapshot()]
    assert not counter.core.reads(to_count(0, 0))
    actions = counter.store(1)
    assert [type(a) for a in actions[:2]] == [ev.Ack, ev.Snapshot]
    assert counter.core.reads(to_count(0, 0))


def test_output_of_an_aborted_epoch_is_committed_with_the_next() -> None:
    sink = rig(OUT)
    inputs = [to_out(0, 0), to_out(1, 0)]
    for channel in inputs:
        sink.arrive(channel, barrier(1))
    sink.store(1, handle(1))
    sink(ev.Aborted(Term(1), Epoch(1)))
    for channel in inputs:
        sink.arrive(channel, barrier(2))
    (ack,) = sink.store(2, handle(2))
    assert isinstance(ack, ev.Ack)
    assert ack.manifest.handles == (handle(1), handle(2))
    published = sink(ev.EpochCommitted(Epoch(2), Version(1)))
    assert ev.PublishOutput(Epoch(2), (handle(1), handle(2))) in published
    assert sink(ev.EpochCommitted(Epoch(2), Version(1))) == []


def test_a_reset_discards_only_what_its_epoch_does_not_list() -> None:
    sink = rig(OUT)
    for epoch in (1, 2):
        for channel in (to_out(0, 0), to_out(1, 0)):
            sink.arrive(channel, barrier(epoch))
        sink.store(epoch, handle(epoch))
    assert sink(ev.ResetTo(Epoch(1))) == [ev.Discard((handle(2),))]


def test_pending_watermarks_go_before_a_barrier() -> None:
    counter = rig(COUNT)
    counter.arrive(to_count(0, 0), Watermark(7))
    assert counter.arrive(to_count(1, 0), Watermark(5)) == [ev.AdvanceWatermark(5)]
    counter.arrive(to_count(0, 0), barrier(1))
    out = [e for c, e in sends(counter.arrive(to_count(1, 0), barrier(1))) if c == to_out(0, 0)]
    assert out == [Watermark(5), barrier(1)]


def test_a_task_is_idle_when_all_its_inputs_are_and_active_before_its_next_rows() -> None:
    counter = rig(COUNT)
    counter.arrive(to_count(0, 0), Watermark(3))
    assert counter.arrive(to_count(1, 0), Idle()) == [ev.AdvanceWatermark(3)]
    idle = [e for _, e in sends(counter.arrive(to_count(0, 0), Idle()))]
    assert idle == [Watermark(3), Watermark(3), Idle(), Idle()]
    actions = counter.arrive(to_count(1, 0), rows("x"))
    assert [e for _, e in sends(actions)] == [Active(), Active()]
    assert actions[-1] == ev.ProcessRows(to_count(1, 0), rows("x"))


def test_rows_of_an_idle_channel_are_not_taken_as_those_of_another() -> None:
    counter = rig(COUNT)
    joined = []
    for element in (Watermark(1), Idle(), rows("x")):
        counter.arrive(to_count(1, 0), element)
        joined.append([counter.core.joins(to_count(sender, 0)) for sender in (0, 1)])
    assert joined == [[True, True], [True, False], [True, True]]


def test_a_source_stamps_its_watermark_and_ends_at_the_end_of_time() -> None:
    source = rig(SOURCE, disorder_us=2)
    source(ev.RowsRead(SplitId("a"), rows("x", max_ts=10)))
    assert source.core.state.time.low_us is None  # the other split has said nothing
    source(ev.SplitEnded(SplitId("c")))
    assert source.core.state.time.task_us == 8
    assert ev.AdvanceWatermark(END_OF_TIME) in source(ev.SplitEnded(SplitId("a")))
    assert source.core.exhausted
    assert ev.Snapshot(barrier(1), Epoch(0), END_OF_TIME) in source(ev.Injected(barrier(1)))
    assert [e for _, e in sends(source(ev.EndAll()))] == [EndOfStream(), EndOfStream()]


def test_moving_rows_are_held_and_released_to_the_new_owner_when_it_announces() -> None:
    source = rig(SOURCE)
    source(ev.Proposed(THREE, None))
    source(ev.Injected(rescale(1)))
    stay, move = to_count(0, 0), to_count(0, 2)
    actions = source(ev.Produced((ev.RoutedRows(stay, stay, rows("s")), ev.RoutedRows(stay, move, rows("m")))))
    assert sends(actions) == [(stay, rows("s"))]
    assert source(ev.InputIdle()) == []
    source(ev.EpochCommitted(Epoch(1), Version(2)))
    assert sends(source(ev.PeerVersion(stay, Version(2)))) == []
    assert sends(source(ev.PeerVersion(move, Version(2)))) == [(move, rows("m"))]


def test_an_abort_releases_to_the_old_owner() -> None:
    source = rig(SOURCE)
    source(ev.Proposed(THREE, None))
    source(ev.Injected(rescale(1)))
    source(ev.Produced((ev.RoutedRows(to_count(0, 0), to_count(0, 2), rows("m")),)))
    assert sends(source(ev.Aborted(Term(1), Epoch(1)))) == [(to_count(0, 0), rows("m"))]
    assert source.core.state.life is TaskLifecycle.RUNNING


def test_full_held_rows_stop_the_input() -> None:
    source = rig(SOURCE, held=10)
    source(ev.Proposed(THREE, None))
    source(ev.Injected(rescale(1)))
    kept = next(s for s in ("a", "c") if source.core.reads_split(SplitId(s)))
    source(ev.Produced((ev.RoutedRows(to_count(0, 0), to_count(0, 2), rows("m")),)))
    assert not source.core.reads_split(SplitId(kept))


def test_a_new_barrier_means_that_all_have_resumed_and_comes_behind_what_was_held() -> None:
    source = rig(SOURCE)
    source(ev.Proposed(THREE, None))
    source(ev.Injected(rescale(1)))
    source(ev.Produced((ev.RoutedRows(to_count(0, 0), to_count(0, 2), rows("m")),)))
    source.store(1)
    mine = TaskManifest(task(SOURCE, 0), splits=SPLITS)
    source(ev.RescaleCommitted(Version(2), root(1, mine)))
    assert source.core.state.life is TaskLifecycle.RUNNING
    out = sends(source(ev.Injected(barrier(2, committed=1, version=2))))
    new = [e for c, e in out if c == to_count(0, 2)]
    assert new == [rows("m"), barrier(2, committed=1, version=2)]


def test_a_leaving_task_sends_nothing_until_all_have_resumed() -> None:
    leaver = rig(COUNT, worker=1)
    leaver(ev.Proposed(ONE, None))
    for sender in (0, 1):
        leaver.arrive(to_count(sender, 1), Watermark(9))
    for sender in (0, 1):
        last = leaver.arrive(to_count(sender, 1), rescale(1))
    assert [e for _, e in sends(last)] == [Watermark(9)] * 2 + [rescale(1)] * 2
    leaver.store(1)
    actions = leaver(ev.RescaleCommitted(Version(2), root(1)))
    actions += leaver(ev.InputIdle())
    assert sends(actions) == []
    ends = sends(leaver(ev.RescaleSettled(Version(2))))
    assert ends == [(to_out(1, 0), EndOfStream()), (to_out(1, 1), EndOfStream())]
    leaver.arrive(to_count(0, 1), EndOfStream())
    assert leaver.arrive(to_count(1, 1), EndOfStream()) == [ev.ReportFinished()]


def test_a_joiner_reads_nothing_before_it_has_loaded() -> None:
    joiner = rig(COUNT, worker=2, assignment=THREE, joining=True)
    assert not joiner.core.reads(to_count(0, 2))
    manifests = tuple(TaskManifest(task(COUNT, w), watermark_us=4) for w in (0, 1))
    actions = joiner(ev.RescaleCommitted(Version(2), root(1, *manifests)))
    kinds = [type(a) for a in actions]
    assert kinds.index(ev.LoadState) < kinds.index(ev.AnnounceVersion)
    assert joiner.core.reads(to_count(0, 2))
    assert joiner.core.state.time.task_us == 4


def test_no_time_passes_from_a_rescale_barrier_until_the_task_has_resumed() -> None:
    counter = rig(COUNT)
    counter(ev.Proposed(THREE, None))
    for sender in (0, 1):
        counter.arrive(to_count(sender, 0), rescale(1))
    counter.store(1)
    for sender in (0, 1):
        assert counter.arrive(to_count(sender, 0), Watermark(6)) == []
    manifest = TaskManifest(task(COUNT, 0))
    actions = counter(ev.RescaleCommitted(Version(2), root(1, manifest)))
    assert not [a for a in actions if isinstance(a, ev.AdvanceWatermark)]  # the joiner has said nothing
    assert counter.arrive(to_count(2, 0), Watermark(5)) == [ev.AdvanceWatermark(5)]


def test_a_source_that_gains_a_split_takes_back_that_its_own_splits_have_ended() -> None:
    source = rig(SOURCE, disorder_us=0)
    own = [split for split in (s.split for s in SPLITS) if source.core.reads_split(split)]
    for split in own:
        source(ev.SplitEnded(split))
    source(ev.InputIdle())
    assert Watermark(END_OF_TIME) in [e for _, e in sends(source.done)]
    source(ev.Proposed(ONE, None))
    source(ev.Injected(rescale(1)))
    source.store(1)
    mine = TaskManifest(task(SOURCE, 0), splits=tuple(SplitState(s, "{}", 0, finished=True) for s in own))
    other = TaskManifest(task(SOURCE, 1), splits=tuple(s for s in SPLITS if s.split not in own))
    actions = source(ev.RescaleCommitted(Version(2), root(1, mine, other)))
    actions += source(ev.PeerVersion(to_count(0, 0), Version(2))) + source(ev.InputIdle())
    assert [e for _, e in sends(actions) if isinstance(e, Watermark)] == []
    gained = other.splits[0].split
    source(ev.RowsRead(gained, rows("x", max_ts=7)))
    assert [e for _, e in sends(source(ev.InputIdle())) if isinstance(e, Watermark)] == [Watermark(7)]


def test_rows_on_a_channel_that_the_version_ends_are_the_fault_of_their_sender() -> None:
    leaver = rig(COUNT, worker=1)
    leaver(ev.Proposed(ONE, None))
    for sender in (0, 1):
        leaver.arrive(to_count(sender, 1), rescale(1))
    leaver.store(1)
    leaver(ev.RescaleCommitted(Version(2), root(1)))
    with pytest.raises(PeerError, match=r"rows on .*, which version 2 ends"):
        leaver.arrive(to_count(0, 1), rows("late"))


def test_a_barrier_of_a_version_that_a_task_does_not_know_is_refused() -> None:
    source = rig(SOURCE)
    source(ev.Proposed(THREE, None))
    source(ev.Injected(rescale(1)))
    source.store(1)
    with pytest.raises(PeerError, match=r"barrier 2 of version 5 .* knows version 1"):
        source(ev.Injected(barrier(2, version=5)))


def test_a_task_that_is_restored_keeps_its_time() -> None:
    counter = rig(COUNT, root=root(3, TaskManifest(task(COUNT, 0), watermark_us=40)))
    load = next(a for a in counter.done if isinstance(a, ev.LoadState))
    fired = (GroupsTime(TWO.share_of(task(COUNT, 0)), 40),)
    assert (load.watermark_us, load.fired) == (40, fired), "the windows up to it were emitted"
    for time_us, told in ((30, []), (50, [ev.AdvanceWatermark(50)])):
        counter.arrive(to_count(0, 0), Watermark(time_us))
        assert counter.arrive(to_count(1, 0), Watermark(time_us)) == told
    for sender in (0, 1):
        last = counter.arrive(to_count(sender, 0), barrier(4))
    assert ev.Snapshot(barrier(4), Epoch(3), 50) in last


def test_a_checkpoint_that_follows_a_restore_at_once_has_the_restored_time() -> None:
    counter = rig(COUNT, root=root(3, TaskManifest(task(COUNT, 0), watermark_us=40)))
    for sender in (0, 1):
        last = counter.arrive(to_count(sender, 0), barrier(4))
    assert ev.Snapshot(barrier(4), Epoch(3), 40) in last
