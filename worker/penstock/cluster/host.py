"""A keeper and the host of engines in the other container of its pod: one Unix socket.

::

    keeper ── Begin(launch) + one end of a socket pair ──> host ──fork──> engine
           ── Kill(incarnation) ─────────────────────────>
           <── Began(incarnation, pid) ──────────────────
           <── Ended(incarnation, status, last words) ────

The engine then talks to its keeper over the pair, as on one machine: the host passes nothing on.
Either side's end closes the socket; whoever is left ends what it had with the other.
"""

import subprocess
import sys
from pathlib import Path

from penstock.contract.codec import Message, encode
from penstock.contract.ids import Incarnation
from penstock.contract.launch import EngineLaunch

SOCKET_NAME = "engine.sock"


class Begin(Message, tag="Begin"):
    """Start this life; the message carries a file descriptor, the engine's end of its link."""

    launch: EngineLaunch


class Kill(Message, tag="Kill"):
    """End this life's process at once; another one, or none, is no error."""

    incarnation: Incarnation


class Began(Message, tag="Began"):
    """The process runs; ``pid`` is its number in the host's container."""

    incarnation: Incarnation
    pid: int


class Ended(Message, tag="Ended"):
    """The process has ended; ``status`` as of ``subprocess``: below zero for a signal.

    ``memory`` is not empty when the kernel has ended it because memory ran out: what the limit was.
    """

    incarnation: Incarnation
    status: int
    last_words: tuple[str, ...] = ()
    memory: str = ""


ToHost = Begin | Kill
FromHost = Began | Ended


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
