"""Requests to the API server, one try each: a repeated compare-and-swap would lie about the first.

Outcomes are told apart by what they say about the server's state: done, refused (nothing has
changed), or unanswered (it may have changed).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx

from penstock.kubernetes.access import Access
from penstock.kubernetes.answers import (
    JSON,
    MERGE_PATCH,
    Object,
    read_answer,
    request_headers,
    unanswered,
)

REQUEST_TIMEOUT_S = 5.0  # a Lease must be renewed within its deadline, retries included
CONNECT_TIMEOUT_S = 2.0
CONNECTIONS_KEPT_MAX = 8


class ApiClient:
    """Calls with a deadline each, from any thread."""

    def __init__(self, access: Access, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Ask as ``access`` says; nothing is dialled before the first call."""
        self.namespace = access.namespace
        self._token = access.token
        self._timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
        self._http = httpx.Client(
            base_url=access.server,
            verify=access.tls,
            timeout=self._timeout,
            # A thread uses one connection, and each open stream another one. With a limit on all connections, a new
            # stream would wait until an old one ends.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=CONNECTIONS_KEPT_MAX),
            trust_env=False,  # a proxy for web pages is no way to the cluster's own server
        )

    def get(self, path: str, **query: str) -> Object:
        """Read one object or list, the newest: no ``resourceVersion`` means a quorum read."""
        return self._ask("GET", path, query=query)

    def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection ``path``."""
        return self._ask("POST", path, body)

    def merge(self, path: str, patch: Object) -> Object:
        """Change fields; with ``metadata.resourceVersion`` only that version (409 otherwise)."""
        return self._ask("PATCH", path, patch, kind=MERGE_PATCH)

    def delete(self, path: str, body: Object | None = None) -> Object:
        """Delete; ``body`` are DeleteOptions, such as preconditions."""
        return self._ask("DELETE", path, body)

    @contextmanager
    def lines(self, path: str, read_timeout_s: float | None, **query: str) -> Iterator[Iterator[str]]:
        """Read a stream by lines: a watch, or a log that is followed. Raises as a call does.

        ``read_timeout_s`` is the longest silence; None waits for ever.
        """
        timeout = httpx.Timeout(self._timeout.read, connect=CONNECT_TIMEOUT_S)
        timeout.read = read_timeout_s
        headers = self._headers()
        try:
            with self._http.stream("GET", path, params=query, headers=headers, timeout=timeout) as reply:
                if reply.status_code >= 400:
                    _read(reply.status_code, reply.read())
                yield reply.iter_lines()
        except httpx.HTTPError as error:
            raise unanswered(_words(error)) from error

    def close(self) -> None:
        """End all connections; a stream that is being read ends as unanswered."""
        self._http.close()

    def _ask(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        kind: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Object:
        content = None if body is None else json.dumps(body).encode()
        headers = self._headers(None if body is None else kind)
        try:
            reply = self._http.request(method, path, content=content, headers=headers, params=query or None)
        except httpx.HTTPError as error:
            raise unanswered(_words(error)) from error
        return _read(reply.status_code, reply.content)

    def _headers(self, kind: str | None = None) -> dict[str, str]:
        """Raises ApiUnanswered where the token cannot be read: the kubelet may replace it at this moment."""
        try:
            return request_headers(self._token(), kind)
        except OSError as error:
            raise unanswered(f"{error.filename}: {error.strerror}") from error


def _read(status: int, content: bytes) -> Object:
    return read_answer(status, "", content)


def _words(error: httpx.HTTPError) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
