"""Imported StreamSnapshots show what the operator's Job finds out about their files."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from penstock.contract import pod
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import ROOT, Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    found,
    until_told,
    warned,
    workers,
)


def snapshot(kubectl: Kubectl, name: str, path: str) -> None:
    """Apply a StreamSnapshot that names files."""
    made = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"name": name},
        "spec": {"path": path},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(made))


def shown(kubectl: Kubectl, name: str) -> tuple[str, str, str]:
    """Read the state, and status and reason of Ready."""
    status = (found(kubectl, "streamsnapshot", name) or {}).get("status", {})
    ready: dict[str, Any] = next(iter(status.get("conditions", [])), {})
    return status.get("state", ""), ready.get("status", ""), ready.get("reason", "")


def play_look(kubectl: Kubectl, claim: Path) -> None:
    """Act as a node and the Job controller: run the command of the pod's container.

    ``claim`` is the folder of the volume, which the pod sees at its mount path.
    """
    for job in kubectl.items("jobs"):
        (container,) = job["spec"]["template"]["spec"]["containers"]
        if job.get("status", {}).get("conditions") or container["name"] != "look":
            continue
        arguments = [each.replace(pod.CHECKPOINT_FOLDER, str(claim)) for each in container["command"][1:]]
        ran = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT / "worker")},
        )
        end(kubectl, job, ran.returncode, ran.stderr)


def end(kubectl: Kubectl, job: dict[str, Any], status: int, words: str) -> None:
    """Report the Job's pod, and then the Job, as ended."""
    name, now = job["metadata"]["name"], "2026-01-01T00:00:00Z"
    template = job["spec"]["template"]
    labels = {**template["metadata"]["labels"], "batch.kubernetes.io/job-name": name}
    containers = [{"name": "look", "image": "example/penstock:1"}]
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-x", "labels": labels},
        "spec": {"containers": containers},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(made))
    ended = {"terminated": {"exitCode": status, "message": words}}
    told = {
        "name": "look", "image": "x", "imageID": "x", "ready": False, "restartCount": 0,
        "state": ended,
    }  # fmt: skip
    patch(kubectl, "pod", f"{name}-x", {"phase": "Failed", "containerStatuses": [told]})
    kinds = ("FailureTarget", "Failed") if status else ("SuccessCriteriaMet", "Complete")
    conditions = [{"type": k, "status": "True", "lastTransitionTime": now} for k in kinds]
    counts = {"failed": 1} if status else {"succeeded": 1, "completionTime": now}
    patch(kubectl, "job", name, {"startTime": now, "conditions": conditions, **counts})


def patch(kubectl: Kubectl, kind: str, name: str, status: dict[str, Any]) -> None:
    kubectl(
        "patch", kind, name, "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": status}),
    )  # fmt: skip


def test_a_path_that_is_not_there_or_leads_out_is_not_complete(start: Start, kubectl: Kubectl, tmp_path: Path) -> None:
    operator, space = start(), kubectl.namespace
    folder = tmp_path / "claim" / space / JOB / "savepoints"
    folder.mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path)
    snapshot(kubectl, "elsewhere", f"kube-system/{JOB}/savepoints/monday")
    snapshot(kubectl, "absent", f"{space}/{JOB}/savepoints/absent")
    snapshot(kubectl, "linked", f"{space}/{JOB}/savepoints/link")
    operator.until(lambda: shown(kubectl, "absent") == ("Pending", "False", "NotLookedAt"))
    assert shown(kubectl, "elsewhere") == ("Failed", "False", "PathOutside")
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    operator.until(lambda: shown(kubectl, "absent")[0] == "InProgress")
    operator.until(lambda: shown(kubectl, "linked")[0] == "InProgress")

    def are_told() -> bool:
        play_look(kubectl, tmp_path / "claim")
        states = [shown(kubectl, name) for name in ("absent", "linked")]
        wanted = [("Failed", "False", reason) for reason in ("PathNotFound", "PathOutside")]
        return states == wanted

    until_told(operator, are_told)
    texts = " ".join(warned(kubectl, "SnapshotFailed", "StreamSnapshot"))
    assert "there is no such folder" in texts
    assert "leads out of" in texts
