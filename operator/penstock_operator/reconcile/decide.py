"""One reconcile as a pure function: from an observation to actions, a status and events.

This file is the table of contents of the package; every step has a file of its own. What makes the
order safe:

- An operation is written into the status before anything is done for it: a crash leaves a trace.
- The metadata and the other children come before the workers.
- Nothing is done about the workers while there is no metadata.
"""

from penstock.contract.streamjob_status import Pending, StreamJobStatus
from penstock_operator.api.observed import Observed
from penstock_operator.reconcile.accept import accept, running_target
from penstock_operator.reconcile.actions import Decision, DecisionBuilder
from penstock_operator.reconcile.certificates import warn_of_lost_certificates
from penstock_operator.reconcile.children import (
    apply_children,
    foreign_objects,
    foreign_objects_problem,
    left_by_earlier_job,
    newer_record,
    reconcile_finalizer,
    reconcile_metadata,
)
from penstock_operator.reconcile.conditions import ConditionInputs
from penstock_operator.reconcile.diagnosis import (
    diagnose,
    given_up_problem,
    last_savepoint_problem,
    upgrade_given_up,
    upgrade_overdue,
)
from penstock_operator.reconcile.lifecycle import (
    JobPhase,
    Lifecycle,
    delete_epoch_views,
    finalize,
    lifecycle_of,
)
from penstock_operator.reconcile.replay import (
    check_replay_available,
    reconcile_replay,
    replay_problem,
)
from penstock_operator.reconcile.snapshots import (
    reconcile_disposal,
    reconcile_imported,
    reconcile_periodic,
    reconcile_requested,
    why_no_snapshot,
)
from penstock_operator.reconcile.status import (
    StatusChange,
    events_of,
    operation_under_way,
    status_change,
    status_of,
)
from penstock_operator.reconcile.workers import (
    reapply_stateful_set,
    reconcile_workers,
    replace_lost_pods,
)

REST_S = 60.0  # how often a job at rest is reconciled, to show its epochs and rows
WATCHFUL_S = 5.0  # how often during an operation, in addition to what the watches report
AT_ONCE_S = 0.05


def decide(seen: Observed) -> Decision:
    """Decide. The same observation always gives the same decision."""
    builder = DecisionBuilder()
    accepted = check_replay_available(seen, accept(seen))
    foreign = foreign_objects(seen, accepted.target)
    metadata = reconcile_metadata(seen, accepted.target, foreign, builder)
    lifecycle = lifecycle_of(seen, accepted, metadata.latest)
    operation = operation_under_way(seen, accepted, lifecycle)
    trouble = diagnose(seen, accepted.target, metadata.latest)
    problem = (
        last_savepoint_problem(seen, accepted.target)
        or metadata.problem
        or given_up_problem(seen, accepted, trouble)
        or foreign_objects_problem(seen, foreign)
        or upgrade_given_up(seen, accepted, metadata.latest, lifecycle)
        or trouble
        or upgrade_overdue(seen, lifecycle)
        or replay_problem(seen, accepted)
    )
    inputs = ConditionInputs(seen, accepted, metadata.latest, lifecycle, problem)
    status = reconcile_replay(inputs, status_of(inputs, operation), builder)
    if operation is not None and operation != seen.job.status.pending:
        return _announce(inputs, status, builder)
    _act(inputs, operation, builder, foreign=bool(foreign))
    runs = not why_no_snapshot(metadata.latest, lifecycle) and lifecycle.operation is None
    status = reconcile_periodic(seen, accepted.target, status, builder, runs=runs)
    _requeue(seen, lifecycle, builder)
    change = status_change(seen.job.status, status)
    return Decision(
        tuple(builder.actions),
        None if change is StatusChange.NONE else status,
        status_may_wait=change is StatusChange.PROGRESS and not builder.actions,
        events=(*builder.events, *events_of(seen.job.status, status)),
        again_s=builder.again_s,
    )


def _announce(inputs: ConditionInputs, status: StreamJobStatus, builder: DecisionBuilder) -> Decision:
    """Write the operation into the status, and do nothing else yet."""
    seen = inputs.seen
    builder.actions.clear()
    warn_of_lost_certificates(seen, inputs.accepted.target, builder)
    events = (*builder.events, *events_of(seen.job.status, status))
    return Decision((), status, status_first=True, events=events, again_s=AT_ONCE_S)


def _act(inputs: ConditionInputs, operation: Pending | None, builder: DecisionBuilder, *, foreign: bool) -> None:
    """Act on the children, then on the workers, then on the snapshots.

    ``foreign``: an object of another owner has one of the job's names. No worker starts then.
    """
    seen, accepted, phase = inputs.seen, inputs.accepted, inputs.lifecycle.phase
    if seen.job.deleting_since is not None:
        finalize(seen, accepted, phase, builder)
    else:
        reconcile_finalizer(seen, builder)
        if accepted.target is not None and _may_apply_children(seen, foreign=foreign):
            apply_children(seen, accepted.target, builder)
            reapply_stateful_set(seen, accepted.target, builder)
            delete_epoch_views(seen, seen.job.uid, builder)
    if inputs.latest is not None:
        if not (foreign and phase is JobPhase.START):
            reconcile_workers(seen, accepted, phase, operation, builder)
        replace_lost_pods(seen, inputs.latest, builder)
    reconcile_requested(seen, builder, why_no_snapshot(inputs.latest, inputs.lifecycle))
    reconcile_imported(seen, builder)
    reconcile_disposal(seen, accepted.target or running_target(seen), builder)


def _may_apply_children(seen: Observed, *, foreign: bool) -> bool:
    would_begin = foreign and seen.stateful_set is None
    # An operator of a newer version wrote -latest or -desired, so it also writes the other objects.
    newer = newer_record(seen) is not None
    return not (left_by_earlier_job(seen) or would_begin or newer)


def _requeue(seen: Observed, lifecycle: Lifecycle, builder: DecisionBuilder) -> None:
    if seen.look_again_s is not None:
        builder.again(seen.look_again_s)
    busy = lifecycle.operation is not None or _lacks_pods(seen)
    builder.again(WATCHFUL_S if busy else REST_S)


def _lacks_pods(seen: Observed) -> bool:
    """Say whether pods are missing: the reason is in events, which no watch reports."""
    workers = seen.stateful_set
    return workers is not None and sum(not p.deleting for p in seen.pods) < workers.replicas
