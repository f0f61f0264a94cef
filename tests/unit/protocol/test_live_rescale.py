"""Live rescale: undone before its one swap, forward after it, and no worker restarts."""

from penstock.base.limits import PREPARED_ALONE_S
from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.ids import Epoch, StageIndex, Version
from penstock.contract.latest import Request
from penstock.contract.manifest import RootManifest
from penstock.protocol.keeper_core_messages import Retire
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.running_jobs import mute, rescaled, running, sent, up

# --- Up and down ----------------------------------------------------------------------------------


def test_up_two_to_three_restarts_nobody() -> None:
    plane = running()
    lives = [plane.engine(o).incarnation for o in (0, 1)]
    up(plane, 2)
    plane.until(lambda: rescaled(plane, 3))
    assert [plane.engine(o).incarnation for o in (0, 1)] == lives
    assert (plane.latest.attempt, plane.latest.version) == (1, 2)
    assert plane.latest.pinned == ()
    assert plane.latest.published_through == plane.latest.epoch
    assert plane.engine(2).status.resumed == 2
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.epoch > epoch + 1)


def test_epoch_and_version_are_committed_by_one_swap() -> None:
    plane = running()
    up(plane, 2)
    plane.until(lambda: rescaled(plane, 3))
    (commit,) = [
        (b.epoch, b.version, b.workers)
        for a, b in zip(plane.cas, plane.cas[1:], strict=False)
        if b.version != a.version and a.version > 0
    ]
    assert commit == (2, 2, 3)


def test_the_barrier_is_the_last_of_the_old_tasks() -> None:
    plane = running()
    up(plane, 2)
    plane.until(lambda: rescaled(plane, 3))
    roots = [r for r in plane.blobs.values() if isinstance(r, RootManifest)]
    (manifest,) = [r for r in roots if r.kind == "rescale"]
    assert manifest.assignment.version == 2
    assert {t.task.worker for t in manifest.tasks} == {0, 1}


def test_groups_move_as_little_as_they_must() -> None:
    plane = running()
    before = plane.engine(0).table
    up(plane, 2)
    plane.until(lambda: rescaled(plane, 3))
    after = plane.engine(0).table
    assert before is not None
    assert after is not None
    kept = [t for t in after.stages[StageIndex(1)].tasks if t.worker < 2]
    moved = [len(before.share_of(t)) - len(after.share_of(t)) for t in kept]
    assert all(m >= 0 for m in moved)


def test_down_three_to_two_ends_the_leaver_after_all_is_settled() -> None:
    plane = running(3)
    leaver = plane.engine(2)
    plane.want(workers=2)
    plane.until(lambda: rescaled(plane, 2))
    assert leaver.commands[-2:] == ["Adopt", "Settled"] or "Settled" in leaver.commands
    assert leaver.status.left
    epoch = plane.latest.epoch
    plane.kill(2)
    plane.until(lambda: plane.latest.epoch > epoch + 1)
    assert plane.latest.attempt == 1, "a worker that has left is missed by nobody"


def test_a_leader_that_has_to_go_hands_over_first() -> None:
    plane = InMemoryControlPlane(0)
    plane.want(workers=2)
    plane.start(1)
    plane.run(0.2)
    plane.start(0)
    plane.until(lambda: plane.latest.epoch >= 1)
    assert plane.leader().ordinal == 1
    plane.want(workers=1)
    plane.until(lambda: plane.latest.leader is not None and plane.latest.leader.ordinal == 0)
    assert rescaled(plane, 1)
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.epoch > epoch + 1)
    assert plane.latest.attempt == 1


def test_workers_that_are_to_go_do_not_contend() -> None:
    plane = running(2)
    assert plane.leader().ordinal == 0
    plane.want(workers=1)
    plane.until(lambda: rescaled(plane, 1))
    plane.run(10.0)
    assert plane.latest.term == 1


def test_nothing_begins_while_joiners_are_missing() -> None:
    plane = running()
    plane.want(workers=3)
    epoch = plane.latest.epoch
    plane.run(4.0)
    assert plane.latest.workers == 2
    assert plane.latest.epoch > epoch, "the job goes on meanwhile"


def test_the_latest_number_counts() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 2, "Prepare")
    plane.want(workers=3)
    plane.until(lambda: bool(sent(plane, control.Prepare)))
    mute(plane, 2)
    plane.start(3)
    plane.want(workers=4)
    plane.until(lambda: rescaled(plane, 4))
    assert 3 not in [s.workers for s in plane.cas]


def test_back_to_the_old_number_undoes_the_preparation() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 2, "Prepare")
    plane.want(workers=3)
    plane.until(lambda: plane.latest.pinned != ())
    plane.want(workers=2)
    plane.until(lambda: plane.latest.pinned == ())
    assert plane.latest.version == 1
    assert plane.latest.rescale is not None
    assert "2 workers are wanted now" in plane.latest.rescale


# --- Before the swap ------------------------------------------------------------------------------


def test_joiners_are_admitted_and_the_preload_is_pinned_by_one_swap() -> None:
    plane = running(epoch=2)
    plane.start(2)
    mute(plane, 2, "Prepare")
    plane.want(workers=3)
    plane.until(lambda: plane.latest.pinned != ())
    at = plane.latest
    assert (at.workers, at.version, at.proposed) == (2, 1, 2)
    prepare = sent(plane, control.Prepare)[0]
    assert isinstance(prepare, control.Prepare)
    assert (prepare.epoch, prepare.root) == (at.pinned[0].epoch, at.pinned[0].root)
    epochs = at.epoch
    plane.until(lambda: plane.latest.epoch >= epochs + 2)
    assert plane.latest.pinned == at.pinned, "epochs go on, what is pre-loaded stays"


def test_no_barrier_before_every_sender_has_the_proposed_table() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 1, "Prepare")
    plane.want(workers=3)
    plane.run(SETTINGS.prepare_timeout_s - 1.0)
    assert not [c for c in sent(plane, control.Inject) if c.kind == 2]  # type: ignore[union-attr]


def test_a_joiner_that_dies_aborts_only_the_rescale_and_it_is_tried_again() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 2, "Prepare")
    plane.want(workers=3)
    plane.until(lambda: plane.engine(0).status.prepared == 2)
    mute(plane, 2)
    plane.kill_engine(2)
    plane.until(lambda: plane.engine(0).status.prepared == 0)
    plane.until(lambda: rescaled(plane, 3))
    assert plane.latest.attempt == 1
    assert plane.latest.version == 3, "no two proposals share a number"


def test_a_joiner_that_dies_behind_the_barrier_aborts_its_epoch() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 1, "Inject")
    plane.want(workers=3)
    plane.until(lambda: any(c.kind == 2 for c in sent(plane, control.Inject)))  # type: ignore[union-attr]
    plane.kill_engine(2)
    mute(plane, 1)
    plane.until(lambda: "CancelRescale" in plane.engine(0).commands)
    assert "Abort" in plane.engine(0).commands
    plane.until(lambda: rescaled(plane, 3))
    assert plane.latest.attempt == 1


def test_a_member_that_dies_before_the_swap_rolls_back_at_the_old_version() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 2, "Prepare")
    plane.want(workers=3)
    plane.until(lambda: plane.engine(0).status.prepared == 2)
    plane.want(workers=2)
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.attempt == 2)
    assert (plane.latest.workers, plane.latest.version, plane.latest.pinned) == (2, 1, ())


def test_a_preparation_that_takes_too_long_is_undone() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 2, "Prepare")
    plane.want(workers=3)
    plane.run(SETTINGS.prepare_timeout_s + 1.0)
    assert any("not prepared in 4 s" in (s.rescale or "") for s in plane.cas)
    mute(plane, 2)
    plane.until(lambda: rescaled(plane, 3))


def test_a_prepared_rescale_waits_for_a_checkpoint_for_as_long_as_it_takes() -> None:
    plane = InMemoryControlPlane(2, replace(SETTINGS, checkpoint_timeout_s=10.0))
    plane.until(lambda: plane.latest.epoch >= 1)
    plane.start(2)
    plane.run(1.0)
    mute(plane, 1, "Inject")
    begun = len(sent(plane, control.Inject))
    plane.freeze(2)
    plane.want(workers=3)
    plane.until(lambda: plane.latest.proposed is not None)
    plane.want(workers=3, requests=(Request("r1", "checkpoint", None),))
    plane.until(lambda: len(sent(plane, control.Inject)) > begun)
    plane.thaw(2)
    plane.run(SETTINGS.prepare_timeout_s + 1.0)
    assert [plane.engine(o).status.prepared for o in (0, 1, 2)] == [2, 2, 2]
    assert sent(plane, control.Expedite), "what is in flight is all that it waits for"
    mute(plane, 1)
    plane.until(lambda: rescaled(plane, 3))
    assert plane.latest.version == 2, "the first proposal, never called off"


def test_no_periodic_epoch_begins_while_a_rescale_is_prepared_but_for_a_long_one() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 0, "Prepare")
    plane.want(workers=3)
    plane.until(lambda: plane.latest.proposed is not None)
    before = len(sent(plane, control.Inject))
    plane.run(PREPARED_ALONE_S - 0.1)
    assert len(sent(plane, control.Inject)) == before, "its barrier would wait for the epoch"
    plane.run(0.2)
    assert len(sent(plane, control.Inject)) > before, "what takes long is no reason to keep none"


def test_a_rescale_that_its_leader_left_unfinished_is_undone_by_the_next() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 2, "Prepare")
    plane.want(workers=3)
    plane.until(lambda: plane.engine(0).status.prepared == 2)
    plane.post(plane.leader().ordinal, Retire())
    plane.until(lambda: plane.latest.term == 2)
    mute(plane, 2)
    plane.until(lambda: rescaled(plane, 3), seconds=40.0)
    assert plane.latest.attempt == 1
    assert plane.latest.version == 3


def test_no_epoch_starts_before_held_records_are_given_back() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 1, "Inject", "CancelRescale")
    plane.want(workers=3)
    plane.until(lambda: any(c.kind == 2 for c in sent(plane, control.Inject)))  # type: ignore[union-attr]
    plane.kill_engine(2)
    plane.want(workers=2)
    injected = len(sent(plane, control.Inject))
    plane.run(3.0)
    assert len(sent(plane, control.Inject)) == injected
    plane.until(lambda: plane.latest.attempt == 2, seconds=10.0)


# --- Strays ---------------------------------------------------------------------------------------


def test_a_member_that_believes_in_a_cancelled_version_is_told_to_cancel_it() -> None:
    plane = running()
    plane.report(1, replace(plane.engine(1).status, prepared=Version(9)))
    plane.engine(1).status = replace(plane.engine(1).status, prepared=Version(9))
    plane.until(lambda: plane.engine(1).status.prepared == 0)
    plane.until(lambda: plane.latest.epoch > Epoch(2))


def test_a_stop_ends_a_rescale_that_was_under_way() -> None:
    plane = running()
    plane.start(2)
    mute(plane, 2, "Prepare")
    plane.want(workers=3)
    plane.until(lambda: plane.latest.pinned != ())
    plane.want(requests=(Request("r1", "stop"),))
    plane.until(lambda: plane.latest.stopped)
    mute(plane, 2)
    plane.want(requests=(), run="run-2")
    plane.until(lambda: plane.latest.epoch >= 2 and plane.latest.attempt == 2)
    assert plane.latest.workers == 3
    assert plane.latest.pinned == ()
