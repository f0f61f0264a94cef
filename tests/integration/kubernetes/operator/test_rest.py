"""A job at rest with a real API server: what the writes of its workers cost the operator."""

import json
import re
import socket
from typing import Any

from penstock.contract import pod
from penstock.contract.ids import Attempt, BlobName, Epoch, JobUid, SwapId, Term, Version
from penstock.contract.latest import Latest, Retained, encode_latest
from penstock.contract.manifest import BlobRef
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Running, Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    condition,
    found,
    play_controller,
    workers,
)
from tests.integration.kubernetes.operator.test_autoscaling import (
    desired,
    job,
    play_pods,
    put,
)

COMMITS = 12
SAMPLE = re.compile(r'^penstock_operator_api_calls_total\{.*resource="(\w+)",verb="(\w+)"\} (\S+)$', re.MULTILINE)


def commit(kubectl: Kubectl, uid: str, epoch: int) -> None:
    """Commit an epoch as the leader of a settled job does."""
    root = BlobRef(BlobName(f"{epoch}.root"), "", 1)
    latest = Latest(
        JobUid(uid),
        SwapId(f"s{epoch}"),
        term=Term(1),
        attempt=Attempt(1),
        version=Version(1),
        settled=Version(1),
        workers=2,
        epoch=Epoch(epoch),
        max_epoch=Epoch(epoch),
        root=root,
        retained=(Retained(Epoch(epoch), root),),
        run=desired(kubectl)["run"],
    )
    put(kubectl, pod.latest_name(JOB), encode_latest(latest))


def renew(kubectl: Kubectl, number: int) -> None:
    """Renew the workers' Lease."""
    spec = {"holderIdentity": "worker-0", "renewTime": f"2026-11-23T10:00:{number:02}.000000Z"}
    change = json.dumps({"spec": spec})
    kubectl("patch", "lease", pod.lease_name(JOB), "--type=merge", "-p", change)


def calls(operator: Running) -> dict[tuple[str, str], float]:
    """Count calls by resource and verb, without those about the operator's Lease."""
    _, page = operator.page("/metrics")
    counted = {(what, verb): float(n) for what, verb, n in SAMPLE.findall(page)}
    return {key: n for key, n in counted.items() if key[0] != "leases" and key[1] != "watch"}


def test_commits_and_renewals_of_a_job_at_rest_cost_one_call_at_most(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    uid = job(kubectl)["metadata"]["uid"]
    play_pods(kubectl, uid, 2)
    epochs = iter(range(1, 10_000))

    def rests() -> bool:
        play_controller(kubectl)
        commit(kubectl, uid, next(epochs))
        ready = condition(kubectl, "Ready") == ("True", "Running")
        stable = (found(kubectl, "streamjob", JOB) or {}).get("status", {}).get("lastStable")
        return ready and stable is not None

    operator.until(rests)
    before: dict[tuple[str, str], float] = {}

    def quiet() -> bool:
        nonlocal before
        last, before = before, calls(operator)
        return last == before

    for _ in range(3):  # the first apply of all objects may still be due
        operator.until(quiet)
    for number in range(COMMITS):
        commit(kubectl, uid, next(epochs))
        renew(kubectl, number)
    made = {key: n - before.get(key, 0.0) for key, n in calls(operator).items()}
    assert {key: n for key, n in made.items() if n} in ({}, {("streamjobs", "status"): 1.0})
    retained = job(kubectl)["status"]["checkpoint"]["retained"]
    assert retained
    listed: list[dict[str, Any]] = json.loads(kubectl("get", "configmaps", "-o", "json"))["items"]
    assert not [o for o in listed if "-ckpt-epoch-" in o["metadata"]["name"]]


def test_the_health_page_shows_what_is_due_known_and_stuck(start: Start, kubectl: Kubectl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    operator = start("", PENSTOCK_PROBE_PORT=str(port))
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    status, text = operator.page("/healthz", port)
    assert status == 200
    told = json.loads(text)
    assert told["stuck"] == ""
    assert told["objects"]["StreamJob"] == 1
    assert operator.end() == 0
    assert "Traceback" not in operator.log.read_text()
