"""What stalls a job is called by one reason, from what pods and workers say."""

from dataclasses import replace

import pytest

from penstock.contract.ids import Attempt, Incarnation, Ordinal
from penstock.contract.latest import Death, Deaths, Latest
from penstock.contract.reports import DOES_NOT_LOAD, RESTARTS_EXHAUSTED
from penstock.contract.streamjob_status import Reason
from penstock_operator.api.observed import Observed
from penstock_operator.reconcile.diagnosis import diagnose
from tests.unit.operator.observing import running, spec_of, target_for


def reason_of(seen: Observed, latest: Latest | None) -> Reason | None:
    found = diagnose(seen, target_for(spec_of()), latest)
    return None if found is None else found.reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{DOES_NOT_LOAD}: job.yaml:5: there is no module 'jobs'", Reason.JOB_INVALID),
        ("worker 1: step counts: division by zero", Reason.JOB_FAILED),
        (f"worker 1: killed: 3 deaths within 1m, and {RESTARTS_EXHAUSTED} 2", Reason.CRASH_LOOP),
    ],
)
def test_a_failed_job_is_named_after_who_can_mend_it(text: str, reason: Reason) -> None:
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    assert reason_of(seen, replace(seen.latest.value, failure=text)) is reason
    assert reason_of(seen, seen.latest.value) is None


@pytest.mark.parametrize(
    ("count", "attempts", "stalls"), [(1, 10, False), (2, 10, False), (3, 10, True), (1, 1, True)]
)
def test_engines_that_die_again_and_again_stall_the_job_before_it_fails(
    count: int, attempts: int, stalls: bool
) -> None:
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    death = Death(Ordinal(1), Incarnation("e"), Attempt(3), 9, count, "killed\nin flight: x")
    deaths = Deaths("run", count, attempts, 600.0, count, Attempt(3), (), (death,))
    found = diagnose(seen, target_for(spec_of()), replace(seen.latest.value, deaths=deaths))
    assert (found is not None) is stalls
    if found is not None:
        assert found.reason is Reason.CRASH_LOOP
        assert f"engines died {count} times within 10m" in found.message
        assert "in flight: x" in found.message
