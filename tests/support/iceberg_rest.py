"""A REST catalog of Iceberg for tests: the calls that a sink makes, over a catalog in a file of SQLite.

It is a small server of the documented API. What a commit requires is checked by the client's own library.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import CommitTableRequest

from tests.support.iceberg import local_catalog

TOKEN = "a-token-of-the-iceberg-tests"
SECRET = "a-secret-of-the-iceberg-tests"


class RestServer(ThreadingHTTPServer):
    """A catalog at ``uri``. With ``lose_replies`` it makes the next commits and closes the connection."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int, files: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.folder = folder
        self.files = files
        self.lose_replies = 0
        self.given: dict[str, str] = {}  # what the catalog tells of the files of a table

    @property
    def uri(self) -> str:
        """Return what a job calls ``catalog``."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: RestServer

    def log_message(self, *_: Any) -> None:
        """Write nothing."""

    def do_GET(self) -> None:
        """Answer what the catalog is, and what a table is."""
        if self.path.startswith("/v1/config"):
            self._answer(200, {"defaults": {}, "overrides": {}})
        elif self._known():
            self._table(lambda table: table)

    def do_POST(self) -> None:
        """Give a token, or commit."""
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/oauth/tokens":
            right = f"client_secret={SECRET}".encode() in sent
            refused = {"error": "invalid_client", "error_description": "nobody knows this client"}
            granted = {"access_token": TOKEN, "token_type": "bearer"}
            self._answer(200 if right else 401, granted if right else refused)
        elif self._known():
            asked = CommitTableRequest.model_validate_json(sent)
            self._table(lambda table: table._do_commit(asked.updates, asked.requirements) or table)

    def _known(self) -> bool:
        known = self.headers["Authorization"] == f"Bearer {TOKEN}"
        if not known:
            self._refuse(401, "NotAuthorizedException", "who are you?")
        return known

    def _table(self, change: Any) -> None:
        namespace, _, name = self.path.removeprefix("/v1/namespaces/").partition("/tables/")
        catalog = local_catalog(self.server.folder, **self.server.files)
        try:
            table = change(catalog.load_table((namespace, name)))
        except NoSuchTableError as error:
            return self._refuse(404, "NoSuchTableException", str(error))
        except CommitFailedException as error:
            return self._refuse(409, "CommitFailedException", str(error))
        finally:
            catalog.close()
        if self.command == "POST" and self.server.lose_replies:
            self.server.lose_replies -= 1
            return None
        self._answer(
            200,
            {
                "metadata-location": table.metadata_location,
                "metadata": json.loads(table.metadata.model_dump_json()),
                "config": self.server.given,
            },
        )

    def _refuse(self, code: int, kind: str, text: str) -> None:
        self._answer(code, {"error": {"message": text, "type": kind, "code": code}})

    def _answer(self, code: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def rest_server(folder: Path, port: int = 0, files: Mapping[str, str] = MappingProxyType({})) -> Iterator[RestServer]:
    """Run a catalog of the tables of a folder, at a free port, or where it was before.

    With ``files``, properties of its own client, the files of its tables may be elsewhere.
    """
    server = RestServer(folder, port, files)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
