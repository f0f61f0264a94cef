"""Kubeflow's Spark operator in the cluster, and the SparkApplications of the examples."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from e2e.rig.cluster import Cluster
from e2e.rig.reading import SPARK_APPLICATIONS, read
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import ROOT
from tests.integration.kubernetes.kubectl import Kubectl

RELEASE = "spark-operator"
SYSTEM = "spark-operator"
EXAMPLES = ROOT / "examples" / "kubernetes"
DEFINITIONS = ["sparkapplications", "scheduledsparkapplications", "sparkconnects"]
ENDED = {"COMPLETED", "FAILED", "SUBMISSION_FAILED"}
APPLICATION_TIMEOUT_S = 240.0


class SparkOperator:
    """Kubeflow's chart as a release that serves one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace

    def install(self) -> None:
        """Install it while our operator runs, which then finds the new kinds by itself."""
        registry, _, name = self._cluster.images.spark.rpartition("/")
        repository, _, tag = name.rpartition(":")
        cluster = self._cluster
        cluster.run_helm(
            "install", RELEASE, str(cluster.spark_chart), f"--namespace={SYSTEM}",
            "--create-namespace", f"--set=spark.jobNamespaces={{{self._namespace}}}",
            f"--set=image.registry={registry or 'docker.io/library'}",
            f"--set=image.repository={repository},image.tag={tag},image.pullPolicy=Never",
            # For the JVM that submits: on two cores the first compiler is enough.
            "--set=controller.env[0].name=JAVA_TOOL_OPTIONS",
            "--set=controller.env[0].value=-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "--wait", "--timeout=180s",
        )  # fmt: skip

    def remove(self) -> None:
        """Remove it with its definitions."""
        kubectl = self._cluster.kubectl
        names = [f"{name}.sparkoperator.k8s.io" for name in DEFINITIONS]
        kubectl.attempt("delete", "crd", "--ignore-not-found", "--timeout=60s", *names)
        self._cluster.run_helm("uninstall", RELEASE, f"--namespace={SYSTEM}", "--ignore-not-found")
        kubectl.attempt("delete", "namespace", SYSTEM, "--timeout=120s")  # the next one would be put into what goes


@contextmanager
def spark_operator(cluster: Cluster, namespace: str) -> Iterator[SparkOperator]:
    """Give the operator, which is not installed yet, and remove it at the end."""
    operator = SparkOperator(cluster, namespace)
    try:
        yield operator
    finally:
        operator.remove()


def adapted(manifest: Any, image: str) -> Any:
    """Give a StreamJob or a SparkApplication with an image of this cluster."""
    return {**manifest, "spec": {**manifest["spec"], "image": image, "imagePullPolicy": "Never"}}


def example(name: str, image: str) -> Any:
    """Give an example with an image of this cluster."""
    return adapted(yaml.safe_load((EXAMPLES / name).read_text()), image)


def application(kubectl: Kubectl, name: str) -> Any:
    """Give a SparkApplication."""
    return read(kubectl, SPARK_APPLICATIONS, name)


def run_application(kubectl: Kubectl, manifest: Any) -> str:
    """Run a SparkApplication to its end, and give the log of its driver. Raises AssertionError if it failed."""
    name = manifest["metadata"]["name"]
    kubectl.apply(manifest)
    found: Any = wait_for(f"the end of {name}", lambda: _ended(kubectl, name), APPLICATION_TIMEOUT_S,
                          lambda: str(application(kubectl, name).get("status")))  # fmt: skip
    log = kubectl.attempt("logs", f"{name}-driver").stdout
    assert state_of(found) == "COMPLETED", f"{found['status']}\n{log}"
    return log


def _ended(kubectl: Kubectl, name: str) -> Any:
    found = application(kubectl, name)
    return found if state_of(found) in ENDED else None


def state_of(found: Any) -> str:
    """Give the state of a SparkApplication; empty before its operator has seen it."""
    return str(found.get("status", {}).get("applicationState", {}).get("state", ""))
