"""A keeper's engines from the fork server of its machine; see :mod:`penstock.cluster.forks`."""

import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress

from penstock.base.errors import PeerError
from penstock.cluster.descriptors import DescriptorLink
from penstock.cluster.forks import Exited, Fork, Forked, FromForkServer
from penstock.cluster.framing import LinkClosed
from penstock.cluster.memory_kills import MemoryKills, MemoryWitness
from penstock.contract.launch import EngineLaunch
from penstock.keeper.engine_process import EngineChild, LocalChild, Spawn
from penstock.keeper.final_report import STATUS_UNKNOWN

STDOUT = 1  # this process's own: what user code prints belongs in the worker's log


def spawn_by(address: str) -> Spawn:
    """Return what has the fork server at ``address`` start engines; where it cannot, do so here."""

    def spawn(launch: EngineLaunch, theirs: socket.socket) -> EngineChild:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(address)
            return ForkedChild(launch, theirs, DescriptorLink(connection, FromForkServer))
        except (OSError, LinkClosed):  # it is gone
            connection.close()
            return LocalChild(launch, theirs)

    return spawn


class ForkedChild:
    """An engine that is the server's child; see :class:`penstock.keeper.engine_process.Child`."""

    def __init__(self, launch: EngineLaunch, theirs: socket.socket, server: DescriptorLink) -> None:
        """Ask ``server`` for it, which this object owns. Raises LinkClosed."""
        self._server = server
        self._pid: int | None = None
        self._handle: int | None = None
        self._killed = False
        self._witness = MemoryWitness(MemoryKills())
        self._status = STATUS_UNKNOWN  # until the server says: it may be gone before
        self._lock = threading.Lock()  # over the handle: its number may be another file's later
        self._ended = threading.Event()
        self._errors, errors = os.pipe()
        try:
            server.send(Fork(launch, os.getpgid(0)), theirs.fileno(), STDOUT, errors)
        except LinkClosed:
            os.close(self._errors)
            raise
        finally:
            os.close(errors)
        threading.Thread(target=self._follow, name="engine-forked", daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The process id, also of a process that has ended; None until it is known."""
        return self._pid

    @property
    def memory(self) -> str:
        """Return the limit of memory that ended it; see :class:`penstock.keeper.engine_process.Child`."""
        return self._witness.says(self._status)

    def kill(self) -> None:
        """End the process at once, or as soon as it begins."""
        with self._lock:
            self._killed = True
            if self._handle is not None:
                _kill(self._handle)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, a signal as its negative. Raises subprocess.TimeoutExpired."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("engine", timeout or 0.0)
        return self._status

    def lines(self) -> Iterator[str]:
        """Read its standard error to the end."""
        with os.fdopen(self._errors, errors="replace") as stream:
            yield from stream

    def _follow(self) -> None:
        try:
            while True:
                message, descriptors = self._server.receive()
                match message:
                    case Forked(pid):
                        self._begun(pid, *descriptors)
                    case Exited(status):
                        self._status = status
                        break
        except (LinkClosed, PeerError):
            self._outlive_server()
        self._server.close()
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
        self._ended.set()

    def _begun(self, pid: int, handle: int) -> None:
        with self._lock:
            self._pid, self._handle = pid, handle
            if self._killed:
                _kill(handle)

    def _outlive_server(self) -> None:
        """Wait for the process itself, which goes on without the server."""
        if self._handle is not None:
            ending = select.poll()
            ending.register(self._handle, select.POLLIN)
            ending.poll()


def _kill(handle: int) -> None:
    with suppress(ProcessLookupError):  # it has ended
        signal.pidfd_send_signal(handle, signal.SIGKILL)
