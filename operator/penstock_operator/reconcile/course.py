"""Where a job is going: one word, chosen from what is there and what is wanted.

::

    HOLD ──metadata there──> START ──> RUN ──suspend, Savepoint upgrade──> STOP ──stopped──> END
                               ^        └─────changed, finished, purge──────────────────────> │
                               └──────────────── wanted again ── DOWN <──── no pod is left ───┘

Nothing is remembered: a START that was cut off is a START again. Old and new pods never run
together: all pods of one spec are gone before one of the next is made.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract.latest import Latest
from penstock.contract.streamjob import DeletionPolicy, UpgradeMode
from penstock.contract.streamjob_status import Pending, Reason
from penstock_operator.api.classes import without_nonce
from penstock_operator.api.observed import Observed
from penstock_operator.api.times import seconds
from penstock_operator.reconcile.accept import Accepted
from penstock_operator.reconcile.restoring import restores
from penstock_operator.reconcile.trust import workers_are_cut_off
from penstock_operator.resources.target import Target

DELETION_DEADLINE_S = 300.0  # where no spec can be read
CHANGES = frozenset({Reason.UPGRADING, Reason.ROLLING_BACK, Reason.RESTARTING})


class Course(StrEnum):
    """What is done with the workers now."""

    HOLD = "hold"  # something must come first; nothing is touched
    START = "start"  # no worker is there, and some are wanted
    RUN = "run"  # keep them running, and rescale
    STOP = "stop"  # ask for a savepoint, then END
    END = "end"  # no workers; what is committed is what counts
    DOWN = "down"  # none are there and none are wanted


@dataclass(frozen=True, slots=True)
class Heading:
    """The course, and the operation that it is part of (None: at rest)."""

    course: Course
    operation: Reason | None = None


def heading(seen: Observed, accepted: Accepted, latest: Latest | None) -> Heading:
    """Choose the course; an upgrade away from a spec that was given up is a way back."""
    found = _heading(seen, accepted, latest)
    if found.operation is Reason.UPGRADING and accepted.held is Reason.ROLLED_BACK:
        return Heading(found.course, Reason.ROLLING_BACK)
    return found


def _heading(seen: Observed, accepted: Accepted, latest: Latest | None) -> Heading:
    target = accepted.target
    deleting = seen.job.deleting_since is not None
    if deleting and latest is not None:
        return _deleting(seen, latest)  # also without -desired: workers that nobody steers end
    if latest is None or seen.desired is None or target is None:
        return Heading(Course.HOLD, None if target is None else Reason.DEPLOYING)
    wanted = not target.spec.suspend and not (latest.finished and not restores(target, latest))
    if is_down(seen):
        if not wanted:
            return Heading(Course.DOWN)
        return Heading(Course.START, _starting_reason(seen, target, latest))
    if _empty(seen):  # scaled to nothing, and the last pods are going
        return Heading(Course.END, _leaving_reason(seen, target, latest))
    if not wanted:
        finished = latest.finished
        course = Course.END if finished else _stop_or_end(seen, latest, target, stops=True)
        return Heading(course, None if finished else Reason.SUSPENDING)
    if _changed(seen, target):
        stops = target.spec.upgrade.mode is not UpgradeMode.LAST_CHECKPOINT
        operation = _leaving_reason(seen, target, latest)
        return Heading(_stop_or_end(seen, latest, target, stops=stops), operation)
    if workers_are_cut_off(seen, target):
        return Heading(Course.END, Reason.RESTARTING)
    return Heading(Course.RUN, _running_reason(seen, target, latest))


def is_down(seen: Observed) -> bool:
    """Say whether no worker is there and none can come."""
    at = seen.stateful_set
    return not seen.pods and _empty(seen) and (at is None or at.observed)


def _empty(seen: Observed) -> bool:
    return seen.stateful_set is None or seen.stateful_set.replicas == 0


def _changed(seen: Observed, target: Target) -> bool:
    return seen.stateful_set is not None and seen.stateful_set.digest != target.digest


def _deleting(seen: Observed, latest: Latest) -> Heading:
    if is_down(seen):
        return Heading(Course.DOWN, Reason.DELETING)
    stops = deletion_policy(seen) is DeletionPolicy.SAVEPOINT
    return Heading(_stop_or_end(seen, latest, None, stops=stops), Reason.DELETING)


def deletion_policy(seen: Observed) -> DeletionPolicy:
    """Read the policy from the newest spec, which need not be valid otherwise."""
    spec = seen.job.spec
    text = spec.get("deletionPolicy") if isinstance(spec, dict) else None
    return next((p for p in DeletionPolicy if p == text), DeletionPolicy.RETAIN)


def deletion_due(seen: Observed, target: Target | None) -> float:
    """Return when a deletion no longer waits for what its policy asks, in seconds since 1970."""
    limit = DELETION_DEADLINE_S if target is None else target.spec.deletion_deadline_s
    return (seen.job.deleting_since or seen.now) + limit


def _stop_or_end(seen: Observed, latest: Latest, target: Target | None, *, stops: bool) -> Course:
    """To stop takes a job that runs; one that is closed or never began is ended at once."""
    began = latest.attempt > 0 and latest.epoch > 0
    if not stops or latest.closed() or not began or _empty(seen):
        return Course.END
    pending = seen.job.status.pending
    late = pending is not None and 0 < seconds(pending.deadline) < seen.now
    if seen.job.deleting_since is not None:
        return Course.END if late else Course.STOP  # the savepoint is tried again until then
    # Without its savepoint a suspension goes back to the last checkpoint instead, and an upgrade
    # without state loses nothing; an upgrade from a savepoint is given up.
    goes_on = target is None or target.spec.suspend or not _upgrades_from_savepoint(target)
    return Course.END if goes_on and (late or refused(pending, latest)) else Course.STOP


def _upgrades_from_savepoint(target: Target) -> bool:
    return target.spec.upgrade.mode is UpgradeMode.SAVEPOINT


def refused(pending: Pending | None, latest: Latest) -> bool:
    """Say whether the leader could not take the savepoint that a stop waits for."""
    if pending is None or pending.snapshot is None:
        return False
    return any(a.request == pending.snapshot and not a.ok for a in latest.answers)


def _starting_reason(seen: Observed, target: Target, latest: Latest) -> Reason:
    """Name the operation that a start is part of."""
    pending = seen.job.status.pending
    if restores(target, latest):
        return Reason.RESTORING
    if seen.stateful_set is None:
        return Reason.DEPLOYING
    if _changed(seen, target):
        return _leaving_reason(seen, target, latest) or Reason.UPGRADING
    if pending is not None and pending.action in CHANGES:
        return Reason(pending.action)
    return Reason.RESUMING


def _leaving_reason(seen: Observed, target: Target, latest: Latest) -> Reason | None:
    if target.spec.suspend:
        return Reason.SUSPENDING
    if latest.finished and not restores(target, latest):
        return None
    if restores(target, latest):
        return Reason.RESTORING
    return Reason.RESTARTING if _only_restarts(seen, target) else Reason.UPGRADING


def _only_restarts(seen: Observed, target: Target) -> bool:
    """Say whether nothing but spec.restartNonce differs from what ran."""
    at = seen.stateful_set
    if at is None or at.config not in seen.configs:
        return False
    return without_nonce(seen.configs[at.config]) == without_nonce(target.plain)


def _running_reason(seen: Observed, target: Target, latest: Latest) -> Reason | None:
    """An operation goes on until it has its effect; a rescale is one while the numbers differ."""
    pending = seen.job.status.pending
    starting = {
        Reason.DEPLOYING,
        Reason.UPGRADING,
        Reason.ROLLING_BACK,
        Reason.RESUMING,
        Reason.RESTORING,
        Reason.RESTARTING,
    }
    if pending is not None and pending.action in starting and not has_started(seen, target, latest):
        return Reason(pending.action)
    if latest.attempt == 0 and not latest.closed():
        return Reason.DEPLOYING  # a spec that cannot be taken ended the operation, not its work
    at = seen.stateful_set
    assert at is not None
    assert seen.desired is not None
    same = latest.workers in {0, target.spec.replicas} and at.replicas == target.spec.replicas
    if seen.desired.value.workers != target.spec.replicas or not same:
        return Reason.RESCALING
    return None if latest.settled == latest.version or latest.closed() else Reason.RESCALING


def has_started(seen: Observed, target: Target, latest: Latest) -> bool:
    """Say whether a start has had its effect: workers ready, and one checkpoint since it."""
    if latest.closed() or latest.attempt == 0 or seen.desired is None:
        return latest.closed() and latest.run == (seen.desired.value.run if seen.desired else "")
    ready = sum(p.ready and not p.deleting for p in seen.pods)
    return ready >= min(target.spec.replicas, latest.workers or 1) and latest.epoch > base_epoch(
        seen.desired.value.run
    )


def run_name(number: int, epoch: int, digest: str) -> str:
    """Name a run: its number, the epoch it began from, and what it runs."""
    return f"{number}-{epoch}-{digest[:8]}"


def run_parts(run: str) -> tuple[int, int, str]:
    """Read a name of :func:`run_name` back; zeros for another's."""
    parts = run.split("-")
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return 0, 0, ""
    return int(parts[0]), int(parts[1]), parts[2]


def base_epoch(run: str) -> int:
    """Return the epoch that a run began from."""
    return run_parts(run)[1]
