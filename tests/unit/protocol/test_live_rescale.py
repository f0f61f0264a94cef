"""Live rescale: undone before its one swap, forward after it, and nobody restarts."""

from penstock.base.limits import PREPARED_ALONE_S
from penstock.base.values import replace
from penstock.contract import control
from penstock.contract.ids import Epoch, StageIndex, Version
from penstock.contract.latest import Request
from penstock.contract.manifest import RootManifest
from penstock.protocol.control_events import Retire
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.running_jobs import mute, rescaled, running, sent, up

# --- Up and down ----------------------------------------------------------------------------------


def test_up_two_to_three_restarts_nobody() -> None:
    town = running()
    lives = [town.engine(o).incarnation for o in (0, 1)]
    up(town, 2)
    town.until(lambda: rescaled(town, 3))
    assert [town.engine(o).incarnation for o in (0, 1)] == lives
    assert (town.latest.attempt, town.latest.version) == (1, 2)
    assert town.latest.pinned == ()
    assert town.latest.published_through == town.latest.epoch
    assert town.engine(2).status.resumed == 2
    epoch = town.latest.epoch
    town.until(lambda: town.latest.epoch > epoch + 1)


def test_epoch_and_version_are_committed_by_one_swap() -> None:
    town = running()
    up(town, 2)
    town.until(lambda: rescaled(town, 3))
    (commit,) = [
        (b.epoch, b.version, b.workers)
        for a, b in zip(town.cas, town.cas[1:], strict=False)
        if b.version != a.version and a.version > 0
    ]
    assert commit == (2, 2, 3)


def test_the_barrier_is_the_last_of_the_old_tasks() -> None:
    town = running()
    up(town, 2)
    town.until(lambda: rescaled(town, 3))
    roots = [r for r in town.blobs.values() if isinstance(r, RootManifest)]
    (manifest,) = [r for r in roots if r.kind == "rescale"]
    assert manifest.assignment.version == 2
    assert {t.task.worker for t in manifest.tasks} == {0, 1}


def test_groups_move_as_little_as_they_must() -> None:
    town = running()
    before = town.engine(0).table
    up(town, 2)
    town.until(lambda: rescaled(town, 3))
    after = town.engine(0).table
    assert before is not None
    assert after is not None
    kept = [t for t in after.stages[StageIndex(1)].tasks if t.worker < 2]
    moved = [len(before.share_of(t)) - len(after.share_of(t)) for t in kept]
    assert all(m >= 0 for m in moved)


def test_down_three_to_two_ends_the_leaver_after_all_is_settled() -> None:
    town = running(3)
    leaver = town.engine(2)
    town.want(workers=2)
    town.until(lambda: rescaled(town, 2))
    assert leaver.heard[-2:] == ["Adopt", "Settled"] or "Settled" in leaver.heard
    assert leaver.status.left
    epoch = town.latest.epoch
    town.kill(2)
    town.until(lambda: town.latest.epoch > epoch + 1)
    assert town.latest.attempt == 1, "a worker that has left is missed by nobody"


def test_a_leader_that_has_to_go_hands_over_first() -> None:
    town = InMemoryControlPlane(0)
    town.want(workers=2)
    town.start(1)
    town.run(0.2)
    town.start(0)
    town.until(lambda: town.latest.epoch >= 1)
    assert town.leader().ordinal == 1
    town.want(workers=1)
    town.until(lambda: town.latest.leader is not None and town.latest.leader.ordinal == 0)
    assert rescaled(town, 1)
    epoch = town.latest.epoch
    town.until(lambda: town.latest.epoch > epoch + 1)
    assert town.latest.attempt == 1


def test_workers_that_are_to_go_do_not_contend() -> None:
    town = running(2)
    assert town.leader().ordinal == 0
    town.want(workers=1)
    town.until(lambda: rescaled(town, 1))
    town.run(10.0)
    assert town.latest.term == 1


def test_nothing_begins_while_joiners_are_missing() -> None:
    town = running()
    town.want(workers=3)
    epoch = town.latest.epoch
    town.run(4.0)
    assert town.latest.workers == 2
    assert town.latest.epoch > epoch, "the job goes on meanwhile"


def test_the_latest_number_counts() -> None:
    town = running()
    town.start(2)
    mute(town, 2, "Prepare")
    town.want(workers=3)
    town.until(lambda: bool(sent(town, control.Prepare)))
    mute(town, 2)
    town.start(3)
    town.want(workers=4)
    town.until(lambda: rescaled(town, 4))
    assert 3 not in [s.workers for s in town.cas]


def test_back_to_the_old_number_undoes_the_preparation() -> None:
    town = running()
    town.start(2)
    mute(town, 2, "Prepare")
    town.want(workers=3)
    town.until(lambda: town.latest.pinned != ())
    town.want(workers=2)
    town.until(lambda: town.latest.pinned == ())
    assert town.latest.version == 1
    assert town.latest.rescale is not None
    assert "2 workers are wanted now" in town.latest.rescale


# --- Before the swap ------------------------------------------------------------------------------


def test_joiners_are_admitted_and_the_preload_is_pinned_by_one_swap() -> None:
    town = running(epoch=2)
    town.start(2)
    mute(town, 2, "Prepare")
    town.want(workers=3)
    town.until(lambda: town.latest.pinned != ())
    at = town.latest
    assert (at.workers, at.version, at.proposed) == (2, 1, 2)
    prepare = sent(town, control.Prepare)[0]
    assert isinstance(prepare, control.Prepare)
    assert (prepare.epoch, prepare.root) == (at.pinned[0].epoch, at.pinned[0].root)
    epochs = at.epoch
    town.until(lambda: town.latest.epoch >= epochs + 2)
    assert town.latest.pinned == at.pinned, "epochs go on, what is pre-loaded stays"


def test_no_barrier_before_every_sender_has_the_proposed_table() -> None:
    town = running()
    town.start(2)
    mute(town, 1, "Prepare")
    town.want(workers=3)
    town.run(SETTINGS.prepare_timeout_s - 1.0)
    assert not [c for c in sent(town, control.Inject) if c.kind == 2]  # type: ignore[union-attr]


def test_a_joiner_that_dies_aborts_only_the_rescale_and_it_is_tried_again() -> None:
    town = running()
    town.start(2)
    mute(town, 2, "Prepare")
    town.want(workers=3)
    town.until(lambda: town.engine(0).status.prepared == 2)
    mute(town, 2)
    town.kill_engine(2)
    town.until(lambda: town.engine(0).status.prepared == 0)
    town.until(lambda: rescaled(town, 3))
    assert town.latest.attempt == 1
    assert town.latest.version == 3, "no two proposals share a number"


def test_a_joiner_that_dies_behind_the_barrier_aborts_its_epoch() -> None:
    town = running()
    town.start(2)
    mute(town, 1, "Inject")
    town.want(workers=3)
    town.until(lambda: any(c.kind == 2 for c in sent(town, control.Inject)))  # type: ignore[union-attr]
    town.kill_engine(2)
    mute(town, 1)
    town.until(lambda: "CancelRescale" in town.engine(0).heard)
    assert "Abort" in town.engine(0).heard
    town.until(lambda: rescaled(town, 3))
    assert town.latest.attempt == 1


def test_a_member_that_dies_before_the_swap_rolls_back_at_the_old_version() -> None:
    town = running()
    town.start(2)
    mute(town, 2, "Prepare")
    town.want(workers=3)
    town.until(lambda: town.engine(0).status.prepared == 2)
    town.want(workers=2)
    town.kill_engine(1)
    town.until(lambda: town.latest.attempt == 2)
    assert (town.latest.workers, town.latest.version, town.latest.pinned) == (2, 1, ())


def test_a_preparation_that_takes_too_long_is_undone() -> None:
    town = running()
    town.start(2)
    mute(town, 2, "Prepare")
    town.want(workers=3)
    town.run(SETTINGS.prepare_timeout_s + 1.0)
    assert any("not prepared in 4 s" in (s.rescale or "") for s in town.cas)
    mute(town, 2)
    town.until(lambda: rescaled(town, 3))


def test_a_prepared_rescale_waits_for_a_checkpoint_for_as_long_as_it_takes() -> None:
    town = InMemoryControlPlane(2, replace(SETTINGS, checkpoint_timeout_s=10.0))
    town.until(lambda: town.latest.epoch >= 1)
    town.start(2)
    town.run(1.0)
    mute(town, 1, "Inject")
    begun = len(sent(town, control.Inject))
    town.freeze(2)
    town.want(workers=3)
    town.until(lambda: town.latest.proposed is not None)
    town.want(workers=3, requests=(Request("r1", "checkpoint", None),))
    town.until(lambda: len(sent(town, control.Inject)) > begun)
    town.thaw(2)
    town.run(SETTINGS.prepare_timeout_s + 1.0)
    assert [town.engine(o).status.prepared for o in (0, 1, 2)] == [2, 2, 2]
    assert sent(town, control.Hurry), "what is in flight is all that it waits for"
    mute(town, 1)
    town.until(lambda: rescaled(town, 3))
    assert town.latest.version == 2, "the first proposal, never called off"


def test_no_periodic_epoch_begins_while_a_rescale_is_prepared_but_for_a_long_one() -> None:
    town = running()
    town.start(2)
    mute(town, 0, "Prepare")
    town.want(workers=3)
    town.until(lambda: town.latest.proposed is not None)
    before = len(sent(town, control.Inject))
    town.run(PREPARED_ALONE_S - 0.1)
    assert len(sent(town, control.Inject)) == before, "its barrier would wait for the epoch"
    town.run(0.2)
    assert len(sent(town, control.Inject)) > before, "what takes long is no reason to keep none"


def test_a_rescale_that_its_leader_left_unfinished_is_undone_by_the_next() -> None:
    town = running()
    town.start(2)
    mute(town, 2, "Prepare")
    town.want(workers=3)
    town.until(lambda: town.engine(0).status.prepared == 2)
    town.post(town.leader().ordinal, Retire())
    town.until(lambda: town.latest.term == 2)
    mute(town, 2)
    town.until(lambda: rescaled(town, 3), seconds=40.0)
    assert town.latest.attempt == 1
    assert town.latest.version == 3


def test_no_epoch_starts_before_held_records_are_given_back() -> None:
    town = running()
    town.start(2)
    mute(town, 1, "Inject", "CancelRescale")
    town.want(workers=3)
    town.until(lambda: any(c.kind == 2 for c in sent(town, control.Inject)))  # type: ignore[union-attr]
    town.kill_engine(2)
    town.want(workers=2)
    injected = len(sent(town, control.Inject))
    town.run(3.0)
    assert len(sent(town, control.Inject)) == injected
    town.until(lambda: town.latest.attempt == 2, seconds=10.0)


# --- Strays ---------------------------------------------------------------------------------------


def test_a_member_made_to_believe_in_a_dead_proposal_is_told_otherwise() -> None:
    town = running()
    town.say(1, replace(town.engine(1).status, prepared=Version(9)))
    town.engine(1).status = replace(town.engine(1).status, prepared=Version(9))
    town.until(lambda: town.engine(1).status.prepared == 0)
    town.until(lambda: town.latest.epoch > Epoch(2))


def test_a_stop_ends_a_rescale_that_was_under_way() -> None:
    town = running()
    town.start(2)
    mute(town, 2, "Prepare")
    town.want(workers=3)
    town.until(lambda: town.latest.pinned != ())
    town.want(requests=(Request("r1", "stop"),))
    town.until(lambda: town.latest.stopped)
    mute(town, 2)
    town.want(requests=(), run="run-2")
    town.until(lambda: town.latest.epoch >= 2 and town.latest.attempt == 2)
    assert town.latest.workers == 3
    assert town.latest.pinned == ()
