import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from penstock.contract.ids import Attempt, Incarnation, Ordinal
from penstock.contract.status import CheckpointDone, EngineProgress, SplitStatus, StepStatus, WorkerReport
from penstock.metrics.exporter import Exporter
from penstock.metrics.registry import registry_of

STEPS = (
    StepStatus("read", 2, rows_out=10, busy=0.5, splits=2, pending_rows=30),
    StepStatus(
        "count",
        1,
        rows_in=10,
        blocked=0.25,
        queue_bytes=7,
        watermark_us=1_000_000,
        blocked_s=12.5,
        busy_s=30.25,
    ),
)
REPORT = WorkerReport(
    Ordinal(1),
    "life",
    100,
    Incarnation("engine"),
    101,
    "127.0.0.1:1",
    engine_restarts=3,
    engine_deaths=2,
    progress=EngineProgress(Attempt(2), STEPS, splits=(SplitStatus("read", "a", 30), SplitStatus("read", "b", 0))),
    checkpoint=CheckpointDone(9, 1234, 0.5),
    checkpoint_interval_s=1800.0,
    uncommitted_s=61.5,
)


def scrape(report: WorkerReport) -> dict[tuple[str, str], float]:
    exporter = Exporter(registry_of("words", lambda: report))
    try:
        with urllib.request.urlopen(f"http://{exporter.address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        exporter.close()
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert all(s.labels["job"] == "words" and s.labels["worker"] == "1" for s in samples)
    return {(s.name, s.labels.get("split", s.labels.get("step", ""))): s.value for s in samples}


def test_a_scrape_shows_steps_checkpoint_and_engine() -> None:
    found = scrape(REPORT)
    assert found["penstock_step_rows_out_total", "read"] == 10
    assert found["penstock_step_rows_in_total", "count"] == 10
    assert found["penstock_step_busy_ratio", "read"] == 0.5
    assert found["penstock_step_blocked_ratio", "count"] == 0.25
    assert found["penstock_step_blocked_seconds_total", "count"] == 12.5
    assert found["penstock_step_busy_seconds_total", "count"] == 30.25
    assert found["penstock_step_queue_bytes", "count"] == 7
    assert found["penstock_checkpoint_epoch", ""] == 9
    assert found["penstock_checkpoint_bytes", ""] == 1234
    assert found["penstock_checkpoint_duration_seconds", ""] == 0.5
    assert found["penstock_checkpoint_interval_seconds", ""] == 1800
    assert found["penstock_checkpoint_uncommitted_seconds", ""] == 61.5
    assert found["penstock_engine_restarts_total", ""] == 3
    assert found["penstock_engine_deaths_total", ""] == 2
    assert found["penstock_engine_up", ""] == 1
    assert found["penstock_step_watermark_lag_seconds", "count"] > 1e9
    assert ("penstock_step_watermark_lag_seconds", "read") not in found
    pending = {key: value for key, value in found.items() if "pending" in key[0]}
    assert pending == {
        ("penstock_source_pending_rows", "read"): 30,
        ("penstock_split_pending_rows", "a"): 30,
        ("penstock_split_pending_rows", "b"): 0,
    }


def test_a_worker_without_an_engine_says_so() -> None:
    report = WorkerReport(Ordinal(1), "life", 100, Incarnation(""), None, "127.0.0.1:1")
    found = scrape(report)
    assert found["penstock_engine_up", ""] == 0
    shown = {name for name, _ in found if name.startswith(("penstock_step", "penstock_checkpoint"))}
    assert shown == {"penstock_checkpoint_interval_seconds"}
