"""Foreign objects of every kind under names of a job: never written, owned or deleted."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kopf
import pytest

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.kubernetes.answers import ApiError
from penstock_operator.api import names
from penstock_operator.api.classes import digest_of
from penstock_operator.cluster.client import Client, access_of, login
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Running, Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    claim,
    condition,
    found,
    stream_job,
    workers,
)

RBAC = "rbac.authorization.k8s.io"
THEIRS = {"app": "theirs"}
SELECTS: dict[str, Any] = {"selector": {"matchLabels": THEIRS}}
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": THEIRS},
    "spec": {"containers": [{"name": "web", "image": "example/web:1"}]},
}
SERVICE: dict[str, Any] = {"spec": {"selector": THEIRS, "ports": [{"port": 80}]}}
ANY_POD: dict[str, Any] = {"podSelector": {}}
DATA: dict[str, Any] = {"data": {"theirs": "yes"}}
REST_S = 20.0
CALLS_MAX = 12  # of one job within REST_S, while the waits between two reads still grow


@dataclass(frozen=True)
class Theirs:
    """A kind of foreign object, under the name that ``named`` gives for a job."""

    api_version: str
    kind: str
    named: Callable[[str], str]
    body: dict[str, Any]

    def manifest(self, job: str) -> dict[str, Any]:
        metadata = {"name": self.named(job), "labels": THEIRS}
        head = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}
        return {**head, **self.body}


def config_of(job: str) -> str:
    return names.config_name(job, digest_of(json.loads(stream_job())["spec"]))


def authority_of(job: str) -> str:
    return names.authority_name(pod.control_name(job))


REFERENCE = {"apiGroup": RBAC, "kind": "Role", "name": "theirs"}
ONE_GIB = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
EVERY_KIND = (
    Theirs("v1", "Service", pod.service_name, SERVICE),
    Theirs("v1", "Service", names.metrics_service, SERVICE),
    Theirs("policy/v1", "PodDisruptionBudget", pod.workers_name, {"spec": SELECTS}),
    Theirs(f"{RBAC}/v1", "Role", names.keeper_account, {"rules": []}),
    Theirs(f"{RBAC}/v1", "RoleBinding", names.keeper_account, {"roleRef": REFERENCE}),
    Theirs("v1", "ServiceAccount", names.keeper_account, {}),
    Theirs(
        "apps/v1",
        "StatefulSet",
        pod.workers_name,
        {"spec": {**SELECTS, "serviceName": "web", "template": TEMPLATE}},
    ),
    Theirs("coordination.k8s.io/v1", "Lease", pod.lease_name, {"spec": {"holderIdentity": "me"}}),
    Theirs("v1", "ConfigMap", pod.latest_name, DATA),
    Theirs("v1", "ConfigMap", pod.desired_name, DATA),
    Theirs("v1", "ConfigMap", pod.status_name, DATA),
    Theirs("v1", "ConfigMap", config_of, DATA),
    Theirs("v1", "Secret", pod.trust_name, {"stringData": {"theirs": "yes"}}),
    Theirs("v1", "Secret", authority_of, {"stringData": {"theirs": "yes"}}),
    Theirs("networking.k8s.io/v1", "NetworkPolicy", pod.workers_name, {"spec": ANY_POD}),
    Theirs("v1", "PersistentVolumeClaim", names.claim_name, {"spec": ONE_GIB}),
)
JOBS = {f"{JOB}-{number}": theirs for number, theirs in enumerate(EVERY_KIND)}


def job_for(name: str, theirs: Theirs) -> dict[str, Any]:
    template: dict[str, Any] = {"checkpoint": {"volume": {"claimTemplate": {}}}}
    given = template if theirs.kind == "PersistentVolumeClaim" else {}
    job: dict[str, Any] = json.loads(stream_job(**given))
    return {**job, "metadata": {"name": name}}


def put(kubectl: Kubectl, *manifests: dict[str, Any]) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    kubectl("apply", "-f", "-", stdin=json.dumps(items))


def stalls(kubectl: Kubectl) -> dict[str, tuple[str, str, str]]:
    """Read status, reason and message of the condition Stalled of every job."""
    listed = json.loads(kubectl("get", "streamjobs", "-o", "json"))["items"]
    return {
        job["metadata"]["name"]: (c["status"], c["reason"], c["message"])
        for job in listed
        for c in job.get("status", {}).get("conditions", [])
        if c["type"] == "Stalled"
    }


def left_alone(kubectl: Kubectl) -> dict[str, str]:
    """Read the versions of all foreign objects, and check that none has got an owner."""
    kinds = ",".join(sorted({theirs.kind.lower() for theirs in EVERY_KIND}))
    listed = json.loads(kubectl("get", kinds, "-o", "json", "-l", "app=theirs"))["items"]
    assert not [o for o in listed if "ownerReferences" in o["metadata"]]
    return {f"{o['kind']} {o['metadata']['name']}": o["metadata"]["resourceVersion"] for o in listed}


def calls_of_jobs(operator: Running) -> int:
    """Count the calls to the API server so far, without those about the operator's Lease."""
    _, page = operator.page("/metrics")
    lines = [t for t in page.splitlines() if t.startswith("penstock_operator_api_calls_total{")]
    return int(sum(float(t.rsplit(" ", 1)[1]) for t in lines if 'resource="leases"' not in t))


def test_an_object_of_another_is_left_alone_whatever_its_kind(start: Start, kubectl: Kubectl) -> None:
    put(kubectl, *[theirs.manifest(job) for job, theirs in JOBS.items()])
    before = left_alone(kubectl)
    assert len(before) == len(EVERY_KIND)
    kubectl("apply", "-f", "-", stdin=claim())
    put(kubectl, *[job_for(job, theirs) for job, theirs in JOBS.items()])
    operator = start()

    def all_say_so() -> bool:
        said = stalls(kubectl)
        return all(
            said.get(job, ("", "", ""))[:2] == ("True", "NameTaken")
            and f"{theirs.kind} {theirs.named(job)} " in said[job][2]
            for job, theirs in JOBS.items()
        )

    operator.until(all_say_so)
    assert left_alone(kubectl) == before
    sets = json.loads(kubectl("get", "statefulsets", "-o", "json"))["items"]
    assert [o["metadata"]["labels"] for o in sets] == [THEIRS]  # no worker was started
    calls = calls_of_jobs(operator)
    assert operator.waits(REST_S)
    spent = calls_of_jobs(operator) - calls
    assert spent <= CALLS_MAX * len(JOBS), f"{spent} calls of {len(JOBS)} jobs in {REST_S:g} s"
    assert left_alone(kubectl) == before

    def told_once() -> bool:
        events = json.loads(kubectl("get", "events", "-o", "json"))["items"]
        told = [e["involvedObject"]["name"] for e in events if e["reason"] == "NameTaken"]
        return sorted(told) == sorted(JOBS)

    operator.until(told_once)
    for job, theirs in JOBS.items():
        kubectl("delete", theirs.kind.lower(), theirs.named(job), "--wait=false")
        if theirs.kind == "PersistentVolumeClaim":  # its finalizer stays while a pod uses it
            free = '{"metadata": {"finalizers": null}}'
            kubectl("patch", "pvc", theirs.named(job), "--type=merge", "-p", free)

    def all_go_on() -> bool:
        made = json.loads(kubectl("get", "statefulsets", "-o", "json"))["items"]
        return {o["metadata"]["name"] for o in made} == {pod.workers_name(job) for job in JOBS}

    operator.until(all_go_on)
    operator.until(lambda: {s[0] for s in stalls(kubectl).values()} == {"False"})
    assert "Forbidden" not in operator.log.read_text()


def test_a_job_that_runs_goes_on_beside_an_object_of_another(start: Start, kubectl: Kubectl) -> None:
    first = start()
    applied(kubectl)
    first.until(lambda: workers(kubectl) == 2)
    first.end()
    theirs = Theirs("v1", "Service", names.metrics_service, SERVICE)
    kubectl("delete", "service", names.metrics_service(JOB))
    put(kubectl, theirs.manifest(JOB))
    before = left_alone(kubectl)
    second = start()
    second.until(lambda: condition(kubectl, "Stalled") == ("True", "NameTaken"))
    kubectl("scale", "streamjob", JOB, "--replicas=3")
    second.until(lambda: workers(kubectl) == 3)
    kubectl("delete", "streamjob", JOB, "--wait=false")
    second.until(lambda: found(kubectl, "streamjob", JOB) is None)
    assert left_alone(kubectl) == before


@pytest.mark.parametrize("there", [True, False])
def test_an_apply_is_refused_where_another_object_has_come(
    kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    theirs = Theirs("v1", "Service", names.metrics_service, SERVICE).manifest(JOB)
    if there:
        put(kubectl, theirs)
    ours: dict[str, Plain] = {
        **theirs,
        "metadata": {"name": names.metrics_service(JOB), "namespace": kubectl.namespace},
        "spec": {"selector": {"app": "ours"}, "ports": [{"port": 1}]},
    }

    async def apply() -> None:
        client = Client(access_of(login(kopf.OperatorSettings())), lambda *_: None)
        with pytest.raises(ApiError) as refused:
            await client.apply(ours, uid="11111111-2222-3333-4444-555555555555")
        assert refused.value.conflict
        await client.close()

    asyncio.run(apply())
    kept = found(kubectl, "service", names.metrics_service(JOB))
    assert (kept is not None) == there
    assert kept is None or kept["spec"]["selector"] == THEIRS
