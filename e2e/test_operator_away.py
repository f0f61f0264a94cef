"""The operator is killed during its work, or is away for two minutes: jobs are not affected."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from e2e.rig.reading import PODS, listed
from e2e.rig.release import SYSTEM
from e2e.rig.waiting import wait_for
from e2e.rig.wordcount import WordCount

ABSENCE_S = 120.0
STEP_TIMEOUT_S = 120.0
END_TIMEOUT_S = 240.0
LINES = 120_000


@contextmanager
def no_operator(job: WordCount) -> Iterator[None]:
    system = job.kubectl.in_namespace(SYSTEM)
    system("scale", "deployment/penstock", "--replicas=0")
    try:
        wait_for("no operator", lambda: not operators(job), STEP_TIMEOUT_S)
        yield
    finally:
        system("scale", "deployment/penstock", "--replicas=1")
        system("rollout", "status", "deployment/penstock", "--timeout=120s")


def operators(job: WordCount) -> list[str]:
    """Name the operator's pods."""
    system = job.kubectl.in_namespace(SYSTEM)
    found = listed(system, PODS, labelSelector="app.kubernetes.io/name=penstock-operator")
    return [each["metadata"]["name"] for each in found]


def kill_operator(job: WordCount) -> None:
    system = job.kubectl.in_namespace(SYSTEM)
    for name in operators(job):
        system("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("wordcount", [{"lines": LINES}], indirect=True)
def test_a_job_goes_on_without_its_operator(wordcount: WordCount) -> None:
    wordcount.start(rate=60)
    wordcount.commits(1, STEP_TIMEOUT_S)
    dies_in_the_middle_of_a_rescale(wordcount)
    is_away_for_two_minutes(wordcount)
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


def dies_in_the_middle_of_a_rescale(job: WordCount) -> None:
    for workers in (3, 2):
        before = job.lives()
        job.kubectl("scale", "streamjob", job.name, f"--replicas={workers}")
        kill_operator(job)
        begun = time.monotonic()
        wait_for("workers", partial(job.runs_on, workers), STEP_TIMEOUT_S, job.say)
        print(f"killed in a rescale to {workers}: done {time.monotonic() - begun:.1f} s after")
        after = job.lives()
        stayed = set(before) & set(after)
        assert {name: after[name] for name in stayed} == {name: before[name] for name in stayed}


def is_away_for_two_minutes(job: WordCount) -> None:
    with no_operator(job):
        begun = time.monotonic()
        changed = loses_a_worker_and_its_leader(job)
        print(f"worker and leader lost, commits again: {time.monotonic() - begun:.1f} s")
        job.kubectl("scale", "streamjob", job.name, "--replicas=3")
        threading.Event().wait(max(0.0, ABSENCE_S - (time.monotonic() - begun)))
        assert len(job.workers()) == 2, "nobody has scaled"
        assert job.latest().epoch > changed + 1, "the job has continued"
        back = time.monotonic()
    wait_for("three workers", lambda: job.runs_on(3), STEP_TIMEOUT_S, job.say)
    print(f"operator back: the rescale asked for meanwhile done in {time.monotonic() - back:.1f} s")


def loses_a_worker_and_its_leader(job: WordCount) -> int:
    """Delete both, one after the other. Gives the last epoch before commits continued."""
    leader = job.leader()
    other = next(name for name in job.workers() if name != leader)
    before = job.latest()
    job.kubectl("delete", "pod", other, "--wait=false")
    wait_for(
        "an attempt without the dead worker",
        lambda: job.latest().attempt > before.attempt,
        STEP_TIMEOUT_S,
    )
    job.kubectl("delete", "pod", leader, "--grace-period=0", "--force", "--wait=false")
    wait_for("a new leader", lambda: job.latest().term > before.term, STEP_TIMEOUT_S)
    changed = int(job.latest().epoch)
    wait_for("commits under it", lambda: job.latest().epoch > changed, STEP_TIMEOUT_S)
    return changed
