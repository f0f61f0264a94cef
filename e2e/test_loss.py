"""Pods and nodes are lost: the output stays exact, and the recovery time is printed."""

import time

import pytest

from e2e.conftest import SYSTEM
from e2e.rig.cluster import Cluster
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount
from penstock.contract.latest import Latest

RECOVERY_TIMEOUT_S = 120.0
NODE_TIMEOUT_S = 150.0  # Kubernetes evicts the pods of a lost node after 300 s
END_TIMEOUT_S = 180.0
LEADERS_LOST_MAX = 5  # until the other worker leads; a pod that returns may be elected, too
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def lose(job: WordCount, pod: str, *, force: bool) -> float:
    """Delete the pod of a worker, and give the seconds until the job commits again without it."""
    options = ["--grace-period=0", "--force"] if force else []
    old, before = uid_of(job, pod), job.latest()
    begun = time.monotonic()
    job.kubectl("delete", "pod", pod, "--wait=false", *options)
    until_back(job, before, RECOVERY_TIMEOUT_S)
    took_s = time.monotonic() - begun
    assert uid_of(job, pod) not in {"", old}, "another pod of that name"
    return took_s


def uid_of(job: WordCount, pod: str) -> str:
    """Give the UID of a pod; empty when it does not exist."""
    found = job.workers().get(pod)
    return "" if found is None else str(found["metadata"]["uid"])


def until_back(job: WordCount, before: Latest, timeout_s: float) -> None:
    """Wait until the job commits in a later attempt than that of ``before``."""
    wait_for("a new attempt", lambda: job.latest().attempt > before.attempt, timeout_s, job.say)
    job.commits(1, timeout_s)
    wait_for("all workers", lambda: job.runs_on(before.workers), timeout_s, job.say)


def nodes_of(job: WordCount) -> dict[str, str]:
    """Name the worker on each node."""
    return {pod["spec"]["nodeName"]: name for name, pod in job.workers().items()}


def replacements(job: WordCount) -> set[tuple[str, int]]:
    """Give the events about replaced workers, and their counts."""
    events = [e for e in job.kubectl.items("events") if e["reason"] == "WorkerReplaced"]
    return {(e["metadata"]["uid"], e.get("count") or 1) for e in events}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("wordcount", [{"lines": 80_000}], indirect=True)
def test_a_worker_the_leader_and_a_node_are_lost(wordcount: WordCount, operator: Cluster) -> None:
    nodes = [n["metadata"]["name"] for n in operator.kubectl.items("nodes", "!" + CONTROL_PLANE)]
    wordcount.start(rate=40, placement={"nodes": nodes})
    wordcount.commits(1, RECOVERY_TIMEOUT_S)
    leader = wordcount.leader()
    other = next(name for name in wordcount.workers() if name != leader)
    print(f"worker deleted: commits again after {lose(wordcount, other, force=False):.1f} s")
    leader = wordcount.leader()
    print(f"leader killed: commits again after {lose(wordcount, leader, force=True):.1f} s")
    lose_the_node_of_the_leader(wordcount, operator)
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


def lose_the_node_of_the_leader(job: WordCount, operator: Cluster) -> None:
    system = operator.kubectl.in_namespace(SYSTEM)
    safe = {pod["spec"]["nodeName"] for pod in system.items("pods")}
    node = next(node for node in nodes_of(job) if node not in safe)
    for _ in range(LEADERS_LOST_MAX):
        if job.leader() == nodes_of(job)[node]:
            break
        lose(job, job.leader(), force=True)
    assert len(nodes_of(job)) == 2, "the workers are spread over both nodes"
    lost, before = job.leader(), job.latest()
    assert nodes_of(job)[node] == lost, "the other one leads now"
    old, told, begun = uid_of(job, lost), replacements(job), time.monotonic()
    operator.stop_node(node)
    try:
        until_back(job, before, NODE_TIMEOUT_S)
        assert uid_of(job, lost) not in {"", old}, "another pod of that name"
        took_s = time.monotonic() - begun
    finally:
        operator.start_node(node)
    print(f"node of the leader lost: commits again after {took_s:.1f} s")
    assert replacements(job) != told, "replaced by the operator, not by a timeout of the node"
    operator.kubectl("wait", "--for=condition=Ready", "node", node, "--timeout=120s")
