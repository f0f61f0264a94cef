"""The status of a replay, also before its operator reports one: the schema requires a state."""

from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.settings import OperatorFlavour, Replay
from penstock.contract.status import JobState, JobStatus, StepStatus
from penstock.contract.streamjob_status import StreamJobStatus, read_status, status_plain
from penstock_operator.api.observed import Observed, SparkView
from penstock_operator.api.plain import list_at, object_at
from penstock_operator.reconcile.actions import Create
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.status import StatusChange, status_change
from penstock_operator.resources.spark_application import replay_application, replay_name
from tests.unit.operator.observing import running, spec_of, target_for

REPLAY: Plain = {"dataset": "/data/lines", "image": "example/spark:1"}
PUSHED: Plain = {
    "graph": {
        "steps": [
            {"name": "lines", "source": {"ingest": {"partitions": 2, "announce": "/a"}}},
            {"name": "words", "sink": {"discard": {}}},
        ]
    }
}
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


@pytest.mark.parametrize(("state", "again"), [("COMPLETED", False), ("Succeeded", False), ("RUNNING", True)])
def test_rows_of_a_replay_that_was_complete_are_not_sent_again_when_its_object_is_gone(state: str, again: bool) -> None:
    spec = spec_of(replay=REPLAY)
    name = replay_name(target_for(spec))
    seen = replace(running(spec), spark_installed=True, spark=SparkView(name, state))
    status = decide(seen).status
    assert status is not None
    removed = decide(replace(seen, spark=None, job=replace(seen.job, status=status)))
    made = [a.manifest["kind"] for a in removed.actions if isinstance(a, Create)]
    assert ("SparkApplication" in made) is again
    shown = (removed.status or status).spark_application
    assert shown is not None
    assert shown.state == ("Pending" if again else state)


def test_a_replay_asks_for_no_number_of_executors() -> None:
    """A driver is enough, but the Spark operator refuses zero executors."""
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


@pytest.mark.parametrize("flavour", ["kubeflow", "apache"])
def test_a_driver_has_no_token_of_the_api_server_and_a_read_only_root(flavour: str) -> None:
    wanted = replace(REPLAYED, flavour=OperatorFlavour(flavour))
    spec = object_at(replay_application(target_for(spec_of(replay=REPLAY)), wanted), "spec")
    kubeflow = flavour == "kubeflow"
    place = ("driver", "template") if kubeflow else ("driverSpec", "podTemplateSpec")
    pod_spec: Any = object_at(spec, *place, "spec")
    assert pod_spec["automountServiceAccountToken"] is False
    (container,) = pod_spec["containers"]
    assert container["name"] == "spark-kubernetes-driver"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    written = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
    assert written == {"/tmp"}
    folders = [v["emptyDir"] for v in pod_spec["volumes"] if "emptyDir" in v]
    assert folders == [{"sizeLimit": "1Gi"}]


@pytest.mark.parametrize(
    ("job", "folder"),
    [
        (PUSHED, "/a"),
        ({"entrypoint": "jobs:count", "parameters": {"announce": "/data/senders"}}, "/data/senders"),
        ({"entrypoint": "jobs:count"}, f"{pod.CHECKPOINT_FOLDER}/apps/wc/announce"),
    ],
)
def test_a_replay_looks_where_the_workers_announce_themselves(job: Plain, folder: str) -> None:
    application = replay_application(target_for(spec_of(job=job)), REPLAYED)
    arguments = list_at(application, "spec", "arguments")
    assert arguments[arguments.index("--announce") + 1] == folder


def test_a_duration_is_so_many_rows_at_its_rate() -> None:
    wanted = Replay("/data/lines", "example/spark:1", rate=2000, duration_s=90.0)
    arguments = list_at(replay_application(target_for(spec_of()), wanted), "spec", "arguments")
    assert arguments[arguments.index("--rate") + 1] == "2000"
    assert arguments[arguments.index("--rows") + 1] == "180000"


def test_a_duration_without_a_rate_is_refused() -> None:
    with pytest.raises(ConfigError, match="a duration needs a rate"):
        Replay("/data/lines", "example/spark:1", duration_s=90.0)


def test_without_mtls_a_replay_shows_nothing() -> None:
    spec = spec_of(replay=REPLAY, security={"mtls": False})
    application = replay_application(target_for(spec), REPLAYED)
    template: Any = object_at(application, "spec", "driver", "template", "spec")
    assert [v["name"] for v in template["volumes"]] == ["claim", "driver-tmp"]
    assert "--trust" not in list_at(application, "spec", "arguments")


def test_rows_that_the_job_has_taken_are_shown_and_never_fall() -> None:
    spec = spec_of(replay=REPLAY, job=PUSHED)
    name = replay_name(target_for(spec))
    seen = replace(running(spec), spark_installed=True, spark=SparkView(name, "RUNNING"))
    assert shown_rows(seen) == 0
    seen = replace(seen, running=taken(lines=700, words=4000))
    assert shown_rows(seen) == 700
    status = decide(seen).status
    assert status is not None
    later = replace(seen, job=replace(seen.job, status=status), running=taken(lines=20, words=100))
    assert shown_rows(later) == 700, "an attempt that begins anew counts from 0"


def test_rows_alone_are_shown_now_and_then() -> None:
    seen = replace(running(spec_of(replay=REPLAY, job=PUSHED)), spark_installed=True)
    name = replay_name(target_for(spec_of(replay=REPLAY, job=PUSHED)))
    seen = replace(seen, running=taken(lines=700), spark=SparkView(name, "RUNNING"))
    status = decide(seen).status
    assert status is not None
    known = replace(seen, job=replace(seen.job, status=status))
    assert status_change(status, status_in(known)) is StatusChange.NONE
    assert status_change(status, status_in(replace(known, running=taken(lines=900)))) is StatusChange.PROGRESS
    ended = replace(known, spark=SparkView(name, "COMPLETED"))
    assert status_change(status, status_in(ended)) is StatusChange.NEWS


def status_in(seen: Observed) -> StreamJobStatus:
    return decide(seen).status or seen.job.status


def test_of_a_job_in_python_the_first_step_is_the_source() -> None:
    spec = spec_of(replay=REPLAY)
    name = replay_name(target_for(spec))
    seen = replace(running(spec), spark_installed=True, spark=SparkView(name, "RUNNING"))
    assert shown_rows(replace(seen, running=taken(lines=7, words=40))) == 7


def taken(**rows: int) -> JobStatus:
    steps = tuple(StepStatus(name, 1, rows_in=count) for name, count in rows.items())
    return JobStatus("wc", "u", JobState.RUNNING, 0, steps=steps)


def shown_rows(seen: Observed) -> int:
    status = decide(seen).status or seen.job.status  # None: as it was
    assert status.spark_application is not None
    return status.spark_application.rows
