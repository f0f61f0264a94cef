"""A TCP proxy in front of the servers of a run: it cuts, resets, holds and slows real connections.

A process of the run asks for a front port when it has begun to listen (``tests/failpoints/hook``), and
advertises that port. So every connection of its peers passes here, and no code that ships knows it.
"""

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
PIECE_BYTES = 64 * 1024
RESET = struct.pack("ii", 1, 0)  # of SO_LINGER: to close is to reset


@dataclass(eq=False)
class Connection:
    """One connection through the proxy: two sockets. ``flows`` is cleared while it is half-open."""

    writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]
    flows: asyncio.Event = field(default_factory=asyncio.Event)
    bytes: int = 0

    def close(self, *, reset: bool) -> None:
        """End both sides, with RST or with FIN."""
        for writer in self.writers:
            opened = writer.get_extra_info("socket")
            if reset and opened.fileno() != -1:  # one side of a connection may have closed before the other
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort() if reset else writer.close()


@dataclass(eq=False)
class Link:
    """All that passes to one server. ``kind`` is ``grpc`` or ``flight``, ``role`` names its process."""

    kind: str
    role: str
    port: int
    front: int = 0
    delay_s: float = 0.0
    connections: set[Connection] = field(default_factory=set)
    seen: int = 0


class TcpProxy:
    """Serves front ports on a thread of its own, from construction until :meth:`close`."""

    def __init__(self, control: Path) -> None:
        """Listen for processes at the Unix socket ``control``."""
        self.control = control
        self._links: list[Link] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._servers: list[asyncio.Server] = [self._do(asyncio.start_unix_server(self._register, str(control)))]

    def close(self) -> None:
        """End all connections, and stop to listen."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def front(self, port: int) -> int:
        """Return a port that leads to ``port``."""
        return self._do(self._open("", "", port)).front

    def links(self, wanted: Callable[[Link], bool]) -> list[Link]:
        """Return the links that have begun to exist."""
        return [link for link in list(self._links) if wanted(link)]

    def cut(self, wanted: Callable[[Link], bool], *, reset: bool = False) -> int:
        """End the connections of some links; return how many."""

        async def cut() -> int:
            found = [c for link in self.links(wanted) for c in link.connections]
            for connection in found:
                connection.close(reset=reset)
            return len(found)

        return self._do(cut())

    def hold(self, wanted: Callable[[Link], bool]) -> int:
        """Let nothing more pass on the connections of now, which stay open. New connections are not held."""

        async def hold() -> int:
            found = [c for link in self.links(wanted) for c in link.connections]
            for connection in found:
                connection.flows.clear()
            return len(found)

        return self._do(hold())

    def slow(self, wanted: Callable[[Link], bool], delay_s: float) -> None:
        """Hold each piece up for so long, on all connections, until another delay is set."""
        for link in self.links(wanted):
            link.delay_s = delay_s

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for link in self._links:
            for connection in list(link.connections):
                connection.close(reset=True)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # --- On the proxy's thread --------------------------------------------------------------------

    async def _register(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = await self._open(**json.loads(await reader.readline()))
        writer.write(f"{link.front}\n".encode())
        await writer.drain()
        writer.close()

    async def _open(self, kind: str, role: str, port: int) -> Link:
        link = Link(kind, role, port)

        async def serve(theirs: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            with suppress(asyncio.CancelledError):  # of close(): streams would log it as an error
                await _serve(link, theirs, back)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        link.front = server.sockets[0].getsockname()[1]
        self._links.append(link)
        return link


async def _serve(link: Link, theirs: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
    try:
        ours, forth = await asyncio.open_connection("127.0.0.1", link.port)
    except OSError:
        back.transport.abort()  # as a server that is not there
        return
    connection = Connection((back, forth))
    connection.flows.set()
    link.connections.add(connection)
    link.seen += 1
    try:
        await asyncio.gather(_pump(link, connection, theirs, forth), _pump(link, connection, ours, back))
    finally:
        link.connections.discard(connection)
        connection.close(reset=False)


async def _pump(link: Link, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            await connection.flows.wait()
            if link.delay_s:
                await asyncio.sleep(link.delay_s)
            connection.bytes += len(piece)
            writer.write(piece)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.write_eof()
