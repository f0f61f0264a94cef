"""The metrics for Prometheus. Only stalled jobs, which are few, have their name in a label."""

from collections import Counter as Count
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import ConditionType, StreamJobState
from penstock_operator.api.plain import list_at, text_at

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


STALLED_MAX = 500  # stalled jobs with a series of their own; all are counted by state


class JobCollector(Collector):
    """Counts StreamJobs by state, and names the stalled ones."""

    def __init__(self, jobs: Callable[[], Iterable[Plain]]) -> None:
        """Take a function that returns the objects of all known StreamJobs."""
        self._jobs = jobs

    def collect(self) -> Iterable[Metric]:
        """Build both metrics when Prometheus asks for them."""
        states: Count[str] = Count({str(state): 0 for state in StreamJobState})
        stalled = GaugeMetricFamily(
            "penstock_operator_stalled_job",
            "1 for each StreamJob whose condition Stalled is True",
            labels=("namespace", "job", "state", "reason"),
        )
        for job in self._jobs():
            state = text_at(job, "status", "state") or str(StreamJobState.PENDING)
            states[state] += 1
            reason = _stall_of(job)
            if reason and len(stalled.samples) < STALLED_MAX:
                place = [text_at(job, "metadata", "namespace"), text_at(job, "metadata", "name")]
                stalled.add_metric([*place, state, reason], 1)
        counted = GaugeMetricFamily("penstock_operator_jobs", "StreamJobs", labels=("state",))
        for state, number in sorted(states.items()):
            counted.add_metric([state], number)
        return (counted, stalled)


def _stall_of(job: Plain) -> str:
    """Return why a job is stalled; empty when it is not."""
    for condition in list_at(job, "status", "conditions"):
        if text_at(condition, "type") == ConditionType.STALLED:
            return text_at(condition, "reason") if text_at(condition, "status") == "True" else ""
    return ""


@dataclass(slots=True)
class Metrics:
    """The metrics of one operator, in a registry of their own."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    reconciles: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    calls: Counter = field(init=False)
    leading: Gauge = field(init=False)

    def __post_init__(self) -> None:
        """Create the metrics."""
        self.reconciles = Counter(
            "penstock_operator_reconciles",
            "Reconciles by outcome",
            ["outcome"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "penstock_operator_reconcile_seconds",
            "Duration of a reconcile",
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.calls = Counter(
            "penstock_operator_api_calls",
            "Calls to the API server",
            ["verb", "resource", "code"],
            registry=self.registry,
        )
        self.leading = Gauge(
            "penstock_operator_leading",
            "1 in the process that holds the Lease",
            registry=self.registry,
        )
        for outcome in ("done", "conflict", "failed"):
            self.reconciles.labels(outcome)

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Export a number that is read when Prometheus asks."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def watch_jobs(self, jobs: Callable[[], Iterable[Plain]]) -> None:
        """Export the number of jobs, and which of them are stalled."""
        self.registry.register(JobCollector(jobs))

    def reconciled(self, outcome: str, seconds: float) -> None:
        """Count one reconcile."""
        self.reconciles.labels(outcome).inc()
        self.seconds.observe(seconds)

    def called(self, verb: str, resource: str, code: int) -> None:
        """Count one call; code 0 means no answer."""
        self.calls.labels(verb, resource, str(code)).inc()

    def page(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self.registry)
