"""The objects that these tests give to the operator, and those that it creates."""

import json
import time
from collections.abc import Callable
from typing import Any

from penstock.contract import pod
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Running

JOB = "wordcount"
WITHIN_S = 15.0  # from a failure until its condition and event


def stream_job(**spec: Any) -> str:
    """Make the StreamJob with changes to its spec."""
    return json.dumps(
        {
            "apiVersion": "penstock.dev/v1alpha1",
            "kind": "StreamJob",
            "metadata": {"name": JOB},
            "spec": {
                "image": "example/penstock:1",
                "replicas": 2,
                "job": {"entrypoint": "jobs:count"},
                "checkpoint": {"volume": {"claimName": "shared"}},
                **spec,
            },
        }
    )


def claim(mode: str = "ReadWriteMany") -> str:
    """Make the claim of the checkpoints."""
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shared"},
            "spec": {**spec, "storageClassName": ""},
        }
    )


def found(kubectl: Kubectl, kind: str, name: str) -> dict[str, Any] | None:
    """Read an object; None when it does not exist."""
    text = kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
    return json.loads(text) if text.strip() else None


def workers(kubectl: Kubectl) -> int | None:
    """Read how many workers the StatefulSet has."""
    made = found(kubectl, "statefulset", pod.workers_name(JOB))
    return None if made is None else int(made["spec"]["replicas"])


def condition(kubectl: Kubectl, kind: str) -> tuple[str, str]:
    """Read status and reason of a condition of the job."""
    job = found(kubectl, "streamjob", JOB)
    conditions = (job or {}).get("status", {}).get("conditions", [])
    return next(((c["status"], c["reason"]) for c in conditions if c["type"] == kind), ("", ""))


def versions(kubectl: Kubectl) -> dict[str, str]:
    """Read the resource versions of all children."""
    kinds = "statefulset,service,configmap,serviceaccount,role,rolebinding,pdb,networkpolicy"
    listed = json.loads(kubectl("get", kinds, "-o", "json", "-l", f"{pod.LABEL_JOB}={JOB}"))
    return {f"{o['kind']} {o['metadata']['name']}": o["metadata"]["resourceVersion"] for o in listed["items"]}


def applied(kubectl: Kubectl, **spec: Any) -> None:
    """Apply the claim and the job."""
    kubectl("apply", "-f", "-", stdin=claim())
    kubectl("apply", "-f", "-", stdin=stream_job(**spec))


def play_controller(kubectl: Kubectl) -> None:
    """Report the newest size of the StatefulSet as observed: no controller runs here."""
    made = found(kubectl, "statefulset", pod.workers_name(JOB))
    if made is None:
        return
    generation = made["metadata"]["generation"]
    if made.get("status", {}).get("observedGeneration") != generation:
        change = {"status": {"observedGeneration": generation, "replicas": 0}}
        kubectl(
            "patch", "statefulset", pod.workers_name(JOB), "--subresource=status",
            "--type=merge", "-p", json.dumps(change),
        )  # fmt: skip


def until_told(operator: Running, holds: Callable[[], bool]) -> None:
    """Wait until it holds, at most for fifteen seconds from now."""
    begun = time.monotonic()
    operator.until(holds)
    took_s = time.monotonic() - begun
    assert took_s < WITHIN_S, f"told after {took_s:.1f} s"


def message_of(kubectl: Kubectl, kind: str) -> str:
    """Read the message of a condition of the job."""
    job = found(kubectl, "streamjob", JOB) or {}
    conditions = job.get("status", {}).get("conditions", [])
    return next((str(c["message"]) for c in conditions if c["type"] == kind), "")


def warned(kubectl: Kubectl, reason: str, kind: str = "StreamJob") -> list[str]:
    """List the Warning events with a reason about objects of a kind."""
    events = json.loads(kubectl("get", "events", "-o", "json"))["items"]
    return [
        e["message"]
        for e in events
        if (e["reason"], e["type"], e["involvedObject"]["kind"]) == (reason, "Warning", kind)
    ]


def is_told(kubectl: Kubectl, reason: str, words: str) -> bool:
    """Say whether the job is stalled for this reason, with these words in condition and event."""
    return (
        condition(kubectl, "Stalled") == ("True", reason)
        and words in message_of(kubectl, "Stalled")
        and any(words in text for text in warned(kubectl, reason))
    )
