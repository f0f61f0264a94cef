"""Serves a registry to Prometheus over HTTP, on the loopback address unless told otherwise."""

from prometheus_client.registry import CollectorRegistry

from penstock.metrics.pages import Pages


class Exporter(Pages):
    """Listens on a port that the system chooses; ``address`` says which."""

    def __init__(self, registry: CollectorRegistry, host: str = "127.0.0.1") -> None:
        """Start to serve ``registry`` at ``/metrics`` on a thread of its own."""
        super().__init__((host, 0), registry, "/metrics", {})
