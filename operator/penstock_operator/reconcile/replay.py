"""The replay of a job: a SparkApplication that pushes rows into the running job.

The operator creates it when the workers can receive rows, and shows its state in the status. When
``spec.replay`` changes, the operator creates another SparkApplication under a new name and deletes
the old one. One that was complete and that somebody has removed is not created again.
"""

from penstock.base.values import replace
from penstock.contract.settings import OperatorFlavour
from penstock.contract.streamjob_status import (
    Reason,
    SparkApplicationStatus,
    StreamJobState,
    StreamJobStatus,
)
from penstock_operator.api import kinds
from penstock_operator.api.observed import ChildKey, Observed, SparkView
from penstock_operator.reconcile.accept import Accepted
from penstock_operator.reconcile.actions import Create, DecisionBuilder, Delete
from penstock_operator.reconcile.conditions import ConditionInputs
from penstock_operator.reconcile.diagnosis import Problem
from penstock_operator.resources.spark_application import (
    pushed_steps,
    replay_application,
    replay_name,
)
from penstock_operator.resources.target import Target

FAILED = frozenset(
    {
        "FAILED",
        "SUBMISSION_FAILED",
        "Failed",
        "SchedulingFailure",
        "DriverStartTimedOut",
        "DriverReadyTimedOut",
        "DriverEvicted",
        "ExecutorsStartTimedOut",
    }
)
DONE = frozenset({"COMPLETED", "Succeeded"})
PENDING = "Pending"  # not created yet, or the Spark operator has not reported a state yet
MESSAGE_CHARS_MAX = 1000  # Spark's messages can have a hundred lines
RUNS = frozenset({StreamJobState.RUNNING, StreamJobState.RESCALING, StreamJobState.STARTING})


def replay_problem(seen: Observed, accepted: Accepted) -> Problem | None:
    """Return why the replay failed; None when it did not fail, or ``spec.replay`` is empty."""
    target = accepted.target
    if target is None or target.spec.replay is None or not _is_wanted(seen.spark, target):
        return None
    assert seen.spark is not None
    if seen.spark.state in FAILED:
        text = seen.spark.message[:MESSAGE_CHARS_MAX] or seen.spark.state
        return Problem(
            Reason.REPLAY_FAILED,
            f"SparkApplication {seen.spark.name}: {text}; its driver's log says more; a change of "
            "spec.replay runs it again",
        )
    return None


def check_replay_available(seen: Observed, accepted: Accepted) -> Accepted:
    """Return ``accepted`` with a reason when the cluster lacks the Spark operator. The job still runs."""
    target = accepted.target
    if target is None or target.spec.replay is None or accepted.reason is not Reason.VALID:
        return accepted
    if seen.spark_installed:
        return accepted
    apache = target.spec.replay.flavour is OperatorFlavour.APACHE
    kind = kinds.SPARK_APACHE if apache else kinds.SPARK_KUBEFLOW
    text = (
        f"spec.replay needs {kind.plural}.{kind.group} ({kind.version}), which this cluster does "
        "not serve: install that Spark operator, and the replay begins by itself; the job runs"
    )
    return replace(accepted, reason=Reason.REPLAY_UNAVAILABLE, message=text)


def reconcile_replay(inputs: ConditionInputs, status: StreamJobStatus, builder: DecisionBuilder) -> StreamJobStatus:
    """Create the SparkApplication of ``spec.replay`` if it is missing, and return its state in the status."""
    seen, target = inputs.seen, inputs.accepted.target
    wanted = None if target is None else target.spec.replay
    _remove_others(seen, target if wanted is not None else None, builder)
    if target is None or wanted is None:
        return replace(status, spark_application=None)
    name = replay_name(target)
    found = seen.spark if _is_wanted(seen.spark, target) else None
    if found is None and _was_complete(seen, name):
        return status  # the status keeps what it says; another one would send all rows again
    if found is None and seen.spark_installed and status.state in RUNS and _has_begun(inputs):
        builder.do(Create(replay_application(target, wanted)))
    state, message = ("", "") if found is None else (found.state, found.message)
    shown = SparkApplicationStatus(
        name,
        wanted.flavour,
        state or PENDING,
        message[:MESSAGE_CHARS_MAX],
        _rows(inputs, target, name),
    )
    return replace(status, spark_application=shown)


def _was_complete(seen: Observed, name: str) -> bool:
    """Say whether this replay had ended well before somebody removed its SparkApplication."""
    before = seen.job.status.spark_application
    return before is not None and before.name == name and before.state in DONE


def _rows(inputs: ConditionInputs, target: Target, name: str) -> int:
    """Return how many rows the job has received from the replay.

    The steps of the job count from 0 in each attempt. The shown number never falls. The
    operator does not know the kinds of a Python job's steps. It takes the first step as the source.
    """
    before = inputs.seen.job.status.spark_application
    least = 0 if before is None or before.name != name else before.rows
    steps = () if inputs.seen.running is None else inputs.seen.running.steps
    pushed = pushed_steps(target) or {step.name for step in steps[:1]}
    return max(least, sum(step.rows_in for step in steps if step.name in pushed))


def _has_begun(inputs: ConditionInputs) -> bool:
    """Return whether workers can receive rows. A sender that starts before that would only wait."""
    return inputs.latest is not None and inputs.latest.attempt > 0 and not inputs.latest.closed()


def _is_wanted(found: SparkView | None, target: Target) -> bool:
    return found is not None and found.name == replay_name(target)


def _remove_others(seen: Observed, target: Target | None, builder: DecisionBuilder) -> None:
    kept = "" if target is None else replay_name(target)
    kind = kinds.SPARK_KUBEFLOW.kind
    for key in [ChildKey(k.kind, k.name) for k in seen.children if k.kind == kind]:
        child = seen.children[key]
        if key.name != kept and child.job_uid == seen.job.uid and not child.deleting:
            builder.do(Delete(kind, key.name, child.uid))
