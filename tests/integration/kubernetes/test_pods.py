"""Workers as they run in pods, against a real API server: exact through kills, drains, outages."""

import json
import signal
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.contract import pod
from penstock.contract.latest import Desired, Restore
from penstock.contract.status import JobState
from penstock.contract.trust import Trust
from penstock.contract.worker_rules import to_replace
from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.pods import Job
from tests.integration.local_job import (
    EXAMPLE,
    Folders,
    check_exact,
    make_lines,
    wait_until,
)
from tests.support.certificates import also_believing, authority, trust
from tests.support.tcp_proxy import Link, TcpProxy

pytestmark = pytest.mark.usefixtures("fresh_processes")
WITHIN_S = 120.0
Start = Callable[..., Job]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return make_lines(tmp_path, files=4, lines=5_000)


@pytest.fixture
def start(api_server: ApiServer, kubectl: Kubectl) -> Iterator[Start]:
    """Give a function that starts the word count in pods; paths of sockets have 108 bytes."""
    jobs: list[Job] = []
    with tempfile.TemporaryDirectory(prefix="pods-") as root:

        def make(folders: Folders, rate: int, workers: int = 2, port: int = api_server.port) -> Job:
            job = Job(api_server, kubectl, Path(root), word_count(folders, rate), port)
            jobs.append(job)
            job.want(Desired(workers, run="run-1"))
            for ordinal in range(workers):
                job.start(ordinal)
            return job

        yield make
        for job in jobs:
            job.end()


def word_count(folders: Folders, rate: int) -> dict[str, Any]:
    plain: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    plain["metadata"]["name"] = "words"
    plain["spec"]["checkpoint"] = {"interval": "1s"}
    plain["spec"]["job"]["parameters"] = {
        "input": str(folders.input),
        "output": str(folders.output),
        "rate": str(rate),
    }
    return plain


def until(job: Job, reached: Callable[[], bool]) -> None:
    wait_until(reached, WITHIN_S, lambda: f"{job.latest()}\n{job.status()}\n{job.log()[-6000:]}")


def page(job: Job, ordinal: int, path: str) -> str:
    address = f"http://{job.address(ordinal)}:{pod.HTTP_PORT}{path}"
    with urllib.request.urlopen(address, timeout=20) as reply:
        return str(reply.read().decode())


def test_a_job_in_pods_is_exact_through_a_lost_node_and_a_drained_pod(start: Start, folders: Folders) -> None:
    job = start(folders, rate=250)
    until(job, lambda: job.latest().epoch >= 2)
    assert page(job, 0, pod.READY_PATH) == "ok\n"
    assert 'penstock_engine_up{job="words",worker="1"} 1.0' in page(job, 1, pod.METRICS_PATH)

    # A node is lost together with the leader. Nobody reports that its pod is gone.
    lost = job.pods[leader_of(job)]
    survivor = job.pods[1 - lost.ordinal]
    lost.kill()
    until(job, lambda: job.latest().term >= 2 and bool(due(job)))
    assert due(job) == [lost.uid]
    job.start(lost.ordinal)
    epoch = job.latest().epoch
    until(job, lambda: job.latest().epoch > epoch and job.latest().lost == ())
    assert survivor.containers[pod.KEEPER_CONTAINER].poll() is None

    # A pod is drained: its keeper takes part in one more checkpoint, and both containers end.
    drained = job.pods[1]
    epoch = job.latest().epoch
    drained.signal(signal.SIGTERM)
    assert drained.end(WITHIN_S) == {"keeper": 0, "engine": 0}
    assert job.latest().epoch > epoch
    job.start(1)
    until(job, lambda: job.latest().finished)
    check_exact(folders)
    assert said(job)["state"] == JobState.FINISHED


def test_a_job_whose_connections_to_the_api_server_fail_is_exact(
    start: Start, folders: Folders, api_server: ApiServer, tmp_path: Path
) -> None:
    def everything(_: Link) -> bool:
        return True

    proxy = TcpProxy(tmp_path / "proxy")
    faults: list[Callable[[], int]] = [
        lambda: proxy.cut(everything),
        lambda: proxy.cut(everything, reset=True),
        lambda: proxy.hold(everything),
    ]
    job = start(folders, rate=200, port=proxy.front(api_server.port))
    until(job, lambda: job.latest().epoch >= 2)
    for fault in faults:
        assert fault() > 0
        epoch = job.latest().epoch
        until(job, lambda epoch=epoch: job.latest().epoch >= epoch + 2)  # type: ignore[misc]
    until(job, lambda: job.latest().finished)
    check_exact(folders)
    proxy.close()


def test_a_changed_job_in_pods_goes_on_and_its_output_is_exact(start: Start, folders: Folders) -> None:
    job = start(folders, rate=250)
    until(job, lambda: job.latest().epoch >= 2)
    steps = job.plain["spec"]["job"]["graph"]["steps"]
    copy = str(folders.output.parent / "copy")

    # Another spec, as the operator rolls it out: the old pods end, then new ones come.
    end_pods(job)
    steps[1]["name"] = "splitting"
    steps[2]["name"] = "tally"
    steps.append({"name": "copy", "inputs": ["tally"], "sink": {"parquet": {"path": copy}}})
    roll_out(job, "run-2", None)
    until(job, lambda: job.latest().failure is not None)
    assert "restore.dropState: [counts]" in (job.latest().failure or "")

    end_pods(job)
    steps[2].update(name="counts", parallelism=3)
    steps[-1]["inputs"] = ["counts"]
    roll_out(job, "run-3", None)
    until(job, lambda: job.latest().finished)
    check_exact(folders)

    # What is finished begins again with a restore, without the state that it gives up.
    steps[2]["name"] = "tally"
    steps[-1]["inputs"] = ["tally"]
    end_pods(job)
    epoch = job.latest().epoch
    roll_out(job, "run-4", Restore("2", drop_state=("counts",)))
    until(job, lambda: job.latest().epoch > epoch and job.latest().finished)
    assert job.latest().failure is None
    check_exact(folders)


def end_pods(job: Job) -> None:
    for made in job.pods.values():
        made.signal(signal.SIGTERM)
    for made in job.pods.values():
        made.end(WITHIN_S)


def roll_out(job: Job, run: str, restore: Restore | None) -> None:
    job.want(Desired(2, run=run, restore=restore))
    for ordinal in (0, 1):
        job.start(ordinal)


def leader_of(job: Job) -> int:
    leader = job.latest().leader
    assert leader is not None
    return leader.ordinal


def due(job: Job) -> list[str]:
    latest = job.latest()
    return [seen.uid for seen in to_replace(latest, job.status(), job.pods_seen())]


def said(job: Job) -> dict[str, Any]:
    status = job.status()
    assert status is not None
    return {"state": status.state, "failure": status.failure}


def test_a_pod_with_another_jobs_certificate_joins_nothing(start: Start, folders: Folders) -> None:
    job = start(folders, rate=100, workers=1)
    until(job, lambda: job.latest().epoch >= 1)
    stranger = trust(pod.certificate_host("words", job.kubectl.namespace), authority("others"))
    job.start(1, shown=stranger)
    job.want(Desired(2, run="run-1"))
    epoch = job.latest().epoch
    until(job, lambda: job.latest().epoch >= epoch + 3)
    assert job.latest().workers == 1, "its heartbeats do not get through"
    job.pods[1].kill()
    job.start(1)
    until(job, lambda: job.latest().workers == 2)


def test_workers_take_renewed_certificates_and_a_joiner_of_the_new_authority_connects(
    start: Start, folders: Folders
) -> None:
    job = start(folders, rate=20)  # more than four minutes: it does not end before the joiner is there
    until(job, lambda: job.latest().epoch >= 2)
    attempt = job.latest().attempt
    host = pod.certificate_host("words", job.kubectl.namespace)
    old, new = authority(), authority("renewed")

    def renew(shown: Trust, times: int) -> None:
        for ordinal in (0, 1):
            job.renew(ordinal, shown)
        renewed = "certificates renewed", "certificates_renewed"  # by the keepers and by the engines
        until(job, lambda: all(job.log().count(words) == 2 * times for words in renewed))

    # The operator has the same order: first every pod trusts the new authority, then it signs their certificates.
    renew(also_believing(trust(host), new), 1)
    renew(also_believing(trust(host, new), old), 2)

    # It knows nothing of the old authority, whose certificates the others showed until now.
    job.start(2, shown=trust(host, new))
    job.want(Desired(3, run="run-1"))
    until(job, lambda: job.latest().workers == 3 and job.latest().settled == job.latest().version)
    assert job.latest().attempt == attempt, f"an engine or the attempt was restarted\n{job.log()[-20_000:]}"

    end_pods(job)
    job.plain["spec"]["job"]["parameters"]["rate"] = "0"
    job.want(Desired(3, run="run-2"))
    for ordinal in (0, 1, 2):
        job.start(ordinal, shown=trust(host, new))
    until(job, lambda: job.latest().finished)
    check_exact(folders)


def test_a_job_that_does_not_load_says_why_and_restarts_nothing(start: Start, folders: Folders) -> None:
    (folders.input / "part-0.parquet").write_bytes(b"no Parquet at all")
    for file in folders.input.glob("*.parquet"):
        file.unlink()
    job = start(folders, rate=0, workers=1)
    until(job, lambda: job.latest().failure is not None)
    assert str(folders.input) in (job.latest().failure or "")
    keeper = job.pods[0].containers[pod.KEEPER_CONTAINER]
    assert keeper.poll() is None


def test_a_claim_that_cannot_be_written_to_ends_the_keeper_with_its_reason(
    start: Start, folders: Folders, api_server: ApiServer, kubectl: Kubectl
) -> None:
    job = start(folders, rate=0, workers=0)
    made = job._root / "claim"
    made.write_text("a file where a folder should be")
    broken = job.start(0)
    assert broken.containers[pod.KEEPER_CONTAINER].wait(WITHIN_S) == 3
    assert broken.termination()["reason"] == pod.VOLUME_UNUSABLE
    json.dumps(broken.termination())
