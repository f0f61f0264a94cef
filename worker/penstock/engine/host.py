"""The first process of the engine's container: starts engines when the keeper says so.

Without it the kubelet would start each engine, and wait longer before each one. It runs no user
code and decides nothing. It outlives its keepers: the container ends when the pod is told to end
and the keeper, which is told at the same moment, has gone.
"""

import collections
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from penstock.base.errors import PeerError
from penstock.base.limits import ENGINE_LAST_WORDS_LINES, KEEPER_DIAL_INTERVAL_S
from penstock.cluster.descriptors import DescriptorLink
from penstock.cluster.framing import LinkClosed
from penstock.cluster.host import (
    SOCKET_NAME,
    Began,
    Begin,
    Ended,
    FromHost,
    Kill,
    ToHost,
    spawn,
)
from penstock.cluster.memory_kills import MemoryKills, MemoryWitness
from penstock.contract.ids import Incarnation
from penstock.contract.launch import EngineLaunch
from penstock.contract.pod import ENV_ROOT, RUN_FOLDER, SCRATCH_FOLDER, below

LINE_CHARS_MAX = 2000
LAST_WORDS_CHARS_MAX = 32_000


def main() -> int:
    """Serve one keeper after another until the pod ends. Gives the exit status."""
    ending = threading.Event()

    def end(_number: int, _frame: object) -> None:
        ending.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    root = os.environ.get(ENV_ROOT, "/")
    empty(Path(below(root, SCRATCH_FOLDER)))
    serve(Path(below(root, RUN_FOLDER)) / SOCKET_NAME, ending, _print)
    return 0


def empty(folder: Path) -> None:
    """Remove what an earlier life of the container left; files of an engine are of its life."""
    for found in folder.glob("*"):
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found, ignore_errors=True)
        else:
            found.unlink(missing_ok=True)


def serve(path: Path, ending: threading.Event, say: Callable[[str], None]) -> None:
    """Dial the keeper at ``path``, do what it says, and again; until ``ending`` and it is gone."""
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
        except OSError:
            connection.close()
            if ending.wait(KEEPER_DIAL_INTERVAL_S):
                return
            continue
        Host(DescriptorLink(connection, ToHost), say, MemoryKills()).run()


class Host:
    """Serves one keeper; at most one engine lives, because the keeper asks for one at a time."""

    def __init__(
        self, link: DescriptorLink, say: Callable[[str], None], kills: MemoryKills
    ) -> None:
        """``say`` gets each line of an engine's standard error; ``kills`` are of this container."""
        self._link = link
        self._say = say
        self._kills = kills
        self._lives: dict[Incarnation, subprocess.Popen[bytes]] = {}

    def run(self) -> None:
        """Return when the keeper is gone and every engine has ended."""
        try:
            while True:
                message, descriptors = self._link.receive()
                match message:
                    case Begin():
                        self._begin(message, *descriptors)
                    case Kill(incarnation):
                        if incarnation in self._lives:
                            self._lives[incarnation].kill()
        except (LinkClosed, PeerError):
            self._link.close()
        for process in list(self._lives.values()):
            process.kill()
            process.wait()

    def _begin(self, order: Begin, descriptor: int | None = None) -> None:
        if descriptor is None:
            raise PeerError("an engine without a link to its keeper")
        try:
            place = replace(order.launch, socket=f"fd:{descriptor}")
            witness = MemoryWitness(self._kills)
            process = spawn(place, descriptor)
        finally:
            os.close(descriptor)
        life = order.launch.incarnation
        self._lives[life] = process
        self._tell(Began(life, process.pid))
        args = (order.launch, process, witness)
        threading.Thread(target=self._follow, args=args, name=f"engine-{process.pid}").start()

    def _follow(
        self, launch: EngineLaunch, process: "subprocess.Popen[bytes]", witness: MemoryWitness
    ) -> None:
        words: collections.deque[str] = collections.deque(maxlen=ENGINE_LAST_WORDS_LINES)
        assert process.stderr is not None, "started with a pipe"
        with process.stderr as stream:
            for line in stream:
                text = line.decode(errors="replace").rstrip()
                words.append(text[:LINE_CHARS_MAX])
                self._say(text)
        status = process.wait()
        shutil.rmtree(launch.scratch, ignore_errors=True)
        life = launch.incarnation
        self._lives.pop(life, None)
        self._tell(Ended(life, status, _bounded(words), witness.says(status)))

    def _tell(self, message: FromHost) -> None:
        try:
            self._link.send(message)
        except LinkClosed:
            return  # nobody is left who asked


def _bounded(words: "collections.deque[str]") -> tuple[str, ...]:
    kept: list[str] = []
    left = LAST_WORDS_CHARS_MAX
    for line in reversed(words):
        left -= len(line)
        if left < 0:
            break
        kept.append(line)
    return tuple(reversed(kept))


def _print(line: str) -> None:
    """Pass a line on to the container's log; what is no JSON, such as a traceback, becomes it."""
    if not line.startswith("{"):
        line = json.dumps({"component": "engine", "message": line}, ensure_ascii=False)
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except OSError:
        return
