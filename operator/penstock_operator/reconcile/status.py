"""The status of a StreamJob, the operation in it, and the events that tell of its changes."""

import re
from enum import Enum

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import ABSENT
from penstock.contract.latest import Deaths, Latest
from penstock.contract.reader import clipped
from penstock.contract.status import SinkStatus
from penstock.contract.streamjob_status import (
    AssignmentStatus,
    CheckpointSummary,
    Condition,
    ConditionType,
    LastCompleted,
    LastFailure,
    LastStable,
    LostRowsStatus,
    Pending,
    Reason,
    RestartSummary,
    RestoreStatus,
    SinkSummary,
    StreamJobStatus,
    Truth,
    UnlistedSourceSummary,
)
from penstock_operator.api import names
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import seconds, stamp
from penstock_operator.reconcile.accept import Accepted, nonce_of
from penstock_operator.reconcile.actions import Event
from penstock_operator.reconcile.conditions import (
    ConditionInputs,
    conditions_of,
    reason_of,
    state_of,
)
from penstock_operator.reconcile.lifecycle import (
    JobPhase,
    Lifecycle,
    base_epoch,
    deletion_due,
    failure_of,
    has_started,
    ready_workers,
    run_parts,
    savepoint_refused,
)
from penstock_operator.reconcile.scaling import autoscaling_of
from penstock_operator.resources.target import Target

TRIED = "-at-"  # in the name of a savepoint that is tried again
TRY_AGAIN_S = 20.0
DIGITS = re.compile(r"[0-9]+(\.[0-9]+)?")
AUTOSCALED = "Autoscaled"  # reasons of events
ENGINE_DIED = "EngineDied"
FOREIGN_POD = "ForeignPod"
WARNED = (
    (ConditionType.STALLED, Truth.TRUE),
    (ConditionType.ACCEPTED, Truth.FALSE),
    (ConditionType.SNAPSHOTS_TAKEN, Truth.FALSE),
    (ConditionType.SECURED, Truth.FALSE),
)


class StatusChange(Enum):
    """How a new status differs from the written one: it decides whether and when it is written."""

    NONE = "none"
    PROGRESS = "progress"  # only epochs, rows and shares of time, which change all the time
    NEWS = "news"


def operation_under_way(seen: Observed, accepted: Accepted, lifecycle: Lifecycle) -> Pending | None:
    """Return the operation for the status. One that continues keeps its begin and its deadline."""
    operation = lifecycle.operation
    if operation is None:
        return None
    old = seen.job.status.pending
    generation = seen.job.generation
    same = old is not None and old.action == operation
    target = accepted.target
    ended = lifecycle.phase in {JobPhase.START, JobPhase.RUN} and old is not None and (old.snapshot or not old.deadline)
    if same and ended and old is not None:  # the workers before are gone: what follows has its time
        return replace(old, snapshot=None, deadline=_deadline(seen, target, lifecycle))
    if same and old is not None and (old.generation == generation or old.snapshot is not None):
        return replace(old, snapshot=_next_try(seen, old) or old.snapshot or _savepoint(seen, lifecycle))
    return Pending(
        str(operation),
        generation,
        stamp(seen.now),
        _deadline(seen, target, lifecycle),
        None if target is None else target.spec.replicas,
        _savepoint(seen, lifecycle),
    )


def _savepoint(seen: Observed, lifecycle: Lifecycle) -> str | None:
    """Name the savepoint that a stop waits for; its request has the same name."""
    if lifecycle.phase is not JobPhase.STOP or seen.desired is None:
        return None
    number = run_parts(seen.desired.value.run)[0]
    return f"stop-{seen.job.uid[:8]}-{seen.job.generation}-{number}"


def _next_try(seen: Observed, old: Pending) -> str | None:
    """Name another try of the last savepoint before a deletion; None when no try is due.

    The name ends with the seconds since the start of the deletion. They keep tries apart in time.
    """
    latest = seen.latest.value if seen.latest is not None else None
    asked = seen.job.deleting_since
    if asked is None or latest is None or old.snapshot is None or not savepoint_refused(old, latest):
        return None
    first, _, last = old.snapshot.partition(TRIED)
    now = int(seen.now - asked)
    waited = now - (int(last) if last.isdecimal() else 0)
    in_time = seen.now <= seconds(old.deadline)
    return f"{first}{TRIED}{now}" if in_time and waited >= TRY_AGAIN_S else None


def _deadline(seen: Observed, target: Target | None, lifecycle: Lifecycle) -> str | None:
    if lifecycle.operation is Reason.DELETING:
        return stamp(deletion_due(seen, target))
    if target is None:
        return None
    upgrade = target.spec.upgrade
    if lifecycle.phase is JobPhase.STOP:
        return stamp(seen.now + upgrade.savepoint_deadline_s)
    if lifecycle.operation is Reason.UPGRADING and lifecycle.phase is not JobPhase.TERMINATE:
        return stamp(seen.now + upgrade.stable_deadline_s)
    return None


def status_of(inputs: ConditionInputs, pending: Pending | None) -> StreamJobStatus:
    """Build the whole status."""
    seen, latest = inputs.seen, inputs.latest
    old = seen.job.status
    state = state_of(inputs)
    target = inputs.accepted.target
    conditions = conditions_of(inputs, state)
    status = replace(
        old,
        observed_generation=seen.job.generation,
        state=state,
        reason=reason_of(conditions),
        conditions=conditions,
        desired_replicas=old.desired_replicas if target is None else target.spec.replicas,
        replicas=len(seen.pods),
        ready_replicas=ready_workers(seen),
        selector=names.selector_text(seen.job.name),
        pending=pending,
        last_failure=_last_failure(inputs),
        last_stable=_last_stable(inputs),
        autoscaling=autoscaling_of(inputs, state),
    )
    return status if latest is None else _with_latest(seen, status, latest)


def _with_latest(seen: Observed, status: StreamJobStatus, latest: Latest) -> StreamJobStatus:
    leader = latest.leader
    return replace(
        status,
        leader=None if leader is None else f"{pod.workers_name(seen.job.name)}-{leader.ordinal}",
        term=int(latest.term),
        attempt=int(latest.attempt),
        assignment=AssignmentStatus(int(latest.version), latest.workers),
        checkpoint=_checkpoint(seen, latest),
        sinks=_sinks(seen) or status.sinks,
        unlisted_sources=() if latest.closed() else _unlisted(seen),
        restore=_restore(seen, latest),
        restarts=_restarts(seen, latest.deaths),
    )


def _unlisted(seen: Observed) -> tuple[UnlistedSourceSummary, ...]:
    sources = () if seen.running is None else seen.running.unlisted
    return tuple(UnlistedSourceSummary(s.name, stamp(s.since_us / 1_000_000), clipped(s.because)) for s in sources)


def _sinks(seen: Observed) -> tuple[SinkSummary, ...]:
    sinks = () if seen.running is None else seen.running.sinks
    return tuple(_sink(sink) for sink in sinks)


def _sink(sink: SinkStatus) -> SinkSummary:
    why = clipped(sink.why) or None
    if sink.since_us is None:
        return SinkSummary(sink.name, sink.guarantee, why=why)
    return SinkSummary(sink.name, sink.guarantee, stamp(sink.since_us / 1_000_000), clipped(sink.because), why)


def _restarts(seen: Observed, deaths: Deaths) -> RestartSummary | None:
    wanted = "" if seen.desired is None else seen.desired.value.run
    if not deaths.newest or deaths.run != wanted:
        return None
    last = deaths.newest[-1]
    worker = f"{pod.workers_name(seen.job.name)}-{last.ordinal}"
    return RestartSummary(deaths.count, deaths.attempts, deaths.window_s, last.reason, worker)


def _checkpoint(seen: Observed, latest: Latest) -> CheckpointSummary | None:
    old = seen.job.status.checkpoint or CheckpointSummary()
    failures = old.failures if seen.running is None else seen.running.failed_checkpoints
    retained = tuple(int(kept.epoch) for kept in latest.retained)
    done = _last_completed(seen, latest, old.last_completed)
    summary = CheckpointSummary(done, failures, retained)
    return None if summary == CheckpointSummary() else summary


def _last_completed(seen: Observed, latest: Latest, done: LastCompleted | None) -> LastCompleted | None:
    if latest.root is None or latest.epoch == 0:
        return done
    if done is not None and done.epoch == latest.epoch and done.bytes > 0:
        return done
    told = seen.running.checkpoint if seen.running is not None else None
    told = told if told is not None and told.epoch == latest.epoch else None
    folder = pod.checkpoint_path(seen.job.namespace, seen.job.name, seen.job.uid)
    at = seen.now if told is None or not told.time_us else told.time_us / 1e6
    if done is not None and done.epoch == latest.epoch:
        at = seconds(done.time)
    return LastCompleted(
        int(latest.epoch),
        stamp(at),
        0 if told is None else told.bytes,
        0.0 if told is None else told.duration_s,
        f"{folder}/{latest.root.name}",
    )


def _restore(seen: Observed, latest: Latest) -> RestoreStatus | None:
    old = seen.job.status.restore
    if not latest.restored:
        return old
    lost = tuple(int(e) for e in latest.lost_output)
    nonce = nonce_of(latest) or latest.restored  # without a nonce of a spec: a stateless upgrade's
    same = old is not None and old.nonce == nonce
    since = old.time if same and old is not None else stamp(seen.now)
    rows = () if latest.lost_rows is ABSENT else latest.lost_rows
    given_up = tuple(LostRowsStatus(each.sink, int(each.epoch), each.rows) for each in rows)
    return RestoreStatus(nonce, since, latest.replayed, lost, given_up)


def _last_failure(inputs: ConditionInputs) -> LastFailure | None:
    old = inputs.seen.job.status.last_failure
    text = None if inputs.latest is None else failure_of(inputs.seen, inputs.latest)
    if text is None or inputs.problem is None:
        return old
    text = clipped(text)
    if old is not None and old.message == text:
        return old
    return LastFailure(stamp(inputs.seen.now), str(inputs.problem.reason), text)


def _last_stable(inputs: ConditionInputs) -> LastStable | None:
    """Return the last stable spec: its workers are ready, and it committed a checkpoint."""
    seen, latest, target = inputs.seen, inputs.latest, inputs.accepted.target
    old = seen.job.status.last_stable
    if latest is None or target is None or seen.desired is None or inputs.accepted.given_up is not None:
        return old
    runs = seen.stateful_set is not None and seen.stateful_set.digest == target.digest
    own = latest.epoch > base_epoch(seen.desired.value.run)
    if not runs or not own or latest.failure or not has_started(seen, target, latest):
        return old
    if inputs.accepted.reason is not Reason.VALID or (old is not None and old.digest == target.digest):
        return old
    return LastStable(seen.job.generation, target.digest)


def status_change(old: StreamJobStatus, new: StreamJobStatus) -> StatusChange:
    """Compare a status with the written one."""
    if old == new:
        return StatusChange.NONE
    return StatusChange.PROGRESS if _without_progress(old) == _without_progress(new) else StatusChange.NEWS


def _without_progress(status: StreamJobStatus) -> StreamJobStatus:
    """Leave out what changes all the time: epochs, rows, shares, and numbers in messages."""
    kept = tuple(replace(c, message=_without_numbers(c)) for c in status.conditions)
    spark = status.spark_application
    still = None if spark is None else replace(spark, rows=0)
    chosen = status.autoscaling
    chosen = None if chosen is None else replace(chosen, busy=None, step=None)
    return replace(status, checkpoint=None, conditions=kept, spark_application=still, autoscaling=chosen)


def _without_numbers(condition: Condition) -> str:
    if condition.type in {ConditionType.CHECKPOINTING, ConditionType.READY}:
        return ""
    return DIGITS.sub("#", condition.message)


def _input_news(old: StreamJobStatus, new: StreamJobStatus) -> list[Event]:
    """Warn when the set of unread files changes."""
    before = old.condition(ConditionType.INPUT_COMPLETE)
    now = new.condition(ConditionType.INPUT_COMPLETE)
    if now is None or now.status is not Truth.FALSE:
        return []
    if before is not None and before.message == now.message:
        return []
    return [Event(now.reason, now.message, warning=True)]


def _foreign_news(old: StreamJobStatus, new: StreamJobStatus) -> list[Event]:
    """Warn when the set of foreign pods changes."""
    before, now = old.condition(ConditionType.STALLED), new.condition(ConditionType.STALLED)
    if now is None or now.status is not Truth.FALSE or not now.message:
        return []
    if before is not None and before.message == now.message:
        return []
    return [Event(FOREIGN_POD, now.message, warning=True)]


def _death_news(old: StreamJobStatus, new: StreamJobStatus) -> list[Event]:
    """Warn of each death of an engine. Kubernetes does not: the container does not restart."""
    was, now = old.restarts, new.restarts
    if now is None or (was is not None and now.count <= was.count and now.last == was.last):
        return []
    text = f"an engine of {now.worker} died ({now.count} within spec.restart.window): {now.last}"
    return [Event(ENGINE_DIED, text, warning=True)]


def events_of(old: StreamJobStatus, new: StreamJobStatus) -> tuple[Event, ...]:
    """Return the events for a change: a new operation, a refused spec, a stalled or ended job."""
    found: list[Event] = []
    if new.pending is not None and (old.pending is None or old.pending.action != new.pending.action):
        found.append(Event(new.pending.action, f"generation {new.observed_generation}"))
    for kind, truth in WARNED:
        before, now = old.condition(kind), new.condition(kind)
        if now is not None and now.status is truth:
            same = before is not None and (before.status, before.reason) == (truth, now.reason)
            if not same:
                found.append(Event(now.reason, now.message, warning=True))
    found += _input_news(old, new)
    found += _foreign_news(old, new)
    found += _death_news(old, new)
    if old.state is not new.state and new.state in {"Running", "Suspended", "Finished", "Failed"}:
        found.append(Event(str(new.state), f"was {old.state}", warning=new.state == "Failed"))
    was, chosen = old.autoscaling, new.autoscaling
    if was is not None and chosen is not None and was.replicas != chosen.replicas:
        text = f"{was.replicas} -> {chosen.replicas} workers: {chosen.message}"
        found.append(Event(AUTOSCALED, text, warning=chosen.undone))
    return tuple(found)
