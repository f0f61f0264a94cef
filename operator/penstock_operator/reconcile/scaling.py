"""How many workers an autoscaled job should have: what was measured goes in, a number and why out.

As Kubernetes' own autoscaler does it: the number that would bring the busiest step to its target
if its work were spread evenly, left alone within a tolerance. More are wanted as soon as two
windows in a row ask for them, fewer only when no window of a longer time asked for as many.

::

    share of each window ──ratio to the target──> recommended ──the least of 2 windows──> more
                                                       └──the most of 3 cooldowns──> fewer

A job that is held up although no step is busy on the whole (one hot key, a slow network) keeps its
workers: more would not help it, and fewer would harm it.
"""

import math
from dataclasses import dataclass

from penstock.base.limits import LOAD_WINDOWS_KEPT
from penstock.contract.status import Load
from penstock.contract.streamjob import Autoscaling, Spec
from penstock.contract.streamjob_status import AutoscalingStatus
from penstock_operator.api.observed import Observed
from penstock_operator.api.times import seconds

TOLERANCE = 0.1  # of the ratio: what is so near to the target is left alone
SATURATED = 0.98  # of the time: it may want any number more, however high the target is
UP_WINDOWS = 2  # one alone may be what piled up while there were no workers
UP_FACTOR = 2  # at once: a step that is always busy does not say how much more there is
DOWN_COOLDOWNS = 3  # without a busier window, before workers go
BLOCKED_MAX = 0.1  # of its time that a step waits for credit in a job that is not held up
UNDONE_REST_S = 1800.0  # after workers that did not come, before more are asked for again
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Wish:
    """So many workers, and why, for people."""

    replicas: int
    why: str


def replicas_of(seen: Observed, spec: Spec) -> int:
    """Return how many workers are wanted: by the autoscaler where it is on, else by the spec.

    What it has chosen is in the status before anything is done about it; new bounds count at once.
    It begins with the workers that there are: the status of an object may be lost.
    """
    if spec.autoscaling is None or seen.job.scaled_by_hpa:
        return spec.replicas
    chosen = seen.job.status.autoscaling
    there = 0 if seen.desired is None else seen.desired.value.workers
    replicas = there or spec.replicas if chosen is None else chosen.replicas
    return clamped(replicas, spec.autoscaling)


def clamped(replicas: int, bounds: Autoscaling) -> int:
    """Return the number within the bounds that is nearest."""
    return min(max(replicas, bounds.min_replicas), bounds.max_replicas)


def choose(now: float, load: Load, bounds: Autoscaling, current: AutoscalingStatus) -> Wish | None:
    """Return another number of workers and why; None: it stays as it is.

    ``current`` runs and is within the bounds, and ``load`` was measured under it.
    """
    rested = now - seconds(current.time)
    if rested < bounds.cooldown_s:
        return None
    asked = [
        _recommended(busy, current.replicas, bounds, held_up=blocked > BLOCKED_MAX)
        for busy, blocked in zip(load.busy, load.blocked, strict=False)
    ]
    more = min(asked[-UP_WINDOWS:], default=0) if len(asked) >= UP_WINDOWS else 0
    if more > current.replicas:
        may = not current.undone or rested >= UNDONE_REST_S
        newest = load.busy[-UP_WINDOWS:]
        return Wish(more, _why(load.step, min(newest), bounds)) if may else None
    windows = windows_down(load.window_s, bounds)
    fewer = max(asked[-windows:]) if len(asked) >= windows else current.replicas
    if fewer < current.replicas:
        return Wish(fewer, _why(load.step, max(load.busy[-windows:]), bounds))
    return None


def windows_down(window_s: float, bounds: Autoscaling) -> int:
    """Return how many windows have to agree before workers go: no more than a leader keeps."""
    wanted = math.ceil(DOWN_COOLDOWNS * bounds.cooldown_s / window_s)
    return min(max(wanted, UP_WINDOWS), LOAD_WINDOWS_KEPT)


def _recommended(share: float, replicas: int, bounds: Autoscaling, *, held_up: bool) -> int:
    ratio = share / bounds.target_busy
    near = abs(ratio - 1.0) <= TOLERANCE and share < SATURATED
    if near or (held_up and ratio < 1.0):
        return replicas
    wanted = math.ceil(replicas * ratio - ROUNDING)
    return clamped(min(wanted, replicas * UP_FACTOR), bounds)


def _why(step: str, share: float, bounds: Autoscaling) -> str:
    limit = "at least" if share > bounds.target_busy else "at most"
    return f"the busiest step ({step}) worked {limit} {share:.0%} of the time, of {_target(bounds)}"


def _target(bounds: Autoscaling) -> str:
    return f"{bounds.target_busy:.0%} wanted"
