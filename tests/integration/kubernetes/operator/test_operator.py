"""The operator with a real API server: objects, no diff, refusals, deletion, two operators."""

import asyncio
import base64
import json
from functools import partial

import kopf
import pytest

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.trust import Trust
from penstock.kubernetes.answers import ApiError
from penstock_operator.api.names import ANNOTATION_LINE, authority_name
from penstock_operator.cluster.client import Client, access_of, login
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import Running, Start
from tests.integration.kubernetes.operator.objects import (
    JOB,
    applied,
    claim,
    condition,
    found,
    play_controller,
    stream_job,
    versions,
    workers,
)


def test_a_job_gets_its_objects_with_the_operators_own_rights(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    kinds = {name.split()[0] for name in versions(kubectl)}
    assert kinds == {
        "ConfigMap",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "StatefulSet",
    }
    latest = found(kubectl, "configmap", pod.latest_name(JOB))
    assert latest is not None
    assert "ownerReferences" not in latest["metadata"]
    secret = found(kubectl, "secret", pod.trust_name(JOB))
    assert secret is not None
    assert set(pod.WORKER_FILES) < set(secret["data"])
    keepers = found(kubectl, "secret", pod.control_name(JOB))
    assert keepers is not None
    assert set(keepers["data"]) == set(pod.WORKER_FILES)
    operator.until(lambda: condition(kubectl, "Accepted") == ("True", "Valid"))
    assert condition(kubectl, "Progressing") == ("True", "Deploying")
    assert operator.end() == 0
    assert "Forbidden" not in operator.log.read_text()


def test_another_operator_finds_nothing_to_do(start: Start, kubectl: Kubectl) -> None:
    first = start()
    applied(kubectl)
    first.until(lambda: workers(kubectl) == 2)
    first.until(lambda: condition(kubectl, "Accepted")[0] == "True")
    first.end()
    # The first reconcile applies all objects again; created objects are applied for the first time.
    second = start()
    second.until(lambda: applies(second))
    second.end()
    before = versions(kubectl)
    third = start()
    third.until(lambda: applies(third))
    assert third.end() == 0
    assert versions(kubectl) == before


def applies(operator: Running) -> bool:
    """Say whether it has applied all objects of the job again, by the log."""
    if '"listening"' not in operator.log.read_text():
        return False
    _, page = operator.page("/metrics")
    made = {text for text in page.split("\n") if "api_calls_total{" in text and '"apply"' in text}
    return any('"networkpolicies"' in text for text in made)


def test_a_scale_reaches_set_and_desired_in_this_order(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    kubectl("scale", "streamjob", JOB, "--replicas=3")
    operator.until(lambda: workers(kubectl) == 3)

    def wanted() -> bool:
        desired = found(kubectl, "configmap", pod.desired_name(JOB))
        assert desired is not None
        return bool(json.loads(desired["data"][pod.RECORD])["workers"] == 3)

    operator.until(wanted)


def test_a_lost_secret_is_made_again_by_the_same_authority(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    secrets = {name: trust_in(kubectl, name) for name in pod.secret_names(JOB)}
    for number, name in enumerate(secrets):
        kubectl("delete", "secret", name)
        kubectl("scale", "streamjob", JOB, f"--replicas={3 + number}")
        operator.until(partial(is_mended, kubectl, name, 3 + number))
    for name, before in secrets.items():
        now = trust_in(kubectl, name)
        assert now.overlaps(before), "running workers and joiners can talk to each other"
        assert now.ca == before.ca
        assert now.certificate != before.certificate
    operator.until(lambda: "CertificatesRenewed" in kubectl("get", "events"))
    assert operator.end() == 0
    assert "Forbidden" not in operator.log.read_text()


def test_a_lost_authority_is_followed_by_another_that_is_believed_beside_it(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    name = pod.trust_name(JOB)
    before = trust_in(kubectl, name)
    kubectl("delete", "secret", authority_name(name))
    operator.end()
    again = start()  # an operator reconciles every job after its start
    again.until(lambda: found(kubectl, "secret", authority_name(name)) is not None)
    again.until(lambda: len(trust_in(kubectl, name).authorities()) == 2)
    now = trust_in(kubectl, name)
    assert now.certificate == before.certificate
    assert now.overlaps(before)
    assert workers(kubectl) == 2


def test_workers_start_again_when_nobody_can_sign_what_they_believe(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    name = pod.control_name(JOB)
    before = trust_in(kubectl, name)
    kubectl("delete", "secret", name, authority_name(name))
    kubectl("scale", "streamjob", JOB, "--replicas=3")
    said = ""

    def begun_anew() -> bool:
        nonlocal said
        reason, message = progressing(kubectl)
        said = message if reason == "Restarting" and "were lost" in message else said
        play_controller(kubectl)
        return line_of_set(kubectl) == "2" and workers(kubectl) == 3

    operator.until(begun_anew)
    assert f"{name} and {name}-ca were lost" in said
    assert not trust_in(kubectl, name).overlaps(before)
    operator.until(lambda: "CertificatesLost" in kubectl("get", "events"))


def is_mended(kubectl: Kubectl, name: str, size: int) -> bool:
    return found(kubectl, "secret", name) is not None and workers(kubectl) == size


def trust_in(kubectl: Kubectl, name: str) -> Trust:
    secret = found(kubectl, "secret", name)
    assert secret is not None
    files = (base64.b64decode(secret["data"][key]) for key in pod.WORKER_FILES)
    return Trust(name, *files)


def progressing(kubectl: Kubectl) -> tuple[str, str]:
    job = found(kubectl, "streamjob", JOB)
    assert job is not None
    known = {c["type"]: c for c in job.get("status", {}).get("conditions", [])}
    condition = known.get("Progressing", {})
    return str(condition.get("reason", "")), str(condition.get("message", ""))


def line_of_set(kubectl: Kubectl) -> str:
    made = found(kubectl, "statefulset", pod.workers_name(JOB))
    return "" if made is None else str(made["metadata"]["annotations"][ANNOTATION_LINE])


def test_what_a_spec_leaves_out_is_taken_from_the_workers(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    much = {"requests": {"memory": "900Gi"}}
    applied(kubectl, env=[{"name": "LEVEL", "value": "9"}], resources=much)
    operator.until(lambda: workers(kubectl) == 2)
    assert {"LEVEL", "900Gi"} <= words_of_engine(kubectl)
    kubectl("apply", "-f", "-", stdin=stream_job())

    def begun_anew() -> bool:
        play_controller(kubectl)
        return not {"LEVEL", "900Gi"} & words_of_engine(kubectl)

    operator.until(begun_anew)


@pytest.mark.parametrize(
    ("given", "dropped"),
    [({"dropState": ["counts"]}, ["counts"]), ({"allowNonRestoredState": True}, ["*"])],
)
def test_what_a_restore_gives_up_reaches_the_workers(
    start: Start, kubectl: Kubectl, given: Plain, dropped: list[str]
) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    assert isinstance(given, dict)
    kubectl("apply", "-f", "-", stdin=stream_job(restore={"nonce": "2", **given}))

    def asked() -> bool:
        play_controller(kubectl)
        desired = found(kubectl, "configmap", pod.desired_name(JOB))
        assert desired is not None
        restore = json.loads(desired["data"][pod.RECORD])["restore"] or {}
        return (restore.get("nonce"), restore.get("path")) == ("2", None) and (restore["drop_state"] == dropped)

    operator.until(asked)


def words_of_engine(kubectl: Kubectl) -> set[str]:
    made = found(kubectl, "statefulset", pod.workers_name(JOB))
    assert made is not None
    containers = made["spec"]["template"]["spec"]["containers"]
    return set(json.dumps([c for c in containers if c["name"] == "engine"]).split('"'))


def test_a_stateful_set_is_created_once_even_after_stale_reads(
    kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    manifest: dict[str, Plain] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "once", "namespace": kubectl.namespace},
        "data": {"by": "the first"},
    }

    async def make_twice() -> None:
        client = Client(access_of(login(kopf.OperatorSettings())), lambda *_: None)
        await client.apply_new(manifest)
        with pytest.raises(ApiError) as refused:
            await client.apply_new({**manifest, "data": {"by": "the second"}})
        assert refused.value.conflict
        await client.close()

    asyncio.run(make_twice())
    made = found(kubectl, "configmap", "once")
    assert made is not None
    assert made["data"] == {"by": "the first"}


def test_a_refused_spec_leaves_the_last_good_one_in_force(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl)
    operator.until(lambda: workers(kubectl) == 2)
    restore = {"nonce": "1", "snapshotRef": "nowhere"}
    kubectl("apply", "-f", "-", stdin=stream_job(image="example/penstock:2", restore=restore))
    operator.until(lambda: condition(kubectl, "Accepted") == ("False", "RestoreNotFound"))
    made = found(kubectl, "statefulset", pod.workers_name(JOB))
    assert made is not None
    assert made["spec"]["template"]["spec"]["containers"][0]["image"] == "example/penstock:1"


def test_a_refusal_of_the_server_is_reported_beside_the_status(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    applied(kubectl, podTemplate={"spec": {"restartPolicy": "Sometimes"}})
    operator.until(lambda: any("restartPolicy" in text for text in refusals(kubectl)))
    operator.until(lambda: condition(kubectl, "Progressing") == ("True", "Deploying"))
    kubectl("apply", "-f", "-", stdin=stream_job())
    operator.until(lambda: workers(kubectl) == 2)


def refusals(kubectl: Kubectl) -> list[str]:
    events = json.loads(kubectl("get", "events", "-o", "json"))["items"]
    return [event["message"] for event in events if event["reason"] == "ObjectRefused"]


def test_a_claim_for_one_node_is_refused_and_a_missing_one_named(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    kubectl("apply", "-f", "-", stdin=stream_job())
    operator.until(lambda: condition(kubectl, "Stalled") == ("True", "ClaimMissing"))
    kubectl("apply", "-f", "-", stdin=claim("ReadWriteOnce"))
    operator.until(lambda: condition(kubectl, "Accepted") == ("False", "VolumeNotReadWriteMany"))


def test_a_deletion_waits_only_where_its_policy_asks(start: Start, kubectl: Kubectl) -> None:
    operator = start()
    kubectl("apply", "-f", "-", stdin=claim())
    kubectl("apply", "-f", "-", stdin=stream_job(deletionPolicy="Savepoint"))

    def finalizers() -> list[str]:
        job = found(kubectl, "streamjob", JOB)
        return [] if job is None else job["metadata"].get("finalizers", [])

    operator.until(lambda: finalizers() == ["penstock.dev/operator"])
    kubectl("apply", "-f", "-", stdin=stream_job(deletionPolicy="Retain"))
    operator.until(lambda: finalizers() == [])
    kubectl("delete", "streamjob", JOB, "--wait=false")
    operator.until(lambda: found(kubectl, "streamjob", JOB) is None)
    assert found(kubectl, "configmap", pod.latest_name(JOB)) is not None
