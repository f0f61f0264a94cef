"""The operator killed in the middle of its work, and absent for two minutes: jobs do not notice."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from e2e.conftest import SYSTEM
from e2e.rig.reading import PODS, listed
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [LINES], indirect=True)
def test_the_operator_dies_in_the_middle_of_a_rescale(wordcount: WordCount) -> None:
    wordcount.start(rate=60)
    wordcount.commits(1, STEP_TIMEOUT_S)
    for workers in (3, 2):
        before = wordcount.lives()
        wordcount.kubectl("scale", "streamjob", wordcount.name, f"--replicas={workers}")
        kill_operator(wordcount)
        begun = time.monotonic()
        wait_for("workers", partial(wordcount.runs_on, workers), STEP_TIMEOUT_S, wordcount.say)
        print(f"killed in a rescale to {workers}: done {time.monotonic() - begun:.1f} s after")
        after = wordcount.lives()
        stayed = set(before) & set(after)
        assert {name: after[name] for name in stayed} == {name: before[name] for name in stayed}
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("wordcount", [LINES], indirect=True)
def test_two_minutes_without_an_operator(wordcount: WordCount) -> None:
    wordcount.start(rate=60)
    wordcount.commits(1, STEP_TIMEOUT_S)
    leader = wordcount.leader()
    other = next(name for name in wordcount.workers() if name != leader)
    with no_operator(wordcount):
        begun = time.monotonic()
        before = wordcount.latest()
        wordcount.kubectl("delete", "pod", other, "--wait=false")
        wait_for(
            "an attempt without the dead worker",
            lambda: wordcount.latest().attempt > before.attempt,
            STEP_TIMEOUT_S,
        )
        wordcount.kubectl("delete", "pod", leader, "--grace-period=0", "--force", "--wait=false")
        wait_for("a new leader", lambda: wordcount.latest().term > before.term, STEP_TIMEOUT_S)
        changed = wordcount.latest().epoch
        wait_for("commits under it", lambda: wordcount.latest().epoch > changed, STEP_TIMEOUT_S)
        print(f"worker and leader lost, commits again: {time.monotonic() - begun:.1f} s")
        wordcount.kubectl("scale", "streamjob", wordcount.name, "--replicas=3")
        threading.Event().wait(max(0.0, ABSENCE_S - (time.monotonic() - begun)))
        assert len(wordcount.workers()) == 2, "nobody has scaled"
        assert wordcount.latest().epoch > changed + 1, "and the job has gone on"
        back = time.monotonic()
    wait_for("three workers", lambda: wordcount.runs_on(3), STEP_TIMEOUT_S, wordcount.say)
    print(f"operator back: the rescale asked for meanwhile done in {time.monotonic() - back:.1f} s")
    wordcount.finish(END_TIMEOUT_S)
    wordcount.check_exact()
