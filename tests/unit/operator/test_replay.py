"""What the status says of a replay before its operator says anything: the schema wants a word."""

from dataclasses import replace
from typing import Any

from penstock.contract import pod
from penstock.contract.fields import Plain
from penstock.contract.streamjob import Replay
from penstock.contract.streamjob_status_fields import read_status, status_plain
from penstock_operator.api.observed import SparkView
from penstock_operator.api.plain import list_at, object_at
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.decision import Create
from penstock_operator.reconcile.replay import replay_name
from penstock_operator.resources.replay import replay_application
from tests.unit.operator.observing import running, spec_of, target_for

REPLAY: Plain = {"dataset": "/data/lines", "image": "example/spark:1"}
REPLAYED = Replay(dataset="/data/lines", image="example/spark:1")


def test_a_replay_that_nobody_has_looked_at_is_pending() -> None:
    spec = spec_of(replay=REPLAY)
    seen = replace(running(spec), spark_installed=True)
    name = replay_name(target_for(spec))
    for spark, state in (
        (None, "Pending"),
        (SparkView(name, ""), "Pending"),
        (SparkView(name, "RUNNING"), "RUNNING"),
    ):
        status = decide(replace(seen, spark=spark)).status
        assert status is not None
        assert status.spark_application is not None
        assert status.spark_application.state == state
        assert read_status(status_plain(status)) == status


def test_a_replay_asks_for_no_number_of_executors() -> None:
    """A driver alone does it; the operator of SparkApplications refuses the number 0."""
    spec = spec_of(replay=REPLAY)
    seen = replace(running(spec), spark_installed=True)
    made = [a.manifest for a in decide(seen).actions if isinstance(a, Create)]
    application = next(m for m in made if m["kind"] == "SparkApplication")
    assert "instances" not in object_at(application, "spec", "executor")
    assert object_at(application, "spec", "driver")["kubernetesMaster"] == "local[2]"


def test_a_replay_shows_a_sender_certificate_and_gets_no_key_of_a_worker() -> None:
    spec = spec_of(replay=REPLAY)
    application = replay_application(target_for(spec), REPLAYED)
    template: Any = object_at(application, "spec", "driver", "template", "spec")
    mounts = {m["name"]: m["mountPath"] for m in template["containers"][0]["volumeMounts"]}
    tls = next(v["secret"] for v in template["volumes"] if v["name"] == "tls")
    assert mounts["tls"] == pod.TRUST_FOLDER
    assert {item["key"]: item["path"] for item in tls["items"]} == {
        pod.CA_KEY: pod.CA_KEY,
        pod.SENDER_CERTIFICATE_KEY: pod.CERTIFICATE_KEY,
        pod.SENDER_PRIVATE_KEY: pod.PRIVATE_KEY,
    }
    arguments = list_at(application, "spec", "arguments")
    assert arguments[arguments.index("--trust") + 1] == pod.TRUST_FOLDER


def test_without_mtls_a_replay_shows_nothing() -> None:
    spec = spec_of(replay=REPLAY, security={"mtls": False})
    application = replay_application(target_for(spec), REPLAYED)
    template: Any = object_at(application, "spec", "driver", "template", "spec")
    assert [v["name"] for v in template["volumes"]] == ["claim"]
    assert "--trust" not in list_at(application, "spec", "arguments")
