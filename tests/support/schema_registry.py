"""A schema registry for tests: a small HTTP server of its own that speaks the documented REST API of Confluent's.

It is no real registry, which would be 109 MB to fetch (decision 221). It knows schemas by id, subjects, references, one
user, and whether a new version lacks a default.
"""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any]
NO_SCHEMA: Answer = (404, {"error_code": 40403, "message": "Schema not found"})
NO_SUBJECT: Answer = (404, {"error_code": 40401, "message": "Subject not found"})


@dataclass
class Registry:
    """What is registered. ``asked`` has each request; ``answer`` takes the place of every answer."""

    port: int = 0
    user: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    answer: Answer | None = None

    @property
    def url(self) -> str:
        """Return what a job calls ``registry``."""
        return f"http://127.0.0.1:{self.port}"

    def add(self, subject: str, schema: Any, **more: Any) -> int:
        """Register a schema as another program does; ``more`` are references or another schemaType."""
        status, answer = self.register(subject, {"schema": json.dumps(schema), **more})
        assert status == 200, answer
        return int(answer["id"])

    def register(self, subject: str, body: dict[str, Any]) -> Answer:
        """Make a schema the newest version of a subject, unless it is one already."""
        found, known = self.find(subject, body), self.subjects.setdefault(subject, [])
        if found[0] == 200:
            return 200, {"id": found[1]["id"]}
        if known and (why := _incompatible(self.schemas[known[-1]], body)):
            return 409, {"error_code": 409, "message": f"Schema being registered is incompatible: {why}"}
        number = next((n for n, s in self.schemas.items() if s == body), len(self.schemas) + 1)
        self.schemas[number] = body
        known.append(number)
        return 200, {"id": number}

    def find(self, subject: str, body: dict[str, Any]) -> Answer:
        """Look for a schema among the versions of a subject."""
        if subject not in self.subjects:
            return NO_SUBJECT
        wanted = json.loads(body["schema"])
        for version, number in enumerate(self.subjects[subject], 1):
            if json.loads(self.schemas[number]["schema"]) == wanted:
                return 200, {"subject": subject, "id": number, "version": version, **self.schemas[number]}
        return NO_SCHEMA

    def get(self, parts: list[str]) -> Answer:
        """Answer a GET."""
        match parts:
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
                return NO_SCHEMA if found is None else (200, found)
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                known = self.subjects[subject][int(version) - 1]
                return 200, {"subject": subject, "id": known, "version": int(version), **self.schemas[known]}
            case _:
                return NO_SUBJECT

    def post(self, parts: list[str], body: dict[str, Any]) -> Answer:
        """Answer a POST."""
        match parts:
            case ["subjects", subject, "versions"]:
                return self.register(subject, body)
            case ["subjects", subject]:
                return self.find(subject, body)
            case _:
                return NO_SUBJECT


def _incompatible(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Say which field of a new schema readers cannot fill from old values (BACKWARD)."""
    old = {f["name"] for f in json.loads(before["schema"]).get("fields", ())}
    new = [f["name"] for f in json.loads(now["schema"]).get("fields", ()) if "default" not in f]
    missing = [name for name in new if name not in old]
    return f"field {missing[0]} has no default" if missing else ""


class _Handler(BaseHTTPRequestHandler):
    registry: Registry

    def _do(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else {}
        parts = self.path.strip("/").split("/")
        self.registry.asked.append(f"{self.command} {self.path}")
        status, answer = self.registry.answer or self._answer(parts, body)
        text = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = _do

    def _answer(self, parts: list[str], body: dict[str, Any]) -> Answer:
        due = base64.b64encode(self.registry.user.encode()).decode()
        if self.registry.user and self.headers.get("Authorization") != f"Basic {due}":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        return self.registry.get(parts) if self.command == "GET" else self.registry.post(parts, body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the server's own method
        """Write nothing."""


@contextmanager
def running() -> Iterator[Registry]:
    """Run a registry on a free port of the loopback interface."""
    registry = Registry()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"registry": registry}))
    registry.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
