"""Calls to the API server as its administrator, many at once."""

import json
import ssl
from collections.abc import AsyncIterator
from typing import Any, Self

import aiohttp

from penstock_operator.cluster.client import Access

CONNECTIONS_MAX = 64
Object = dict[str, Any]
JOBS = "/apis/penstock.dev/v1alpha1"
SETS = "/apis/apps/v1"


class Api:
    """One session. Paths are whole, queries and bodies plain."""

    def __init__(self, access: Access) -> None:
        """Open no connection yet; use it as a context."""
        self._access = access

    async def __aenter__(self) -> Self:
        tls: ssl.SSLContext = self._access.tls
        connector = aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS_MAX)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=120)
        self._http = aiohttp.ClientSession(connector=connector, timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def get(self, path: str) -> Object:
        """Read an object or a list."""
        return await self._ask("GET", path, None, "application/json")

    async def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at ``path``."""
        return await self._ask("POST", path, body, "application/json")

    async def merge(self, path: str, change: Object) -> Object:
        """Merge a change into the object at ``path``."""
        return await self._ask("PATCH", path, change, "application/merge-patch+json")

    async def watch(self, path: str, version: str) -> AsyncIterator[Object]:
        """Give the events of a collection from a version on."""
        query = {"watch": "true", "resourceVersion": version}
        async with self._http.get(self._access.server + path, params=query) as answer:
            answer.raise_for_status()
            left = b""
            async for chunk in answer.content.iter_any():
                *lines, left = (left + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def _ask(self, method: str, path: str, body: Object | None, content: str) -> Object:
        headers = {**self._access.headers(), "Content-Type": content}
        data = None if body is None else json.dumps(body).encode()
        url = self._access.server + path
        async with self._http.request(method, url, data=data, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]}")
            found: Object = json.loads(text)
            return found
