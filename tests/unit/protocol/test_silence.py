"""Silence counts only while a core runs: time in which it was not woken does not count."""

import pytest

from penstock.base import limits
from penstock.base.values import replace
from penstock.contract.ids import Incarnation
from penstock.protocol.core_context import ControlSettings, Sign, StepContext
from sim.scenario import CONTROL
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane

LATE_S, TIMEOUT_S, EXCUSED_S = 0.5, 5.0, 10.0


def running(workers: int = 3) -> InMemoryControlPlane:
    plane = InMemoryControlPlane(workers)
    plane.until(lambda: plane.latest.epoch >= 1)
    plane.run(1.0)
    return plane


def stand_still(plane: InMemoryControlPlane, seconds: float) -> None:
    who = plane.leader().ordinal
    plane.freeze(who)
    plane.run(seconds)
    plane.thaw(who)


@pytest.mark.parametrize("pause_s", [2.2, 2.7, 3.1])
def test_a_leader_that_stood_still_reads_before_it_judges(pause_s: float) -> None:
    plane = running()
    at, engines = plane.latest, [plane.engine(o) for o in range(3)]
    stand_still(plane, pause_s)
    plane.run(8.0)
    assert [o for o in range(3) if plane.keepers[o].engine is not engines[o]] == []
    assert (plane.latest.attempt, plane.latest.term) == (at.attempt, at.term)


@pytest.mark.parametrize("pause_s", [3.9, 5.9, 20.0])
def test_a_leader_that_stood_still_for_longer_hands_over_and_condemns_nobody(
    pause_s: float,
) -> None:
    plane = running()
    at, engines = plane.latest, [plane.engine(o) for o in range(3)]
    stand_still(plane, pause_s)
    plane.run(8.0)
    assert plane.latest.term > at.term
    others = [o for o in range(3) if o != at.leader.ordinal]  # type: ignore[union-attr]
    assert [o for o in others if plane.keepers[o].engine is not engines[o]] == []


def test_a_member_that_fell_silent_in_a_standstill_is_lost_soon_after_it() -> None:
    plane = running()
    attempt, leader = plane.latest.attempt, plane.leader().ordinal
    silent = (leader + 1) % 3
    plane.freeze(leader)
    plane.freeze(silent)
    plane.run(3.0)
    plane.thaw(leader)
    back = plane.now
    plane.until(lambda: bool(plane.latest.lost))
    assert [lost.ordinal for lost in plane.latest.lost] == [silent]
    assert plane.latest.attempt == attempt
    assert plane.now - back <= SETTINGS.heartbeat_timeout_s + SETTINGS.heartbeat_interval_s


def heard_and_woken_at(*steps: float) -> tuple[StepContext, Sign]:
    """Take a sign of life at 0, ask to be woken every second, and be woken at ``steps``."""
    context = StepContext(Incarnation("me"), LATE_S)
    context.begin(0.0)
    heard = context.sign()
    for now in steps:
        context.due_or_wake(context.now + 1.0)
        context.begin(now)
    return context, heard


def test_a_step_in_time_excuses_nothing() -> None:
    context, heard = heard_and_woken_at(1.0, 2.4, 3.4)
    assert context.silent_at(heard, TIMEOUT_S, EXCUSED_S) == TIMEOUT_S


def test_what_a_step_came_too_late_is_no_silence() -> None:
    context, heard = heard_and_woken_at(1.0, 9.0, 10.0)
    assert context.silent_at(heard, TIMEOUT_S, EXCUSED_S) == TIMEOUT_S + 7.0


def test_what_was_excused_before_a_sign_of_life_does_not_count_after_it() -> None:
    context, _ = heard_and_woken_at(1.0, 9.0)
    assert context.silent_at(context.sign(), TIMEOUT_S, EXCUSED_S) == 9.0 + TIMEOUT_S


def test_a_core_that_is_late_at_every_turn_judges_some_time() -> None:
    context, heard = heard_and_woken_at(*(4.0 * n for n in range(1, 9)))
    assert context.silent_at(heard, TIMEOUT_S, EXCUSED_S) == TIMEOUT_S + EXCUSED_S


def test_an_event_that_nobody_waited_for_comes_when_it_comes() -> None:
    context = StepContext(Incarnation("me"), LATE_S)
    context.begin(0.0)
    heard = context.sign()
    context.begin(100.0)
    assert context.silent_at(heard, TIMEOUT_S, EXCUSED_S) == TIMEOUT_S


def test_a_loss_is_known_within_a_lease() -> None:
    assert ControlSettings().loss_known_s <= limits.LEASE_DURATION_S


@pytest.mark.parametrize(
    "changes",
    [
        {"heartbeat_interval_s": 1.3},
        {"lease_renew_deadline_s": 2.0},
        {"lease_duration_s": 10.0},
        {"heartbeat_timeout_s": 51.0},
    ],
)
def test_times_that_do_not_fit_each_other_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(AssertionError):
        replace(ControlSettings(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("simulated", [CONTROL, SETTINGS], ids=["simulation", "plane"])
def test_the_simulator_has_the_ratios_of_a_cluster(simulated: ControlSettings) -> None:
    real = ControlSettings()
    scale = real.lease_duration_s / simulated.lease_duration_s
    for name in ("heartbeat_timeout_s", "lease_renew_deadline_s", "lease_retry_s"):
        assert getattr(simulated, name) * scale == pytest.approx(getattr(real, name)), name
