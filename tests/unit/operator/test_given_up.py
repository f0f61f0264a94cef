"""A spec that was given up, or never began, leaves nothing behind that the next one carries out."""

from penstock.base.values import replace
from penstock.contract.latest import Latest, Restore
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
from penstock_operator.api.observed import Observed, PodView
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.accept import accept
from penstock_operator.reconcile.actions import Decision, WriteDesired
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.diagnosis import LEAVING_S
from penstock_operator.reconcile.lifecycle import JobPhase, run_name
from tests.unit.operator.observing import NOW_S, down, running, spec_of, target_for

STATELESS = Restore("stateless 2-7-abc ", allow_output_replay=True, empty=True)


def with_status(seen: Observed, status: StreamJobStatus) -> Observed:
    return replace(seen, job=replace(seen.job, status=status))


def latest_of(seen: Observed) -> Latest:
    assert seen.latest is not None
    assert seen.latest.value is not None
    return seen.latest.value


def with_latest(seen: Observed, value: Latest) -> Observed:
    assert seen.latest is not None
    return replace(seen, latest=replace(seen.latest, value=value))


def asked(seen: Observed, restore: Restore | None, run: str) -> Observed:
    """Let ``-desired`` have a restore that no leader has carried out."""
    assert seen.desired is not None
    return replace(seen, desired=replace(seen.desired, value=replace(seen.desired.value, restore=restore, run=run)))


def rolled_back(stable: dict[str, Plain]) -> StreamJobStatus:
    given_up = Condition("Stalled", Truth.TRUE, "RolledBack", "failed", stamp(NOW_S), 2)
    return StreamJobStatus(conditions=(given_up,), last_stable=LastStable(1, digest_of(stable)))


def acted(seen: Observed) -> Decision:
    """Decide until something is done; what an operation is comes into the status first."""
    decided = decide(seen)
    while not decided.actions:
        assert decided.status is not None
        seen = with_status(seen, decided.status)
        decided = decide(seen)
    return decided


def started(seen: Observed) -> WriteDesired:
    [found] = [a for a in acted(seen).actions if isinstance(a, WriteDesired)]
    return found


def stalled(seen: Observed) -> Condition:
    found = (decide(seen).status or seen.job.status).condition(ConditionType.STALLED)
    assert found is not None
    return found


def test_a_restore_that_was_never_done_ends_with_its_spec() -> None:
    old, new = spec_of(), spec_of(image="example/penstock:2", upgrade={"mode": "Stateless"})
    seen = asked(down(running(new, wanted=old)), STATELESS, run_name(2, 7, target_for(new).digest))
    assert started(seen).value.restore is None
    again = asked(down(running(old)), STATELESS, run_name(2, 7, target_for(old).digest))
    assert not any(isinstance(a, WriteDesired) for a in acted(again).actions)  # interrupted between two writes


def test_a_spec_that_comes_back_restores_nothing() -> None:
    rollback: dict[str, Plain] = {"rollback": True}
    old = spec_of(upgrade=rollback, restore={"nonce": "1", "empty": True, "allowOutputReplay": True})
    new = spec_of(upgrade=rollback, image="example/penstock:2", restore={"nonce": "2", "dropState": ["a"]})
    seen = down(running(new))
    seen = with_latest(seen, replace(latest_of(seen), restored="2", failure="JobError: x"))
    seen = with_status(replace(seen, configs={**seen.configs, target_for(old).config: old}), rolled_back(old))
    found = accept(seen).target
    assert found is not None
    assert (found.digest, found.spec.restore) == (target_for(old).digest, None)
    assert started(seen).value.restore is None


def test_a_rollback_waits_for_no_savepoint() -> None:
    upgrade: dict[str, Plain] = {"mode": "Savepoint", "rollback": True}
    old, new = spec_of(upgrade=upgrade), spec_of(image="example/penstock:2", upgrade=upgrade)
    seen = running(new)
    seen = replace(seen, configs={**seen.configs, target_for(old).config: old})
    decided = acted(with_status(seen, rolled_back(old)))
    assert phase_in(decided) is JobPhase.TERMINATE


def phase_in(decided: Decision) -> JobPhase | None:
    """Tell the phase by what is done to the workers."""
    names = {type(action).__name__ for action in decided.actions}
    if "Scale" in names:
        return JobPhase.TERMINATE
    return JobPhase.STOP if "WriteDesired" in names else None


def test_a_restore_waits_for_a_savepoint_until_its_deadline_only() -> None:
    old = spec_of(upgrade={"mode": "Savepoint"})
    wanted: dict[str, Plain] = {**old, "restore": {"nonce": "1", "empty": True, "allowOutputReplay": True}}
    seen = running(old, wanted=wanted)
    assert phase_in(acted(seen)) is JobPhase.STOP
    begun = decide(seen).status
    assert begun is not None
    late = replace(with_status(seen, begun), now=NOW_S + 3600)
    assert phase_in(acted(late)) is JobPhase.TERMINATE


def test_a_job_that_is_suspended_without_a_savepoint_stays_so_while_its_spec_is_refused() -> None:
    old = spec_of(suspend=True)
    seen = down(running(old, wanted={**old, "restore": {"nonce": "1", "snapshotRef": "gone"}}))
    found = accept(seen)
    assert (found.reason, found.is_newest) == (Reason.RESTORE_NOT_FOUND, False)
    assert found.target is not None
    assert found.target.spec.suspend
    seen = down(running(spec_of(), wanted={**old, "restore": {"nonce": "1", "snapshotRef": "gone"}}))
    target = accept(seen).target
    assert target is not None
    assert target.spec.suspend


def upgrading(mode: str, late_s: float) -> Observed:
    """Observe an upgrade whose stop has its deadline ``late_s`` ago; the old workers are there."""
    old = spec_of()
    new = spec_of(image="example/penstock:2", upgrade={"mode": mode, "rollback": True})
    seen = running(old, wanted=new)
    since, deadline = stamp(NOW_S - 60), stamp(NOW_S - late_s)
    pending = Pending(str(Reason.UPGRADING), 2, since, deadline, 2, "stop-1234-ui-2-1")
    return with_status(seen, StreamJobStatus(pending=pending, last_stable=LastStable(1, digest_of(old))))


def test_the_deadline_of_the_savepoint_gives_up_no_spec_that_has_not_begun() -> None:
    assert phase_in(acted(upgrading("Stateless", 1.0))) is JobPhase.TERMINATE
    saved = upgrading("Savepoint", 1.0)
    saved = with_latest(saved, replace(latest_of(saved), stopped=True))
    for seen in (upgrading("Stateless", 1.0), saved, down(saved)):
        assert stalled(seen).status is Truth.FALSE
    begun = decide(down(saved)).status
    assert begun is not None
    assert begun.pending is not None
    assert begun.pending.snapshot is None
    assert begun.pending.deadline == stamp(NOW_S + 600)


def test_old_workers_that_do_not_end_are_told() -> None:
    old, new = spec_of(), spec_of(image="example/penstock:2", upgrade={"rollback": True})
    seen = running(old, wanted=new)
    leaving = PodView("wc-worker-0", "p0", "1234-uid", 0, ready=False, deleting=True)
    seen = replace(down(seen), pods=(leaving,))
    status = decide(seen).status
    assert status is not None
    assert status.pending is not None
    assert status.pending.deadline is None  # the new workers have theirs when they begin
    seen = with_status(seen, replace(status, last_stable=LastStable(1, digest_of(old))))
    assert stalled(replace(seen, now=NOW_S + LEAVING_S - 1)).status is Truth.FALSE
    begun = decide(replace(seen, pods=())).status
    assert begun is not None
    assert begun.pending is not None
    assert begun.pending.deadline == stamp(NOW_S + 600)
    found = stalled(replace(seen, now=NOW_S + LEAVING_S + 1))
    assert (found.reason, "wc-worker-0" in found.message) == ("UpgradeFailed", True)
