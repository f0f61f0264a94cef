"""The built-in autoscaler with a real API server; the test simulates pods and their leader."""

import json
import time
from typing import Any

from penstock.contract import pod
from penstock.contract.codec import encode
from penstock.contract.ids import Attempt, Epoch, JobUid, SwapId, Term, Version
from penstock.contract.latest import Latest, encode_latest
from penstock.contract.status import JobState, JobStatus, Load
from penstock_operator.api import names
from penstock_operator.reconcile.status import AUTOSCALED
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    condition,
    found,
    play_controller,
    workers,
)

BOUNDS = {"minReplicas": 1, "maxReplicas": 4, "cooldown": "1s"}


def job(kubectl: Kubectl) -> dict[str, Any]:
    made = found(kubectl, "streamjob", JOB)
    assert made is not None
    return made


def put(kubectl: Kubectl, name: str, record: bytes) -> None:
    """Write a record as the leader does."""
    change = json.dumps({"data": {pod.RECORD: record.decode()}})
    kubectl("patch", "configmap", name, "--type=merge", "-p", change)


def desired(kubectl: Kubectl) -> dict[str, Any]:
    made = found(kubectl, "configmap", pod.desired_name(JOB))
    assert made is not None
    value: dict[str, Any] = json.loads(made["data"][pod.RECORD])
    return value


def play_pods(kubectl: Kubectl, uid: str, count: int) -> None:
    """Create ready pods: no controller runs here."""
    for ordinal in range(count):
        name = f"{pod.workers_name(JOB)}-{ordinal}"
        metadata = {"name": name, "labels": names.labels(JOB, uid)}
        spec = {"containers": [{"name": pod.KEEPER_CONTAINER, "image": "example/penstock:1"}]}
        plain = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        kubectl("create", "-f", "-", stdin=json.dumps(plain))
        ready = [{"type": "Ready", "status": "True"}]
        change = json.dumps({"status": {"phase": "Running", "conditions": ready}})
        kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", change)


def play_leader(kubectl: Kubectl, uid: str, count: int, *shares: float) -> None:
    """Commit an assignment of ``count`` workers, and report how busy they are."""
    latest = Latest(
        JobUid(uid),
        SwapId("s"),
        term=Term(1),
        attempt=Attempt(1),
        version=Version(1),
        settled=Version(1),
        workers=count,
        epoch=Epoch(1),
        max_epoch=Epoch(1),
        run=desired(kubectl)["run"],
    )
    put(kubectl, pod.latest_name(JOB), encode_latest(latest))
    told = JobStatus(
        JOB,
        uid,
        JobState.RUNNING,
        time.time_ns() // 1000,
        attempt=1,
        version=1,
        load=Load(15.0, shares, (0.0,) * len(shares), "counts"),
    )
    put(kubectl, pod.status_name(JOB), encode(told))


def test_a_busy_job_gets_workers_and_its_spec_stays_as_it_was(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl, autoscaling=BOUNDS)
    operator.until(lambda: workers(kubectl) == 2)
    uid = job(kubectl)["metadata"]["uid"]
    play_pods(kubectl, uid, 2)

    def rests() -> bool:
        play_controller(kubectl)
        play_leader(kubectl, uid, 2, 0.7, 0.7)
        return condition(kubectl, "Ready") == ("True", "Running")

    operator.until(rests)
    assert job(kubectl)["status"]["autoscaling"]["replicas"] == 2

    def grows() -> bool:
        play_leader(kubectl, uid, 2, 0.9, 0.9)
        return workers(kubectl) == 3

    operator.until(grows)
    operator.until(lambda: desired(kubectl)["workers"] == 3)
    operator.until(lambda: job(kubectl)["status"]["state"] == "Rescaling")
    kept = job(kubectl)
    assert kept["spec"]["replicas"] == 2
    assert kept["status"]["autoscaling"]["replicas"] == 3
    assert kept["status"]["desiredReplicas"] == 3
    head, line, *_ = kubectl("get", "sj", JOB).split("\n")
    assert line[head.index("DESIRED") :].split()[0] == "3"
    operator.until(lambda: any("2 -> 3 workers" in text for text in told_of(kubectl)))

    operator.kill()
    other = start("operator-0")
    other.until(lambda: "Apply" in other.log.read_text())
    play_leader(kubectl, uid, 2, 1.0, 1.0)  # busier still, but not at rest
    other.until(lambda: job(kubectl)["status"]["state"] == "Rescaling")
    assert (workers(kubectl), desired(kubectl)["workers"]) == (3, 3)
    assert "Forbidden" not in operator.log.read_text() + other.log.read_text()


def told_of(kubectl: Kubectl) -> list[str]:
    events = json.loads(kubectl("get", "events", "-o", "json"))["items"]
    return [event["message"] for event in events if event["reason"] == AUTOSCALED]


def test_it_is_off_when_kubernetes_scales_the_job(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl, autoscaling=BOUNDS)
    operator.until(lambda: condition(kubectl, "Accepted") == ("True", "Valid"))
    as_hpa = ("--subresource=scale", "--field-manager=kube-controller-manager", "--type=merge")
    kubectl("patch", "streamjob", JOB, *as_hpa, "-p", '{"spec": {"replicas": 4}}')
    operator.until(lambda: condition(kubectl, "Accepted") == ("False", "AutoscalerConflict"))
    operator.until(lambda: "autoscaling" not in job(kubectl)["status"])
    assert job(kubectl)["status"]["desiredReplicas"] == 4
    kubectl("scale", "streamjob", JOB, "--replicas=3")
    operator.until(lambda: condition(kubectl, "Accepted") == ("True", "Valid"))
    operator.until(lambda: "autoscaling" in job(kubectl)["status"])
