"""Requests to the API server, one try each: a repeated compare-and-swap would lie about the first.

Outcomes are told apart by what they say about the server's state: done, refused (nothing has
changed), or unanswered (it may have changed).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from penstock.base.errors import PeerError
from penstock.base.limits import API_ANSWER_BYTES_MAX
from penstock.contract.codec import parsed
from penstock.kubernetes.access import Access

REQUEST_TIMEOUT_S = 5.0  # a Lease must be renewed within its deadline, retries included
CONNECT_TIMEOUT_S = 2.0
CONNECTIONS_MAX = 8
MERGE_PATCH = "application/merge-patch+json"
# Answers of a server that has not looked at the request: too many requests, and before them.
_NOT_DONE = frozenset({400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429})
_DETAIL_CHARS_MAX = 500

Object = dict[str, Any]


class ApiRefused(Exception):
    """The server said no, and nothing has changed. ``code`` is HTTP's, ``reason`` the API's."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class ApiUnanswered(Exception):
    """No answer, or one of a server in trouble: what was asked may have been done."""


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
            limits=httpx.Limits(max_connections=CONNECTIONS_MAX),
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
    def lines(
        self, path: str, read_timeout_s: float | None, **query: str
    ) -> Iterator[Iterator[str]]:
        """Read a stream by lines: a watch, or a log that is followed. Raises as a call does.

        ``read_timeout_s`` is the longest silence; None waits for ever.
        """
        timeout = httpx.Timeout(self._timeout.read, connect=CONNECT_TIMEOUT_S)
        timeout.read = read_timeout_s
        try:
            with self._http.stream(
                "GET", path, params=query, headers=self._headers(None), timeout=timeout
            ) as reply:
                if reply.status_code >= 400:
                    reply.read()
                    raise _failure(reply)
                yield reply.iter_lines()
        except httpx.HTTPError as error:
            raise ApiUnanswered(_words(error)) from error

    def close(self) -> None:
        """End all connections; a stream that is being read ends as unanswered."""
        self._http.close()

    def _ask(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        kind: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        content = None if body is None else json.dumps(body).encode()
        headers = self._headers(None if body is None else kind)
        try:
            reply = self._http.request(
                method, path, content=content, headers=headers, params=query or None
            )
        except httpx.HTTPError as error:
            raise ApiUnanswered(_words(error)) from error
        if reply.status_code >= 400:
            raise _failure(reply)
        return _plain(reply)

    def _headers(self, kind: str | None) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if kind is not None:
            headers["Content-Type"] = kind
        token = self._token()
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return headers


def _plain(reply: httpx.Response) -> Object:
    try:
        plain = parsed(reply.content, API_ANSWER_BYTES_MAX)
    except PeerError as error:
        raise ApiUnanswered(f"{reply.status_code}: {error}") from error
    if not isinstance(plain, dict):
        raise ApiUnanswered(f"{reply.status_code}: not an object")
    return plain


def _failure(reply: httpx.Response) -> Exception:
    try:
        status = parsed(reply.content)
        reason, message = str(status.get("reason", "")), str(status.get("message", ""))
    except (PeerError, AttributeError):
        reason, message = reply.reason_phrase, reply.text
    text = message[:_DETAIL_CHARS_MAX]
    if reply.status_code in _NOT_DONE:
        return ApiRefused(reply.status_code, reason, text)
    return ApiUnanswered(f"{reply.status_code} {reason}: {text}")


def _words(error: httpx.HTTPError) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
