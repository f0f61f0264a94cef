"""Engines that another process starts: the fork server of a machine, or the host of a pod."""

import os
import queue
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from penstock.base.errors import PeerError
from penstock.base.limits import FORK_BEGIN_TIMEOUT_S, FORK_REQUEST_TIMEOUT_S
from penstock.cluster.host import Began, Begin, Ended, FromStarter, Kill
from penstock.cluster.link import DescriptorLink, LinkClosed
from penstock.cluster.memory_kills import MemoryKills, MemoryWitness
from penstock.contract.control_messages import EngineLaunch
from penstock.contract.ids import Incarnation
from penstock.keeper.engine_process import LINE_CHARS_MAX, EngineChild, LocalChild, Spawn
from penstock.keeper.final_report import STATUS_NEVER_BEGAN, STATUS_UNKNOWN

STDOUT = 1  # this process's own: what user code prints belongs in the worker's log


def spawn_by(address: str) -> Spawn:
    """Return a function that has the fork server at ``address`` start an engine.

    Where that server is gone, or has not begun an engine in time, this process starts engines itself.
    """
    silent = threading.Event()

    def spawn(launch: EngineLaunch, theirs: socket.socket) -> EngineChild:
        if silent.is_set():
            return LocalChild(launch, theirs)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(FORK_REQUEST_TIMEOUT_S)  # a server that is stopped accepts nobody
            connection.connect(address)
            return ForkedChild(launch, theirs, DescriptorLink(connection, FromStarter), silent.set)
        except (OSError, LinkClosed):  # it is gone
            connection.close()
            return LocalChild(launch, theirs)

    return spawn


class RemoteChild:
    """What is known of an engine that is another process's child: its number, and how it ended.

    It is half of an :class:`penstock.keeper.engine_process.EngineChild`. How a process is killed,
    and where its words come from, differs: a machine has a handle of the process and a pipe; out of
    another container both come as messages.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._pid: int | None = None
        self._status = STATUS_UNKNOWN
        self._memory = ""
        self._over = threading.Event()

    @property
    def pid(self) -> int | None:
        """The process id, also of a process that has ended; None until it is known."""
        return self._pid

    @property
    def memory(self) -> str:
        """Return, once it has ended, the limit of memory that ended it; empty when none did."""
        return self._memory

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, a signal as its negative. Raises subprocess.TimeoutExpired."""
        if not self._over.wait(timeout):
            raise subprocess.TimeoutExpired("engine", timeout or 0.0)
        return self._status

    def _end(self, status: int, memory: str) -> None:
        self._status, self._memory = status, memory
        self._over.set()


class ForkedChild(RemoteChild):
    """An engine that the fork server has forked."""

    def __init__(
        self, launch: EngineLaunch, theirs: socket.socket, server: DescriptorLink, on_silent: Callable[[], None]
    ) -> None:
        """Ask ``server`` for it, which this object owns. Raises LinkClosed.

        ``on_silent`` is called, by another thread, when the server has not begun it in time. It is given up then:
        if it begins later, it finds its link closed, and ends.
        """
        super().__init__()
        self._server = server
        self._on_silent = on_silent
        self._handle: int | None = None
        self._killed = False
        self._witness = MemoryWitness(MemoryKills())
        self._lock = threading.Lock()  # over the handle: its number may be another file's later
        self._errors, errors = os.pipe()
        try:
            server.send(Begin(launch, os.getpgid(0)), theirs.fileno(), STDOUT, errors)
        except LinkClosed:
            os.close(self._errors)
            raise
        finally:
            os.close(errors)
        threading.Thread(target=self._follow, name="engine-forked", daemon=True).start()

    def kill(self) -> None:
        """End the process at once, or as soon as it begins, if it does."""
        with self._lock:
            self._killed = True
            if self._handle is not None:
                _kill(self._handle)

    def lines(self) -> Iterator[str]:
        """Read its standard error to the end."""
        with os.fdopen(self._errors, errors="replace") as stream:
            while line := stream.readline(LINE_CHARS_MAX):
                yield line

    def _follow(self) -> None:
        status = STATUS_UNKNOWN  # until the server says: it may be gone before
        begin_by: float | None = time.monotonic() + FORK_BEGIN_TIMEOUT_S
        try:
            while True:
                message, descriptors = self._server.receive(begin_by)
                match message:
                    case Began():
                        begin_by = None
                        self._begun(message.pid, *descriptors)
                    case Ended():
                        status = message.status
                        break
        except (LinkClosed, PeerError):
            if begin_by is not None and time.monotonic() >= begin_by:
                status = STATUS_NEVER_BEGAN
                self._on_silent()
            self._outlive_server()
        self._server.close()
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)
        self._end(status, self._witness.says(status))

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


STATUS_GONE = -9  # as of SIGKILL: how a container ended that took its host along is not known


class HostedChild(RemoteChild):
    """An engine that the host in the other container has started, or is to start."""

    def __init__(self, launch: EngineLaunch, link: int, launcher: "EngineLauncher") -> None:
        """Own the descriptor ``link`` until the host has it."""
        super().__init__()
        self.launch = launch
        self.link: int | None = link
        self.host: DescriptorLink | None = None
        self._launcher = launcher
        self._words: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    @property
    def incarnation(self) -> Incarnation:
        """Return the life's name."""
        return self.launch.incarnation

    def kill(self) -> None:
        """Have it ended: at once if no host has begun it."""
        self._launcher.kill(self)

    def lines(self) -> Iterator[str]:
        """Yield its last lines when it has ended. The others are in the log of its container."""
        while (line := self._words.get()) is not None:
            yield line

    def began(self, pid: int) -> None:
        """Note that the process runs."""
        self._pid = pid

    def ended(self, status: int, final_report: tuple[str, ...], memory: str = "") -> None:
        """Note that it has ended. Only the first note counts. ``memory`` is as in ``Ended``."""
        if self._over.is_set():
            return
        self.drop_link()
        for line in final_report:
            self._words.put(line + "\n")
        self._words.put(None)
        self._end(status, memory)

    def drop_link(self) -> None:
        """Close our copy of the engine's end, so that its death is seen."""
        link, self.link = self.link, None
        if link is not None:
            os.close(link)


class EngineLauncher:
    """Listens for the host of engines. :meth:`spawn` is called by one thread."""

    def __init__(self, path: Path) -> None:
        """Listen at ``path``; a file that an earlier keeper left there is removed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._lock = threading.Lock()
        self._host: DescriptorLink | None = None
        self._child: HostedChild | None = None
        self._absent_since: float | None = time.monotonic()
        threading.Thread(target=self._accept, name="engine-hosts", daemon=True).start()

    def spawn(self, launch: EngineLaunch, theirs: socket.socket) -> HostedChild:
        """Have an engine start, now or when a host connects; never blocks for long."""
        child = HostedChild(launch, os.dup(theirs.fileno()), self)
        with self._lock:
            self._child = child
            if self._host is not None:
                self._begin(self._host, child)
        return child

    def absent_s(self, now: float) -> float:
        """Say for how long no host has been connected; 0 while one is."""
        since = self._absent_since
        return 0.0 if since is None else max(0.0, now - since)

    def kill(self, child: HostedChild) -> None:
        """End an engine; one that no host has begun ends here."""
        with self._lock:
            host = self._host
            never_began = host is None and child.link is not None
        if never_began:
            child.ended(STATUS_GONE, ("no container has started it",))
        elif host is not None:
            self._tell(host, Kill(child.incarnation))

    def close(self) -> None:
        """Accept no other host, and close the connection to the one that is there."""
        with suppress(OSError):  # no host has ever connected
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            host = self._host
        if host is not None:
            host.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            host = DescriptorLink(connection, FromStarter)
            with self._lock:
                before, self._host = self._host, host
                self._absent_since = None
                child = self._child
                if child is not None and child.link is not None:
                    self._begin(host, child)
            if before is not None:
                before.close()
            threading.Thread(target=self._listen, args=(host,), daemon=True).start()

    def _begin(self, host: DescriptorLink, child: HostedChild) -> None:
        assert child.link is not None, "held until a host has it"
        try:
            host.send(Begin(child.launch), child.link)
        except LinkClosed:
            return  # the next host begins it
        child.host = host
        child.drop_link()

    def _tell(self, host: DescriptorLink, message: Kill) -> None:
        try:
            host.send(message)
        except LinkClosed:
            return  # its engine ends with it

    def _listen(self, host: DescriptorLink) -> None:
        why = "the engine's container ended"
        try:
            while True:
                message, descriptors = host.receive()
                for descriptor in descriptors:  # none is asked for
                    os.close(descriptor)
                self._hear(message)
        except LinkClosed:
            pass
        except PeerError as error:
            why = f"the host of the engine sent what is no message: {error}"
        host.close()
        with self._lock:
            if self._host is host:
                self._host, self._absent_since = None, time.monotonic()
            child = self._child
        if child is not None and child.host is host:
            child.ended(STATUS_GONE, (why,))

    def _hear(self, message: FromStarter) -> None:
        child = self._child
        if child is None or child.incarnation != message.incarnation:
            return
        match message:
            case Began(_, pid):
                child.began(pid)
            case Ended(_, status, final_report, memory):
                child.ended(status, final_report, memory)
