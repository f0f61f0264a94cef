"""What a pod's keeper answers over HTTP: probes for the kubelet, metrics for Prometheus.

Read-only, without arguments, and of bounded cost: nothing here asks another process.
"""

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from penstock.base.errors import ConfigError

REQUEST_TIMEOUT_S = 5.0  # a caller that says nothing gives its thread back
Probe = Callable[[], str | None]  # None: well; else what is wrong, for people


class Pages:
    """Serves ``probes`` by their path, and the registry at ``metrics``; ``address`` says where."""

    def __init__(
        self, place: tuple[str, int], registry: CollectorRegistry, metrics: str,
        probes: Mapping[str, Probe],
    ) -> None:  # fmt: skip
        """Start to listen. Raises ConfigError when ``place`` is taken."""

        def answer(path: str) -> tuple[int, str, bytes]:
            if path == metrics:
                return 200, CONTENT_TYPE_LATEST, generate_latest(registry)
            probe = probes.get(path)
            if probe is None:
                return 404, "text/plain", b"no such page\n"
            wrong = probe()
            code = 200 if wrong is None else 503
            return code, "text/plain; charset=utf-8", f"{wrong or 'ok'}\n".encode()

        try:
            self._server = _Server(place, answer)
        except OSError as error:
            raise ConfigError(f"cannot listen on {place[0]}:{place[1]}: {error.strerror}") from error
        self._place = (place[0], self._server.server_address[1])
        self.address = f"{self._place[0]}:{self._place[1]}"
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="pages", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._closed:  # serve_forever would look many times a second
            self._server.handle_request()

    def close(self) -> None:
        """Stop serving and free the port."""
        self._closed = True
        with suppress(OSError):  # a last connection wakes the thread, which sleeps until one comes
            socket.create_connection(self._place, REQUEST_TIMEOUT_S).close()
        self._thread.join(REQUEST_TIMEOUT_S)
        self._server.server_close()


Answer = Callable[[str], tuple[int, str, bytes]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, place: tuple[str, int], answer: Answer) -> None:
        self.answer = answer
        super().__init__(place, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_TIMEOUT_S

    def do_GET(self) -> None:
        """Answer one page."""
        code, kind, body = self.server.answer(self.path.partition("?")[0])
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: a probe comes every few seconds."""
