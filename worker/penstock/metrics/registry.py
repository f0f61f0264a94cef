"""A worker's metrics, made from its newest report at each scrape.

Nothing is counted here: engines count per batch and say so once a second, so a scrape costs the
data path nothing. Labels are job, worker and step: never a key.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from penstock.contract.status import StepStatus, WorkerReport

STEP_LABELS = ("job", "worker", "step")
WORKER_LABELS = ("job", "worker")

# Name, what it means, and where it is in a step's status.
STEP_COUNTERS: tuple[tuple[str, str, Callable[[StepStatus], float]], ...] = (
    ("penstock_step_rows_in", "Rows taken since the attempt began", lambda s: s.rows_in),
    ("penstock_step_rows_out", "Rows given since the attempt began", lambda s: s.rows_out),
    ("penstock_step_late_rows", "Rows that came too late for their window", lambda s: s.late_rows),
    (
        "penstock_step_untimed_rows",
        "Rows without event time, which are in no window",
        lambda s: s.untimed_rows,
    ),
    (
        "penstock_step_dead_rows",
        "Rows for which a function of the user failed",
        lambda s: s.dead_rows,
    ),
    ("penstock_step_shed_rows", "Rows that were not sent: too many were outstanding", lambda s: s.shed_rows),
    ("penstock_step_blocked_seconds", "Time its tasks waited for credit", lambda s: s.blocked_s),
    ("penstock_step_busy_seconds", "Time its tasks worked", lambda s: s.busy_s),
)
STEP_GAUGES: tuple[tuple[str, str, Callable[[StepStatus], float]], ...] = (
    ("penstock_step_tasks", "Parallel tasks on this worker", lambda s: s.tasks),
    ("penstock_step_busy_ratio", "Share of the last second at work", lambda s: s.busy),
    (
        "penstock_step_blocked_ratio",
        "Share of the last second waiting for credit",
        lambda s: s.blocked,
    ),
    ("penstock_step_queue_bytes", "Bytes waiting in front of the step", lambda s: s.queue_bytes),
    ("penstock_step_state_keys", "Keys in state", lambda s: s.state_keys),
)


class WorkerCollector(Collector):
    """Turns a report into metrics. ``report`` is called by the scraping thread."""

    def __init__(self, job: str, report: Callable[[], WorkerReport]) -> None:
        """Serve what ``report`` returns, under the label of ``job``."""
        self._job = job
        self._report = report

    def collect(self) -> Iterable[Metric]:
        """Make every metric of this worker."""
        report = self._report()
        labels = [self._job, str(report.ordinal)]
        yield from _worker_metrics(labels, report)
        steps = () if report.progress is None else report.progress.steps
        for name, text, read in STEP_COUNTERS:
            counter = CounterMetricFamily(name, text, labels=STEP_LABELS)
            for step in steps:
                counter.add_metric([*labels, step.name], read(step))
            yield counter
        for name, text, read in STEP_GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=STEP_LABELS)
            for step in steps:
                gauge.add_metric([*labels, step.name], read(step))
            yield gauge
        yield _watermark_lag(labels, steps)


def _worker_metrics(labels: list[str], report: WorkerReport) -> Iterator[Metric]:
    restarts = CounterMetricFamily(
        "penstock_engine_restarts", "Engines started again by this keeper", labels=WORKER_LABELS
    )
    restarts.add_metric(labels, report.engine_restarts)
    yield restarts
    deaths = CounterMetricFamily(
        "penstock_engine_deaths", "Engines of this keeper that ended unasked", labels=WORKER_LABELS
    )
    deaths.add_metric(labels, report.engine_deaths)
    yield deaths
    up = GaugeMetricFamily("penstock_engine_up", "1 while an engine runs", labels=WORKER_LABELS)
    up.add_metric(labels, 0 if report.engine_pid is None else 1)
    yield up
    interval = GaugeMetricFamily(
        "penstock_checkpoint_interval_seconds", "spec.checkpoint.interval", labels=WORKER_LABELS
    )
    interval.add_metric(labels, report.checkpoint_interval_s)
    yield interval
    if report.uncommitted_s is not None:
        waits = GaugeMetricFamily(
            "penstock_checkpoint_uncommitted_seconds",
            "For how long this worker has led the running job without a commit",
            labels=WORKER_LABELS,
        )
        waits.add_metric(labels, report.uncommitted_s)
        yield waits
    done = report.checkpoint
    if done is None:
        return
    for name, text, value in (
        ("epoch", "Newest epoch committed by this worker as leader", float(done.epoch)),
        ("bytes", "Bytes of state written for it by all workers", float(done.bytes)),
        ("duration_seconds", "From its barrier to its commit", done.duration_s),
    ):
        gauge = GaugeMetricFamily(f"penstock_checkpoint_{name}", text, labels=WORKER_LABELS)
        gauge.add_metric(labels, value)
        yield gauge


def _watermark_lag(labels: list[str], steps: tuple[StepStatus, ...]) -> Metric:
    lag = GaugeMetricFamily(
        "penstock_step_watermark_lag_seconds",
        "Wall time less the lowest watermark of the step",
        labels=STEP_LABELS,
    )
    now_us = time.time_ns() // 1000
    for step in steps:
        if step.watermark_us is not None:
            lag.add_metric([*labels, step.name], (now_us - step.watermark_us) / 1e6)
    return lag


def registry_of(job: str, report: Callable[[], WorkerReport]) -> CollectorRegistry:
    """Make the one registry of a worker; the process-wide default one is not used."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(job, report))
    return registry
