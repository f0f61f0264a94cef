"""The conditions of a StreamJob, its state in one word, and the reason to show first."""

from dataclasses import dataclass

from penstock.contract import pod
from penstock.contract.codec import ABSENT
from penstock.contract.latest import Latest
from penstock.contract.reader import clipped
from penstock.contract.schemes import SchemeChoice, given, said
from penstock.contract.status import unread_text
from penstock.contract.streamjob_status import (
    CONDITIONS_MAX,
    Condition,
    ConditionType,
    Reason,
    StreamJobState,
    Truth,
)
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import seconds, stamp
from penstock_operator.reconcile.accept import Accepted
from penstock_operator.reconcile.certificates import certificates_lost, lost_certificates_message
from penstock_operator.reconcile.diagnosis import Problem
from penstock_operator.reconcile.lifecycle import (
    JobPhase,
    Lifecycle,
    deletion_message,
    failure_of,
    ready_workers,
)
from penstock_operator.reconcile.snapshots import periodic_condition

STALE_INTERVALS = 3
NAMED_MAX = 3  # foreign pods in one message
PLAIN_TEXT = (
    "spec.security.mtls is false: workers accept rows and commands in plain text, from anybody who "
    "can reach their ports; only the NetworkPolicy keeps others out, if the network enforces it"
)
FAILURES_MAX = 3  # so many failed checkpoints in a row make the job not ready
STATES = {
    Reason.DEPLOYING: StreamJobState.STARTING,
    Reason.UPGRADING: StreamJobState.UPGRADING,
    Reason.ROLLING_BACK: StreamJobState.UPGRADING,
    Reason.RESCALING: StreamJobState.RESCALING,
    Reason.SUSPENDING: StreamJobState.SUSPENDING,
    Reason.RESUMING: StreamJobState.STARTING,
    Reason.RESTORING: StreamJobState.STARTING,
    Reason.RESTARTING: StreamJobState.RESTARTING,
    Reason.DELETING: StreamJobState.DELETING,
    Reason.WAITING_FOR_OLD: StreamJobState.PENDING,
}


@dataclass(frozen=True, slots=True)
class ConditionInputs:
    """What the conditions and the status are made of."""

    seen: Observed
    accepted: Accepted
    latest: Latest | None
    lifecycle: Lifecycle
    problem: Problem | None


def state_of(inputs: ConditionInputs) -> StreamJobState:
    """Return the state of the job."""
    latest, target = inputs.latest, inputs.accepted.target
    if inputs.seen.job.deleting_since is not None:
        return StreamJobState.DELETING
    if target is None or latest is None:
        return StreamJobState.PENDING
    if latest.finished and inputs.lifecycle.operation is None:
        return StreamJobState.FINISHED
    if inputs.lifecycle.phase is JobPhase.DOWN:
        return StreamJobState.SUSPENDED
    if failure_of(inputs.seen, latest) is not None and inputs.lifecycle.phase is JobPhase.RUN:
        return StreamJobState.FAILED
    if inputs.lifecycle.operation is not None:
        return STATES.get(inputs.lifecycle.operation, StreamJobState.STARTING)
    if ready_workers(inputs.seen) < target.spec.replicas:
        return StreamJobState.RESTARTING
    return StreamJobState.RUNNING


def conditions_of(inputs: ConditionInputs, state: StreamJobState) -> tuple[Condition, ...]:
    """Return all conditions. The time of a condition changes only with its status."""
    judged = {
        ConditionType.READY: _ready(inputs, state),
        ConditionType.ACCEPTED: _accepted(inputs),
        ConditionType.PROGRESSING: _progressing(inputs),
        ConditionType.CHECKPOINTING: _checkpointing(inputs, state),
        ConditionType.STALLED: _stalled(inputs),
        ConditionType.INPUT_COMPLETE: _input_complete(inputs),
        ConditionType.COMPLETE: _complete(state),
        ConditionType.SECURED: _secured(inputs),
    }
    wanted = None if inputs.accepted.target is None else inputs.accepted.target.spec.snapshots
    if wanted is not None:
        judged[ConditionType.SNAPSHOTS_TAKEN] = periodic_condition(inputs.seen, wanted)
    partitioned = _partitioned(inputs)
    if partitioned is not None:
        judged[ConditionType.PARTITIONED] = partitioned
    balanced = _balanced(inputs)
    if balanced is not None:
        judged[ConditionType.BALANCED] = balanced
    # Conditions that another version wrote stay: that version knows what they mean.
    others = [c for c in inputs.seen.job.status.conditions if c.type not in set(ConditionType)]
    ours = [_condition(inputs.seen, kind, *found) for kind, found in judged.items()]
    return (*ours, *others)[:CONDITIONS_MAX]


def reason_of(conditions: tuple[Condition, ...]) -> str:
    """Return the most important reason; that of Ready when nothing is wrong."""
    by_type = {condition.type: condition for condition in conditions}
    stalled, accepted = by_type[ConditionType.STALLED], by_type[ConditionType.ACCEPTED]
    if stalled.status is Truth.TRUE:
        return stalled.reason
    if accepted.status is Truth.FALSE:
        return accepted.reason
    if by_type[ConditionType.PROGRESSING].reason == Reason.WAITING_FOR_OLD:
        return str(Reason.WAITING_FOR_OLD)
    if by_type[ConditionType.CHECKPOINTING].status is Truth.FALSE:
        return str(Reason.CHECKPOINT_FAILING)
    return by_type[ConditionType.READY].reason


def _condition(seen: Observed, kind: ConditionType, truth: Truth, reason: Reason, message: str) -> Condition:
    old = seen.job.status.condition(kind)
    same = old is not None and old.status is truth
    since = old.last_transition_time if same and old is not None else stamp(seen.now)
    return Condition(str(kind), truth, str(reason), clipped(message), since, seen.job.generation)


def _ready(inputs: ConditionInputs, state: StreamJobState) -> tuple[Truth, Reason, str]:
    ready = ready_workers(inputs.seen)
    target = inputs.accepted.target
    if state is StreamJobState.FINISHED:  # `kubectl wait --for=condition=Ready` then ends
        return Truth.TRUE, Reason.FINISHED, _progress_message(inputs)
    failing = _checkpoint_failure(inputs, state)
    if state is StreamJobState.RUNNING and failing and _fails_for_good(inputs):
        return Truth.FALSE, Reason.CHECKPOINT_FAILING, failing
    if state is StreamJobState.RUNNING:
        age = checkpoint_age(inputs)
        if age is not None and target is not None:
            limit = STALE_INTERVALS * target.spec.checkpoint.interval_s + 60.0
            if age > limit:
                text = f"the newest checkpoint is {age:.0f} s old"
                return Truth.FALSE, Reason.CHECKPOINT_STALE, text
        return Truth.TRUE, Reason.RUNNING, f"{ready} workers run"
    if state is StreamJobState.RESTARTING and target is not None:
        text = f"{ready} of {target.spec.replicas} workers are ready"
        return Truth.FALSE, Reason.WORKERS_NOT_READY, text
    message = inputs.problem.message if inputs.problem is not None else _progress_message(inputs)
    return Truth.FALSE, Reason(state), message


def _progress_message(inputs: ConditionInputs) -> str:
    if inputs.latest is not None and inputs.latest.rescale:
        return inputs.latest.rescale
    if inputs.latest is not None and inputs.latest.finished:
        return "all input was read and all output is published"
    return ""


def _accepted(inputs: ConditionInputs) -> tuple[Truth, Reason, str]:
    valid = inputs.accepted.reason is Reason.VALID
    return Truth.TRUE if valid else Truth.FALSE, inputs.accepted.reason, inputs.accepted.message


def _progressing(inputs: ConditionInputs) -> tuple[Truth, Reason, str]:
    operation = inputs.lifecycle.operation
    if inputs.problem is not None and inputs.problem.reason is Reason.WAITING_FOR_OLD:
        return Truth.TRUE, Reason.WAITING_FOR_OLD, inputs.problem.message
    if operation is None:
        return Truth.FALSE, Reason.IDLE, ""
    pending = inputs.seen.job.status.pending
    if operation is Reason.DELETING:
        return Truth.TRUE, operation, deletion_message(inputs.seen, inputs.accepted.target)
    waits = "" if pending is None or pending.snapshot is None else f"savepoint {pending.snapshot}"
    if inputs.accepted.target is not None and certificates_lost(inputs.seen, inputs.accepted.target):
        return Truth.TRUE, operation, lost_certificates_message(inputs.seen)
    return Truth.TRUE, operation, _progress_message(inputs) or waits or _leaving_text(inputs.seen)


def _leaving_text(seen: Observed) -> str:
    """Name the pods for whose end an operation waits; empty when it waits for none.

    A copy of a pod that somebody made under the name of a worker ends only when somebody deletes it.
    """
    if not seen.pods or (seen.stateful_set is not None and seen.stateful_set.replicas > 0):
        return ""
    stay = [p.name for p in seen.pods if not p.deleting]
    names = stay or [p.name for p in seen.pods]
    listed = ", ".join(names[:NAMED_MAX]) + (f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else "")
    advice = f"; a pod that nothing ends has to be deleted: kubectl delete pod {stay[0]}" if stay else ""
    return f"waits until the old workers have ended: {listed}{advice}"


def _checkpointing(inputs: ConditionInputs, state: StreamJobState) -> tuple[Truth, Reason, str]:
    latest = inputs.latest
    failure = _checkpoint_failure(inputs, state)
    if failure:
        return Truth.FALSE, Reason.FAILING, failure
    if latest is None or latest.epoch == 0:
        return Truth.UNKNOWN, Reason.NONE_YET, "no checkpoint yet"
    if state is StreamJobState.FINISHED:
        return Truth.TRUE, Reason.FINISHED, f"finished at epoch {latest.epoch}"
    if state is StreamJobState.SUSPENDED:
        return Truth.TRUE, Reason.SUSPENDED, f"suspended at epoch {latest.epoch}"
    return Truth.TRUE, Reason.COMPLETED, f"epoch {latest.epoch}"


def _checkpoint_failure(inputs: ConditionInputs, state: StreamJobState) -> str:
    """Return why the leader cannot commit checkpoints; empty when it can.

    While the job runs, every failure that the leader reports keeps it from committing. Before that,
    a report can also be about an engine that is not ready yet.
    """
    running, latest = inputs.seen.running, inputs.latest
    if running is None or latest is None or latest.closed() or inputs.lifecycle.phase is not JobPhase.RUN:
        return ""
    fails = running.failed_checkpoints > 0 or _is_full(inputs)
    return running.failure or "" if fails or state is StreamJobState.RUNNING else ""


def _is_full(inputs: ConditionInputs) -> bool:
    return inputs.problem is not None and inputs.problem.reason is Reason.VOLUME_FULL


def _fails_for_good(inputs: ConditionInputs) -> bool:
    """Say whether checkpoints will keep failing: after a full volume, not after one slow write."""
    failed = 0 if inputs.seen.running is None else inputs.seen.running.failed_checkpoints
    return _is_full(inputs) or failed >= FAILURES_MAX


def _complete(state: StreamJobState) -> tuple[Truth, Reason, str]:
    if state is StreamJobState.FINISHED:
        return Truth.TRUE, Reason.FINISHED, "all input was read and all output is published"
    return Truth.FALSE, Reason.NOT_FINISHED, ""


def _stalled(inputs: ConditionInputs) -> tuple[Truth, Reason, str]:
    if inputs.problem is not None and inputs.problem.reason is not Reason.WAITING_FOR_OLD:
        return Truth.TRUE, inputs.problem.reason, inputs.problem.message
    return Truth.FALSE, Reason.NOT_STALLED, _foreign_text(inputs.seen)


def _foreign_text(seen: Observed) -> str:
    """Name the pods that look like workers and are none; empty when there are none."""
    if not seen.foreign_pods:
        return ""
    listed = ", ".join(seen.foreign_pods[:NAMED_MAX])
    more = len(seen.foreign_pods) - NAMED_MAX
    return (
        f"not counted as workers: {listed}{f' and {more} more' if more > 0 else ''}: they have all "
        "labels of this job's workers and do not belong to its StatefulSet: delete them, or remove "
        f"their label {pod.LABEL_JOB}"
    )


def _input_complete(inputs: ConditionInputs) -> tuple[Truth, Reason, str]:
    """Decide by the newest listing of the workers; Unknown when they list no inputs."""
    found = () if inputs.seen.running is None else inputs.seen.running.inputs
    if not found:
        return Truth.UNKNOWN, Reason.NOT_LISTED, ""
    unread = [text for text in map(unread_text, found) if text]
    if not unread:
        return Truth.TRUE, Reason.ALL_KNOWN, ""
    return Truth.FALSE, Reason.FILES_NOT_READ, "; ".join(unread)


def _secured(inputs: ConditionInputs) -> tuple[Truth, Reason, str]:
    target = inputs.accepted.target
    if target is None:
        return Truth.UNKNOWN, Reason.NOT_ACCEPTED, ""
    if target.spec.security.mtls:
        return Truth.TRUE, Reason.MUTUAL_TLS, ""
    return Truth.FALSE, Reason.MUTUAL_TLS_OFF, PLAIN_TEXT


def _partitioned(inputs: ConditionInputs) -> tuple[Truth, Reason, str] | None:
    """Say which schemes hold; None where none is asked for and no step has several."""
    target, latest = inputs.accepted.target, inputs.latest
    asked = () if target is None else target.spec.choices
    held = () if latest is None else given(latest.schemes)
    judged = () if latest is None or latest.refused is ABSENT else latest.refused
    refused = [each.text for each in judged if SchemeChoice(each.step, each.use) in asked]
    if refused:
        return Truth.FALSE, Reason.SCHEME_REFUSED, "; ".join(refused)
    if latest is None or not set(asked) <= set(held) or latest.settled != latest.version:
        return (Truth.UNKNOWN, Reason.SCHEMES_WANTED, said(asked)) if asked else None
    return (Truth.TRUE, Reason.SCHEMES_HOLD, said(held)) if held else None


def _balanced(inputs: ConditionInputs) -> tuple[Truth, Reason, str] | None:
    """Say what came of the request to balance; None where there is none."""
    target, latest = inputs.accepted.target, inputs.latest
    asked = None if target is None else target.spec.rebalance_nonce
    if asked is None:
        return None
    done = ABSENT if latest is None else latest.balance
    settled = latest is not None and latest.settled == latest.version
    if done is ABSENT or done.nonce != asked or (done.moved and not settled):
        return Truth.UNKNOWN, Reason.BALANCE_WANTED, "key groups move when a checkpoint has counted rows"
    return Truth.TRUE, Reason.KEY_GROUPS_MOVED if done.moved else Reason.NOTHING_MOVED, str(done)


def checkpoint_age(inputs: ConditionInputs) -> float | None:
    """Return the age of the newest checkpoint; None when its time is not known."""
    latest, told, known = inputs.latest, inputs.seen.running, inputs.seen.job.status.checkpoint
    if latest is None:
        return None
    newest = None if told is None else told.checkpoint
    if newest is not None and newest.epoch == latest.epoch and newest.time_us:
        return max(0.0, inputs.seen.now - newest.time_us / 1e6)
    done = None if known is None else known.last_completed
    if done is None or done.epoch != latest.epoch:
        return None
    return max(0.0, inputs.seen.now - seconds(done.time))
