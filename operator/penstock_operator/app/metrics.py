"""What Prometheus finds: never a job's name in a label, so their number bounds nothing."""

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(slots=True)
class Metrics:
    """A registry of its own."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    reconciles: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    calls: Counter = field(init=False)
    leading: Gauge = field(init=False)

    def __post_init__(self) -> None:
        """Make the metrics."""
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
        for outcome in ("done", "failed"):
            self.reconciles.labels(outcome)

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Show a number that is read when Prometheus asks."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def reconciled(self, outcome: str, seconds: float) -> None:
        """Count one reconcile."""
        self.reconciles.labels(outcome).inc()
        self.seconds.observe(seconds)

    def called(self, verb: str, resource: str, code: int) -> None:
        """Count one call; code 0: no answer."""
        self.calls.labels(verb, resource, str(code)).inc()

    def page(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self.registry)
