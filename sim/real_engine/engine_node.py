"""One life of an engine: the worker that ships, on threads that the scheduler runs.

It takes the place of :class:`sim.cluster.engine.EngineNode`: the keeper's socket brings it orders, and
takes its reports. ``penstock.engine.main`` does the same with a real socket.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from penstock.base.threads import Event, SimpleQueue
from penstock.contract import control_messages as msg
from penstock.contract.ids import Incarnation, JobUid, Ordinal
from penstock.contract.status import EngineProgress
from penstock.contract.trust import IngestPlace
from penstock.engine.build import JobParts
from penstock.engine.worker import Worker
from penstock.graph.compiled import CompiledJob
from penstock.ports import FileSystem
from penstock.storage.blobs import DirectoryBlobStore
from penstock.transport.exchange import Identity
from sim.kernel.kernel import SimCrash, SimKernel
from sim.kernel.messages import Compiled, Order, SocketClosed
from sim.real_engine.rest_rules import check_rest
from sim.real_engine.thread_scheduler import ThreadScheduler

STORAGE = Path("/storage")
WALL_S = 1_700_000_000


class EngineHost(Protocol):
    """The environment of an engine."""

    kernel: SimKernel
    scheduler: ThreadScheduler
    compiled: CompiledJob
    job_uid: JobUid
    beat_us: int

    @property
    def storage(self) -> Path:
        """Return the job's directory on the shared disk."""
        ...

    def to_keeper(self, engine: str, incarnation: Incarnation, report: msg.EngineReport) -> None:
        """Pass a report to the engine's keeper, in order. Raises SimCrash when the engine dies of it."""
        ...

    def reported(self, ordinal: Ordinal, report: msg.EngineReport) -> None:
        """Check a report before it leaves. Raises Violation."""
        ...

    def died(self, name: str) -> None:
        """End a process."""
        ...

    def mount(self, name: str, end: Callable[[], None]) -> FileSystem:
        """Return the shared disk as a process sees it. ``end`` ends the process."""
        ...

    def scratch(self, name: str) -> Path:
        """Return an empty folder of a process."""
        ...


class RealEngineNode:
    """See the module. It is the clock of its worker as well."""

    def __init__(self, host: EngineHost, ordinal: Ordinal, name: str) -> None:
        self._host = host
        self._kernel = host.kernel
        self.ordinal = ordinal
        self._name = name
        self._incarnation = Incarnation(name)
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._worker: Worker | None = None

    def handle(self, event: object, now: float) -> None:
        """Take one event of the keeper's socket."""
        match event:
            case Compiled():
                self._host.scheduler.spawn(self._run, "main", self._name)
            case Order():
                self._orders.put(event)
            case SocketClosed():
                raise SimCrash

    def check_rest(self) -> None:
        """Check what must hold when no thread can run. Raises Violation."""
        if self._worker is not None:
            check_rest(self._worker)

    def monotonic(self) -> float:
        """Return this engine's clock."""
        return self._kernel.clock(self._name)

    def wall_us(self) -> int:
        """Return this engine's wall clock."""
        return int((WALL_S + self._kernel.clock(self._name)) * 1_000_000)

    def _run(self) -> None:
        host, compiled = self._host, self._host.compiled
        identity = Identity(host.job_uid, self.ordinal, self._incarnation)
        files = host.mount(self._name, self.end)
        warmed = Event()
        warmed.set()
        worker = self._worker = Worker(
            self.ordinal,
            self._incarnation,
            JobParts(compiled, identity, host.scratch(self._name), files=files, shared=host.storage),
            DirectoryBlobStore(host.storage, files),
            say=self._say,
            clock=self,
            heartbeat_interval_s=host.beat_us / 1_000_000,
            warmed=warmed,
            ingest=IngestPlace("worker", 1),
        )
        self._say(msg.EngineHello(self.ordinal, self._incarnation, worker.address, compiled.plan))
        self._obey(worker)
        self.end()

    def _obey(self, worker: Worker) -> None:
        while True:
            order = self._orders.get()
            if isinstance(order.command, msg.Shutdown):
                worker.close()
                return
            worker.command(order.term, order.command)

    def _say(self, report: msg.EngineReport | EngineProgress) -> None:
        self._host.scheduler.point()
        if isinstance(report, EngineProgress):
            return
        self._host.reported(self.ordinal, report)
        try:
            self._host.to_keeper(self._name, self._incarnation, report)
        except SimCrash:
            self.end()

    def end(self) -> None:
        """End this process from one of its own threads, which does not return."""
        self._host.died(self._name)
        self._host.scheduler.vanish()
