"""Just enough of an API server on loopback: versions, merge patches, conflicts, and accidents.

It stands in where a real one cannot be told to misbehave. What it promises is checked against the
real one in tests/integration/kubernetes, by the same contract.
"""

import json
import ssl
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock.kubernetes.access import Access, no_token

Object = dict[str, Any]
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # not used: loading authorities takes a while

STREAM_S = 10.0  # longer than a client waits for a connection


class SmallApi(ThreadingHTTPServer):
    """``accidents`` are used up by the next writes: lost-reply, refused, trouble, busy."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, Object] = {}
        self.accidents: list[str] = []
        self.tokens: list[str] = []
        self.logs: dict[str, threading.Barrier] = {}  # by path: a line comes when all who wait for it are there
        self.lock = threading.Lock()
        self._version = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def put(self, path: str, found: Object) -> Object:
        self._version += 1
        metadata = {"uid": str(uuid.uuid4()), **found["metadata"]}
        found = {**found, "metadata": {**metadata, "resourceVersion": str(self._version)}}
        self.objects[path] = found
        return found

    def make(self, path: str) -> Object:
        """Make an empty object, as the operator does."""
        with self.lock:
            return self.put(path, {"metadata": {"name": path.rsplit("/", 1)[-1]}})


class Handler(BaseHTTPRequestHandler):
    server: SmallApi
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together: alone, a body waits for a delayed ACK

    def do_GET(self) -> None:
        self.server.tokens.append(self.headers.get("Authorization", ""))
        if (log := self.server.logs.get(self.path.partition("?")[0])) is not None:
            self.stream(log)
            return
        with self.server.lock:
            found = self.server.objects.get(self.path.partition("?")[0])
        self.answer(*((200, found) if found else missing()))

    def do_POST(self) -> None:
        body = self.body()
        path = f"{self.path}/{body['metadata']['name']}"
        with self.server.lock:
            known = path in self.server.objects
            reply = conflict("AlreadyExists") if known else (201, self.server.put(path, body))
        self.answer(*reply)

    def do_PATCH(self) -> None:
        body, accident = self.body(), self.accident()
        if accident in ("busy", "trouble", "refused"):
            code = {"busy": 429, "trouble": 500, "refused": 403}[accident]
            self.answer(code, {"reason": accident, "message": "no"})
            return
        with self.server.lock:
            found = self.server.objects.get(self.path)
            if found is None:
                reply = missing()
            elif version_of(body) not in (None, version_of(found)):
                reply = conflict("Conflict")
            elif merged(found, body) == found:
                reply = 200, found  # the server takes an identical object for nothing
            else:
                reply = 200, self.server.put(self.path, merged(found, body))
        if accident == "lost-reply":
            self.close_connection = True
            self.connection.close()
            return
        self.answer(*reply)

    def stream(self, log: threading.Barrier) -> None:
        self.close_connection = True
        self.send_response(200)
        self.end_headers()
        self.wfile.flush()
        with suppress(threading.BrokenBarrierError):
            log.wait(STREAM_S)
            self.wfile.write(b"hello\n")

    def accident(self) -> str:
        return self.server.accidents.pop(0) if self.server.accidents else ""

    def body(self) -> Object:
        plain: Object = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return plain

    def answer(self, code: int, plain: Object) -> None:
        data = json.dumps(plain).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Do not print a line for each request, as the base class does."""


def version_of(plain: Object) -> object:
    return (plain.get("metadata") or {}).get("resourceVersion")


def missing() -> tuple[int, Object]:
    return 404, {"reason": "NotFound", "message": "there is none"}


def conflict(reason: str) -> tuple[int, Object]:
    return 409, {"reason": reason, "message": "it is another"}


def merged(found: Object, patch: Object) -> Object:
    """RFC 7386."""
    kept = {k: v for k, v in found.items() if k not in patch}
    for key, value in patch.items():
        if isinstance(value, dict):
            kept[key] = merged(found.get(key) or {}, value)
        elif value is not None:
            kept[key] = value
    return kept


@contextmanager
def small_api() -> Iterator[SmallApi]:
    server = SmallApi()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def access_to(server: SmallApi) -> Access:
    return Access(server.url, TLS, no_token, "here")
