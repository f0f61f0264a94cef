"""The engine of this worker: one process at a time, started, heard, ended, and reported once.

The threads of a process end with it: they wait for its end, and read and write its socket. The last
event of a process is EngineGone, after everything that the engine said.
"""

import queue
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.base.errors import PeerError
from penstock.base.limits import ENGINE_EXIT_GRACE_S, ENGINE_FIRST_WORD_S, MESSAGE_QUEUE_MAX
from penstock.base.values import replace
from penstock.cluster.host import spawn
from penstock.cluster.in_flight import read_in_flight
from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.link import KeeperLink, LinkClosed
from penstock.cluster.memory_kills import MemoryKills, MemoryWitness
from penstock.cluster.system import RandomIds
from penstock.contract.control_messages import Command, EngineLaunch, EnginePlace, EngineReport
from penstock.contract.ids import Incarnation, JobUid, Term
from penstock.contract.status import EngineProgress
from penstock.keeper.final_report import (
    EXIT_CANNOT_START,
    EXIT_CONNECTOR,
    EXIT_NOBODY_LISTENS,
    EXIT_STORAGE,
    STATUS_NEVER_BEGAN,
    STATUS_UNKNOWN,
    LastLines,
    Printed,
    story,
)
from penstock.keeper.keeper_messages import ForMember, KeeperInbox
from penstock.protocol.keeper_core_messages import EngineGone, EngineReported


class EngineChild(Protocol):
    """A process that was started, here or in the other container of this pod."""

    @property
    def pid(self) -> int | None:
        """Return its number, for people; None while it is not known."""
        ...

    @property
    def memory(self) -> str:
        """Return, once it has ended, the limit of memory that ended it; empty when none did."""
        ...

    def kill(self) -> None:
        """End it at once; harmless when it has ended."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status, a signal as its negative, STATUS_UNKNOWN if it is not known.

        Raises subprocess.TimeoutExpired.
        """
        ...

    def lines(self) -> Iterator[str]:
        """Yield the lines of its standard error, until its end; one that is too long comes in pieces."""
        ...


LINE_CHARS_MAX = 64 * 1024  # of standard error: dots without an end of line fill no memory
SAYS_WHY = (EXIT_CANNOT_START, EXIT_STORAGE, EXIT_CONNECTOR)
ENDS_WHEN_TOLD = (0, EXIT_NOBODY_LISTENS)


Spawn = Callable[[EngineLaunch, socket.socket], EngineChild]  # the socket is the engine's; never blocks


class EngineProcess:
    """Starts at construction. The callbacks are called from threads of this object."""

    def __init__(
        self,
        launch: EngineLaunch,
        on_report: Callable[[Incarnation, EngineReport], None],
        on_progress: Callable[[EngineProgress], None],
        on_gone: Callable[[EngineGone], None],
        *,
        spawn: Spawn,
        pass_on: Callable[[str], None],
    ) -> None:
        """Have ``spawn`` start ``launch`` with a link of its own.

        ``pass_on`` gets each line of its standard error.
        """
        self.incarnation = launch.incarnation
        self._scratch = launch.scratch
        self._page = Path(launch.page) if launch.page else None
        self._on_report = on_report
        self._on_progress = on_progress
        self._on_gone = on_gone
        self._pass_on = pass_on
        self._last_lines = LastLines()
        self._printed = Printed()
        self._has_spoken = threading.Event()
        self._told_to_end = False
        self._silent = False
        self._is_deaf = False
        self._unsent = ""
        self._outbox: queue.Queue[tuple[Term, Command] | None] = queue.Queue(MESSAGE_QUEUE_MAX)
        ours, theirs = socket.socketpair()
        self._link = KeeperLink(ours)
        with theirs:
            self._process = spawn(launch, theirs)
        self._errors_reader = threading.Thread(target=self._listen_to_errors, daemon=True)
        self._reader = threading.Thread(target=self._read, name="engine-reader", daemon=True)
        self._errors_reader.start()
        self._reader.start()
        threading.Thread(target=self._write, name="engine-writer", daemon=True).start()
        threading.Thread(target=self._wait, name="engine-waiter", daemon=True).start()

    @property
    def pid(self) -> int | None:
        """The process id, also of a process that has ended; None while it is not known."""
        return self._process.pid

    def send(self, term: Term, command: Command) -> None:
        """Queue a command; never blocks. Lost when the engine is gone.

        An engine that leaves ``MESSAGE_QUEUE_MAX`` commands unread is ended. Its member gives each command once, so
        an engine that missed one would wait for it for ever.
        """
        try:
            self._outbox.put_nowait((term, command))
        except queue.Full:
            if not self._is_deaf:
                self._is_deaf = True
                self._hang_up()

    def end(self) -> None:
        """Close the socket, which ends a healthy engine, and kill it if it still runs after the grace."""
        self._told_to_end = True
        self._hang_up()

    def _hang_up(self) -> None:
        self._link.close()
        threading.Thread(target=self._kill_later, name="engine-killer", daemon=True).start()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def join(self) -> None:
        """Wait until the process has ended."""
        self._process.wait()

    def _write(self) -> None:
        while (message := self._outbox.get()) is not None:
            try:
                self._link.send(*message)
            except LinkClosed:
                return
            except PeerError as error:  # it is given once: an engine without it would wait for it for ever
                self._unsent = f"an order was too long for the engine ({type(message[1]).__name__}): {error}"
                self._hang_up()
                return

    def _kill_later(self) -> None:
        try:
            self._process.wait(ENGINE_EXIT_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()

    def _listen_to_errors(self) -> None:
        for line in self._process.lines():
            self._last_lines.hear(line)
            self._pass_on(line.rstrip("\n"))

    def _read(self) -> None:
        while True:
            try:
                message = self._link.receive()
            except LinkClosed:
                break
            except PeerError as error:
                self._last_lines.hear(f"the engine sent what is no message: {error}")
                break
            self._has_spoken.set()
            if isinstance(message, EngineProgress):
                self._on_progress(message)
            else:
                self._on_report(self.incarnation, message)
        # No process whose socket is closed is used again, whatever it still does.
        self._hang_up()

    def _wait_for_end(self) -> int:
        """Wait for the end of the process; a process that never reports is killed."""
        try:
            return self._process.wait(ENGINE_FIRST_WORD_S)
        except subprocess.TimeoutExpired:
            if not self._has_spoken.is_set():
                self._silent = True
                self._process.kill()
        return self._process.wait()

    def _wait(self) -> None:
        status = self._wait_for_end()
        # A child of the engine may hold the other end open. The end of the engine is what counts.
        self._link.close()
        with suppress(queue.Full):  # the writer of a full queue finds the closed link by itself
            self._outbox.put_nowait(None)
        self._reader.join()
        self._errors_reader.join(ENGINE_EXIT_GRACE_S)
        in_flight = None if self._page is None else read_in_flight(self._page, self.incarnation)
        # Files that an engine kept on the local disk are of no use to the next one.
        shutil.rmtree(self._scratch, ignore_errors=True)
        heard = self._last_lines.lines()
        words = heard if status in SAYS_WHY else self._printed.last_lines() or heard
        how = ""
        if self._silent:
            how = f"the engine said nothing for {ENGINE_FIRST_WORD_S:.0f} s after its start"
        elif self._is_deaf:
            how = f"the engine left {MESSAGE_QUEUE_MAX} commands unread"
        elif self._unsent:
            how = self._unsent
        elif self._told_to_end and status in ENDS_WHEN_TOLD:
            how = "the engine ended, as it was told to"
        reason = story(status, words, in_flight, self._process.memory, how=how)
        known, fatal = status not in (STATUS_UNKNOWN, STATUS_NEVER_BEGAN), status == EXIT_CANNOT_START
        self._on_gone(EngineGone(self.incarnation, reason, fatal, known, storage=status == EXIT_STORAGE))


class LocalChild:
    """An engine that is this process's own child."""

    def __init__(self, launch: EngineLaunch, link: socket.socket) -> None:
        """Start it; it inherits ``link``."""
        place = replace(launch, socket=f"fd:{link.fileno()}")
        self._witness = MemoryWitness(MemoryKills())
        self._process = spawn(place, link.fileno())

    @property
    def pid(self) -> int | None:
        """The process id, also of a process that has ended."""
        return self._process.pid

    @property
    def memory(self) -> str:
        """Return the limit of memory that ended it; see :class:`EngineChild`."""
        return self._witness.says(self._process.wait())

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status."""
        return self._process.wait(timeout)

    def lines(self) -> Iterator[str]:
        """Read its standard error to the end."""
        stream = self._process.stderr
        assert stream is not None, "started with a pipe"
        with stream:
            while line := stream.readline(LINE_CHARS_MAX):
                yield line.decode(errors="replace")


PAGE_NAME = "in-flight"  # one life at a time writes it


@dataclass(slots=True)
class EngineView:
    """What others are told about the engine: its incarnation, its process, its latest counters.

    ``unready``: the newest engine that ended was not ready yet, for this reason. None after one is ready.
    """

    incarnation: Incarnation = Incarnation("")
    pid: int | None = None
    starts: int = 0
    progress: EngineProgress | None = None
    unready: str | None = None


class Engines:
    """Starts and ends engines. Only the loop calls its methods; any thread may read ``view``."""

    def __init__(
        self,
        launch: KeeperLaunch,
        inbox: KeeperInbox,
        changed: Callable[[], None],
        *,
        spawn: Spawn,
        place: EnginePlace,
        pass_on: Callable[[str], None],
    ) -> None:
        """``changed`` is called, by any thread, when there is news to announce.

        ``spawn`` starts a process, ``place`` says where its Flight server is to listen,
        ``pass_on`` gets what it says on its standard error, line by line.
        """
        self._launch = launch
        self._inbox = inbox
        self._changed = changed
        self._spawn = spawn
        self._place = place
        self._pass_on = pass_on
        self._process: EngineProcess | None = None
        self._ready = False
        self.view = EngineView()

    def start(self) -> None:
        """Start a new engine. An old one is killed first, although cores never ask for two."""
        if self._process is not None:
            self._process.kill()
        incarnation = Incarnation(RandomIds().fresh())
        # The files of an engine belong to it alone; restores copy what they need.
        before = self.view
        self.view = view = EngineView(incarnation, starts=before.starts + 1, unready=before.unready)
        self._ready = False
        self._process = EngineProcess(
            self._engine_launch(incarnation),
            self._said,
            self._progressed,
            self._gone,
            spawn=self._spawn,
            pass_on=self._pass_on,
        )
        view.pid = self._process.pid
        self._changed()

    def send(self, incarnation: Incarnation, term: Term, command: Command) -> None:
        """Pass a command to this engine; it is lost when another one runs."""
        if self._process is not None and self._process.incarnation == incarnation:
            self._process.send(term, command)

    def end(self, incarnation: Incarnation) -> None:
        """End this engine, by force after a moment; EngineGone follows.

        An empty name means the one that has not said hello yet.
        """
        if self._process is not None and incarnation in ("", self._process.incarnation):
            self._process.end()

    def kill(self) -> None:
        """End the running engine at once, and wait for it."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def ready(self, incarnation: Incarnation) -> None:
        """Note that an engine is ready."""
        if self._process is not None and self._process.incarnation == incarnation:
            self._ready = True
            self.view.unready = None

    def forget(self, incarnation: Incarnation, reason: str) -> None:
        """Note that an engine has ended."""
        if self._process is not None and self._process.incarnation == incarnation:
            self._process = None
            self.view.pid = None
            self.view.unready = None if self._ready else reason
            self._changed()

    @property
    def running(self) -> bool:
        """Whether an engine was started whose end was not reported yet."""
        return self._process is not None

    def _engine_launch(self, incarnation: Incarnation) -> EngineLaunch:
        launch = self._launch
        return EngineLaunch(
            job_uid=JobUid(launch.job_uid),
            job=launch.job,
            namespace=launch.namespace,
            ordinal=launch.ordinal,
            incarnation=incarnation,
            socket="",
            job_file=launch.job_file,
            storage=launch.storage,
            scratch=str(Path(launch.scratch) / incarnation),
            heartbeat_interval_s=launch.control.heartbeat_interval_s,
            place=self._place,
            page=str(Path(launch.pages or launch.scratch) / PAGE_NAME),
        )

    def _said(self, incarnation: Incarnation, report: EngineReport) -> None:
        process = self._process
        if process is not None and process.incarnation == incarnation:
            self.view.pid = process.pid  # of another container it comes later than the start
        self._inbox.put(ForMember(EngineReported(incarnation, report)))

    def _progressed(self, progress: EngineProgress) -> None:
        self.view.progress = progress
        self._changed()

    def _gone(self, gone: EngineGone) -> None:
        self._inbox.put(ForMember(gone))
