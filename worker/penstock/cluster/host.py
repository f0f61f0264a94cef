"""How a keeper has another process start engines: the same messages on a machine and in a pod.

::

    keeper ── Begin(launch, group) + link, stdout, stderr ──> fork server ──fork──> engine
           <── Began(incarnation, pid) + a pidfd ────────────
           <── Ended(incarnation, status) ───────────────────

    keeper ── Begin(launch) + link ─────────────────────────> host of the pod ──> engine
           ── Kill(incarnation) ────────────────────────────>
           <── Began(incarnation, pid) ──────────────────────
           <── Ended(incarnation, status, last lines, memory)

The engine then talks to its keeper over its link, a socket pair: whoever started it passes nothing
on. On a machine there is one connection for each engine, and a keeper kills by the pidfd, so that
an engine outlives its fork server. A pidfd ends at the border of a container. There a keeper kills
by a message, and a host that loses its keeper ends its engine.

A fork server has loaded what every engine needs, and forks an engine when asked. Loading takes a
second of a processor for every engine that is started alone. A fork takes none. A server that was
killed ends no engine, and a keeper that finds no server starts engines by itself.
"""

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.contract.codec import Message, encode
from penstock.contract.control_messages import EngineLaunch
from penstock.contract.ids import Incarnation

SOCKET_NAME = "engine.sock"


class Begin(Message, tag="Begin"):
    """Start this engine. The message carries file descriptors: the engine's end of its link first.

    To a fork server it also carries standard output and standard error, and ``group``: the process
    group that the engine joins. A host keeps both outputs itself, and ignores ``group``.
    """

    launch: EngineLaunch
    group: int = 0


class Kill(Message, tag="Kill"):
    """End this engine's process at once. Another engine, or none, is no error. For a host only."""

    incarnation: Incarnation


class Began(Message, tag="Began"):
    """The process runs; ``pid`` is its number where it was started.

    From a fork server the message carries a pidfd, which names this process and no later one.
    """

    incarnation: Incarnation
    pid: int


class Ended(Message, tag="Ended"):
    """The process has ended; ``status`` as of ``subprocess``: below zero for a signal.

    From a host: ``last_lines`` are the last lines of its standard error. ``memory`` is the limit of
    memory for which the kernel has ended it, or empty.
    """

    incarnation: Incarnation
    status: int
    last_lines: tuple[str, ...] = ()
    memory: str = ""


ToHost = Begin | Kill
FromStarter = Began | Ended


def spawn(launch: EngineLaunch, link: int, stdout: int | None = None) -> "subprocess.Popen[bytes]":
    """Start ``python -m penstock.engine``, with the descriptor ``link``; stderr is a pipe.

    ``stdout`` is as of :class:`subprocess.Popen`; None: that of this process. The launch file lies
    in the life's own scratch folder, which is made.
    """
    scratch = Path(launch.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    file = scratch / "launch.json"
    file.write_bytes(encode(launch))
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.engine", str(file)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        pass_fds=[link],
    )


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
