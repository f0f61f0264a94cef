"""A keeper and the host of engines in the other container of its pod: one Unix socket.

::

    keeper ── Begin(launch) + one end of a socket pair ──> host ──fork──> engine
           ── Kill(incarnation) ─────────────────────────>
           <── Began(incarnation, pid) ──────────────────
           <── Ended(incarnation, status, last words) ────

The engine then talks to its keeper over the pair, as on one machine: the host passes nothing on.
Either side's end closes the socket; whoever is left ends what it had with the other.
"""

import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.cluster.framing import LENGTH, LinkClosed, body_length, end, framed, read_exactly
from penstock.contract.codec import decode, encode
from penstock.contract.ids import Incarnation
from penstock.contract.launch import EngineLaunch

SOCKET_NAME = "engine.sock"


@dataclass(frozen=True, slots=True)
class Begin:
    """Start this life; the message carries a file descriptor, the engine's end of its link."""

    launch: EngineLaunch


@dataclass(frozen=True, slots=True)
class Kill:
    """End this life's process at once; another one, or none, is no error."""

    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class Began:
    """The process runs; ``pid`` is its number in the host's container."""

    incarnation: Incarnation
    pid: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The process has ended; ``status`` as of ``subprocess``: below zero for a signal."""

    incarnation: Incarnation
    status: int
    last_words: tuple[str, ...] = ()


ToHost = Begin | Kill
FromHost = Began | Ended


class HostLink:
    """One end of that socket; ``receive`` is for one thread, ``send`` for any."""

    def __init__(self, connection: socket.socket, kind: Any) -> None:
        """Own ``connection``; ``kind`` is what the other side says."""
        self._socket = connection
        self._kind = kind
        self._sending = threading.Lock()

    def send(self, message: ToHost | FromHost, descriptor: int | None = None) -> None:
        """Send one message, with a file descriptor if one is given. Raises LinkClosed."""
        head, body = framed(message)
        descriptors = [] if descriptor is None else [descriptor]
        try:
            with self._sending:
                socket.send_fds(self._socket, [head], descriptors)
                self._socket.sendall(body)
        except OSError as error:
            raise LinkClosed(str(error)) from error

    def receive(self) -> tuple[Any, int | None]:
        """Wait for a message and what came with it. Raises LinkClosed, PeerError on nonsense."""
        head, descriptors = self._head()
        message = decode(self._kind, read_exactly(self._socket, body_length(head)))
        return message, descriptors[0] if descriptors else None

    def close(self) -> None:
        """End both directions; a thread that waits in ``receive`` gets LinkClosed. Idempotent."""
        end(self._socket)

    def _head(self) -> tuple[bytes, list[int]]:
        try:
            head, descriptors, _, _ = socket.recv_fds(self._socket, LENGTH.size, 1)
        except OSError as error:
            raise LinkClosed(str(error)) from error
        if not head:
            raise LinkClosed("the other container ended")
        return head + read_exactly(self._socket, LENGTH.size - len(head)), descriptors


def spawn(launch: EngineLaunch, link: int) -> "subprocess.Popen[bytes]":
    """Start ``python -m penstock.engine``, with the descriptor ``link``; stderr is a pipe.

    The launch file lies in the life's own scratch folder, which is made.
    """
    scratch = Path(launch.scratch)
    scratch.mkdir(parents=True, exist_ok=True)
    file = scratch / "launch.json"
    file.write_bytes(encode(launch))
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.engine", str(file)],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[link],
    )
