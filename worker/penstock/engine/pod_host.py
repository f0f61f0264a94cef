"""The first process of the engine's container: starts engines when the keeper says so.

Without it the kubelet would start each engine, and wait longer before each start. It runs no user
code and decides nothing. It outlives its keepers: the container ends when the pod gets its end
signal and the keeper, which gets the signal at the same time, has ended.
"""

import collections
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from penstock.base.errors import PeerError
from penstock.base.limits import (
    ENGINE_EXIT_GRACE_S,
    ENGINE_LAST_LINES_MAX,
    KEEPER_DIAL_INTERVAL_S,
)
from penstock.base.threads import Event, Thread
from penstock.base.values import replace
from penstock.cluster.host import (
    SOCKET_NAME,
    Began,
    Begin,
    Ended,
    FromStarter,
    Kill,
    ToHost,
    spawn,
)
from penstock.cluster.link import DescriptorLink, LinkClosed
from penstock.cluster.memory_kills import MemoryKills, MemoryWitness
from penstock.cluster.parent import hide_from_others
from penstock.contract.control_messages import EngineLaunch
from penstock.contract.ids import Incarnation
from penstock.contract.pod import ENV_POD_NAME, ENV_ROOT, RUN_FOLDER, SCRATCH_FOLDER, below
from penstock.engine.main import EXIT_STORAGE
from penstock.metrics.logs import JsonLog, Log

Say = Callable[[str, str], None]
STDERR, STDOUT = "engine", "engine-stdout"  # sources of lines: user code may have written them
LINE_BYTES_MAX = 64 * 1024
LINE_CHARS_MAX = 2000
LAST_LINES_CHARS_MAX = 32_000


def main() -> int:
    """Serve one keeper after another until the pod ends. Gives the exit status."""
    ending = Event()

    def end(_number: int, _frame: object) -> None:
        ending.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    root = os.environ.get(ENV_ROOT, "/")
    hide_from_others()
    empty(Path(below(root, SCRATCH_FOLDER)))
    log: Log = JsonLog("engine", {"pod": os.environ.get(ENV_POD_NAME)})
    serve(Path(below(root, RUN_FOLDER)) / SOCKET_NAME, ending, log.quote)
    return 0


def empty(folder: Path) -> None:
    """Remove what an earlier life of the container left; files of an engine are of its life."""
    for found in folder.glob("*"):
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found, ignore_errors=True)
        else:
            found.unlink(missing_ok=True)


def serve(path: Path, ending: Event, say: Say) -> None:
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
        PodHost(DescriptorLink(connection, ToHost), say, MemoryKills()).run()


class PodHost:
    """Serves one keeper; at most one engine lives, because the keeper asks for one at a time."""

    def __init__(self, link: DescriptorLink, say: Say, kills: MemoryKills) -> None:
        """``say`` hears which output of an engine said a line; ``kills`` are of this container."""
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
        life = order.launch.incarnation
        try:
            place = replace(order.launch, socket=f"fd:{descriptor}")
            witness = MemoryWitness(self._kills)
            process = spawn(place, descriptor, subprocess.PIPE)
        except OSError as error:  # a full disk, or no room for a process: the container, and its keeper, go on
            self._tell(Ended(life, EXIT_STORAGE, (f"the engine cannot be started: {error}",)))
            return
        finally:
            os.close(descriptor)
        self._lives[life] = process
        self._tell(Began(life, process.pid))
        args = (order.launch, process, witness)
        Thread(target=self._follow, args=args, name=f"engine-{process.pid}").start()

    def _pass_on(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None, "started with a pipe"
        with process.stdout as stream:
            for text in lines_of(stream):
                self._say(STDOUT, text)

    def _follow(self, launch: EngineLaunch, process: "subprocess.Popen[bytes]", witness: MemoryWitness) -> None:
        words: collections.deque[str] = collections.deque(maxlen=ENGINE_LAST_LINES_MAX)
        out = Thread(target=self._pass_on, args=(process,), name=f"out-{process.pid}")
        out.start()
        assert process.stderr is not None, "started with a pipe"
        with process.stderr as stream:
            for text in lines_of(stream):
                words.append(text[:LINE_CHARS_MAX])
                self._say(STDERR, text)
        status = process.wait()
        out.join(ENGINE_EXIT_GRACE_S)  # a child of user code may hold it open
        shutil.rmtree(launch.scratch, ignore_errors=True)
        life = launch.incarnation
        self._lives.pop(life, None)
        self._tell(Ended(life, status, _bounded(words), witness.says(status)))

    def _tell(self, message: FromStarter) -> None:
        try:
            self._link.send(message)
        except LinkClosed:
            return  # nobody is left who asked


def _bounded(words: "collections.deque[str]") -> tuple[str, ...]:
    kept: list[str] = []
    left = LAST_LINES_CHARS_MAX
    for line in reversed(words):
        left -= len(line)
        if left < 0:
            break
        kept.append(line)
    return tuple(reversed(kept))


def lines_of(stream: IO[bytes]) -> Iterator[str]:
    """Yield the lines of an engine's output; one that is too long comes in pieces."""
    while line := stream.readline(LINE_BYTES_MAX):
        yield line.decode(errors="replace").rstrip()
