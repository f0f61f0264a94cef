"""The way of the client of Iceberg (pyiceberg) to the virtual table: below its HTTP, and below its threads.

The client itself runs as it is, over the files of the connectors. What differs is who carries its requests.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import BaseAdapter

from sim.servers.iceberg_table import Answer

Send = Callable[[str, tuple[Any, ...]], Answer]  # the name of a method of the catalog, its arguments


class CatalogAdapter(BaseAdapter):
    """Carries requests of a REST catalog."""

    def __init__(self, send: Send) -> None:
        """``send`` carries a request there and back. It may raise the errors of requests."""
        super().__init__()
        self._send = send

    def send(self, request: PreparedRequest, **_: Any) -> Response:  # type: ignore[override]
        """Return what the catalog answers."""
        path = str(request.url).partition("://")[2].partition("/")[2]
        table = path.rpartition("/tables/")[2]
        match (request.method, path):
            case ("GET", "v1/config"):
                status, body = self._send("config", ())
            case ("GET", _):
                status, body = self._send("load", (table,))
            case _:
                assert isinstance(request.body, bytes)
                status, body = self._send("commit", (table, request.body))
        found = Response()
        found.status_code, found._content, found.encoding = status, body, "utf-8"
        found.request, found.url = request, str(request.url)
        return found

    def close(self) -> None:
        """Do nothing: there is no connection."""


class CallerThread(Executor):
    """Does at once, on the calling thread, what the client would give to a pool."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **more: Any) -> "Future[Any]":
        """Return the result, or the error."""
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given, **more))
        except Exception as error:  # the future has it
            done.set_exception(error)
        return done
