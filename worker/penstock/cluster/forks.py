"""The fork server of a machine: it has loaded what every engine needs, and forks one when asked.

Loading takes a second of a processor for every engine that is started alone. A fork takes none. The
messages are in :mod:`penstock.cluster.host`. A server that was killed ends no engine, and a keeper
that finds no server starts engines by itself.
"""

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
