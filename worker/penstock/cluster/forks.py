"""A process that has loaded what every engine needs, and forks one when a keeper asks for it.

::

    keeper ── Fork(launch, group) + link, stdout, stderr ──> fork server ──fork──> engine
           <── Forked(pid) + a handle of the process ────────────
           <── Exited(status) ──────────────────────────────────

Loading takes a second of a processor for every engine that is started alone; a fork takes none.
There is one connection per engine, and the engine's link to its keeper does not pass through the
server: it may be killed, and no engine minds. A keeper that finds none starts engines by itself.
"""

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.contract.codec import Message
from penstock.contract.launch import EngineLaunch


class Fork(Message, tag="Fork"):
    """Run the engine ``launch`` in the process group ``group``.

    The message carries three descriptors: the engine's link, its standard output and error.
    """

    launch: EngineLaunch
    group: int


class Forked(Message, tag="Forked"):
    """The engine runs; the message carries a pidfd, which names this process and no later one."""

    pid: int


class Exited(Message, tag="Exited"):
    """The engine has ended; ``status`` as of ``subprocess``: below zero for a signal."""

    status: int


FromForkServer = Forked | Exited


class ForkServer:
    """A fork server and the socket it listens on; ends with the process that made it."""

    def __init__(self) -> None:
        """Start it; engines may be asked for at once, and come when it has loaded."""
        self._folder = tempfile.mkdtemp(prefix="penstock-")  # a socket's path must be short
        self.address = f"{self._folder}/engines"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(self.address)
                listener.listen()
                self._process = _started(listener)
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def close(self) -> None:
        """End it, not its engines. Idempotent."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None, "started with a pipe"
        self._process.stdin.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _started(listener: socket.socket) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.engine.fork_server", str(listener.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[listener.fileno()],
        process_group=0,  # Ctrl-C is for its parent, which ends it in its own time
    )


def start_fork_server() -> ForkServer | None:
    """Start one where processes can be forked after libraries are loaded: on Linux.

    Without a folder for its socket (a full or read-only disk, a long path) there is none either.
    """
    if sys.platform != "linux":
        return None
    try:
        return ForkServer()
    except OSError:
        return None


@contextmanager
def fork_server() -> Iterator[ForkServer | None]:
    """Have one for a while, where there can be one."""
    server = start_fork_server()
    try:
        yield server
    finally:
        if server is not None:
            server.close()


def remove_socket(listener: socket.socket) -> None:
    """Do what :meth:`ForkServer.close` can no longer do: its process was killed."""
    shutil.rmtree(Path(listener.getsockname()).parent, ignore_errors=True)
