"""A pod is a worker by its name and its controller. Labels alone do not make one."""

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import ConditionType, StreamJobStatus, Truth
from penstock_operator.api.observed import Observed, PodView
from penstock_operator.api.views import Versions
from penstock_operator.reconcile.actions import Event
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.observation import ObservationContext, build_observation
from tests.unit.operator.observing import NOW_S, OWNER, running, spec_of

SET: Plain = {
    "kind": "StatefulSet",
    "metadata": {"name": "wc-worker", "uid": "s", "labels": {pod.LABEL_JOB_UID: OWNER.uid}},
}
LABELS = {pod.LABEL_JOB: "wc", pod.LABEL_JOB_UID: OWNER.uid, pod.LABEL_COMPONENT: pod.WORKER}


def a_pod(name: str, controller: tuple[str, str, str] | None, **labels: str) -> Plain:
    owners: list[Plain] = []
    if controller is not None:
        kind, owner, uid = controller
        owners = [{"kind": kind, "name": owner, "uid": uid, "controller": True}]
    metadata: Plain = {
        "name": name,
        "uid": f"uid-{name}",
        "labels": {**LABELS, **labels},
        "ownerReferences": owners,
    }
    return {"kind": "Pod", "metadata": metadata}


def seen_with(*pods: Plain, has_set: bool = True) -> Observed:
    objects = [SET, *pods] if has_set else list(pods)
    return build_observation(running(spec_of()).job, objects, ObservationContext(NOW_S), Versions())


def counted(*pods: Plain, has_set: bool = True) -> list[str]:
    return [p.name for p in seen_with(*pods, has_set=has_set).pods]


def test_a_copy_with_all_labels_is_no_worker() -> None:
    own = a_pod("wc-worker-0", ("StatefulSet", "wc-worker", "s"))
    copy = a_pod("wc-worker-0-debug", None)
    seen = seen_with(own, copy)
    assert [p.name for p in seen.pods] == ["wc-worker-0"]
    assert seen.foreign_pods == ("wc-worker-0-debug",)


def test_what_something_else_controls_is_no_worker() -> None:
    other = a_pod("wc-worker-1", ("ReplicaSet", "theirs", "r"))
    assert seen_with(other).foreign_pods == ("wc-worker-1",)
    assert counted(other) == []
    assert counted(a_pod("wc-worker-01", None)) == []
    assert counted(a_pod("wc-worker-copy-1", None)) == []


def test_the_set_says_it_whatever_the_label_says() -> None:
    lost = a_pod("wc-worker-1", ("StatefulSet", "wc-worker", "s"), **{pod.LABEL_JOB_UID: "?"})
    assert counted(lost) == ["wc-worker-1"]
    assert counted(lost, has_set=False) == []


def test_what_still_runs_without_its_set_counts() -> None:
    orphan = a_pod("wc-worker-0", None)
    earlier = a_pod("wc-worker-1", ("StatefulSet", "wc-worker", "set-of-before"))
    assert counted(orphan, earlier) == ["wc-worker-0", "wc-worker-1"]
    assert counted(orphan, earlier, has_set=False) == ["wc-worker-0", "wc-worker-1"]


def test_a_foreign_pod_is_said_once_and_stalls_nothing() -> None:
    seen = replace(running(spec_of()), foreign_pods=("wc-worker-0-debug",))
    status, told = settled(seen)
    stalled = status.condition(ConditionType.STALLED)
    assert stalled is not None
    assert stalled.status is Truth.FALSE
    assert "wc-worker-0-debug" in stalled.message
    assert "delete them" in stalled.message
    assert [e.reason for e in told].count("ForeignPod") == 1
    _, again = settled(replace(seen, job=replace(seen.job, status=status)))
    assert not again


def test_what_a_start_waits_for_is_said_with_its_name() -> None:
    seen = running(spec_of(), wanted=spec_of(image="example/penstock:2"))
    assert seen.stateful_set is not None
    copy = PodView("wc-worker-9", "p9", OWNER.uid, 9, ready=True)
    status, _ = settled(replace(seen, stateful_set=replace(seen.stateful_set, replicas=0), pods=(copy,)))
    progressing = status.condition(ConditionType.PROGRESSING)
    assert progressing is not None
    assert progressing.status is Truth.TRUE
    assert progressing.message == (
        "waits until the old workers have ended: wc-worker-9; a pod that nothing ends has to be deleted: "
        "kubectl delete pod wc-worker-9"
    )
    ending = tuple(replace(copy, name=f"wc-worker-{n}", deleting=True) for n in range(5))
    status, _ = settled(replace(seen, stateful_set=None, pods=ending))
    progressing = status.condition(ConditionType.PROGRESSING)
    assert progressing is not None
    assert progressing.message == (
        "waits until the old workers have ended: wc-worker-0, wc-worker-1, wc-worker-2 and 2 more"
    )


def settled(seen: Observed) -> tuple[StreamJobStatus, list[Event]]:
    status = seen.job.status
    told: list[Event] = []
    for _ in range(3):
        decided = decide(seen)
        status = decided.status or status
        told += decided.events
        seen = replace(seen, job=replace(seen.job, status=status))
    return status, told
