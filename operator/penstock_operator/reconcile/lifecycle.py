"""The phase that a job is in, the operation that the phase is part of, and the end of a deletion.

The operator remembers nothing between two reconciles. The phase follows from where the workers are
(:class:`Workers`) and from what is asked of them (:class:`Demand`), by the table ``PHASES``::

    demand     workers: none   leaving     present
    ---------  --------------  ----------  ----------
    run        start           terminate   run
    replace    start           terminate   stop
    reissue    start           terminate   terminate
    suspend    down            terminate   stop
    finish     down            terminate   terminate
    delete     down            terminate   stop

The phase is ``wait`` while the job has no metadata or no readable spec. A ``stop`` becomes a
``terminate`` when no savepoint has to be awaited (:class:`Ending`). A start that was interrupted is
simply a start again. Workers of two specs never run together: ``start`` needs workers ``none``.

A deletion ends with :func:`finalize`, which does what the deletion policy asks for::

    Retain     nothing is awaited; the checkpoints and -latest stay
    Savepoint  a last savepoint is awaited; the checkpoints and -latest stay
    Purge      the workers end, a Job removes the files, then -latest and the epoch views are deleted

Nothing is awaited in a namespace that is being deleted: no object can be created in it, and the
claim is deleted with it.
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
from penstock_operator.api.plain import seconds, stamp
from penstock_operator.reconcile.accept import Accepted, reason_given_up, running_target, wants_restore
from penstock_operator.reconcile.actions import Create, DecisionBuilder, Delete, SetFinalizer
from penstock_operator.reconcile.certificates import certificates_lost
from penstock_operator.resources import coordination
from penstock_operator.resources.jobs import purge_job
from penstock_operator.resources.target import Target

DELETION_DEADLINE_S = 300.0  # when the spec cannot be read
CHANGES = frozenset({Reason.UPGRADING, Reason.ROLLING_BACK, Reason.RESTARTING})
STARTS = frozenset({Reason.DEPLOYING, Reason.RESUMING, Reason.RESTORING}) | CHANGES


class JobPhase(StrEnum):
    """What the operator does with the workers now."""

    WAIT = "wait"  # nothing; metadata or a readable spec must come first
    START = "start"  # creates the workers
    RUN = "run"  # keeps the workers running, and rescales them
    STOP = "stop"  # asks the leader for a savepoint, after which the job stops
    TERMINATE = "terminate"  # scales to zero; the committed checkpoint is what counts
    DOWN = "down"  # nothing; no worker is there, and none is wanted


class Workers(StrEnum):
    """Where the workers are."""

    NONE = "none"  # no pod is there, and none can appear
    LEAVING = "leaving"  # the StatefulSet has zero replicas, and the last pods are ending
    PRESENT = "present"  # the StatefulSet has replicas


class Demand(StrEnum):
    """What is asked of the workers."""

    RUN = "run"  # to run this spec
    REPLACE = "replace"  # to run another spec than the present workers do
    REISSUE = "reissue"  # to run with new certificates, which the present workers do not trust
    SUSPEND = "suspend"  # not to run
    FINISH = "finish"  # not to run: the job has finished
    DELETE = "delete"  # not to run: the StreamJob is being deleted


class Ending(StrEnum):
    """How workers that are asked to end do so: after a savepoint, or at once for a reason."""

    SAVEPOINT = "a savepoint is awaited"
    NOT_ASKED_FOR = "neither the spec nor the deletion policy asks for a savepoint, or the spec was given up"
    CLOSED = "the job has finished, failed or stopped"
    NEVER_BEGAN = "the job has committed nothing yet"
    TOO_LATE = "the deadline of the savepoint has passed, and the job ends without it"
    REFUSED = "the leader could not take the savepoint, and the job ends without it"


PHASES = {
    (Workers.NONE, Demand.RUN): JobPhase.START,
    (Workers.NONE, Demand.REPLACE): JobPhase.START,
    (Workers.NONE, Demand.REISSUE): JobPhase.START,
    (Workers.NONE, Demand.SUSPEND): JobPhase.DOWN,
    (Workers.NONE, Demand.FINISH): JobPhase.DOWN,
    (Workers.NONE, Demand.DELETE): JobPhase.DOWN,
    (Workers.LEAVING, Demand.RUN): JobPhase.TERMINATE,
    (Workers.LEAVING, Demand.REPLACE): JobPhase.TERMINATE,
    (Workers.LEAVING, Demand.REISSUE): JobPhase.TERMINATE,
    (Workers.LEAVING, Demand.SUSPEND): JobPhase.TERMINATE,
    (Workers.LEAVING, Demand.FINISH): JobPhase.TERMINATE,
    (Workers.LEAVING, Demand.DELETE): JobPhase.TERMINATE,
    (Workers.PRESENT, Demand.RUN): JobPhase.RUN,
    (Workers.PRESENT, Demand.REPLACE): JobPhase.STOP,
    (Workers.PRESENT, Demand.REISSUE): JobPhase.TERMINATE,
    (Workers.PRESENT, Demand.SUSPEND): JobPhase.STOP,
    (Workers.PRESENT, Demand.FINISH): JobPhase.TERMINATE,
    (Workers.PRESENT, Demand.DELETE): JobPhase.STOP,
}


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The phase, and the operation that it is part of (None: the job is at rest)."""

    phase: JobPhase
    operation: Reason | None = None


# --- The phase --------------------------------------------------------------------------------


def lifecycle_of(seen: Observed, accepted: Accepted, latest: Latest | None) -> Lifecycle:
    """Choose the phase and name the operation."""
    target = accepted.target
    deleting = seen.job.deleting_since is not None
    if deleting and latest is not None:  # also without -desired: workers that nobody controls end
        return Lifecycle(_phase(seen, latest, target, Demand.DELETE), Reason.DELETING)
    if latest is None or seen.desired is None or target is None:
        return Lifecycle(JobPhase.WAIT, None if target is None else Reason.DEPLOYING)
    demand = _demand(seen, latest, target)
    operation = _operation(seen, latest, target, demand)
    if operation is Reason.UPGRADING and accepted.given_up is Reason.ROLLED_BACK:
        operation = Reason.ROLLING_BACK
    return Lifecycle(_phase(seen, latest, target, demand), operation)


def _phase(seen: Observed, latest: Latest, target: Target | None, demand: Demand) -> JobPhase:
    phase = PHASES[_workers(seen), demand]
    if phase is JobPhase.STOP and ending_of(seen, latest, target, demand) is not Ending.SAVEPOINT:
        return JobPhase.TERMINATE
    return phase


def _workers(seen: Observed) -> Workers:
    if is_down(seen):
        return Workers.NONE
    return Workers.LEAVING if _has_no_replicas(seen) else Workers.PRESENT


def is_down(seen: Observed) -> bool:
    """Say whether no worker is there and none can appear."""
    workers = seen.stateful_set
    settled = workers is None or workers.observed
    return not seen.pods and _has_no_replicas(seen) and settled


def _has_no_replicas(seen: Observed) -> bool:
    return seen.stateful_set is None or seen.stateful_set.replicas == 0


def _demand(seen: Observed, latest: Latest, target: Target) -> Demand:
    if latest.finished and (target.spec.suspend or not wants_restore(target, latest)):
        return Demand.FINISH
    if target.spec.suspend:
        return Demand.SUSPEND
    if _is_changed(seen, target):
        return Demand.REPLACE
    return Demand.REISSUE if certificates_lost(seen, target) else Demand.RUN


def _is_changed(seen: Observed, target: Target) -> bool:
    return seen.stateful_set is not None and seen.stateful_set.digest != target.digest


# --- The way the workers end ------------------------------------------------------------------


def ending_of(seen: Observed, latest: Latest, target: Target | None, demand: Demand) -> Ending:
    """Decide whether a savepoint is awaited before the present workers end.

    During a deletion a refused savepoint is tried again until the deadline. A suspension without
    its savepoint later continues from the last checkpoint, and an upgrade without state loses
    nothing. An upgrade from a savepoint waits: ``diagnosis`` gives it up at its deadline, unless it is a
    restore, which begins elsewhere. A spec that was given up has nothing to save: it was never stable.
    """
    if not _asks_for_savepoint(seen, target, demand):
        return Ending.NOT_ASKED_FOR
    if latest.closed():
        return Ending.CLOSED
    if latest.attempt == 0 or latest.epoch == 0:
        return Ending.NEVER_BEGAN
    pending = seen.job.status.pending
    late = pending is not None and pending.snapshot is not None and 0 < seconds(pending.deadline) < seen.now
    if demand is Demand.DELETE:
        return Ending.TOO_LATE if late else Ending.SAVEPOINT
    assert target is not None
    begins_there = target.spec.upgrade.mode is UpgradeMode.SAVEPOINT and not wants_restore(target, latest)
    if demand is Demand.REPLACE and begins_there:
        return Ending.SAVEPOINT
    if late:
        return Ending.TOO_LATE
    return Ending.REFUSED if savepoint_refused(pending, latest) else Ending.SAVEPOINT


def _asks_for_savepoint(seen: Observed, target: Target | None, demand: Demand) -> bool:
    if demand is Demand.DELETE:
        return deletion_policy(seen) is DeletionPolicy.SAVEPOINT
    if demand is Demand.REPLACE:
        assert target is not None
        rolls_back = reason_given_up(seen) is Reason.ROLLED_BACK
        return not rolls_back and target.spec.upgrade.mode is not UpgradeMode.LAST_CHECKPOINT
    return True


def savepoint_refused(pending: Pending | None, latest: Latest) -> bool:
    """Say whether the leader could not take the savepoint that a stop waits for."""
    if pending is None or pending.snapshot is None:
        return False
    return any(a.request == pending.snapshot and not a.ok for a in latest.answers)


# --- The operation ----------------------------------------------------------------------------


def _operation(seen: Observed, latest: Latest, target: Target, demand: Demand) -> Reason | None:
    match _workers(seen), demand:
        case Workers.NONE, Demand.SUSPEND | Demand.FINISH:
            return None
        case Workers.NONE, _:
            return _starting_operation(seen, target, latest)
        case Workers.LEAVING, _:
            return _ending_operation(seen, target, latest)
        case _, Demand.FINISH:
            return None
        case _, Demand.SUSPEND:
            return Reason.SUSPENDING
        case _, Demand.REPLACE:
            return _ending_operation(seen, target, latest)
        case _, Demand.REISSUE:
            return Reason.RESTARTING
        case _:
            return _running_operation(seen, target, latest)


def _starting_operation(seen: Observed, target: Target, latest: Latest) -> Reason:
    pending = seen.job.status.pending
    if wants_restore(target, latest):
        return Reason.RESTORING
    if seen.stateful_set is None:
        return Reason.DEPLOYING
    if _is_changed(seen, target):
        return _ending_operation(seen, target, latest) or Reason.UPGRADING
    if pending is not None and pending.action in CHANGES:
        return Reason(pending.action)
    return Reason.RESUMING


def _ending_operation(seen: Observed, target: Target, latest: Latest) -> Reason | None:
    if target.spec.suspend:
        return Reason.SUSPENDING
    if latest.finished and not wants_restore(target, latest):
        return None
    if wants_restore(target, latest):
        return Reason.RESTORING
    return Reason.RESTARTING if _only_nonce_differs(seen, target) else Reason.UPGRADING


def _only_nonce_differs(seen: Observed, target: Target) -> bool:
    """Say whether ``spec.restartNonce`` is all that differs from the spec of the workers."""
    workers = seen.stateful_set
    if workers is None or workers.config not in seen.configs:
        return False
    return without_nonce(seen.configs[workers.config]) == without_nonce(target.plain)


def _running_operation(seen: Observed, target: Target, latest: Latest) -> Reason | None:
    """A start goes on until it has its effect; a rescale goes on while any number differs."""
    pending = seen.job.status.pending
    if pending is not None and pending.action in STARTS and not has_started(seen, target, latest):
        return Reason(pending.action)
    if latest.attempt == 0 and not latest.closed():
        # A spec that was refused has ended the operation in the status; the deployment goes on.
        return Reason.DEPLOYING
    workers = seen.stateful_set
    assert workers is not None
    assert seen.desired is not None
    wanted = target.spec.replicas
    same = latest.workers in {0, wanted} and workers.replicas == wanted
    if seen.desired.value.workers != wanted or not same:
        return Reason.RESCALING
    return None if latest.settled == latest.version or latest.closed() else Reason.RESCALING


def has_started(seen: Observed, target: Target, latest: Latest) -> bool:
    """Say whether a start has had its effect: workers are ready, and a checkpoint was committed."""
    run = seen.desired.value.run if seen.desired is not None else ""
    if latest.closed():
        return latest.run == run
    if latest.attempt == 0 or seen.desired is None:
        return False
    return ready_workers(seen) >= min(target.spec.replicas, latest.workers or 1) and latest.epoch > base_epoch(run)


def failure_of(seen: Observed, latest: Latest) -> str | None:
    """Return why the wanted run has failed; None when it has not. A new run has nothing of the one before."""
    same = seen.desired is None or latest.run == seen.desired.value.run
    return latest.failure if same else None


def ready_workers(seen: Observed) -> int:
    """Count the pods that are ready and not being deleted."""
    return sum(p.ready and not p.deleting for p in seen.pods)


# --- Runs -------------------------------------------------------------------------------------


def run_name(number: int, epoch: int, digest: str) -> str:
    """Name a run: its number, the epoch that it starts from, and the digest of its spec."""
    return f"{number}-{epoch}-{digest[:8]}"


def run_parts(run: str) -> tuple[int, int, str]:
    """Split a name made by :func:`run_name`; another name gives zeros."""
    parts = run.split("-")
    if len(parts) != 3 or not (parts[0].isdecimal() and parts[1].isdecimal()):
        return 0, 0, ""
    return int(parts[0]), int(parts[1]), parts[2]


def base_epoch(run: str) -> int:
    """Return the epoch that a run started from."""
    return run_parts(run)[1]


# --- Deletion ---------------------------------------------------------------------------------


def deletion_policy(seen: Observed) -> DeletionPolicy:
    """Read the policy from the newest spec, whose other fields may be invalid."""
    spec = seen.job.spec
    text = spec.get("deletionPolicy") if isinstance(spec, dict) else None
    return next((p for p in DeletionPolicy if p == text), DeletionPolicy.RETAIN)


def deletion_due(seen: Observed, target: Target | None) -> float:
    """Return when a deletion stops waiting for its policy, in seconds since 1970."""
    limit = DELETION_DEADLINE_S if target is None else target.spec.deletion_deadline_s
    return (seen.job.deleting_since or seen.now) + limit


def finalize(seen: Observed, accepted: Accepted, phase: JobPhase, builder: DecisionBuilder) -> None:
    """Do what the deletion policy still asks for, then remove the finalizer."""
    if names.FINALIZER not in seen.job.finalizers:
        return
    due = deletion_due(seen, accepted.target or running_target(seen))
    if seen.now >= due and not seen.namespace_ends:
        awaited = awaited_by_deletion(seen)
        text = f"the deadline of the deletion, {stamp(due)}, has passed without {awaited}"
        builder.tell("DeletionTimedOut", text, warning=True)
    elif not seen.namespace_ends:
        if not _is_policy_fulfilled(seen, accepted, phase, builder):
            builder.again(due - seen.now)
            return
        purges = deletion_policy(seen) is DeletionPolicy.PURGE
        if purges and not _is_metadata_deleted(seen, builder):
            return
    builder.do(SetFinalizer(False, version=seen.job.version))


def awaited_by_deletion(seen: Observed) -> str:
    """Say what the deletion waits for, and why it is late where the leader has said so.

    The text is for the condition and the event. It is empty when nothing is awaited.
    """
    match deletion_policy(seen):
        case DeletionPolicy.SAVEPOINT:
            answer = last_savepoint_failure(seen)
            return "a last savepoint" + (f" (the newest try failed: {answer})" if answer else "")
        case DeletionPolicy.PURGE:
            return "the removal of the checkpoints, after the workers have ended"
        case _:
            return ""


def last_savepoint_failure(seen: Observed) -> str:
    """Return why the newest try of the last savepoint failed; empty when it did not fail."""
    pending, latest = seen.job.status.pending, seen.latest.value if seen.latest else None
    if seen.job.deleting_since is None or pending is None or latest is None:
        return ""
    return next((a.text for a in latest.answers if a.request == pending.snapshot and not a.ok), "")


def deletion_message(seen: Observed, target: Target | None) -> str:
    """Say what the deletion waits for, until when, and how a person can end the wait."""
    if names.FINALIZER not in seen.job.finalizers:
        return ""
    due = stamp(deletion_due(seen, target))
    return (
        f"waits for {awaited_by_deletion(seen)}; without it from {due} on "
        f"(spec.deletionDeadline); at once: kubectl patch sj {seen.job.name} --type=merge -p "
        """'{"spec":{"deletionPolicy":"Retain"}}'"""
    )


def _is_policy_fulfilled(seen: Observed, accepted: Accepted, phase: JobPhase, builder: DecisionBuilder) -> bool:
    """Say whether nothing is awaited any more. Creates the Job that removes files when needed."""
    policy = deletion_policy(seen)
    name = names.purge_name(seen.job.name, seen.job.uid)
    if policy is DeletionPolicy.RETAIN or seen.purges.get(name):
        return True
    if not _has_latest(seen):
        if policy is DeletionPolicy.PURGE and seen.job.status.attempt:
            _tell_files_left(seen, f"ConfigMap {pod.latest_name(seen.job.name)} is gone", builder)
        return True
    if policy is DeletionPolicy.SAVEPOINT:
        return phase is not JobPhase.STOP
    if not is_down(seen):
        return False
    target = accepted.target or running_target(seen)
    if target is None:
        _tell_files_left(seen, "no spec can be read that says where they are", builder)
        return True
    if ChildKey("Job", name) not in seen.children:
        builder.do(Create(purge_job(target)))
    return False


def _tell_files_left(seen: Observed, why: str, builder: DecisionBuilder) -> None:
    folder = pod.checkpoint_path(seen.job.namespace, seen.job.name, seen.job.uid)
    builder.tell("DisposalFailed", f"files stay: those in {folder}: {why}", warning=True)


def _has_latest(seen: Observed) -> bool:
    """Say whether a ``-latest`` exists that does not belong to an earlier job of this name.

    It shows that the job may have begun. Without it nothing has to be stopped or removed.
    """
    found = seen.latest
    return found is not None and (found.value is None or found.value.job_uid == seen.job.uid)


def delete_epoch_views(seen: Observed, uid: str, builder: DecisionBuilder) -> bool:
    """Delete the views of single epochs of the job with this uid. True when there was one.

    Earlier versions of the operator made these ConfigMaps; the status has the epochs now.
    """
    found = False
    for key, child in sorted(seen.children.items(), key=lambda c: c[0].name):
        epoch = coordination.epoch_of(seen.job.name, key.name) if key.kind == "ConfigMap" else None
        if epoch is not None and child.job_uid == uid and not child.deleting:
            builder.do(Delete("ConfigMap", key.name, child.uid))
            found = True
    return found


def _is_metadata_deleted(seen: Observed, builder: DecisionBuilder) -> bool:
    """Delete ``-latest`` and the views of epochs; True when none of them is left."""
    uid = seen.job.uid
    left = delete_epoch_views(seen, uid, builder)
    latest = seen.latest.value if seen.latest is not None else None
    if latest is not None and latest.job_uid == uid and seen.latest is not None:
        builder.do(Delete("ConfigMap", pod.latest_name(seen.job.name), seen.latest.uid))
        left = True
    return not left
