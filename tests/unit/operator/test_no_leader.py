"""Workers that run and have no leader: the API server is out of their reach, for example."""

import pytest

from penstock.base.values import replace
from penstock.contract.status import JobState, JobStatus
from penstock.contract.streamjob_status import Reason
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import stamp
from penstock_operator.api.views import pod_view
from penstock_operator.reconcile.diagnosis import LEADERLESS_S, Problem, diagnose
from tests.unit.operator.observing import NOW_S, OWNER, running, spec_of, target_for


def seen_with(pods_for_s: float, told_before_s: float | None) -> Observed:
    """Observe pods that have run for a time, and a leader that has told something a time ago (None: never)."""
    seen = running(spec_of())
    pods = tuple(replace(pod, ready=False, phase="Running", runs_since=NOW_S - pods_for_s) for pod in seen.pods)
    told = None
    if told_before_s is not None:
        told = JobStatus("wc", OWNER.uid, JobState.RUNNING, int((NOW_S - told_before_s) * 1e6))
    return replace(seen, pods=pods, running=told)


def problem(seen: Observed) -> Problem | None:
    assert seen.latest is not None
    return diagnose(seen, target_for(spec_of()), seen.latest.value)


@pytest.mark.parametrize(("pods_for_s", "told_before_s"), [(200.0, None), (9000.0, 200.0), (200.0, 9000.0)])
def test_running_pods_without_a_leader_stall_the_job(pods_for_s: float, told_before_s: float | None) -> None:
    found = problem(seen_with(pods_for_s, told_before_s))
    assert found is not None
    assert found.reason is Reason.NO_LEADER
    assert "no worker has led for 200 s, although 2 pods run" in found.message
    assert "spec.security.egress" in found.message
    assert "kubectl logs wc-worker-0 -c keeper" in found.message


@pytest.mark.parametrize(
    ("pods_for_s", "told_before_s"),
    [(LEADERLESS_S - 1, None), (9000.0, LEADERLESS_S - 1), (LEADERLESS_S - 1, 9000.0), (NOW_S, -30.0)],
)
def test_an_election_has_time(pods_for_s: float, told_before_s: float | None) -> None:
    assert problem(seen_with(pods_for_s, told_before_s)) is None


def test_a_job_that_has_ended_and_pods_that_do_not_run_or_are_ready_need_no_leader() -> None:
    seen = seen_with(200.0, None)
    assert seen.latest is not None
    assert seen.latest.value is not None
    ended = replace(seen.latest, value=replace(seen.latest.value, finished=True))
    assert problem(replace(seen, latest=ended)) is None
    assert problem(replace(seen, pods=tuple(replace(pod, runs_since=0.0) for pod in seen.pods))) is None
    assert problem(replace(seen, pods=(replace(seen.pods[0], ready=True), seen.pods[1]))) is None


def test_a_pod_runs_since_the_last_of_its_containers_has_started() -> None:
    def container(name: str, since_s: float | None) -> object:
        started = {"running": {"startedAt": stamp(since_s)}} if since_s is not None else {"waiting": {}}
        return {"name": name, "state": started}

    for engine_s, since_s in ((NOW_S, NOW_S), (None, 0.0)):
        states = [container("keeper", NOW_S - 60), container("engine", engine_s)]
        plain = {"metadata": {"name": "wc-worker-0"}, "status": {"containerStatuses": states}}
        assert pod_view(plain).runs_since == since_s  # type: ignore[arg-type]
