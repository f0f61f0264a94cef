"""Deletions, ending namespaces, counted events and two operators, with a real API server."""

import asyncio
import json
import time
from typing import Any

import kopf
import pytest

from penstock_operator.api.plain import Object
from penstock_operator.cluster.client import Client, access_of, login
from penstock_operator.cluster.perform import Events, PendingEvent
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    found,
    workers,
)

FINALIZER = ["penstock.dev/operator"]


def job(kubectl: Kubectl) -> dict[str, Any]:
    return found(kubectl, "streamjob", JOB) or {}


def finalizers(kubectl: Kubectl) -> list[str]:
    held: list[str] = job(kubectl).get("metadata", {}).get("finalizers", [])
    return held


def messages(kubectl: Kubectl, kind: str) -> str:
    conditions = job(kubectl).get("status", {}).get("conditions", [])
    return next((str(c["message"]) for c in conditions if c["type"] == kind), "")


def begun(kubectl: Kubectl, **spec: Any) -> None:
    """Commit checkpoints in the record, so that a deletion has something to wait for."""
    latest = found(kubectl, "configmap", f"{JOB}-ckpt-latest")
    assert latest is not None
    record = {**json.loads(latest["data"]["record"]), "attempt": 1, "epoch": 3, "max_epoch": 3}
    change = json.dumps({"data": {"record": json.dumps({**record, **spec})}})
    kubectl("patch", "configmap", f"{JOB}-ckpt-latest", "--type=merge", "-p", change)


@pytest.mark.parametrize("policy", ["Savepoint", "Purge"])
def test_a_namespace_ends_whatever_the_policy(start: Start, kubectl: Kubectl, policy: str) -> None:
    operator = start()
    applied(kubectl, deletionPolicy=policy)
    operator.until(lambda: workers(kubectl) == 2)
    operator.until(lambda: finalizers(kubectl) == FINALIZER)
    begun(kubectl)
    snapshot = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamSnapshot",
        "metadata": {"name": "monday"},
        "spec": {"jobRef": JOB, "disposeOnDelete": True},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(snapshot))

    def is_held() -> bool:
        kept = found(kubectl, "streamsnapshot", "monday") or {}
        asked = kept.get("status", {}).get("started")
        return bool(asked) and kept["metadata"].get("finalizers") == FINALIZER

    operator.until(is_held)
    # Delete everything once, as the namespace controller does, which does not run here.
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")
    kubectl("delete", "configmap", f"{JOB}-desired")
    kubectl("delete", "streamjob,streamsnapshot,statefulset", "--all", "--wait=false")
    operator.until(lambda: not job(kubectl))
    operator.until(lambda: found(kubectl, "streamsnapshot", "monday") is None)


def test_a_deletion_names_its_deadline_and_can_be_done_at_once(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl, deletionPolicy="Savepoint", deletionDeadline="1h")
    operator.until(lambda: workers(kubectl) == 2)
    operator.until(lambda: finalizers(kubectl) == FINALIZER)
    begun(kubectl)
    kubectl("delete", "streamjob", JOB, "--wait=false")
    operator.until(lambda: "a last savepoint" in messages(kubectl, "Progressing"))
    text = messages(kubectl, "Progressing")
    assert "deletionDeadline" in text
    command = text[text.index("kubectl patch ") :].split(" -p ")
    arguments = command[0].split()[1:]
    kubectl(*arguments, "-p", command[1].strip("'"))  # as the message says it
    operator.until(lambda: not job(kubectl))


def test_a_repeated_event_is_counted_in_one_object(kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    about: Object = {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "StreamJob",
        "name": JOB,
        "namespace": kubectl.namespace,
        "uid": "1",
    }

    async def tell() -> None:
        client = Client(access_of(login(kopf.OperatorSettings())), lambda *_: None)
        two = (Events(client), Events(client))
        now = time.time_ns() / 1e9
        for number in range(6):  # two at a time, as two operators would
            news = PendingEvent(about, "Refused", "no room", True, now + number)
            await asyncio.gather(*[events.tell(news) for events in two])
        for events in two:
            await events.send()
            assert not events.left
        await client.close()

    asyncio.run(tell())
    (made,) = json.loads(kubectl("get", "events", "-o", "json"))["items"]
    assert made["count"] == 12
    assert made["lastTimestamp"] > made["firstTimestamp"]


def test_of_two_operators_one_leads_and_the_other_says_that_it_stands_by(start: Start, kubectl: Kubectl) -> None:
    first = start()
    applied(kubectl)
    first.until(lambda: workers(kubectl) == 2)
    second = start()
    second.until(lambda: '"listening"' in second.log.read_text())
    second.until(lambda: second.page("/readyz") == (200, "standing by"))
    assert second.page("/leadz") == (503, "standing by")
    assert first.page("/readyz") == first.page("/leadz") == (200, "leading")
    first.end()
    second.until(lambda: second.page("/leadz") == (200, "leading"))
