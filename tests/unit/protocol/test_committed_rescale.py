"""A committed rescale: it only goes forward, whichever process dies, and leavers end last."""

from penstock.base.values import replace
from penstock.contract.ids import Epoch
from penstock.contract.latest import Latest
from penstock.protocol.keeper_core_messages import Retire
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.running_jobs import mute, rescaled, running, up

# --- After the swap -------------------------------------------------------------------------------


def committed(plane: InMemoryControlPlane, *muted: str) -> InMemoryControlPlane:
    """Let a rescale 2 -> 3 commit while worker 1 leaves ``muted`` commands undone."""
    mute(plane, 1, *muted)
    up(plane, 2)
    plane.until(lambda: plane.latest.version == 2)
    return plane


def test_no_other_epoch_starts_until_all_have_resumed() -> None:
    plane = committed(running(), "Adopt")
    epoch = plane.latest.epoch
    plane.run(3.0)
    assert plane.latest.epoch == epoch
    assert plane.latest.settled == 1
    assert plane.latest.pinned != ()


def test_a_member_that_dies_after_the_swap_means_recovery_under_the_new_version() -> None:
    plane = committed(running(), "Adopt")
    plane.kill_engine(1)
    mute(plane, 1)
    plane.until(lambda: plane.latest.attempt == 2)
    assert (plane.latest.workers, plane.latest.version) == (3, 2)
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.epoch > epoch + 1)
    assert plane.latest.settled == 2


def test_a_joiner_that_dies_after_the_swap_is_a_member_like_any_other() -> None:
    plane = committed(running(), "Adopt")
    plane.kill(2)
    plane.run(1.5)
    assert plane.latest.attempt == 1, "there is no way back to two"
    plane.start(2)
    mute(plane, 1)
    plane.until(lambda: plane.latest.attempt == 2)
    assert (plane.latest.workers, plane.latest.version) == (3, 2)


def test_a_member_that_never_resumes_is_lost_in_the_end() -> None:
    plane = committed(running(), "Adopt")
    mute(plane, 1, "Adopt")
    plane.run(SETTINGS.ready_timeout_s - 1.0)
    assert plane.latest.attempt == 1
    plane.mute = {}
    plane.until(lambda: plane.latest.attempt == 2)


def test_a_new_leader_goes_forward_with_a_committed_rescale() -> None:
    plane = committed(running(), "Adopt")
    mute(plane, 1)
    plane.post(plane.leader().ordinal, Retire())
    plane.until(lambda: plane.latest.term == 2)
    plane.until(lambda: rescaled(plane, 3))
    assert plane.latest.attempt == 1


def test_the_swap_of_a_rescale_may_be_unknown() -> None:
    plane = running()
    outcomes: list[str] = []

    def outcome(latest: Latest) -> str | None:
        if latest.version == 2 and len(outcomes) < 3:
            outcomes.append("lost" if len(outcomes) < 2 else "applied")
            return outcomes[-1]
        return None

    plane.lose_reply = outcome
    up(plane, 2)
    plane.until(lambda: rescaled(plane, 3))
    assert outcomes == ["lost", "lost", "applied"]
    assert "CancelRescale" not in plane.engine(0).commands


def test_while_the_swap_of_a_rescale_is_undecided_nothing_is_given_back() -> None:
    plane = running()
    outcomes: list[str] = []

    def outcome(latest: Latest) -> str | None:
        if latest.version == 2 and not outcomes:
            outcomes.append("applied")
            plane.unreadable = True
            return "applied"
        return None

    plane.lose_reply = outcome
    up(plane, 2)
    plane.until(lambda: bool(outcomes))
    plane.kill_engine(2)
    plane.run(2.0)
    assert "CancelRescale" not in plane.engine(0).commands
    plane.unreadable = False
    plane.until(lambda: rescaled(plane, 3))
    assert (plane.latest.version, plane.latest.attempt) == (2, 2)


def test_a_leaver_stays_until_its_output_is_visible() -> None:
    plane = running(3)
    mute(plane, 2, "Commit")
    plane.want(workers=2)
    plane.until(lambda: plane.latest.version == 2)
    plane.run(2.0)
    assert "Settled" not in plane.engine(2).commands, "what it has staged may be asked for again"
    assert (plane.latest.settled, plane.latest.published_through) == (1, 1)
    late = plane.engine(2)
    late.status = replace(late.status, published=Epoch(2))
    plane.report(2, late.status)
    plane.until(lambda: plane.latest.settled == 2)
    assert late.status.left


def test_leavers_end_only_when_all_have_resumed() -> None:
    plane = running(3)
    mute(plane, 1, "Adopt")
    plane.want(workers=2)
    plane.until(lambda: plane.latest.version == 2)
    plane.run(2.0)
    assert "Settled" not in plane.engine(2).commands
    assert "Adopt" in plane.engine(2).commands


def test_a_leaver_that_never_ends_is_lost_in_the_end() -> None:
    plane = running(3)
    mute(plane, 2, "Settled")
    plane.want(workers=2)
    plane.until(lambda: "Settled" in plane.engine(2).commands)
    plane.run(SETTINGS.rescale_timeout_s - 1.0)
    assert (plane.latest.attempt, plane.latest.settled) == (1, 1)
    plane.until(lambda: plane.latest.attempt == 2)
    assert (plane.latest.workers, plane.latest.version) == (2, 2)
    epoch = plane.latest.epoch
    plane.until(lambda: plane.latest.epoch > epoch + 1)
    assert plane.latest.settled == 2
