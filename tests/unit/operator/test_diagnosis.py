"""What stalls a job is called by one reason, from what pods and workers say."""

from dataclasses import replace

import pytest

from penstock.contract.latest import Latest
from penstock.contract.reports import DOES_NOT_LOAD
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
    ],
)
def test_a_failed_job_is_named_after_who_can_mend_it(text: str, reason: Reason) -> None:
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    assert reason_of(seen, replace(seen.latest.value, failure=text)) is reason
    assert reason_of(seen, seen.latest.value) is None
