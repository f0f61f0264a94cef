"""The reason and the message of a stalled job, from the states of its pods and workers."""

import pytest

import penstock as ps
from penstock.base.values import replace
from penstock.contract.control_messages import DOES_NOT_LOAD, RESTARTS_EXHAUSTED
from penstock.contract.ids import Attempt, Incarnation, Ordinal
from penstock.contract.latest import Death, Deaths, Latest, Request
from penstock.contract.plan import PhysicalPlan
from penstock.contract.schema import Plain
from penstock.contract.status import JobState, JobStatus
from penstock.contract.streamjob import Job, Spec, StreamJob
from penstock.contract.streamjob_status import ConditionType, Reason
from penstock.graph import JobFile
from penstock.graph.load import compile_draft
from penstock_operator.api.observed import Observed
from penstock_operator.api.views import pod_view
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.diagnosis import diagnose
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.unit.operator.observing import OWNER, down, running, spec_of, target_for


def reason_of(seen: Observed, latest: Latest | None) -> Reason | None:
    found = diagnose(seen, target_for(spec_of()), latest)
    return None if found is None else found.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{DOES_NOT_LOAD}: job.yaml:5: there is no module 'jobs'", Reason.JOB_INVALID),
        ("worker 1: step counts: division by zero", Reason.JOB_FAILED),
        (f"worker 1: killed: 3 failures within 1m, and {RESTARTS_EXHAUSTED} 2", Reason.CRASH_LOOP),
    ],
)
def test_a_failed_job_is_named_after_who_can_mend_it(text: str, reason: Reason) -> None:
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    assert reason_of(seen, replace(seen.latest.value, failure=text)) is reason
    assert reason_of(seen, seen.latest.value) is None


@pytest.mark.parametrize("past", ["finished", "stopped", "no workers", "another run"])
def test_what_a_leader_said_is_past_when_none_can_lead(past: str) -> None:
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    run = "0-0-of-before" if past == "another run" else seen.latest.value.run
    death = Death(Ordinal(1), Incarnation("e"), Attempt(3), 9, 3, "killed")
    deaths = Deaths(run, 3, 10, 600.0, 3, Attempt(3), (), (death,))
    latest = replace(seen.latest.value, deaths=deaths, finished=past == "finished", stopped=past == "stopped")
    seen = down(seen) if past == "no workers" else seen
    assert diagnose(seen, target_for(spec_of()), latest) is None
    if past != "another run":
        waits = replace(latest, deaths=Deaths(), stalled="attempt 5 waits for worker 1: no space left on device")
        assert diagnose(seen, target_for(spec_of()), waits) is None


@pytest.mark.parametrize(("count", "attempts", "stalls"), [(1, 10, False), (2, 10, False), (3, 10, True), (1, 1, True)])
def test_engines_that_die_again_and_again_stall_the_job_before_it_fails(
    count: int, attempts: int, stalls: bool
) -> None:
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    death = Death(Ordinal(1), Incarnation("e"), Attempt(3), 9, count, "killed\nin flight: x")
    deaths = Deaths(seen.latest.value.run, count, attempts, 600.0, count, Attempt(3), (), (death,))
    found = diagnose(seen, target_for(spec_of()), replace(seen.latest.value, deaths=deaths))
    assert (found is not None) is stalls
    if found is not None:
        assert found.reason is Reason.CRASH_LOOP
        assert f"{count} failures within 10m" in found.message
        assert "in flight: x" in found.message


PULLS: Plain = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
LOOPS: Plain = {"waiting": {"reason": "CrashLoopBackOff"}}
DONE: Plain = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2023-11-14T22:13:00Z"}}
FAILED_ONCE: Plain = {"terminated": {"exitCode": 4, "message": "no route", "finishedAt": "2023-11-14T22:13:00Z"}}


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        (PULLS, Reason.IMAGE_PULL_FAILED, "no such image: correct its image in spec.podTemplate, or imagePullSecrets"),
        (LOOPS, Reason.CRASH_LOOP, "container fetch ended 3 times: no route"),
        (DONE, None, ""),
        ({"waiting": {"reason": "PodInitializing"}}, None, ""),
    ],
)
def test_a_container_that_runs_before_the_workers_is_looked_at_too(
    state: Plain, reason: Reason | None, told: str
) -> None:
    waits: Plain = {"name": "engine", "restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}
    before: Plain = FAILED_ONCE if state in (LOOPS, DONE) else {}
    first: Plain = {"name": "fetch", "restartCount": 3, "state": state, "lastState": before}
    status: Plain = {"phase": "Pending", "containerStatuses": [waits], "initContainerStatuses": [first]}
    seen = running(spec_of())
    pod = pod_view({"metadata": {"name": "wc-worker-0", "uid": "p0"}, "status": status})
    found = diagnose(replace(seen, pods=(pod,)), target_for(spec_of()), None)
    assert (None if found is None else found.reason) is reason
    assert told in ("" if found is None else found.message)


def test_a_changed_graph_that_does_not_fit_shows_the_difference() -> None:
    columns = {"word": "string", "lang": "string"}

    def build(*keys: str) -> PhysicalPlan:
        job = ps.Job()
        rows = job.source("rows", ps.parquet("in"), columns=columns)
        rows.key_by(*keys).aggregate("count", n=ps.count()).sink("out", ps.parquet("out"))
        file = JobFile(StreamJob("wc", Spec(job=Job(entrypoint="a:b"))), {})
        return compile_draft(file, job.draft, None).plan

    town = InMemoryControlPlane(2)
    town.plan = build("word")
    town.until(lambda: town.latest.epoch >= 2)
    town.want(requests=(Request("r1", "stop"),))
    town.until(lambda: town.latest.stopped)
    for ordinal in (0, 1):
        town.kill(ordinal)
    town.plan = build("word", "lang")
    town.want(run="run-2")
    town.start(0)
    town.start(1)
    town.until(lambda: town.latest.failure is not None)
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    failed = replace(seen.latest.value, failure=town.latest.failure)
    decided = decide(replace(seen, latest=replace(seen.latest, value=failed)))
    assert decided.status is not None
    stalled = decided.status.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.status, stalled.reason) == ("True", Reason.RESTORE_FAILED)
    assert "stored keys [word: string]" in stalled.message
    assert "the job has [word: string, lang: string]" in stalled.message
    assert "restore.dropState" in stalled.message


def test_workers_that_cannot_read_what_is_wanted_stall_the_job_with_the_reason() -> None:
    seen = running(spec_of())
    assert seen.latest is not None
    text = "-desired has the format 2, of a newer version"
    told = JobStatus("wc", OWNER.uid, JobState.RUNNING, 1, unread=text)
    found = diagnose(replace(seen, running=told), target_for(spec_of()), seen.latest.value)
    assert found is not None
    assert found.reason is Reason.FORMAT_NEWER
    assert text in found.message
    assert "spec.image" in found.message
