"""How many workers an autoscaled job should have, by the measured load."""

import pytest

from penstock.base.limits import LOAD_WINDOWS_KEPT
from penstock.contract.settings import Autoscaling
from penstock.contract.status import Load
from penstock.contract.streamjob_status import AutoscalingStatus
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.scaling import (
    BLOCKED_MAX,
    TOLERANCE,
    UNDONE_REST_S,
    recommend,
    windows_down,
)
from tests.unit.operator.observing import NOW_S

BOUNDS = Autoscaling(min_replicas=1, max_replicas=10, target_busy=0.5, cooldown_s=20.0)
WINDOW_S = 10.0  # three cooldowns are six windows


def chosen(
    *busy: float,
    replicas: int = 4,
    rested_s: float = 60.0,
    undone: bool = False,
    blocked: tuple[float, ...] | None = None,
) -> int | None:
    current = AutoscalingStatus(replicas, stamp(NOW_S - rested_s), undone=undone)
    waited = (0.0,) * len(busy) if blocked is None else blocked
    wish = recommend(NOW_S, Load(WINDOW_S, busy, waited, "counts"), BOUNDS, current)
    return None if wish is None else wish.replicas


def test_more_workers_bring_the_busiest_step_to_its_target() -> None:
    assert chosen(0.75, 0.75) == 6
    assert chosen(1.0, 1.0) == 8


def test_one_busy_window_alone_asks_for_nothing() -> None:
    assert chosen() is None
    assert chosen(1.0) is None
    assert chosen(0.5, 1.0) is None
    assert chosen(1.0, 0.75) == 6, "the lesser of the two"


def test_a_share_near_its_target_is_left_alone() -> None:
    assert chosen(0.549, 0.549) is None
    assert chosen(0.551, 0.551) == 5
    assert chosen(*[0.451] * 6, replicas=10) is None


def test_fewer_workers_need_three_cooldowns_without_a_busier_window() -> None:
    assert windows_down(WINDOW_S, BOUNDS) == 6
    assert chosen(*[0.1] * 5) is None
    assert chosen(*[0.1] * 6) == 1
    assert chosen(0.26, *[0.1] * 5) == 3, "the busiest of them says how many"
    assert chosen(0.5, *[0.1] * 5) is None
    assert chosen(0.5, *[0.1] * 6) == 1, "what was before does not count"


def test_nothing_is_changed_within_a_cooldown_of_the_last_change() -> None:
    assert chosen(1.0, 1.0, rested_s=19.0) is None
    assert chosen(1.0, 1.0, rested_s=20.0) == 8
    assert chosen(*[0.1] * 6, rested_s=19.0) is None


def test_a_step_that_is_always_busy_gets_twice_as_many_at_most() -> None:
    bounds = Autoscaling(min_replicas=1, max_replicas=100, target_busy=0.1, cooldown_s=20.0)
    current = AutoscalingStatus(3, stamp(NOW_S - 60))
    wish = recommend(NOW_S, Load(WINDOW_S, (1.0, 1.0), (0.0, 0.0), "counts"), bounds, current)
    assert wish is not None
    assert wish.replicas == 6


def test_a_job_that_is_held_up_keeps_its_workers() -> None:
    assert chosen(*[0.1] * 6, blocked=(*[0.0] * 5, BLOCKED_MAX)) == 1
    assert chosen(*[0.1] * 6, blocked=(*[0.0] * 5, BLOCKED_MAX + 0.01)) is None
    assert chosen(0.75, 0.75, blocked=(0.9, 0.9)) == 6, "a busy step gets more all the same"


def test_windows_that_were_not_measured_wholly_count_for_nothing() -> None:
    assert chosen(1.0, 1.0, blocked=(0.0,)) is None
    assert chosen(*[0.1] * 6, blocked=()) is None


def test_the_bounds_hold_in_both_directions() -> None:
    assert chosen(1.0, 1.0, replicas=8) == 10
    assert chosen(1.0, 1.0, replicas=10) is None
    assert chosen(*[0.0] * 6, replicas=3) == 1
    assert chosen(*[0.0] * 6, replicas=1) is None


def test_after_workers_that_did_not_come_more_are_not_asked_for_soon() -> None:
    assert chosen(1.0, 1.0, undone=True) is None
    assert chosen(1.0, 1.0, undone=True, rested_s=UNDONE_REST_S) == 8
    assert chosen(*[0.1] * 6, undone=True) == 1, "fewer may go at any time"


def test_the_reason_names_the_step_and_the_target() -> None:
    current = AutoscalingStatus(4, stamp(NOW_S - 60))
    wish = recommend(NOW_S, Load(WINDOW_S, (0.9, 0.75), (0.0, 0.0), "counts"), BOUNDS, current)
    assert wish is not None
    assert wish.why == ("the busiest step (counts) worked at least 75% of the time, of 50% wanted")


@pytest.mark.parametrize("cooldown_s", [0.0, 1.0, 3600.0, 1e9])
def test_a_leader_remembers_enough_for_every_cooldown(cooldown_s: float) -> None:
    bounds = Autoscaling(min_replicas=1, max_replicas=2, cooldown_s=cooldown_s)
    assert 2 <= windows_down(15.0, bounds) <= LOAD_WINDOWS_KEPT


def test_the_tolerance_is_smaller_than_one_worker_of_ten() -> None:
    assert TOLERANCE <= 0.1
