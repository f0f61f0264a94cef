"""A committed rescale: only forward, whoever dies, and leavers go last."""

from penstock.base.values import replace
from penstock.contract.ids import Epoch
from penstock.contract.latest import Latest
from penstock.protocol.control_events import Retire
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane
from tests.support.running_jobs import mute, rescaled, running, up

# --- After the swap -------------------------------------------------------------------------------


def committed(town: InMemoryControlPlane, *muted: str) -> InMemoryControlPlane:
    """Let a rescale 2 -> 3 commit while worker 1 leaves ``muted`` commands undone."""
    mute(town, 1, *muted)
    up(town, 2)
    town.until(lambda: town.latest.version == 2)
    return town


def test_no_other_epoch_starts_until_all_have_resumed() -> None:
    town = committed(running(), "Adopt")
    epoch = town.latest.epoch
    town.run(3.0)
    assert town.latest.epoch == epoch
    assert town.latest.settled == 1
    assert town.latest.pinned != ()


def test_a_member_that_dies_after_the_swap_means_recovery_under_the_new_version() -> None:
    town = committed(running(), "Adopt")
    town.kill_engine(1)
    mute(town, 1)
    town.until(lambda: town.latest.attempt == 2)
    assert (town.latest.workers, town.latest.version) == (3, 2)
    epoch = town.latest.epoch
    town.until(lambda: town.latest.epoch > epoch + 1)
    assert town.latest.settled == 2


def test_a_joiner_that_dies_after_the_swap_is_a_member_like_any_other() -> None:
    town = committed(running(), "Adopt")
    town.kill(2)
    town.run(1.5)
    assert town.latest.attempt == 1, "there is no way back to two"
    town.start(2)
    mute(town, 1)
    town.until(lambda: town.latest.attempt == 2)
    assert (town.latest.workers, town.latest.version) == (3, 2)


def test_a_member_that_never_resumes_is_lost_in_the_end() -> None:
    town = committed(running(), "Adopt")
    mute(town, 1, "Adopt")
    town.run(SETTINGS.ready_timeout_s - 1.0)
    assert town.latest.attempt == 1
    town.mute = {}
    town.until(lambda: town.latest.attempt == 2)


def test_a_new_leader_goes_forward_with_a_committed_rescale() -> None:
    town = committed(running(), "Adopt")
    mute(town, 1)
    town.post(town.leader().ordinal, Retire())
    town.until(lambda: town.latest.term == 2)
    town.until(lambda: rescaled(town, 3))
    assert town.latest.attempt == 1


def test_the_swap_of_a_rescale_may_be_unknown() -> None:
    town = running()
    fates: list[str] = []

    def fate(latest: Latest) -> str | None:
        if latest.version == 2 and len(fates) < 3:
            fates.append("lost" if len(fates) < 2 else "applied")
            return fates[-1]
        return None

    town.lose_reply = fate
    up(town, 2)
    town.until(lambda: rescaled(town, 3))
    assert fates == ["lost", "lost", "applied"]
    assert "CancelRescale" not in town.engine(0).heard


def test_while_the_swap_of_a_rescale_is_undecided_nothing_is_given_back() -> None:
    town = running()
    fates: list[str] = []

    def fate(latest: Latest) -> str | None:
        if latest.version == 2 and not fates:
            fates.append("applied")
            town.unreadable = True
            return "applied"
        return None

    town.lose_reply = fate
    up(town, 2)
    town.until(lambda: bool(fates))
    town.kill_engine(2)
    town.run(2.0)
    assert "CancelRescale" not in town.engine(0).heard
    town.unreadable = False
    town.until(lambda: rescaled(town, 3))
    assert (town.latest.version, town.latest.attempt) == (2, 2)


def test_a_leaver_stays_until_its_output_is_visible() -> None:
    town = running(3)
    mute(town, 2, "Commit")
    town.want(workers=2)
    town.until(lambda: town.latest.version == 2)
    town.run(2.0)
    assert "Settled" not in town.engine(2).heard, "what it has staged may be asked for again"
    assert (town.latest.settled, town.latest.published_through) == (1, 1)
    late = town.engine(2)
    late.status = replace(late.status, published=Epoch(2))
    town.say(2, late.status)
    town.until(lambda: town.latest.settled == 2)
    assert late.status.left


def test_leavers_end_only_when_all_have_resumed() -> None:
    town = running(3)
    mute(town, 1, "Adopt")
    town.want(workers=2)
    town.until(lambda: town.latest.version == 2)
    town.run(2.0)
    assert "Settled" not in town.engine(2).heard
    assert "Adopt" in town.engine(2).heard
