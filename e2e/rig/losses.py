"""Losses of pods and of nodes, and how long a job takes to commit again."""

import time

from e2e.rig.cluster import Cluster
from e2e.rig.release import SYSTEM
from e2e.rig.streamjob import StreamJob
from e2e.rig.waiting import wait_for
from penstock.contract import pod
from penstock.contract.latest import Latest

RECOVERY_TIMEOUT_S = 120.0
NODE_TIMEOUT_S = 150.0  # Kubernetes evicts the pods of a lost node after 300 s
LEADERS_LOST_MAX = 5  # until another worker leads; a pod that returns may be elected, too
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def lose(job: StreamJob, name: str, *, force: bool) -> float:
    """Delete the pod of a worker, and return after how many seconds the job commits again."""
    options = ["--grace-period=0", "--force"] if force else []
    old, before = uid_of(job, name), job.latest()
    begun = time.monotonic()
    job.kubectl("delete", "pod", name, "--wait=false", *options)
    until_back(job, before, RECOVERY_TIMEOUT_S)
    took_s = time.monotonic() - begun
    assert uid_of(job, name) not in {"", old}, "another pod of that name"
    return took_s


def uid_of(job: StreamJob, name: str) -> str:
    """Give the UID of a pod; empty when it does not exist."""
    found = job.workers().get(name)
    return "" if found is None else str(found["metadata"]["uid"])


def until_back(job: StreamJob, before: Latest, timeout_s: float) -> None:
    """Wait until the job commits in a later attempt than that of ``before``."""
    wait_for("a new attempt", lambda: job.latest().attempt > before.attempt, timeout_s, job.say)
    job.commits(1, timeout_s)
    wait_for("all workers", lambda: job.runs_on(before.workers), timeout_s, job.say)


def leading_pod(job: StreamJob) -> str:
    """Wait for a leader in -latest, and give its pod. The status shows a new leader some seconds later."""
    leader = wait_for("a leader", lambda: job.latest().leader, RECOVERY_TIMEOUT_S, job.say)
    return f"{pod.workers_name(job.name)}-{leader.ordinal}"


def nodes_of(job: StreamJob) -> dict[str, str]:
    """Name the worker on each node."""
    return {each["spec"]["nodeName"]: name for name, each in job.workers().items()}


def nodes_for_workers(cluster: Cluster) -> list[str]:
    """Name the nodes that are not the control plane."""
    return [node["metadata"]["name"] for node in cluster.kubectl.items("nodes", "!" + CONTROL_PLANE)]


def replacements(job: StreamJob) -> set[tuple[str, int]]:
    """Give the events about replaced workers, and their counts."""
    events = [e for e in job.kubectl.items("events") if e["reason"] == "WorkerReplaced"]
    return {(e["metadata"]["uid"], e.get("count") or 1) for e in events}


def lose_a_node(job: StreamJob, cluster: Cluster, *, of_leader: bool) -> float:
    """Cut the power of the leader's or of the other worker's node. Give the seconds until the job commits again.

    The node has its power again at the end. The operator's node is never chosen. Two workers, one on each
    node, are needed.
    """
    node = _node_to_lose(job, cluster, of_leader=of_leader)
    lost, before = nodes_of(job)[node], job.latest()
    old, told, begun = uid_of(job, lost), replacements(job), time.monotonic()
    cluster.stop_node(node)
    try:
        until_back(job, before, NODE_TIMEOUT_S)
        assert uid_of(job, lost) not in {"", old}, "another pod of that name"
        took_s = time.monotonic() - begun
    finally:
        cluster.start_node(node)
    assert replacements(job) != told, "replaced by the operator, not by a timeout of the node"
    cluster.kubectl("wait", "--for=condition=Ready", "node", node, "--timeout=120s")
    return took_s


def _node_to_lose(job: StreamJob, cluster: Cluster, *, of_leader: bool) -> str:
    """Give the node without the operator, with the wanted worker: leaders die until it leads, or does not."""
    safe = {each["spec"]["nodeName"] for each in cluster.kubectl.in_namespace(SYSTEM).items("pods")}
    node = next(node for node in nodes_of(job) if node not in safe)
    for _ in range(LEADERS_LOST_MAX):
        if (leading_pod(job) == nodes_of(job).get(node)) == of_leader:
            break
        lose(job, leading_pod(job), force=True)
    assert len(nodes_of(job)) == 2, "the workers are spread over both nodes"
    assert (leading_pod(job) == nodes_of(job)[node]) == of_leader, "the wanted one leads"
    return node
