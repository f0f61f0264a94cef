"""What a pod's keeper answers over HTTP: probes for the kubelet, metrics for Prometheus.

Read-only, without arguments, and of bounded cost: nothing here asks another process. Anybody who
reaches the port may call, so a caller has a deadline for all of its request, and of too many callers the
one that has been here longest is sent away. A probe takes milliseconds, so it is never that one.
"""

import io
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from penstock.base.errors import ConfigError
from penstock.base.limits import PAGE_CALLERS_MAX, PAGE_REQUEST_TIMEOUT_S

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
            socket.create_connection(self._place, PAGE_REQUEST_TIMEOUT_S).close()
        self._thread.join(PAGE_REQUEST_TIMEOUT_S)
        self._server.server_close()


Answer = Callable[[str], tuple[int, str, bytes]]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = PAGE_CALLERS_MAX  # the base's 5 lets a caller wait a second for its connection

    def __init__(self, place: tuple[str, int], answer: Answer) -> None:
        self.answer = answer
        self._callers: dict[Any, None] = {}  # connections that have a thread, oldest first
        self._lock = threading.Lock()
        super().__init__(place, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a caller a thread. When there are too many, the oldest one loses its connection."""
        with self._lock:
            if len(self._callers) >= PAGE_CALLERS_MAX:
                oldest = next(iter(self._callers))
                del self._callers[oldest]
                _hang_up(oldest)  # its thread then ends by itself
            self._callers[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a caller whose thread ends. A connection is closed by its own thread alone."""
        with self._lock:
            self._callers.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a caller that hangs up is no event."""


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it has hung up itself
        connection.shutdown(socket.SHUT_RDWR)


class _UntilDeadline(io.RawIOBase):
    """What a caller sends, until ``deadline`` (monotonic). Then a read raises TimeoutError."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = PAGE_REQUEST_TIMEOUT_S  # for the answer, which is sent in one piece

    def setup(self) -> None:
        """Bound the time of the whole request: the base bounds that of each read only."""
        super().setup()
        deadline = time.monotonic() + PAGE_REQUEST_TIMEOUT_S
        self.rfile = io.BufferedReader(_UntilDeadline(self.connection, deadline))

    def do_GET(self) -> None:
        """Answer one page."""
        code, kind, body = self.server.answer(self.path.partition("?")[0])
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.connection.settimeout(PAGE_REQUEST_TIMEOUT_S)
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing: a probe comes every few seconds."""
