"""Failures between the operator and the API server are reported in words within seconds."""

import json

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import decode, encode
from penstock.contract.latest import Latest
from penstock.contract.schema import Plain
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    condition,
    found,
    is_told,
    message_of,
    play_controller,
    stream_job,
    until_told,
    workers,
)

NO_ACCOUNT = (
    f"create Pod {JOB}-worker-0 in StatefulSet {JOB}-worker failed error: pods "
    f'"{JOB}-worker-0" is forbidden: error looking up service account x/later: '
    'serviceaccount "later" not found'
)


REFUSED: dict[str, tuple[dict[str, Plain], str]] = {
    # A value of a wrong type in a pod template makes the server answer with an internal error.
    "with 500": (
        {"spec": {"containers": [{"name": "engine", "ports": [{"containerPort": "many"}]}]}},
        "500",
    ),
    "with 422": ({"spec": {"restartPolicy": "Sometimes"}}, "restartPolicy"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_template_that_the_server_answers(name: str, start: Start, kubectl: Kubectl) -> None:
    operator = start()
    template, words = REFUSED[name]
    applied(kubectl, podTemplate=template)
    until_told(operator, lambda: is_told(kubectl, "ObjectRefused", words))
    assert f"StatefulSet {pod.workers_name(JOB)}" in message_of(kubectl, "Stalled")
    assert "ObjectRefused" in kubectl("get", "sj", JOB)
    kubectl("apply", "-f", "-", stdin=stream_job())
    operator.until(lambda: workers(kubectl) == 2)
    operator.until(lambda: condition(kubectl, "Stalled")[0] == "False")


def test_a_refusal_ends_with_the_spec_that_was_refused(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    spark = {"dataset": "/data", "image": "example/spark:1"}
    template = {"spec": {"restartPolicy": "Sometimes"}}
    kubectl("apply", "-f", "-", stdin=stream_job(podTemplate=template, replay=spark))

    def refused() -> bool:
        play_controller(kubectl)
        return is_told(kubectl, "ObjectRefused", "restartPolicy")

    operator.until(refused)
    kubectl("apply", "-f", "-", stdin=stream_job())
    operator.until(lambda: condition(kubectl, "Stalled")[0] == "False")


def play_refused_pods(kubectl: Kubectl, text: str) -> None:
    """Act as the StatefulSet's controller when its pods are refused."""
    made = found(kubectl, "statefulset", pod.workers_name(JOB))
    assert made is not None
    name = made["metadata"]["name"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.refused"},
        "involvedObject": {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "name": name,
            "namespace": kubectl.namespace,
            "uid": made["metadata"]["uid"],
        },
        "reason": "FailedCreate",
        "message": text,
        "type": "Warning",
        "source": {"component": "statefulset-controller"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))


def test_an_absent_service_account_is_told(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl, serviceAccountName="later")
    operator.until(lambda: workers(kubectl) == 2)
    play_controller(kubectl)
    operator.until(lambda: condition(kubectl, "Progressing") == ("True", "Deploying"))
    play_refused_pods(kubectl, NO_ACCOUNT)
    until_told(operator, lambda: is_told(kubectl, "ServiceAccountMissing", '"later" not found'))
    assert "ServiceAccountMissing" in kubectl("get", "sj", JOB)


def finish(kubectl: Kubectl) -> None:
    """Act as a leader at the end of all input."""
    kept = found(kubectl, "configmap", pod.latest_name(JOB))
    assert kept is not None
    latest = replace(decode(Latest, kept["data"][pod.RECORD].encode()), finished=True)
    change = {"data": {pod.RECORD: encode(latest).decode()}}
    kubectl(
        "patch", "configmap", pod.latest_name(JOB), "--type=merge", "-p", json.dumps(change)
    )  # fmt: skip


def test_waiting_requests_end_when_the_job_has_finished(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    finish(kubectl)

    def has_ended() -> bool:
        play_controller(kubectl)
        job = found(kubectl, "streamjob", JOB) or {}
        return bool(job["status"]["state"] == "Finished")

    operator.until(has_ended)
    for wanted in ("condition=Complete", "condition=Ready", "jsonpath={.status.state}=Finished"):
        kubectl("wait", f"--for={wanted}", f"streamjob/{JOB}", "--timeout=10s")
