"""Serves a registry to Prometheus over HTTP, on the loopback address unless told otherwise."""

from prometheus_client import start_http_server
from prometheus_client.registry import CollectorRegistry


class Exporter:
    """Listens on a port that the system chooses; ``address`` says which."""

    def __init__(self, registry: CollectorRegistry, host: str = "127.0.0.1") -> None:
        """Start to serve ``registry`` at ``/metrics`` on a thread of its own."""
        self._server, self._thread = start_http_server(0, host, registry)
        self.address = f"{host}:{self._server.server_port}"

    def close(self) -> None:
        """Stop serving and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
