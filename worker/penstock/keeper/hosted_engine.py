"""The keeper's end of the socket to the engine's container: who starts engines there.

A life may be asked for before a host has come; it begins when one does. A host that goes takes its
engine with it, and the next one starts with nothing.
"""

import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.base.errors import PeerError
from penstock.cluster.descriptors import DescriptorLink
from penstock.cluster.framing import LinkClosed
from penstock.cluster.host import Began, Begin, Ended, FromHost, Kill
from penstock.contract.ids import Incarnation
from penstock.contract.launch import EngineLaunch

STATUS_GONE = -9  # as of SIGKILL: nobody knows how a container ended that took its host along


class HostedChild:
    """A life in the other container; see :class:`penstock.keeper.engine_process.Child`."""

    def __init__(self, launch: EngineLaunch, link: int, door: "EngineLauncher") -> None:
        """Own the descriptor ``link`` until the host has it."""
        self.launch = launch
        self.link: int | None = link
        self.host: DescriptorLink | None = None
        self._door = door
        self._pid: int | None = None
        self._status: int | None = None
        self._memory = ""
        self._ended = threading.Event()
        self._words: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    @property
    def incarnation(self) -> Incarnation:
        """Return the life's name."""
        return self.launch.incarnation

    @property
    def pid(self) -> int | None:
        """Return its number in the other container, once it has begun."""
        return self._pid

    @property
    def memory(self) -> str:
        """Return the limit of memory that ended it, as its host says."""
        return self._memory

    def kill(self) -> None:
        """Have it ended; at once if it never began."""
        self._door.kill(self)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, a signal as its negative. Raises subprocess.TimeoutExpired."""
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired("engine", timeout or 0.0)
        assert self._status is not None
        return self._status

    def lines(self) -> Iterator[str]:
        """Yield its last words, when it has ended: the rest is in its container's own log."""
        while (line := self._words.get()) is not None:
            yield line

    def began(self, pid: int) -> None:
        """Hear that the process runs."""
        self._pid = pid

    def ended(self, status: int, final_report: tuple[str, ...], memory: str = "") -> None:
        """Hear that it has ended; only the first word counts. ``memory`` as of ``Ended``."""
        if self._ended.is_set():
            return
        self.drop_link()
        for line in final_report:
            self._words.put(line + "\n")
        self._words.put(None)
        self._status, self._memory = status, memory
        self._ended.set()

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
        """Have a life begin, now or when a host comes; never blocks for long."""
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
        """End a life; one that no host has begun ends here."""
        with self._lock:
            host = self._host
            never_began = host is None and child.link is not None
        if never_began:
            child.ended(STATUS_GONE, ("no container has started it",))
        elif host is not None:
            self._tell(host, Kill(child.incarnation))

    def close(self) -> None:
        """Let no other host in, and hang up on the one that is there."""
        with suppress(OSError):  # nobody has ever called
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
            host = DescriptorLink(connection, FromHost)
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
            why = f"the engine's host spoke nonsense: {error}"
        host.close()
        with self._lock:
            if self._host is host:
                self._host, self._absent_since = None, time.monotonic()
            child = self._child
        if child is not None and child.host is host:
            child.ended(STATUS_GONE, (why,))

    def _hear(self, message: FromHost) -> None:
        child = self._child
        if child is None or child.incarnation != message.incarnation:
            return
        match message:
            case Began(_, pid):
                child.began(pid)
            case Ended(_, status, final_report, memory):
                child.ended(status, final_report, memory)
