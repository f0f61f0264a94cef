"""The autoscaler: how many workers a job should have, when this may change, and where it is kept.

It works like the HorizontalPodAutoscaler. It recommends the number that would bring the busiest
step to its target if its work were spread evenly. Within a tolerance it changes nothing. It
recommends more workers when two windows in a row ask for them, and fewer only when no window of a
longer time asks for as many as there are::

    busy share of each window ── ratio to the target ──> asked for ── the least of 2 windows ──> more
                                                            └── the most of 3 cooldowns ──> fewer

A job can be slow although no step is busy: because of one hot key or a slow network. It keeps its
workers. More would not help it, and fewer would harm it.

The autoscaler only writes its number into the status. The next reconcile uses that number in the
place of ``spec.replicas`` and rescales as after ``kubectl scale``. The number therefore survives the
operator, and a number that was not written was never chosen.
"""

import math
from dataclasses import dataclass

from penstock.base.limits import LOAD_WINDOWS_KEPT
from penstock.base.values import replace
from penstock.contract.latest import Latest
from penstock.contract.settings import Autoscaling
from penstock.contract.status import Load
from penstock.contract.streamjob_status import AutoscalingStatus, Reason, StreamJobState
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import seconds, stamp
from penstock_operator.reconcile.accept import clamped
from penstock_operator.reconcile.conditions import ConditionInputs
from penstock_operator.reconcile.workers import STALE_S

TOLERANCE = 0.1  # of the ratio: so near to the target nothing changes
SATURATED = 0.98  # busy for this share of the time, a step may need any number of workers more
UP_WINDOWS = 2  # one window alone may be the backlog of a time without workers
UP_FACTOR = 2  # the most at once: a step that is always busy does not show how much work waits
DOWN_COOLDOWNS = 3  # so many cooldowns without a busier window come before a shrink
BLOCKED_MAX = 0.1  # a step that waits longer for credit shows that the job is slowed down
UNDONE_REST_S = 1800.0  # after missing workers were given up, until more are asked for again
ROUNDING = 1e-9
TAKE_BACK_S = 600.0  # for workers to appear: nodes may have to be bought, and images pulled
BUSY_STEP = 0.05  # a smaller change of the shown share is not worth a write


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A number of workers, and why it is recommended."""

    replicas: int
    why: str


def recommend(now: float, load: Load, bounds: Autoscaling, current: AutoscalingStatus) -> Recommendation | None:
    """Return another number of workers with its reason; None: the number stays.

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
        return Recommendation(more, _why(load.step, min(newest), bounds)) if may else None
    windows = windows_down(load.window_s, bounds)
    fewer = max(asked[-windows:]) if len(asked) >= windows else current.replicas
    if fewer < current.replicas:
        return Recommendation(fewer, _why(load.step, max(load.busy[-windows:]), bounds))
    return None


def windows_down(window_s: float, bounds: Autoscaling) -> int:
    """Return how many windows must agree before a shrink: at most as many as a leader keeps."""
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


def autoscaling_of(inputs: ConditionInputs, state: StreamJobState) -> AutoscalingStatus | None:
    """Return the chosen number with its reason; None when the autoscaler is off."""
    seen, accepted = inputs.seen, inputs.accepted
    old, target, bounds = seen.job.status.autoscaling, accepted.target, accepted.bounds
    # A spec that came back by a rollback is scaled too: it may run for a long time.
    held = accepted.given_up not in {None, Reason.ROLLED_BACK}
    undecided = not accepted.is_newest or held or target is None
    if undecided or seen.job.deleting_since is not None:
        return old
    if bounds is None:
        return None
    assert target is not None
    wanted = target.spec.replicas  # the chosen number, within the present bounds
    if old is None:
        text = "the number of workers when autoscaling began"
        return AutoscalingStatus(wanted, stamp(seen.now), text)
    if old.replicas != wanted:
        text = f"at least {bounds.min_replicas} and at most {bounds.max_replicas} are allowed"
        return AutoscalingStatus(wanted, stamp(seen.now), text)
    missing = _take_back(inputs, old, bounds)
    if missing is not None:
        return AutoscalingStatus(missing.replicas, stamp(seen.now), missing.why, undone=True)
    if state is not StreamJobState.RUNNING:
        return old  # above all during a rescale
    load = None if inputs.latest is None else _load(seen, inputs.latest)
    return old if load is None else _chosen(seen.now, load, bounds, old)


def _chosen(now: float, load: Load, bounds: Autoscaling, old: AutoscalingStatus) -> AutoscalingStatus:
    busy = load.busy[-1]
    wish = recommend(now, load, bounds, old)
    if wish is not None:
        return AutoscalingStatus(wish.replicas, stamp(now), wish.why, busy=busy, step=load.step)
    same = old.busy is not None and abs(busy - old.busy) < BUSY_STEP
    return old if same else replace(old, busy=busy, step=load.step)


def _load(seen: Observed, latest: Latest) -> Load | None:
    """Return the leader's newest measurement, if it is of the committed assignment and fresh."""
    told = seen.running
    if told is None or latest.closed() or told.uid != latest.job_uid:
        return None
    same = (told.attempt, told.version) == (latest.attempt, latest.version)
    fresh = abs(seen.now - told.time_us / 1e6) <= STALE_S
    return told.load if same and fresh else None


def _take_back(inputs: ConditionInputs, old: AutoscalingStatus, bounds: Autoscaling) -> Recommendation | None:
    """Go back to the present number of workers when the others do not appear for a long time."""
    latest, pending = inputs.latest, inputs.seen.job.status.pending
    if latest is None or pending is None or inputs.lifecycle.operation is not Reason.RESCALING:
        return None
    waits = pending.action == Reason.RESCALING and (inputs.seen.now - seconds(pending.since) >= TAKE_BACK_S)
    back = clamped(latest.workers, bounds)
    if not waits or not 0 < latest.workers < old.replicas or back == old.replicas:
        return None
    minutes = f"{TAKE_BACK_S / 60:.0f} minutes"
    text = f"{old.replicas} were wanted, and did not appear within {minutes}"
    return Recommendation(back, f"{text} ({latest.rescale})" if latest.rescale else text)
