"""What is said to have changed since a job last ran."""

from penstock.cli.past_runs import code_changes
from penstock.cli.record import PARAMETERS, Digest, JobRecord


def test_other_parameters_are_no_change_of_the_code() -> None:
    before = JobRecord(code=(Digest(PARAMETERS, "1"), Digest("/jobs.py", "a")))
    now = JobRecord(code=(Digest(PARAMETERS, "2"), Digest("/jobs.py", "a")))
    assert code_changes(before, now) == ["parameters or arguments changed"]
    edited = JobRecord(code=(Digest(PARAMETERS, "1"), Digest("/jobs.py", "b")))
    assert code_changes(before, edited) == ["the code changed: /jobs.py"]
