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
"""

import subprocess
import sys
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
