"""The engine of this worker: at most one life at a time, each with a name of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.system import RandomIds
from penstock.contract.control_messages import Command, EngineReport
from penstock.contract.ids import Incarnation, JobUid, Term
from penstock.contract.launch import EngineLaunch, EnginePlace
from penstock.contract.status import EngineProgress
from penstock.keeper.engine_process import EngineProcess, Spawn
from penstock.keeper.keeper_inbox import ForMember, KeeperInbox
from penstock.protocol.control_events import EngineGone, EngineReported

PAGE_NAME = "in-flight"  # one life at a time writes it


@dataclass(slots=True)
class EngineView:
    """What others are told about the engine: its life, its process, its latest counters.

    ``unready`` is why the newest life that has ended ended before it was ready, until one is.
    """

    incarnation: Incarnation = Incarnation("")
    pid: int | None = None
    starts: int = 0
    progress: EngineProgress | None = None
    unready: str | None = None


class Engines:
    """Starts and ends engines. All methods are for the loop; ``view`` may be read by any thread."""

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
        """Start a new life; an old one is killed first, though cores never ask for two."""
        if self._process is not None:
            self._process.kill()
        incarnation = Incarnation(RandomIds().fresh())
        # Files of an engine are of its life alone; restores copy what they need.
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
        """Pass a command to this life; lost when another one is running."""
        if self._process is not None and self._process.incarnation == incarnation:
            self._process.send(term, command)

    def end(self, incarnation: Incarnation) -> None:
        """End this life, by force after a moment; EngineGone follows.

        An empty name means the one that has not said hello yet.
        """
        if self._process is not None and incarnation in ("", self._process.incarnation):
            self._process.end()

    def kill(self) -> None:
        """End whatever runs, at once, and wait for it."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def ready(self, incarnation: Incarnation) -> None:
        """Hear that a life has said hello."""
        if self._process is not None and self._process.incarnation == incarnation:
            self._ready = True
            self.view.unready = None

    def forget(self, incarnation: Incarnation, reason: str) -> None:
        """Hear that a life has ended."""
        if self._process is not None and self._process.incarnation == incarnation:
            self._process = None
            self.view.pid = None
            self.view.unready = None if self._ready else reason
            self._changed()

    @property
    def running(self) -> bool:
        """Whether a life has begun whose end was not heard yet."""
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
