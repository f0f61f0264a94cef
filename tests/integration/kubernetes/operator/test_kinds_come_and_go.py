"""Definitions that are created after the operator's start, or deleted while it works."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import decode, encode
from penstock.contract.ids import Attempt
from penstock.contract.latest import Latest
from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import ROOT, Start, operators, settle
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    condition,
    found,
    is_told,
    play_controller,
    until_told,
    workers,
)
from tests.support.long_tests import long_only

SPARK = "sparkapplications.sparkoperator.k8s.io"
DEFINITIONS = ("streamjobs.penstock.dev", "streamsnapshots.penstock.dev")


@dataclass(frozen=True, slots=True)
class Town:
    """A server for this test alone, so that definitions can be created and deleted."""

    kubectl: Kubectl
    start: Start


@pytest.fixture
def town(own_api_server: ApiServer, tmp_path: Path) -> Iterator[Town]:
    """Give a server with our definitions, and a function that starts operators for it."""
    settle(own_api_server)
    kubectl = own_api_server.kubectl
    with operators(own_api_server, kubectl.namespace, tmp_path) as start:
        yield Town(kubectl, start)


def spark_definition() -> dict[str, Any]:
    """Make the definition of Kubeflow's operator, as far as the API server needs it."""
    names = {"kind": "SparkApplication", "plural": "sparkapplications"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1beta2",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    marks = {"api-approved.kubernetes.io": "unapproved, of a test"}
    group = "sparkoperator.k8s.io"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": SPARK, "annotations": marks},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def play_leader(kubectl: Kubectl) -> None:
    """Act as workers at their start: report that they run what is wanted."""
    desired = found(kubectl, "configmap", pod.desired_name(JOB))
    kept = found(kubectl, "configmap", pod.latest_name(JOB))
    assert desired is not None
    assert kept is not None
    run = str(json.loads(desired["data"][pod.RECORD])["run"])
    latest = replace(decode(Latest, kept["data"][pod.RECORD].encode()), attempt=Attempt(1), run=run)
    change = {"data": {pod.RECORD: encode(latest).decode()}}
    kubectl(
        "patch", "configmap", pod.latest_name(JOB), "--type=merge", "-p", json.dumps(change)
    )  # fmt: skip


def test_spark_that_is_installed_later_is_used_and_its_failure_told(town: Town) -> None:
    kubectl, operator = town.kubectl, town.start()
    applied(kubectl, replay={"dataset": "/data/lines", "image": "example/spark:1"})
    operator.until(lambda: condition(kubectl, "Accepted") == ("False", "ReplayUnavailable"))
    assert "ReplayUnavailable" in kubectl("get", "sj", JOB)
    operator.until(lambda: workers(kubectl) == 2)
    play_leader(kubectl)
    for _ in range(2):  # the second time after its definition was deleted
        kubectl("create", "-f", "-", stdin=json.dumps(spark_definition()))
        kubectl("wait", "--for=condition=Established", f"crd/{SPARK}", "--timeout=30s")
        until_told(operator, lambda: condition(kubectl, "Accepted") == ("True", "Valid"))
        operator.until(lambda: bool(kubectl.items(SPARK)))
        (application,) = kubectl.items(SPARK)
        failed = {"applicationState": {"state": "FAILED", "errorMessage": "no such dataset"}}
        kubectl(
            "patch", SPARK, application["metadata"]["name"], "--subresource=status",
            "--type=merge", "-p", json.dumps({"status": failed}),
        )  # fmt: skip
        until_told(operator, lambda: is_told(kubectl, "ReplayFailed", "no such dataset"))
        kubectl("delete", "crd", SPARK)
        operator.until(lambda: condition(kubectl, "Accepted") == ("False", "ReplayUnavailable"))


def play_jobs(kubectl: Kubectl) -> None:
    """Act as the Job controller when the pods of the Jobs have succeeded."""
    now = "2026-01-01T00:00:00Z"
    ended = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("SuccessCriteriaMet", "Complete")]
    status = {"succeeded": 1, "startTime": now, "completionTime": now, "conditions": ended}
    for each in kubectl.items("jobs"):
        if not each.get("status", {}).get("succeeded"):
            kubectl(
                "patch", "job", each["metadata"]["name"], "--subresource=status",
                "--type=merge", "-p", json.dumps({"status": status}),
            )  # fmt: skip


SNAPSHOT = {
    "apiVersion": "penstock.dev/v1alpha1",
    "kind": "StreamSnapshot",
    "metadata": {"name": "monday"},
    "spec": {"jobRef": JOB, "disposeOnDelete": True},
}


@pytest.mark.parametrize(
    "deleted", [pytest.param(DEFINITIONS[:1], id="jobs", marks=long_only), pytest.param(DEFINITIONS, id="both")]
)
def test_definitions_go_with_a_job_whose_files_are_purged_and_come_back(town: Town, deleted: tuple[str, ...]) -> None:
    kubectl, operator = town.kubectl, town.start()
    applied(kubectl, deletionPolicy="Purge")
    operator.until(lambda: workers(kubectl) == 2)
    play_leader(kubectl)
    kubectl("apply", "-f", "-", stdin=json.dumps(SNAPSHOT))
    operator.until(lambda: bool((found(kubectl, "ssnap", "monday") or {}).get("status")))
    kubectl("delete", "crd", *deleted, "--wait=false")

    def is_gone() -> bool:
        play_controller(kubectl)
        play_jobs(kubectl)
        return not kubectl("get", "crd", *deleted, "--ignore-not-found").strip()

    operator.until(is_gone)
    assert found(kubectl, "configmap", pod.latest_name(JOB)) is None
    told = "starts again" if len(deleted) == 1 else "waits for the definitions"
    operator.until(lambda: told in operator.log.read_text())
    kubectl("apply", "-f", str(ROOT / "crds"))
    kubectl("wait", "--for=condition=Established", "-f", str(ROOT / "crds"), "--timeout=30s")
    applied(kubectl)  # an earlier job had this name, and no garbage collector deletes its StatefulSet here
    operator.until(lambda: condition(kubectl, "Accepted") == ("True", "Valid"))
