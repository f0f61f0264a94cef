"""Where a job is going: one word, chosen from what is there and what is wanted.

::

    HOLD ──metadata there──> START ──> RUN ──suspend, Savepoint upgrade──> STOP ──stopped──> END
                               ^        └─────changed, finished, purge──────────────────────> │
                               └──────────────── wanted again ── DOWN <──── no pod is left ───┘

Nothing is remembered: a START that was cut off is a START again. Old and new pods never run
together: all pods of one spec are gone before one of the next is made.

A job that is being deleted: what its policy asks for, within the deadline, then let go.

::

    Retain     nothing waits; checkpoints and -latest stay
    Savepoint  a last savepoint, then the same
    Purge      workers end, a Job removes the files, -latest and the views go

Nothing can be made in a namespace that ends, and what is in it goes all the same, the claim too:
there nothing is waited for.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.contract import pod
from penstock.contract.latest import Latest
from penstock.contract.streamjob import DeletionPolicy, UpgradeMode
from penstock.contract.streamjob_status import Pending, Reason
from penstock_operator.api import names
from penstock_operator.api.classes import without_nonce
from penstock_operator.api.observed import ChildKey, Observed
from penstock_operator.api.times import seconds, stamp
from penstock_operator.reconcile.accept import Accepted, last_good, owner_of, restores
from penstock_operator.reconcile.actions import Create, Delete, Draft, SetFinalizer
from penstock_operator.reconcile.certificates import workers_are_cut_off
from penstock_operator.resources import records
from penstock_operator.resources.purge import purge_job
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


def let_go(seen: Observed, accepted: Accepted, course: Course, draft: Draft) -> None:
    """Do what the policy still asks for, then take the finalizer away."""
    job = seen.job
    if names.FINALIZER not in job.finalizers:
        return
    target = accepted.target or last_good(seen)
    due = deletion_due(seen, target)
    latest = seen.latest.value if seen.latest is not None else None
    if seen.namespace_ends:
        pass
    elif seen.now >= due:
        text = f"the deadline of the deletion, {stamp(due)}, has passed without {left_to_do(seen)}"
        draft.tell("DeletionTimedOut", text, warning=True)
    elif not _is_done(seen, accepted, course, draft):
        draft.again(due - seen.now)
        return
    elif deletion_policy(seen) is DeletionPolicy.PURGE and not _forgotten(seen, latest, draft):
        return
    draft.do(SetFinalizer(False, version=job.version))


def left_to_do(seen: Observed) -> str:
    """Name what the policy of a deletion waits for, and why it is not there yet where that is said.

    For the condition and the event; empty where it waits for nothing.
    """
    match deletion_policy(seen):
        case DeletionPolicy.SAVEPOINT:
            answer = failed_savepoint(seen)
            return "a last savepoint" + (f" (the newest try failed: {answer})" if answer else "")
        case DeletionPolicy.PURGE:
            return "the removal of the checkpoints, after the workers have ended"
        case _:
            return ""


def failed_savepoint(seen: Observed) -> str:
    """Return why the newest try of a last savepoint failed; empty when none did."""
    pending, latest = seen.job.status.pending, seen.latest.value if seen.latest else None
    if seen.job.deleting_since is None or pending is None or latest is None:
        return ""
    return next((a.text for a in latest.answers if a.request == pending.snapshot and not a.ok), "")


def deletion_text(seen: Observed, target: Target | None) -> str:
    """Say what a deletion waits for, until when, and how it is done at once."""
    if names.FINALIZER not in seen.job.finalizers:
        return ""
    return (
        f"waits for {left_to_do(seen)}; without it from {stamp(deletion_due(seen, target))} on "
        f"(spec.deletionDeadline); at once: kubectl patch sj {seen.job.name} --type=merge -p "
        """'{"spec":{"deletionPolicy":"Retain"}}'"""
    )


def _is_done(seen: Observed, accepted: Accepted, course: Course, draft: Draft) -> bool:
    policy = deletion_policy(seen)
    if policy is DeletionPolicy.RETAIN or not _has_record(seen):
        return True
    if policy is DeletionPolicy.SAVEPOINT:
        return course is not Course.STOP
    if not is_down(seen):
        return False
    target = accepted.target or last_good(seen)
    name = names.purge_name(seen.job.name, seen.job.uid)
    if target is None or seen.purges.get(name):
        return True
    if ChildKey("Job", name) not in seen.children:
        draft.do(Create(purge_job(target)))
    return False


def _has_record(seen: Observed) -> bool:
    """Say whether a ``-latest`` is there that is not of an earlier job of this name.

    The job's own one says that it may have begun. Without it nothing is stopped, nor removed.
    """
    found = seen.latest
    return found is not None and (found.value is None or found.value.job_uid == seen.job.uid)


def _forgotten(seen: Observed, latest: Latest | None, draft: Draft) -> bool:
    """Delete the record and its views; True when none is left."""
    owner = owner_of(seen.job)
    left = False
    for key, child in sorted(seen.children.items(), key=lambda c: c[0].name):
        view = key.kind == "ConfigMap" and records.epoch_of(owner.name, key.name) is not None
        if view and child.job_uid == owner.uid and not child.deleting:
            draft.do(Delete("ConfigMap", key.name, child.uid))
            left = True
    if latest is not None and latest.job_uid == owner.uid and seen.latest is not None:
        draft.do(Delete("ConfigMap", pod.latest_name(owner.name), seen.latest.uid))
        left = True
    return not left
