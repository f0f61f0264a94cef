"""Requests to the API server. Each is tried once, counted, and has a deadline.

The address of the server and the credentials come from Kopf's logins (:func:`login`).
"""

import asyncio
import base64
import json
import logging
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import kopf

from penstock.base.errors import ConfigError
from penstock.contract.schema import Plain
from penstock.kubernetes.answers import (
    APPLY_PATCH,
    JSON,
    MERGE_PATCH,
    ApiError,
    read_answer,
    request_headers,
    unanswered,
)
from penstock_operator.api.kinds import Kind, kind_of
from penstock_operator.api.names import FIELD_MANAGER
from penstock_operator.api.plain import Object, list_at, object_at, text_at

TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
LOG = logging.getLogger("penstock_operator")


@dataclass(frozen=True, slots=True)
class Access:
    """A server and the credentials for it.

    The token in ``token_file`` is read for each request, because the kubelet renews it there.
    """

    server: str
    tls: ssl.SSLContext
    token: str | None
    token_file: Path | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers of a request. A token file is read each time, because its token is replaced."""
        token = self.token if self.token_file is None else self.token_file.read_text().strip()
        return request_headers(token)


def login(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo:
    """Find the API server as a pod does, or as kubectl does. Raises ConfigError."""
    if os.environ.get("KUBERNETES_SERVICE_HOST") and TOKEN_FILE.exists():
        found = kopf.login_with_service_account(logger=LOG, settings=settings)
    else:
        found = kopf.login_with_kubeconfig(logger=LOG, settings=settings)
    if found is None:
        raise ConfigError("no API server: neither a pod's service account nor a kubeconfig")
    return found


def access_of(info: kopf.ConnectionInfo) -> Access:
    """Convert a login of Kopf for our client."""
    tls = ssl.create_default_context()
    if info.insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    elif info.ca_path:
        tls.load_verify_locations(cafile=str(info.ca_path))
    elif info.ca_data:
        tls.load_verify_locations(cadata=_decoded(info.ca_data).decode())
    if info.certificate_path and info.private_key_path:
        tls.load_cert_chain(str(info.certificate_path), str(info.private_key_path))
    elif info.certificate_data and info.private_key_data:
        with tempfile.NamedTemporaryFile() as file:  # ssl reads only files; this one is removed
            file.write(_decoded(info.certificate_data) + b"\n" + _decoded(info.private_key_data))
            file.flush()
            tls.load_cert_chain(file.name)
    in_pod = TOKEN_FILE.exists() and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
    return Access(info.server.rstrip("/"), tls, info.token, TOKEN_FILE if in_pod else None)


def _decoded(data: str | bytes) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return raw if raw.lstrip().startswith(b"-----BEGIN") else base64.b64decode(raw)


TIMEOUT_S = 15.0
CONNECTIONS_MAX = 16
PAGE = 500  # objects of one answer to a list
WATCH_S = 300  # then the server ends a watch, and the next one continues from its version
WATCH_SILENT_S = 70.0  # bookmarks come every 60 s: a connection without one is dead
WATCH_BUFFER_BYTES = 1024 * 1024  # of one event batch; more stays in the connection
READ_S = 0.01  # a batch is complete when so much time brought few bytes: the kernel has no more events then
FEW_BYTES = 32 * 1024
NO_VERSION = "1"  # etcd's version before the first write: no object has it


class Client:
    """The operator's client for all but Kopf's watches. ``count`` gets (verb, plural, code)."""

    def __init__(self, access: Access, count: Callable[[str, str, int], None], timeout_s: float = TIMEOUT_S) -> None:
        """Connect later, with the first call. A call other than a watch ends after ``timeout_s``."""
        self._access = access
        self._count = count
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _http(self) -> aiohttp.ClientSession:
        """Return the session of the running loop. The first call creates it."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._access.tls, limit=CONNECTIONS_MAX)
            self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        return self._session

    async def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """Return the newest object, read through a quorum; None when it does not exist."""
        return await self._maybe("get", kind, kind.path(namespace, name))

    async def list_some(self, kind: Kind, namespace: str, **query: str) -> list[Plain]:
        """List the objects that match the query. Raises ApiError 404 when the kind is not served."""
        found = await self._ask("GET", "list", kind, kind.path(namespace), query=query)
        items = found.get("items")
        return items if isinstance(items, list) else []

    async def list_all(self, kind: Kind, namespace: str, selector: str) -> tuple[list[Object], int]:
        """List a namespace (empty: all) page by page. Returns the list with its version."""
        items: list[Object] = []
        query = {"labelSelector": selector, "limit": str(PAGE)}
        while True:
            found = await self._ask("GET", "list", kind, kind.path(namespace), query=query)
            marks: Object = {"apiVersion": kind.api_version, "kind": kind.kind}
            items += [{**i, **marks} for i in list_at(found, "items") if isinstance(i, dict)]
            query["continue"] = text_at(found, "metadata", "continue")
            if not query["continue"]:
                return items, int(text_at(found, "metadata", "resourceVersion") or 0)

    async def watch(self, kind: Kind, namespace: str, selector: str, version: str) -> AsyncIterator[list[bytes]]:
        """Watch from ``version`` on, with bookmarks, until the server ends it or is silent.

        Each batch has all events, as JSON texts, that have arrived since the last batch. Between
        two batches nothing is read. Raises ApiError: 410 when the version is too old.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": selector,
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_S),
        }
        url = self._access.server + kind.path(namespace)
        timeout = aiohttp.ClientTimeout(sock_connect=TIMEOUT_S, sock_read=WATCH_SILENT_S)
        try:
            async with self._http().get(
                url,
                params=query,
                headers=self._access.headers(),
                timeout=timeout,
                read_bufsize=WATCH_BUFFER_BYTES,
            ) as answer:
                self._count("watch", kind.plural, answer.status)
                if answer.status != 200:
                    read_answer(answer.status, answer.headers.get("Retry-After", ""), await answer.text())
                async for lines in _batches(answer):
                    yield lines
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise unanswered(f"watch {kind.plural}: {error!r}") from error

    async def serves(self, kind: Kind) -> bool:
        """Say whether the API server knows a kind."""
        path = f"/apis/{kind.group}/{kind.version}"
        found = await self._maybe("discover", kind, path)
        return any(text_at(r, "name") == kind.plural for r in list_at(found, "resources"))

    async def lists_group(self, kind: Kind) -> bool:
        """Say whether the list of all groups has the kind's group. It is updated with a delay."""
        found = await self._maybe("discover", kind, "/apis")
        return any(text_at(group, "name") == kind.group for group in list_at(found, "groups"))

    async def create(self, manifest: Object) -> Object:
        """Create an object. Raises ApiError 409 when it exists."""
        kind, namespace, _ = _place(manifest)
        query = {"fieldManager": FIELD_MANAGER}
        return await self._ask("POST", "create", kind, kind.path(namespace), manifest, query=query)

    async def apply(self, manifest: Object, *, uid: str, version: str = "") -> Object:
        """Server-side apply to the object with this ``uid``, and this ``version`` if one is given.

        Raises ApiError 409 when another object has the name, or no object has it.
        """
        marks: Object = {"uid": uid} if not version else {"uid": uid, "resourceVersion": version}
        try:
            return await self._apply(manifest, marks)
        except ApiError as error:
            if error.code == 422 and "metadata.uid" in error.message:
                raise ApiError(409, "Conflict", error.message) from error
            raise

    async def _apply(self, manifest: Object, marks: Object) -> Object:
        kind, namespace, name = _place(manifest)
        body: Object = {**manifest, "metadata": {**object_at(manifest, "metadata"), **marks}}
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = kind.path(namespace, name)
        return await self._ask("PATCH", "apply", kind, path, body, query=query, content=APPLY_PATCH)

    async def apply_new(self, manifest: Object) -> Object:
        """Create by server-side apply. Raises ApiError 409 when it exists.

        A later apply removes a field by omission only if an apply has set it.
        """
        return await self._apply(manifest, {"resourceVersion": NO_VERSION})

    async def replace(self, manifest: Object, version: str) -> Object:
        """Replace exactly this ``version``. Raises ApiError 409 when it is not the newest."""
        kind, namespace, name = _place(manifest)
        metadata = {**object_at(manifest, "metadata"), "resourceVersion": version}
        body: Object = {**manifest, "metadata": metadata}
        query = {"fieldManager": FIELD_MANAGER}
        return await self._ask("PUT", "update", kind, kind.path(namespace, name), body, query=query)

    async def replace_status(self, kind: Kind, body: Object) -> Object:
        """Replace the status of the object if it still has the ``resourceVersion`` of ``body``. The spec is ignored."""
        metadata = object_at(body, "metadata")
        path = kind.path(text_at(metadata, "namespace"), text_at(metadata, "name"), "status")
        query = {"fieldManager": FIELD_MANAGER}
        return await self._ask("PUT", "status", kind, path, body, query=query)

    async def merge(self, kind: Kind, place: tuple[str, str], change: Object, *, subresource: str = "") -> Object:
        """Merge a change into the object at (namespace, name)."""
        path = kind.path(*place, subresource)
        query = {"fieldManager": FIELD_MANAGER}
        return await self._ask("PATCH", "patch", kind, path, change, query=query, content=MERGE_PATCH)

    async def delete(
        self, kind: Kind, place: tuple[str, str], uid: str, *, version: str = "", now: bool = False
    ) -> bool:
        """Delete the object of this very ``uid``; that it is gone is no error. Return whether it was there."""
        conditions: Object = {"uid": uid}
        if version:
            conditions["resourceVersion"] = version
        options: Object = {"preconditions": conditions, "propagationPolicy": "Background"}
        if now:
            options["gracePeriodSeconds"] = 0
        try:
            await self._ask("DELETE", "delete", kind, kind.path(*place), options)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True

    async def _maybe(self, verb: str, kind: Kind, path: str) -> Object | None:
        try:
            return await self._ask("GET", verb, kind, path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    async def _ask(
        self,
        method: str,
        verb: str,
        kind: Kind,
        path: str,
        body: Object | None = None,
        *,
        query: dict[str, str] | None = None,
        content: str = JSON,
    ) -> Object:
        data = None if body is None else json.dumps(body).encode()
        try:
            headers = self._access.headers()  # the kubelet may replace the file of the token at this moment
            if data is not None:
                headers["Content-Type"] = content
            url = self._access.server + path
            async with self._http().request(method, url, params=query, headers=headers, data=data) as answer:
                text = await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._count(verb, kind.plural, 0)
            raise unanswered(f"{method} {path}: {error!r}") from error
        self._count(verb, kind.plural, answer.status)
        return read_answer(answer.status, answer.headers.get("Retry-After", ""), text)


async def _batches(answer: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """Give the lines of an answer, batch by batch. Between two batches the kernel keeps what arrives.

    asyncio's TLS reads ahead while it is paused, up to 256 KiB. The process would wake up for each
    event. With a limit of one byte it stops reading the socket at the first event.
    """
    transport = answer.connection and answer.connection.transport
    limit = getattr(transport, "set_read_buffer_limits", None)  # only TLS has a buffer
    if limit is not None:
        limit(high=1)
    left = b""
    async for first in answer.content.iter_any():
        *lines, left = (left + first + await _arrived(answer.content)).split(b"\n")
        if transport is not None:
            transport.pause_reading()
        yield lines
        if transport is not None:
            transport.resume_reading()


async def _arrived(content: aiohttp.StreamReader) -> bytes:
    """Read until little more arrives, at most about WATCH_BUFFER_BYTES."""
    found: list[bytes] = []
    while sum(map(len, found)) < WATCH_BUFFER_BYTES:
        await asyncio.sleep(READ_S)
        found.append(content.read_nowait())
        if len(found[-1]) < FEW_BYTES:
            break
    return b"".join(found)


def _place(manifest: Object) -> tuple[Kind, str, str]:
    kind = kind_of(text_at(manifest, "apiVersion"), text_at(manifest, "kind"))
    metadata = object_at(manifest, "metadata")
    return kind, text_at(metadata, "namespace"), text_at(metadata, "name")
