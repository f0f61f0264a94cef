"""Upgrades that take too long: their reason and message; and the name of the operation."""

from penstock.base.values import replace
from penstock.contract.ids import Epoch
from penstock.contract.latest import Answer
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
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.accept import accept
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
