"""Properties of the autoscaler's choice for every load, bound and history."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.settings import Autoscaling
from penstock.contract.status import Load
from penstock.contract.streamjob_status import AutoscalingStatus
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.accept import clamped
from penstock_operator.reconcile.scaling import SATURATED, TOLERANCE, recommend

NOW_S = 1_700_000_000.0
WINDOW_S = 15.0
SHARES = st.floats(0.0, 1.0)
MOST = 60  # workers
BOUNDS = st.builds(
    lambda least, more, target: Autoscaling(
        min_replicas=least, max_replicas=least + more, target_busy=target, cooldown_s=30.0
    ),
    st.integers(1, 20),
    st.integers(0, MOST - 20),
    st.floats(0.1, 0.95),
)


def next_of(replicas: int, shares: tuple[float, ...], bounds: Autoscaling) -> int:
    current = AutoscalingStatus(replicas, stamp(NOW_S - 60))
    wish = recommend(NOW_S, Load(WINDOW_S, shares, (0.0,) * len(shares), "s"), bounds, current)
    return replicas if wish is None else wish.replicas


@given(BOUNDS, st.integers(1, MOST), st.lists(SHARES, max_size=20).map(tuple))
def test_it_stays_within_its_bounds_and_never_doubles_twice(
    bounds: Autoscaling, replicas: int, shares: tuple[float, ...]
) -> None:
    now = clamped(replicas, bounds)
    found = next_of(now, shares, bounds)
    assert bounds.min_replicas <= found <= bounds.max_replicas
    assert found <= 2 * now


@given(BOUNDS, st.integers(1, MOST), SHARES, SHARES)
def test_a_busier_job_never_gets_fewer_workers(bounds: Autoscaling, replicas: int, one: float, two: float) -> None:
    now = clamped(replicas, bounds)
    less, more = sorted((one, two))
    assert next_of(now, (less,) * 10, bounds) <= next_of(now, (more,) * 10, bounds)


@given(BOUNDS, st.integers(1, MOST), st.floats(0.0, 80.0))
def test_a_steady_load_leads_to_one_number_and_stays_there(bounds: Autoscaling, replicas: int, load: float) -> None:
    """``load`` is the work, evenly spread, as a number of fully busy workers."""
    now = clamped(replicas, bounds)
    path = [now]
    for _ in range(MOST):  # a target near 100 % adds one worker at a time
        now = next_of(now, (min(1.0, load / now),) * 10, bounds)
        path.append(now)
        if path[-1] == path[-2]:
            break
    assert path[-1] == path[-2], path
    turns = [b - a for a, b in pairwise(path) if b != a]
    assert all(t > 0 for t in turns) or all(t < 0 for t in turns), f"to and fro: {path}"
    share = min(1.0, load / now)
    if share > min(bounds.target_busy * (1 + TOLERANCE) + 1e-9, SATURATED):
        assert now == bounds.max_replicas
    if now > bounds.min_replicas and share < bounds.target_busy * (1 - TOLERANCE) - 1e-9:
        assert math.ceil(now * share / bounds.target_busy - 1e-9) == now, "one fewer is too few"
