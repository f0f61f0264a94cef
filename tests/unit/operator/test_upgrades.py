"""Upgrades that take too long: their reason and message; and the name of the operation."""

from penstock.base.values import replace
from penstock.contract.ids import Epoch
from penstock.contract.latest import Answer, Desired
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import (
    Condition,
    ConditionType,
    LastStable,
    Pending,
    Reason,
    StreamJobStatus,
    Truth,
)
from penstock_operator.api.classes import digest_of
from penstock_operator.api.observed import ContainerView, Observed
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.accept import accept
from penstock_operator.reconcile.actions import WriteDesired
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.lifecycle import JobPhase, lifecycle_of, run_name
from tests.unit.operator.observing import NOW_S, running, spec_of, target_for

OLD = spec_of()
NEW = spec_of(image="example/penstock:2")


def with_status(seen: Observed, status: StreamJobStatus) -> Observed:
    return replace(seen, job=replace(seen.job, status=status))


def condition(seen: Observed, kind: ConditionType) -> Condition:
    status = decide(seen).status
    assert status is not None
    found = status.condition(kind)
    assert found is not None
    return found


def begun(action: Reason, deadline_s: float, *, snapshot: str | None = None) -> Pending:
    return Pending(str(action), 2, stamp(NOW_S - 60), stamp(deadline_s), 2, snapshot)


def upgrading(spec: dict[str, Plain], stable: LastStable | None = None) -> Observed:
    """Observe workers of ``spec`` without a checkpoint since epoch 7, after the deadline."""
    seen = running(spec)
    assert seen.desired is not None
    run = run_name(2, 7, target_for(spec).digest)
    desired = replace(seen.desired, value=replace(seen.desired.value, run=run))
    pending = begun(Reason.UPGRADING, NOW_S - 1)
    return with_status(replace(seen, desired=desired), StreamJobStatus(pending=pending, last_stable=stable))


def test_another_nonce_alone_is_a_restart() -> None:
    for spec, reason in (({**OLD, "restartNonce": 2}, Reason.RESTARTING), (NEW, Reason.UPGRADING)):
        seen = running(OLD, wanted=spec)
        assert seen.latest is not None
        lifecycle = lifecycle_of(seen, accept(seen), seen.latest.value)
        assert (lifecycle.phase, lifecycle.operation) == (JobPhase.TERMINATE, reason)


def test_a_spec_that_is_not_stable_in_time_is_said_to_be_so() -> None:
    found = condition(upgrading(NEW), ConditionType.STALLED)
    assert (found.status, found.reason) == (Truth.TRUE, "UpgradeFailed")


def test_with_rollback_the_last_stable_one_comes_back() -> None:
    spec: dict[str, Plain] = {**NEW, "upgrade": {"rollback": True}}
    seen = upgrading(spec, LastStable(1, digest_of(OLD)))
    seen = replace(seen, configs={**seen.configs, target_for(OLD).config: OLD})
    found = condition(seen, ConditionType.STALLED)
    assert (found.status, found.reason) == (Truth.TRUE, "RolledBack")
    status = decide(seen).status
    assert status is not None
    after = with_status(seen, status)
    accepted = accept(after)
    assert accepted.target is not None
    assert accepted.target.spec.image == "example/penstock:1"
    assert seen.latest is not None
    assert lifecycle_of(after, accepted, seen.latest.value).operation is Reason.ROLLING_BACK


def failed(seen: Observed, failure: str, run: str) -> Observed:
    """Observe that the leader has noted a failure of ``run``."""
    assert seen.latest is not None
    assert seen.latest.value is not None
    latest = replace(seen.latest.value, failure=failure, run=run)
    return replace(seen, latest=replace(seen.latest, value=latest))


def wanted_run(seen: Observed) -> str:
    assert seen.desired is not None
    return seen.desired.value.run


def test_with_rollback_a_spec_that_fails_is_given_up_at_once() -> None:
    spec: dict[str, Plain] = {**NEW, "upgrade": {"rollback": True}}
    seen = upgrading(spec, LastStable(1, digest_of(OLD)))
    in_time = replace(seen.job.status, pending=begun(Reason.UPGRADING, NOW_S + 60))
    seen = with_status(failed(seen, "JobError: no such column", wanted_run(seen)), in_time)
    found = condition(seen, ConditionType.STALLED)
    assert (found.status, found.reason) == (Truth.TRUE, "RolledBack")
    assert "JobError: no such column" in found.message
    without = upgrading(NEW, LastStable(1, digest_of(OLD)))
    without = with_status(failed(without, "JobError: no such column", wanted_run(without)), in_time)
    assert condition(without, ConditionType.STALLED).reason == "JobFailed"


def test_the_failure_of_the_run_before_hides_nothing_of_the_new_one() -> None:
    seen = upgrading(NEW)
    waits = ContainerView("engine", "ImagePullBackOff", "no such image example/penstock:2")
    pods = tuple(replace(each, ready=False, containers=(waits,)) for each in seen.pods)
    seen = failed(replace(seen, pods=pods), "JobError: no such column", run_name(1, 0, target_for(OLD).digest))
    status = decide(seen).status
    assert status is not None
    assert (status.state, status.reason) == ("Upgrading", "ImagePullFailed")


def test_what_troubles_the_spec_that_came_back_is_told_beside_the_rollback() -> None:
    seen = running(OLD, wanted=NEW)
    back = Condition("Stalled", Truth.TRUE, "RolledBack", "it was not stable", stamp(NOW_S), 2)
    seen = with_status(seen, StreamJobStatus(conditions=(back,), last_stable=LastStable(1, digest_of(OLD))))
    assert condition(seen, ConditionType.STALLED).message == "it was not stable"
    seen = failed(seen, "JobError: no such column", wanted_run(seen))
    for _ in range(2):  # what is told is read again in the next reconcile
        found = condition(seen, ConditionType.STALLED)
        assert (found.reason, found.message) == (
            "RolledBack",
            "it was not stable; besides (JobFailed): JobError: no such column",
        )
        seen = with_status(seen, replace(seen.job.status, conditions=(found,)))


def test_a_damaged_desired_is_written_anew_and_reopens_no_job_that_has_failed() -> None:
    seen = running(OLD)
    assert seen.desired is not None
    run = seen.desired.value.run
    damaged = replace(seen.desired, value=Desired(0), fence=0, damaged=True)
    seen = replace(failed(seen, "JobError: no such column", run), desired=None, damaged_desired=damaged)
    announced = decide(seen).status
    assert announced is not None
    (written,) = [a for a in decide(with_status(seen, announced)).actions if isinstance(a, WriteDesired)]
    assert (written.value.run, written.value.workers, written.version) == (run, 2, "8")
    assert written.fence == 1


def test_no_savepoint_no_upgrade_and_no_restart() -> None:
    old = spec_of(upgrade={"mode": "Savepoint"})
    for spec in ({**old, "image": "example/penstock:2"}, {**old, "restartNonce": 2}):
        seen = running(old, wanted=spec)
        assert seen.latest is not None
        assert seen.latest.value is not None
        refused = (Answer("stop-1", ok=False, text="no space"),)
        latest = replace(seen.latest.value, answers=refused, epoch=Epoch(8))
        operation = lifecycle_of(seen, accept(seen), latest).operation
        assert operation is not None
        status = StreamJobStatus(pending=begun(operation, NOW_S + 60, snapshot="stop-1"))
        seen = replace(seen, latest=replace(seen.latest, value=latest))
        found = condition(with_status(seen, status), ConditionType.STALLED)
        assert (found.status, found.reason) == (Truth.TRUE, "SavepointFailed")
        assert "no space" in found.message
