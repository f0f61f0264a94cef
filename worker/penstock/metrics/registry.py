"""A worker's metrics, made from its newest report at each scrape.

Nothing is counted here: engines count per batch and say so once a second, so a scrape costs the
data path nothing. Labels are job, worker and step, and split for a bounded number of splits: never a key.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from penstock.contract.status import SplitStatus, StepStatus, WorkerReport

STEP_LABELS = ("job", "worker", "step")
SPLIT_LABELS = ("job", "worker", "step", "split")
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
PENDING: tuple[tuple[str, Callable[[StepStatus | SplitStatus], int | None]], ...] = (
    ("rows", lambda s: s.pending_rows),
    ("bytes", lambda s: s.pending_bytes),
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
        yield from _pending(labels, steps, () if report.progress is None else report.progress.splits)


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


def _pending(labels: list[str], steps: tuple[StepStatus, ...], splits: tuple[SplitStatus, ...]) -> Iterator[Metric]:
    """Yield what sources have left to read. What is not known has no sample."""
    for unit, read in PENDING:
        of_step = GaugeMetricFamily(
            f"penstock_source_pending_{unit}", f"{unit.capitalize()} that are there and not read", labels=STEP_LABELS
        )
        of_split = GaugeMetricFamily(
            f"penstock_split_pending_{unit}",
            f"{unit.capitalize()} of a split that are there and not read, of the splits with most of them",
            labels=SPLIT_LABELS,
        )
        for step in steps:
            if (count := read(step)) is not None:
                of_step.add_metric([*labels, step.name], count)
        for split in splits:
            if (count := read(split)) is not None:
                of_split.add_metric([*labels, split.step, split.split], count)
        yield from (of_step, of_split)


def registry_of(job: str, report: Callable[[], WorkerReport]) -> CollectorRegistry:
    """Make the one registry of a worker; the process-wide default one is not used."""
    registry = CollectorRegistry()
    registry.register(WorkerCollector(job, report))
    return registry
