"""Periodic savepoints with a real API server: created when due, and deleted by retention."""

import json
import time
from typing import Any

from penstock.contract import pod
from penstock.contract.ids import Attempt, Epoch, JobUid, SwapId, Term, Version
from penstock.contract.latest import Answer, Latest, Request, encode_latest
from penstock_operator.api import names
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    condition,
    found,
    play_controller,
    stream_job,
    workers,
)

EVERY_S = 60


def play_pods(kubectl: Kubectl, uid: str) -> None:
    """Create ready pods: no controller runs here."""
    for ordinal in range(2):
        name = f"{pod.workers_name(JOB)}-{ordinal}"
        metadata = {"name": name, "labels": names.labels(JOB, uid)}
        spec = {"containers": [{"name": pod.KEEPER_CONTAINER, "image": "example/penstock:1"}]}
        plain = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        kubectl("create", "-f", "-", stdin=json.dumps(plain))
        ready = [{"type": "Ready", "status": "True"}]
        change = json.dumps({"status": {"phase": "Running", "conditions": ready}})
        kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", change)


def play_leader(kubectl: Kubectl, uid: str) -> list[Request]:
    """Act as a running leader that answers all requests. Returns the requests."""
    made = found(kubectl, "configmap", pod.desired_name(JOB))
    assert made is not None
    plain = json.loads(made["data"][pod.RECORD])
    asked = [Request(r["id"], r["kind"], r["argument"]) for r in plain["requests"]]
    latest = Latest(
        JobUid(uid),
        SwapId("s"),
        term=Term(1),
        attempt=Attempt(1),
        version=Version(1),
        settled=Version(1),
        workers=2,
        epoch=Epoch(1),
        max_epoch=Epoch(1),
        run=plain["run"],
        answers=tuple(Answer(r.id, True, f"savepoints/{r.argument}") for r in asked),
    )
    change = json.dumps({"data": {pod.RECORD: encode_latest(latest).decode()}})
    kubectl("patch", "configmap", pod.latest_name(JOB), "--type=merge", "-p", change)
    return asked


def put_snapshot(kubectl: Kubectl, name: str, due: float, uid: str) -> None:
    """Create a complete snapshot; with a ``uid`` it is a periodic one of that job."""
    metadata: dict[str, Any] = {"name": name}
    if uid:
        metadata["labels"] = {names.LABEL_PERIODIC: uid}
        metadata["annotations"] = {names.ANNOTATION_DUE: str(int(due))}
    snapshot = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": metadata,
        "spec": {"jobRef": JOB},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(snapshot))
    change = json.dumps({"status": {"state": "Completed", "path": f"savepoints/{name}"}})
    where = ("patch", "streamsnapshot", name, "--subresource=status", "--type=merge")
    kubectl(*where, "-p", change)


def snapshots(kubectl: Kubectl) -> dict[str, Any]:
    listed = json.loads(kubectl("get", "streamsnapshots", "-o", "json"))["items"]
    return {one["metadata"]["name"]: one for one in listed}


def test_a_period_gives_one_savepoint_and_old_ones_go(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl, snapshots={"every": f"{EVERY_S}s", "keep": 2})
    operator.until(lambda: workers(kubectl) == 2)
    job = found(kubectl, "streamjob", JOB)
    assert job is not None
    uid = job["metadata"]["uid"]
    play_pods(kubectl, uid)
    now = time.time_ns() / 1e9
    restoring = json.loads(stream_job(suspend=True, restore={"nonce": "1", "snapshotRef": "clock-restored"}))
    restoring["metadata"]["name"] = "child"
    kubectl("apply", "-f", "-", stdin=json.dumps(restoring))
    put_snapshot(kubectl, "by-hand", 0, "")
    put_snapshot(kubectl, "of-another-job", now - 9000, "uid-of-another")
    put_snapshot(kubectl, "clock-restored", now - 8000, uid)
    for number in (1, 2, 3):
        put_snapshot(kubectl, f"clock-{number}", now - 1000 * number, uid)
    stays = {"by-hand", "of-another-job", "clock-restored", "clock-1", "clock-2"}

    def retained() -> bool:
        play_controller(kubectl)
        play_leader(kubectl, uid)
        return "clock-3" not in snapshots(kubectl)

    operator.until(retained)
    assert stays <= set(snapshots(kubectl))

    def taken() -> bool:
        play_controller(kubectl)
        play_leader(kubectl, uid)
        made = [one for name, one in snapshots(kubectl).items() if name.startswith(f"{JOB}-")]
        return bool(made) and made[0].get("status", {}).get("state") == "Completed"

    operator.until(taken)
    (name,) = [n for n in snapshots(kubectl) if n.startswith(f"{JOB}-")]
    operator.until(lambda: condition(kubectl, "SnapshotsTaken") == ("True", "Completed"))
    job = found(kubectl, "streamjob", JOB)
    assert job is not None
    assert job["status"]["snapshots"]["name"] == name
    operator.until(lambda: "clock-2" not in snapshots(kubectl))
    assert stays - {"clock-2"} <= set(snapshots(kubectl))
    assert "Forbidden" not in operator.log.read_text()
