"""Bounds on who calls the page of probes and metrics, which anybody in the cluster may do.

aiohttp waits without end for the rest of a request, and takes any number of connections. Here a
connection ends after a deadline. Of too many connections, the one that has been there longest ends: a
probe takes milliseconds, so it is never that one.
"""

import asyncio
from collections.abc import Callable

from penstock.base.limits import PAGE_CALLERS_MAX, PAGE_REQUEST_TIMEOUT_S


class Callers:
    """Makes a protocol for each connection, by ``make``. All of it runs in one event loop."""

    def __init__(self, make: Callable[[], asyncio.Protocol]) -> None:
        """Have no connection yet."""
        self._make = make
        self.open: dict[asyncio.Transport, None] = {}  # oldest first

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        return _Caller(self._make(), self)

    def add(self, transport: asyncio.Transport) -> None:
        """Take a connection. When there are too many, the oldest one is ended."""
        if len(self.open) >= PAGE_CALLERS_MAX:
            oldest = next(iter(self.open))
            del self.open[oldest]
            oldest.abort()
        self.open[transport] = None


class _Caller(asyncio.Protocol):
    """One connection: passes everything on, and ends at the deadline."""

    def __init__(self, inner: asyncio.Protocol, callers: Callers) -> None:
        self._inner = inner
        self._callers = callers
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport), "of a stream socket"
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(PAGE_REQUEST_TIMEOUT_S, transport.abort)
        self._inner.connection_made(transport)
        self._callers.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._transport is not None:
            self._callers.open.pop(self._transport, None)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
