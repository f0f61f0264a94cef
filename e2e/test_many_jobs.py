"""Fifty StreamJobs on simulated nodes: what they cost the operator."""

import json
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.rig.cluster import Cluster
from e2e.rig.reading import PODS, STATEFUL_SETS, STREAM_JOBS, listed, read
from e2e.rig.release import SYSTEM
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import CLAIM, WordCount
from tests.integration.kubernetes.kubectl import Kubectl

JOBS = 50
WORKERS = 2
NODES = 5
LEASE_S = 40
STAGES = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
    "pod/fast/pod-ready",
    "pod/fast/pod-delete",
    "pod/fast/pod-complete",
)
STEP_TIMEOUT_S = 180.0
LOOK_EVERY_S = 1.0  # at lists of a hundred objects: they measure the server
MARK = {"kwok.x-k8s.io/node": "fake"}
SAMPLE = re.compile(r"^(penstock_operator_\w+|process_\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)


@pytest.fixture
def hollow_nodes(operator: Cluster) -> Iterator[None]:
    """Add nodes whose pods run nothing and are ready at once; kwok simulates their kubelets."""
    kubectl = operator.kubectl
    names = [f"hollow-{number}" for number in range(NODES)]
    kubectl.apply(*(node(name) for name in names))
    log = operator.shared_here.parent / "kwok.log"
    with log.open("wb") as out:
        kwok = subprocess.Popen(
            [
                str(operator.programs["kwok"]),
                f"--kubeconfig={operator.kubeconfig}",
                "--manage-all-nodes=false",
                "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                f"--node-lease-duration-seconds={LEASE_S}",
                *(f"--config={operator.kwok_stages / stage}.yaml" for stage in STAGES),
            ],
            stdout=out,
            stderr=out,
        )
    kubectl("wait", "--for=condition=Ready", "--timeout=60s", *(f"node/{n}" for n in names))
    yield
    pods = kubectl.attempt("get", "pods", "-A", "-o", "json", "-l", "penstock.dev/component=worker")
    for pod in json.loads(pods.stdout)["items"]:
        if pod["spec"].get("nodeName", "").startswith("hollow-"):
            there = kubectl.in_namespace(pod["metadata"]["namespace"])
            there.attempt("delete", "pod", pod["metadata"]["name"], "--force", "--grace-period=0",
                          "--wait=false")  # fmt: skip
    kubectl.attempt("delete", "node", "--timeout=60s", *names)
    kwok.terminate()
    kwok.wait(30)


def node(name: str) -> Any:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": MARK, "labels": MARK},
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": room, "capacity": room},
    }


def hollow(job: WordCount, number: int) -> Any:
    """Give a job whose workers are scheduled to the simulated nodes."""
    manifest = job.manifest(replicas=WORKERS)
    manifest["metadata"]["name"] = f"job-{number:02d}"
    manifest["spec"]["podTemplate"] = {
        "spec": {
            "nodeSelector": MARK,
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
        }
    }
    return manifest


class Meter:
    """Reads the metrics of the operator, and its memory."""

    def __init__(self, cluster: Cluster) -> None:
        self._system = cluster.kubectl.in_namespace(SYSTEM)

    def read(self) -> Counter[str]:
        """Give the sums of each metric, and of API calls and outcomes by label."""
        path = f"/api/v1/namespaces/{SYSTEM}/services/penstock-metrics:8080/proxy/metrics"
        page = self._system("get", "--raw", path)
        found: Counter[str] = Counter()
        for name, labels, value in SAMPLE.findall(page):
            if name.endswith("_bucket"):
                found[labels.partition('le="')[2].rstrip('"')] += int(float(value))
            else:
                found[name] += float(value)  # type: ignore[assignment]  # seconds too
        return found

    def memory_mib(self) -> tuple[float, float]:
        """Give the resident memory of the operator: now, and its peak."""
        text = self._system("exec", "deployment/penstock", "--", "cat", "/proc/1/status")
        kib = dict(re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB$", text, re.MULTILINE))
        return int(kib["VmRSS"]) / 1024, int(kib["VmHWM"]) / 1024


def percentile(before: Counter[str], after: Counter[str], share: float) -> str:
    """Give the bound of the histogram's bucket that this share of reconciles stays below."""
    bounds = sorted((k for k in after if _is_number(k)), key=float)
    grown = [(bound, after[bound] - before[bound]) for bound in bounds]
    total = max((count for _, count in grown), default=0)
    return next((f"{b} s" for b, count in grown if count >= share * total), "more")


def _is_number(text: str) -> bool:
    return text == "+Inf" or text.replace(".", "", 1).isdecimal()


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("hollow_nodes")
def test_fifty_jobs_at_once(wordcount: WordCount, operator: Cluster) -> None:
    meter, here = Meter(operator), wordcount.kubectl
    idle, _ = meter.memory_mib()
    before = meter.read()
    begun = time.monotonic()
    here.apply(*(hollow(wordcount, number) for number in range(JOBS)), manager="kubectl")
    print(f"{JOBS} jobs applied in {time.monotonic() - begun:.1f} s")
    wait_for("a StatefulSet each", lambda: len(listed(here, STATEFUL_SETS)) == JOBS,
             STEP_TIMEOUT_S, every_s=LOOK_EVERY_S)  # fmt: skip
    print(f"all StatefulSets are there {time.monotonic() - begun:.1f} s after the first apply")
    wait_for("ready pods", lambda: ready_pods(here) == JOBS * WORKERS, STEP_TIMEOUT_S,
             lambda: str(ready_pods(here)), every_s=LOOK_EVERY_S)  # fmt: skip
    wait_for("a status each", lambda: all(map(is_observed, listed(here, STREAM_JOBS))),
             STEP_TIMEOUT_S, every_s=LOOK_EVERY_S)  # fmt: skip
    print(f"all {JOBS * WORKERS} pods ready and all statuses there {time.monotonic() - begun:.1f} s")
    after = meter.read()
    reconciles = after["penstock_operator_reconciles_total"] - before[
        "penstock_operator_reconciles_total"
    ]  # fmt: skip
    calls = after["penstock_operator_api_calls_total"] - before["penstock_operator_api_calls_total"]
    print(f"{reconciles:.0f} reconciles, {calls:.0f} API calls: {calls / reconciles:.1f} each")
    for share in (0.5, 0.95, 0.99):
        print(f"  {share:.0%} of reconciles took at most {percentile(before, after, share)}")

    begun = time.monotonic()
    here("scale", "streamjob", "job-00", "--replicas=3")
    wait_for("three pods wanted", lambda: wanted(here, "job-00") == 3, STEP_TIMEOUT_S)
    print(f"a change of one of {JOBS} is carried out {time.monotonic() - begun:.1f} s later")
    now, most = meter.memory_mib()
    print(f"operator: {now:.0f} MiB now, {most:.0f} MiB at most; {idle:.0f} MiB before")
    here("delete", "streamjobs", "--all", "--timeout=180s")
    wait_for("collection", lambda: not listed(here, STATEFUL_SETS), STEP_TIMEOUT_S)
    assert [c["metadata"]["name"] for c in here.items("persistentvolumeclaims")] == [CLAIM]


def ready_pods(kubectl: Kubectl) -> int:
    conditions = [c for each in listed(kubectl, PODS) for c in each["status"].get("conditions", [])]
    return sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def is_observed(job: Any) -> bool:
    status = job.get("status", {})
    return bool(status.get("observedGeneration") == job["metadata"]["generation"])


def wanted(kubectl: Kubectl, job: str) -> int:
    return int(read(kubectl, STATEFUL_SETS, f"{job}-worker")["spec"]["replicas"])
