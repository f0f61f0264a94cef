"""The autoscaler's part of a reconcile: when it may choose, and what it remembers.

It chooses by writing a number into the status, and nothing else. The next reconcile takes that
number where it would take spec.replicas, and rescales as after ``kubectl scale``: so a choice
outlives whoever made it, and one that was not written was never made.
"""

from dataclasses import replace

from penstock.contract.latest import Latest
from penstock.contract.status import Load
from penstock.contract.streamjob import Autoscaling
from penstock.contract.streamjob_status import AutoscalingStatus, Reason, StreamJobState
from penstock_operator.api.observed import Observed
from penstock_operator.api.times import seconds, stamp
from penstock_operator.reconcile.conditions import Judged
from penstock_operator.reconcile.lost import STALE_S
from penstock_operator.reconcile.scaling import Wish, choose, clamped

TAKE_BACK_S = 600.0  # for workers to come: nodes may have to be bought, and images pulled
BUSY_STEP = 0.05  # a smaller change of what is shown is not worth a write


def autoscaling_of(at: Judged, state: StreamJobState) -> AutoscalingStatus | None:
    """Return what is chosen now; None where the autoscaler is off."""
    seen, accepted = at.seen, at.accepted
    old, target, bounds = seen.job.status.autoscaling, accepted.target, accepted.bounds
    # What was rolled back to is scaled like any other spec: it may run so for a long time.
    held = accepted.held not in {None, Reason.ROLLED_BACK}
    undecided = not accepted.taken or held or target is None
    if undecided or seen.job.deleting_since is not None:
        return old
    if bounds is None:
        return None
    assert target is not None
    wanted = target.spec.replicas  # what was chosen, within the bounds of now
    if old is None:
        return AutoscalingStatus(wanted, stamp(seen.now), "as many as there were when it began")
    if old.replicas != wanted:
        text = f"at least {bounds.min_replicas} and at most {bounds.max_replicas} are allowed"
        return AutoscalingStatus(wanted, stamp(seen.now), text)
    missing = _missing(at, old, bounds)
    if missing is not None:
        return AutoscalingStatus(missing.replicas, stamp(seen.now), missing.why, undone=True)
    if state is not StreamJobState.RUNNING:
        return old  # least of all in the middle of a rescale
    load = None if at.latest is None else _load(seen, at.latest)
    return old if load is None else _chosen(seen.now, load, bounds, old)


def _chosen(
    now: float, load: Load, bounds: Autoscaling, old: AutoscalingStatus
) -> AutoscalingStatus:
    busy = load.busy[-1]
    wish = choose(now, load, bounds, old)
    if wish is not None:
        return AutoscalingStatus(wish.replicas, stamp(now), wish.why, busy=busy, step=load.step)
    same = old.busy is not None and abs(busy - old.busy) < BUSY_STEP
    return old if same else replace(old, busy=busy, step=load.step)


def _load(seen: Observed, latest: Latest) -> Load | None:
    """Return what the leader measured under the very table that is committed, if it is fresh."""
    told = seen.running
    if told is None or latest.closed() or told.uid != latest.job_uid:
        return None
    same = (told.attempt, told.version) == (latest.attempt, latest.version)
    fresh = abs(seen.now - told.time_us / 1e6) <= STALE_S
    return told.load if same and fresh else None


def _missing(at: Judged, old: AutoscalingStatus, bounds: Autoscaling) -> Wish | None:
    """Go back to the workers that are there when the others have not come for a long time."""
    latest, pending = at.latest, at.seen.job.status.pending
    if latest is None or pending is None or at.heading.operation is not Reason.RESCALING:
        return None
    waits = pending.action == Reason.RESCALING and (
        at.seen.now - seconds(pending.since) >= TAKE_BACK_S
    )
    back = clamped(latest.workers, bounds)
    if not waits or not 0 < latest.workers < old.replicas or back == old.replicas:
        return None
    text = f"{old.replicas} were wanted, and did not come within {TAKE_BACK_S / 60:.0f} minutes"
    return Wish(back, f"{text} ({latest.rescale})" if latest.rescale else text)
