"""Rules that matter only in a cluster: pods of workers, owners of objects, pods that must end."""

from penstock.base.limits import DRAIN_PUBLISH_S, DRAIN_STILL_S, DRAIN_UNREAD_S
from penstock.base.values import replace
from penstock.contract.control_messages import Broken
from penstock.contract.ids import JobUid, Ordinal
from penstock.contract.latest import Lost
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.running_jobs import mute, rescaled, running, up


def test_a_lost_life_is_named_with_the_pod_it_ran_in() -> None:
    plane = running()
    gone = plane.engine(1).incarnation
    plane.kill(1)
    plane.until(lambda: plane.latest.lost == (Lost(Ordinal(1), gone, "pod-2"),))


def test_a_new_leader_names_the_pod_of_the_old_one() -> None:
    # It has never heard a heartbeat from there: the members file says which pod it was.
    plane = running()
    gone = plane.engine(0).incarnation
    plane.kill(0)
    plane.until(lambda: plane.latest.lost == (Lost(Ordinal(0), gone, "pod-1"),), seconds=60)
    assert plane.latest.term == 2


def test_also_when_the_attempt_was_given_up_before_its_silence_was_noticed() -> None:
    # A node that is gone refuses no dial; its peers' streams break, and they say so first.
    plane = running()
    gone = plane.engine(0).incarnation
    plane.freeze(0)
    plane.report(1, Broken(plane.latest.attempt, "the other side is gone"))
    plane.until(lambda: plane.latest.lost == (Lost(Ordinal(0), gone, "pod-1"),), seconds=60)


def test_the_pod_stays_named_through_a_change_of_leader() -> None:
    plane = running(3)
    gone = plane.engine(2).incarnation
    plane.kill(2)
    named = (Lost(Ordinal(2), gone, "pod-3"),)
    plane.until(lambda: plane.latest.lost == named)
    plane.kill(0)
    plane.until(lambda: plane.latest.term == 2 and len(plane.latest.lost) == 2, seconds=60)
    assert named[0] in plane.latest.lost


def test_an_engine_that_dies_names_its_own_pod_until_the_next_one_is_admitted() -> None:
    plane = running()
    plane.kill_engine(1)
    plane.until(lambda: plane.latest.attempt == 2)
    named = [lost.pod for swap in plane.cas for lost in swap.lost]
    assert set(named) <= {"pod-2"}
    assert plane.latest.lost == ()


def test_the_object_of_another_job_is_left_alone() -> None:
    # A job of the same name was made again before the old object was archived.
    plane = InMemoryControlPlane(2)
    foreign = replace(plane.latest, job_uid=JobUid("the job before"))
    plane.record = foreign
    plane.run(60)
    assert plane.latest == foreign
    plane.record = replace(foreign, job_uid=JobUid("job"))
    plane.until(lambda: plane.latest.epoch >= 1)


# --- SIGTERM --------------------------------------------------------------------------------------


def test_a_worker_that_must_go_takes_part_in_one_more_checkpoint() -> None:
    plane = running()
    before = plane.latest.epoch
    plane.drain(1)
    plane.until(plane.keepers[1].member.drained, seconds=5)
    assert plane.latest.epoch > before


def test_the_leader_too() -> None:
    plane = running()
    before = plane.latest.epoch
    plane.drain(0)
    plane.until(plane.keepers[0].member.drained, seconds=5)
    assert plane.latest.epoch > before


def test_a_worker_on_which_nothing_runs_may_go_at_once() -> None:
    plane = running()
    plane.kill_engine(1)
    plane.drain(1)
    plane.run(0.01)
    assert plane.keepers[1].member.drained()


def test_a_worker_that_has_left_by_a_rescale_may_go_at_once() -> None:
    plane = running()
    up(plane, 0, 1, 2)
    plane.until(lambda: rescaled(plane, 3))
    plane.want(workers=2)
    plane.until(lambda: rescaled(plane, 2))
    plane.drain(2)
    plane.until(plane.keepers[2].member.drained, seconds=1)


def test_a_worker_whose_leader_went_first_waits_only_while_something_may_come() -> None:
    plane = running()
    plane.kill(0)
    plane.drain(1)
    plane.run(DRAIN_STILL_S - 1)
    assert not plane.keepers[1].member.drained()
    plane.until(plane.keepers[1].member.drained, seconds=6)


def test_nor_at_all_when_the_streams_to_the_leader_are_broken() -> None:
    plane = running()
    plane.kill(0)
    plane.report(1, Broken(plane.latest.attempt, "the other side is gone"))
    plane.drain(1)
    plane.until(plane.keepers[1].member.drained, seconds=0.1)


def test_a_checkpoint_that_takes_long_is_waited_for_as_long_as_its_leader_leads() -> None:
    plane = InMemoryControlPlane(2, replace(SETTINGS, checkpoint_timeout_s=600))
    plane.until(lambda: plane.latest.epoch >= 1)
    mute(plane, 0, "Inject")  # its tasks are slow to acknowledge
    before = plane.latest.epoch
    plane.drain(1)
    plane.run(4 * DRAIN_STILL_S)
    assert plane.latest.epoch == before
    assert not plane.keepers[1].member.drained()
    plane.kill(0)  # and now it leads no more
    plane.until(plane.keepers[1].member.drained, seconds=60)


def draining_unread() -> InMemoryControlPlane:
    """Drain a worker in an epoch that does not end, half as long as it looks in vain."""
    plane = running()
    mute(plane, 0, "Inject")
    plane.unreadable = True
    plane.drain(1)
    plane.run(DRAIN_UNREAD_S / 2)
    return plane


def test_an_epoch_that_nobody_may_commit_any_more_is_not_waited_for() -> None:
    # The job is deleted, and with it the rights of its workers.
    plane = draining_unread()
    assert not plane.keepers[1].member.drained()
    plane.until(plane.keepers[1].member.drained, seconds=DRAIN_UNREAD_S)


def test_one_failed_look_at_what_is_committed_ends_no_wait() -> None:
    plane = draining_unread()
    plane.unreadable = False
    plane.run(DRAIN_UNREAD_S)
    assert not plane.keepers[1].member.drained()


def test_output_that_is_committed_and_not_yet_visible_is_left_to_whoever_recovers() -> None:
    plane = running()
    before = plane.latest.epoch
    mute(plane, 1, "Commit", "Publish")
    plane.drain(1)
    plane.until(lambda: plane.latest.epoch > before, seconds=5)
    assert not plane.keepers[1].member.drained()
    plane.until(plane.keepers[1].member.drained, seconds=DRAIN_PUBLISH_S + 3)


def test_an_epoch_that_began_before_is_not_its_last_even_under_a_new_leader() -> None:
    plane = running()
    plane.kill(0)
    plane.until(lambda: plane.latest.term == 2, seconds=60)
    plane.run(0.1)
    plane.drain(1)
    plane.run(1)
    assert not plane.keepers[1].member.drained()
