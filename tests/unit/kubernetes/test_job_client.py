"""The commands' way to a job in a cluster; the operator is played by hand."""

import threading
import time
from typing import Any

import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.contract.codec import encode
from penstock.contract.schemes import SchemeChoice
from penstock.contract.status import JobState, JobStatus, StepStatus, WorkerStatus
from penstock.kubernetes.client import ApiClient
from penstock.kubernetes.job_client import ClusterJobClient
from penstock.kubernetes.logs import read_logs, streams_of
from tests.unit.kubernetes.small_api import SmallApi

OURS = "/apis/penstock.dev/v1alpha1/namespaces/here"
JOB = f"{OURS}/streamjobs/words"
MAP = "/api/v1/namespaces/here/configmaps/words-status"


@pytest.fixture
def job(client: ApiClient) -> ClusterJobClient:
    return ClusterJobClient(client, "words")


def stream_job(server: SmallApi, state: str, workers: int = 2, **status: Any) -> None:
    server.put(
        JOB,
        {
            "metadata": {"name": "words", "uid": "uid-1", "generation": 1},
            "spec": {"replicas": workers},
            "status": {
                "observedGeneration": 1,
                "state": state,
                "assignment": {"version": 3, "workers": workers},
                **status,
            },
        },
    )


def tell(server: SmallApi, uid: str = "uid-1") -> None:
    said = JobStatus("words", uid, JobState.STARTING, 5, wanted_workers=1, steps=(StepStatus("counts", 2, 7),))
    server.put(MAP, {"metadata": {"name": "words-status"}, "data": {"record": _text(said)}})


def _text(status: JobStatus) -> str:
    return encode(status).decode()


def test_the_operator_says_the_state_and_the_leader_the_details(server: SmallApi, job: ClusterJobClient) -> None:
    stream_job(server, "Running")
    tell(server)
    status = job.status()
    assert (status.state, status.wanted_workers) == (JobState.RUNNING, 2)
    assert status.steps[0].rows_in == 7


def test_old_words_of_a_leader_are_called_old_and_an_ended_job_has_no_workers(
    server: SmallApi, job: ClusterJobClient
) -> None:
    workers = (WorkerStatus(0, "up", 7, 8),)

    def told(state: str, time_us: int) -> JobStatus:
        stream_job(server, state)
        said = JobStatus("words", "uid-1", JobState.RUNNING, time_us, workers=workers)
        server.put(MAP, {"metadata": {"name": "words-status"}, "data": {"record": _text(said)}})
        return job.status()

    now_us = time.time_ns() // 1000
    assert told("Running", now_us).failure is None
    assert told("Running", now_us).workers == workers
    old = told("Restarting", now_us - 3_600_000_000)
    assert old.failure is not None
    assert old.failure.startswith("the leader has told nothing for 1h")
    ended = told("Suspended", now_us - 3_600_000_000)
    assert (ended.failure, ended.workers) == (None, ())


def test_details_of_a_former_job_of_that_name_are_not_shown(server: SmallApi, job: ClusterJobClient) -> None:
    stream_job(server, "Pending")
    tell(server, uid="uid-0")
    status = job.status()
    assert (status.uid, status.steps, status.state) == ("uid-1", (), JobState.PENDING)


def test_what_a_person_must_mend_is_shown(server: SmallApi, job: ClusterJobClient) -> None:
    stalled = {
        "type": "Stalled",
        "status": "True",
        "reason": "ImagePullFailed",
        "message": "no such image",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    stream_job(server, "Starting", conditions=[stalled])
    assert job.status().failure == "ImagePullFailed: no such image"


def test_a_job_that_is_not_there_is_named_with_its_namespace(job: ClusterJobClient) -> None:
    with pytest.raises(ConfigError, match="no StreamJob 'words' in namespace 'here'"):
        job.status()


def test_a_rescale_is_done_when_the_job_runs_on_them(server: SmallApi, job: ClusterJobClient) -> None:
    stream_job(server, "Running", workers=3)
    server.put(f"{JOB}/scale", {"metadata": {"name": "words"}})
    answer = job.rescale(3)
    assert (answer.ok, answer.text) == (True, "runs on 3 workers")
    assert server.objects[f"{JOB}/scale"]["spec"] == {"replicas": 3}


def test_a_rescale_that_another_overtook_says_so(server: SmallApi, job: ClusterJobClient) -> None:
    stream_job(server, "Running", workers=4)
    server.put(f"{JOB}/scale", {"metadata": {"name": "words"}})
    answer = job.rescale(3)
    assert (answer.ok, answer.text) == (False, "overtaken by a request for 4 workers")


def test_a_rescale_of_a_job_that_scales_itself_is_refused_and_not_awaited(
    server: SmallApi, job: ClusterJobClient
) -> None:
    chosen = {"replicas": 2, "time": "2026-01-01T00:00:00Z"}
    stream_job(server, "Running", workers=2, desiredReplicas=2, autoscaling=chosen)
    server.put(f"{JOB}/scale", {"metadata": {"name": "words"}})
    server.objects[JOB]["spec"]["replicas"] = 3
    answer = job.rescale(3)
    assert (answer.ok, answer.text) == (
        False,
        "spec.autoscaling chooses the number of workers, 2 now; spec.replicas is only what it begins with",
    )
    assert job.status().wanted_workers == 2


def test_a_number_that_the_operator_does_not_want_is_not_awaited(server: SmallApi, job: ClusterJobClient) -> None:
    refused = condition("Accepted", "False", "SpecInvalid", "spec.image is missing")
    stream_job(server, "Running", workers=2, desiredReplicas=2, conditions=[refused])
    server.put(f"{JOB}/scale", {"metadata": {"name": "words"}})
    server.objects[JOB]["spec"]["replicas"] = 3
    answer = job.rescale(3)
    assert (answer.ok, answer.text) == (False, "SpecInvalid: spec.image is missing")


def condition(kind: str, truth: str, reason: str, message: str) -> dict[str, object]:
    return {
        "type": kind,
        "status": truth,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("truth", "ok", "text"), [("True", True, "rows go to work by hot"), ("False", False, "no such scheme")]
)
def test_a_scheme_is_a_field_of_the_spec_and_the_condition_answers(
    server: SmallApi, job: ClusterJobClient, truth: str, ok: bool, text: str
) -> None:
    stream_job(server, "Running", conditions=[condition("Partitioned", truth, "SchemesHold", "no such scheme")])
    server.objects[JOB]["spec"]["partition"] = [{"step": "other", "use": "one"}, {"step": "work", "use": "even"}]
    answer = job.partition((SchemeChoice("work", "hot"),))
    assert (answer.ok, answer.text) == (ok, text)
    asked = [{"step": "other", "use": "one"}, {"step": "work", "use": "hot"}]
    assert server.objects[JOB]["spec"]["partition"] == asked


def test_a_request_to_balance_counts_a_field_of_the_spec_up_and_the_condition_answers(
    server: SmallApi, job: ClusterJobClient
) -> None:
    stream_job(server, "Running", conditions=[condition("Balanced", "True", "NothingMoved", "no key group moved")])
    for nonce in (1, 2):
        answer = job.rebalance()
        assert (answer.ok, answer.text) == (True, "no key group moved")
        assert server.objects[JOB]["spec"]["rebalanceNonce"] == nonce


def test_a_refusal_of_the_server_is_its_own_words(server: SmallApi, job: ClusterJobClient) -> None:
    stream_job(server, "Running")
    server.put(f"{JOB}/scale", {"metadata": {"name": "words"}})
    server.accidents = ["refused"]
    with pytest.raises(StorageError, match="403 refused"):
        job.rescale(3)


def test_a_savepoint_is_an_object_whose_end_is_awaited(server: SmallApi, job: ClusterJobClient) -> None:
    path = f"{OURS}/streamsnapshots/before-upgrade"
    done = threading.Thread(target=_complete, args=(server, path))
    done.start()
    answer = job.savepoint("before-upgrade")
    done.join()
    assert (answer.ok, answer.text) == (True, "/checkpoints/s")
    assert server.objects[path]["spec"] == {"jobRef": "words", "type": "Savepoint"}


def _complete(server: SmallApi, path: str) -> None:
    pause = threading.Event()
    while path not in server.objects:
        pause.wait(0.01)
    with server.lock:
        found = server.objects[path]
        status = {"state": "Completed", "path": "/checkpoints/s", "observedGeneration": 1}
        server.put(path, {**found, "status": status})


def test_a_savepoint_that_was_taken_before_is_not_taken_for_a_new_one(server: SmallApi, job: ClusterJobClient) -> None:
    path = f"{OURS}/streamsnapshots/before-upgrade"
    status = {"state": "Completed", "path": "/checkpoints/s", "completed": "2026-01-01T00:00:00Z"}
    server.put(path, {"metadata": {"name": "before-upgrade"}, "spec": {"jobRef": "words"}, "status": status})
    answer = job.savepoint("before-upgrade")
    assert answer.ok is False
    assert answer.text == (
        "StreamSnapshot 'before-upgrade' is there already, Completed on 2026-01-01T00:00:00Z: /checkpoints/s; give"
        " another name for a new one"
    )


def test_a_savepoint_of_that_name_of_another_job_is_not_taken_for_ours(server: SmallApi, job: ClusterJobClient) -> None:
    path = f"{OURS}/streamsnapshots/before-upgrade"
    server.put(path, {"metadata": {"name": "before-upgrade"}, "spec": {"jobRef": "others"}})
    with pytest.raises(ConfigError, match="of another job"):
        job.savepoint("before-upgrade")


def test_logs_come_by_pod_and_container(server: SmallApi, client: ApiClient) -> None:
    pods = "/api/v1/namespaces/here/pods"
    names = ["words-worker-1", "words-worker-0", "words-worker-10", "words-worker-2", "words-purge-0123abcd-x7k2p"]
    server.objects[pods] = {"items": [{"metadata": {"name": n}} for n in names]}
    server.objects[f"{pods}/words-worker-1/log"] = {"line": 1}
    streams = streams_of(client, "words", 1)
    assert [(s.pod, s.container) for s in streams] == [
        ("words-worker-1", "keeper"),
        ("words-worker-1", "engine"),
    ]
    workers = [s.pod for s in streams_of(client, "words", None) if s.container == "keeper"]
    assert workers == [f"words-worker-{ordinal}" for ordinal in (0, 1, 2, 10)], "other pods have no such containers"
    found = [(s.container, line) for s, line in read_logs(client, streams, 10, follow=False)]
    assert found == [("keeper", '{"line": 1}'), ("engine", '{"line": 1}')]
    followed = {(s.container, line) for s, line in read_logs(client, streams, 10, follow=True)}
    assert followed == set(found)
    with pytest.raises(ConfigError, match="no pod of worker 7"):
        streams_of(client, "words", 7)
