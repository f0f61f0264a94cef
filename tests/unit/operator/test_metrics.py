"""The metrics of jobs: the number in each state, and the names of the stalled ones."""

from prometheus_client.parser import text_string_to_metric_families

from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import StreamJobState
from penstock_operator.app.metrics import STALLED_MAX, Metrics


def job(name: str, state: str, stall: str = "") -> Plain:
    stalled: Plain = {
        "type": "Stalled",
        "status": "True" if stall else "False",
        "reason": stall or "NotStalled",
    }
    return {
        "metadata": {"name": name, "namespace": "apps"},
        "status": {"state": state, "conditions": [{"type": "Ready", "status": "True"}, stalled]},
    }


def samples(metrics: Metrics, name: str) -> list[tuple[dict[str, str], float]]:
    families = text_string_to_metric_families(metrics.page().decode())
    return [(s.labels, s.value) for f in families for s in f.samples if s.name == name]


def test_jobs_are_counted_by_state_and_named_when_they_stall() -> None:
    jobs: list[Plain] = [
        job("a", "Running"),
        job("b", "Running", "VolumeFull"),
        job("c", "Failed", "JobFailed"),
        {"metadata": {"name": "new", "namespace": "apps"}},
    ]
    metrics = Metrics()
    metrics.watch_jobs(lambda: jobs)
    counted = {labels["state"]: value for labels, value in samples(metrics, "penstock_operator_jobs")}
    assert set(counted) == {str(state) for state in StreamJobState}
    assert {state: n for state, n in counted.items() if n} == {
        "Running": 2,
        "Failed": 1,
        "Pending": 1,
    }
    named = [labels for labels, _ in samples(metrics, "penstock_operator_stalled_job")]
    assert named == [
        {"namespace": "apps", "job": "b", "state": "Running", "reason": "VolumeFull"},
        {"namespace": "apps", "job": "c", "state": "Failed", "reason": "JobFailed"},
    ]


def test_so_many_names_and_no_more() -> None:
    metrics = Metrics()
    metrics.watch_jobs(lambda: [job(f"j{n}", "Running", "X") for n in range(STALLED_MAX + 9)])
    assert len(samples(metrics, "penstock_operator_stalled_job")) == STALLED_MAX


def test_reconciles_are_counted_by_how_they_ended() -> None:
    metrics = Metrics()
    metrics.reconciled("failed", 0.1)
    found = samples(metrics, "penstock_operator_reconciles_total")
    assert {labels["outcome"]: n for labels, n in found} == {"done": 0, "conflict": 0, "failed": 1}
