"""The API server is away: what the workers do meanwhile is read from them, over the nodes."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.rig.cluster import Cluster
from e2e.rig.losses import CONTROL_PLANE
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount
from penstock.contract import pod

ENDS_WITHIN_S = 120.0
LOOKS = 12  # during an outage
ROWS = re.compile(r"^penstock_step_rows_in_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"  # of kubeadm, and so of kind
ASIDE = "/etc/kubernetes/kube-apiserver.yaml.aside"


@contextmanager
def frozen(cluster: Cluster) -> Iterator[None]:
    """Stop the process of the API server: calls hang. After 80 s the kubelet would start another one."""
    cluster.stop_server()
    try:
        yield
    finally:
        cluster.start_server()


@contextmanager
def ended(cluster: Cluster) -> Iterator[None]:
    """End the API server, so that connections are refused. At the end of the block it is told to start."""
    node = cluster.kubectl.items("nodes", CONTROL_PLANE)[0]["metadata"]["name"]
    cluster.on_node(node, "mv", MANIFEST, ASIDE)
    try:
        wait_for("no server", lambda: cluster.kubectl.attempt("get", "--raw=/readyz").returncode != 0, ENDS_WITHIN_S)
        yield
    finally:
        cluster.on_node(node, "mv", ASIDE, MANIFEST)


def rows_seen(cluster: Cluster, workers: list[tuple[str, str]]) -> float:
    """Add up the rows of all steps. The pods answer, because the API server does not."""
    total = 0.0
    for node, address in workers:
        url = f"http://{address}:{pod.HTTP_PORT}{pod.METRICS_PATH}"
        page = cluster.on_node(node, "curl", "-sS", "--max-time", "10", url)
        total += sum(float(value) for value in ROWS.findall(page))
    return total


def addresses(job: WordCount) -> list[tuple[str, str]]:
    """Give node and address of each worker."""
    return [(found["spec"]["nodeName"], found["status"]["podIP"]) for found in job.workers().values()]


def rows_over(cluster: Cluster, workers: list[tuple[str, str]], seconds: float) -> list[float]:
    """Read the rows several times over this time, first and last included."""
    never = threading.Event()
    begun = time.monotonic()
    seen = [rows_seen(cluster, workers)]
    while time.monotonic() - begun < seconds:
        never.wait(seconds / LOOKS)
        seen.append(rows_seen(cluster, workers))
    return seen
