"""Pods that no kubelet ends are deleted by uid when they are overdue, unless they are heard from."""

from penstock.base.values import replace
from penstock.contract.status import JobState, JobStatus, WorkerStatus
from penstock_operator.api.observed import Observed, PodView
from penstock_operator.api.plain import stamp
from penstock_operator.api.views import pod_view
from penstock_operator.reconcile.actions import Action, DecisionBuilder, Delete
from penstock_operator.reconcile.workers import OVERDUE_S, STALE_S, replace_lost_pods
from tests.unit.operator.observing import NOW_S, running, spec_of

LEAVING = PodView("wc-worker-1", "p1", "1234-uid", 1, ready=False, deleting=True, due=NOW_S)
ENDED = [Delete("Pod", "wc-worker-1", "p1", now=True)]


def seen_at(now: float, told: JobStatus | None = None) -> Observed:
    seen = running(spec_of())
    return replace(seen, now=now, pods=(seen.pods[0], LEAVING), running=told)


def actions(seen: Observed) -> list[Action]:
    draft = DecisionBuilder()
    assert seen.latest is not None
    assert seen.latest.value is not None
    replace_lost_pods(seen, seen.latest.value, draft)
    return draft.actions


def told(time_s: float) -> JobStatus:
    worker = WorkerStatus(1, "up", pod="p1", silent_s=1.0)
    return JobStatus("wc", "1234-uid", JobState.RUNNING, int(time_s * 1e6), workers=(worker,))


def test_a_pod_has_its_grace_and_then_some() -> None:
    assert actions(seen_at(NOW_S + OVERDUE_S - 1)) == []
    assert actions(seen_at(NOW_S + OVERDUE_S)) == ENDED


def test_one_whose_keeper_speaks_is_let_be() -> None:
    later = NOW_S + 100
    assert actions(seen_at(later, told(later))) == []
    assert actions(seen_at(later, told(later - STALE_S - 1))) == ENDED


def test_one_that_a_finalizer_keeps_is_deleted_once() -> None:
    """Its deletion without grace has been accepted; repeated, it would only be asked for five times a second."""
    seen = seen_at(NOW_S + 100)
    kept = replace(seen, pods=(seen.pods[0], replace(LEAVING, forced=True)))
    assert actions(kept) == []
    for grace, forced in ((0, True), (60, False)):
        metadata = {"name": "wc-worker-1", "deletionTimestamp": stamp(NOW_S), "deletionGracePeriodSeconds": grace}
        assert pod_view({"metadata": metadata}).forced is forced  # type: ignore[dict-item]
    assert not pod_view({"metadata": {"name": "wc-worker-1"}}).forced


def test_a_pod_that_never_started_needs_no_grace() -> None:
    waiting = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    started = {"state": {"running": {"startedAt": stamp(NOW_S)}}}
    metadata = {
        "name": "wc-worker-1",
        "deletionTimestamp": stamp(NOW_S + 60),
        "deletionGracePeriodSeconds": 60,
    }
    for state, due in ((waiting, NOW_S), (started, NOW_S + 60)):
        plain = {"metadata": metadata, "status": {"containerStatuses": [state]}}
        assert pod_view(plain).due == due  # type: ignore[arg-type]
