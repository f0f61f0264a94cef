"""The control plane of a simulated cluster: keepers, supervisor, stores, sockets and faults.

The engines are of two kinds: the tasks and channels of ``sim/cluster`` (see :class:`sim.world.World`),
or the engine that ships (see ``sim/real_engine``).
"""

from collections.abc import Callable
from dataclasses import dataclass

from penstock.contract.control_messages import Command, EngineReport
from penstock.contract.ids import Attempt, Incarnation, JobUid, Ordinal, SwapId, Term
from penstock.contract.latest import Desired, Latest
from penstock.protocol import keeper_core_messages as km
from penstock.protocol.member.member_core import EnginePhase
from sim.checks.call_recorder import LEASE, CallRecorder
from sim.cluster.keeper import (
    DESIRED,
    LATEST,
    Booted,
    EngineEnded,
    Hint,
    KeeperNode,
    Said,
)
from sim.cluster.services import CALL_TIMEOUT_US, Service
from sim.cluster.supervisor import KeeperDied, Look, SupervisorNode
from sim.kernel.calls import (
    READS,
    Call,
    DeleteFiles,
    LinkFile,
    MetaSwap,
    Op,
    PublishFile,
    PublishTable,
    Put,
    Reply,
    Unstage,
    WriteLease,
)
from sim.kernel.faults import Faults, Verdict
from sim.kernel.kernel import SECOND, SimCrash, SimKernel, SimNode, Violation
from sim.kernel.messages import Compiled, Order, SocketClosed
from sim.kernel.nemesis import Moment, Timed
from sim.kernel.network import Network, Packet
from sim.scenario import Scenario

SOCKET_US = (20, 400)
COMPILE_US = (20_000, 150_000)
HINTED = 0.5  # of the writes are told to a keeper
HINT_US = (100, 60_000)
COLLECTED_WITHIN_US = 8 * SECOND  # of the end of the job: the keepers' garbage
KIND: dict[type, str] = {
    MetaSwap: "swap",
    WriteLease: "lease",
    Put: "put",
    LinkFile: "put",
    DeleteFiles: "delete",
    PublishFile: "publish",
    PublishTable: "publish",
    Unstage: "unstage",
}


@dataclass(slots=True)
class SimWorker:
    """The processes of one worker: their names and newest lives."""

    lives: int = 0
    engines: int = 0
    keeper: str = ""
    engine: str = ""
    gone: bool = False


@dataclass(frozen=True, slots=True)
class ClusterParts:
    """What the control plane stands on. ``service`` has the stores, ``faults`` draws outcomes."""

    kernel: SimKernel
    network: Network
    service: Service
    faults: Faults


class ControlPlane:
    """The processes of the cluster other than engines, and what connects all of them."""

    def __init__(self, scenario: Scenario, parts: ClusterParts, job_uid: JobUid, host_of: dict[str, str]) -> None:
        """Have no process yet: see :meth:`begin`. ``host_of`` is the network's, and gets all processes."""
        self.scenario = scenario
        self.kernel = parts.kernel
        self.network = parts.network
        self.service = parts.service
        self.faults = parts.faults
        self.job_uid = job_uid
        self.host_of = host_of
        self.workers: dict[Ordinal, SimWorker] = {}
        self.keeper_of: dict[str, str] = {}
        self._keepers: dict[str, KeeperNode] = {}
        self.control = scenario.control
        self.beat_us = int(scenario.control.heartbeat_interval_s * SECOND)
        self.poll_us = scenario.poll_us
        self.moments: tuple[Moment, ...] = ()
        self.plan: tuple[Timed, ...] = ()
        self.service.noted = self._hint
        self.recorder = CallRecorder(lambda: self.kernel.now_us, LATEST)
        self.kernel.delivered = self.recorder.delivered

    def new_engine(self, ordinal: Ordinal, name: str) -> SimNode:
        """Return a new life of a worker's engine."""
        raise NotImplementedError

    def _advance(self, until_us: int, *, until_done: bool = False) -> bool:
        """Run up to a time, or until the job has ended. Return whether it has. Raises Violation."""
        raise NotImplementedError

    def begin(self, injector: SimNode) -> None:
        """Start the stores, the supervisor and the workers. ``injector`` performs the plan."""
        self.kernel.add("store", self.service)
        self.kernel.add("net", self.network)
        self.kernel.add("fault_injector", injector)
        self.supervisor = SupervisorNode(self.kernel, self, self.scenario.workers)
        self.kernel.add("super", self.supervisor)
        self.begin_object()
        self.begin_lease()
        self.write_desired(self.supervisor.desired)
        for number in range(self.scenario.workers):
            self.start_worker(Ordinal(number))
        self.kernel.at(SECOND, "super", Look())
        for timed in self.plan:
            self.kernel.at(timed.at_us, "fault_injector", timed.what)
        self.kernel.listener = self._happened

    def begin_object(self) -> None:
        """Write the first ``-latest`` of a job."""
        self.service.write(LATEST, Latest(self.job_uid, SwapId("none")))
        self.recorder.begin(LATEST, self.service.objects[LATEST].version, SwapId("none"))

    def begin_lease(self) -> None:
        """Note the first state of the Lease of a job."""
        self.recorder.begin(LEASE, self.service.lease_version, self.service.lease_holder)

    def _hint(self) -> None:
        """Tell some keepers of a write. A watch may be late or drop the event."""
        hints = self.kernel.streams.hints
        for worker in self.workers.values():
            if hints.random() < HINTED:
                self.kernel.at(hints.randint(*HINT_US), worker.keeper, Hint())

    def _happened(self, what: str, count: int) -> None:
        """Schedule the faults that are aimed at this state."""
        for moment in self.moments:
            if moment.what == what and moment.nth == count and not self.faults.quiet:
                self.kernel.at(moment.delay_us, "fault_injector", moment.comes)

    # --- Effects

    def effect(self, kind: str) -> Verdict:
        """Draw the outcome of an effect. A crash before the effect ends the caller here."""
        verdict = self.faults.verdict(kind)
        if verdict is Verdict.CRASH_BEFORE:
            raise SimCrash
        return verdict

    def call(self, caller: str, op: Op, token: object) -> None:
        """Call the store. One Reply with the token follows, unless the caller dies."""
        verdict = self.effect("read" if isinstance(op, READS) else KIND.get(type(op), "sweep"))
        if self.network.cut(caller, "store") or self.network.cut("store", caller):
            error = "failed" if isinstance(op, READS) else "unknown"
            self.kernel.at(CALL_TIMEOUT_US, caller, Reply(token, op, error=error))
        else:
            call = Call(caller, self.kernel.life(caller), token, op, verdict)
            self.recorder.sent(call)
            self.kernel.at(self.kernel.streams.schedule.randint(50, 2_000), "store", call)
        if verdict is Verdict.CRASH_AFTER:
            raise SimCrash

    def to_peer(self, keeper: str, address: str, body: object) -> None:
        """Send a message to a keeper. A dead address refuses it."""
        verdict = self.effect("message")
        if not self.kernel.alive(address):
            if not self.network.cut(keeper, address):
                refused = Packet(address, km.PeerRefused(address))
                self.kernel.at(self.kernel.streams.schedule.randint(100, 3_000), keeper, refused)
        else:
            self.network.send(keeper, address, body, verdict)
        if verdict is Verdict.CRASH_AFTER:
            raise SimCrash

    def to_engine(self, keeper: str, incarnation: Incarnation, term: Term, command: Command) -> None:
        """Pass a command to the keeper's engine, in order."""
        verdict = self.effect("order")
        if self.keeper_of.get(incarnation) == keeper:
            self._socket(keeper, incarnation, Order(term, command))
        if verdict is Verdict.CRASH_AFTER:
            raise SimCrash

    def to_keeper(self, engine: str, incarnation: Incarnation, report: EngineReport) -> None:
        """Pass an engine's report to its keeper, in order."""
        verdict = self.effect("report")
        keeper = self.keeper_of.get(engine, "")
        self._socket(engine, keeper, Said(incarnation, report))
        if verdict is Verdict.CRASH_AFTER:
            raise SimCrash

    def _socket(self, source: str, target: str, body: object) -> None:
        delay = self.kernel.streams.schedule.randint(*SOCKET_US)
        self.kernel.at(delay, target, body, lane=("u", source, target))

    # --- Processes

    def start_worker(self, ordinal: Ordinal) -> None:
        """Start a worker's keeper."""
        worker = self.workers.setdefault(ordinal, SimWorker())
        worker.lives += 1
        worker.gone = False
        name = f"k{ordinal}.{worker.lives}"
        worker.keeper = name
        worker.engine = ""
        self.host_of[name] = f"w{ordinal}"
        self._keepers[name] = KeeperNode(self, ordinal, name)
        self._add(name, self._keepers[name])
        self.kernel.at(self.kernel.streams.schedule.randint(1_000, 50_000), name, Booted())

    def start_engine(self, ordinal: Ordinal) -> None:
        """Start an engine for a keeper."""
        worker = self.workers[ordinal]
        worker.engines += 1
        name = f"e{ordinal}.{worker.engines}"
        worker.engine = name
        self.host_of[name] = f"w{ordinal}"
        self.keeper_of[name] = worker.keeper
        self._add(name, self.new_engine(ordinal, name))
        self.kernel.at(self.kernel.streams.schedule.randint(*COMPILE_US), name, Compiled())

    def _add(self, name: str, node: SimNode) -> None:
        draw = self.kernel.streams.schedule
        skewed = self.scenario.skewed_clocks
        offset = draw.randrange(3_600 * SECOND) if skewed else 0
        self.kernel.add(name, node, offset, draw.choice((0.97, 1.0, 1.03)) if skewed else 1.0)

    def end_engine(self, ordinal: Ordinal, incarnation: Incarnation) -> None:
        """End that life of the keeper's engine. An engine without a name yet is ended in any life."""
        name = incarnation or self.workers[ordinal].engine
        if self.kernel.alive(name):
            self.died(name)

    def end_worker(self, ordinal: Ordinal) -> None:
        """Kill a worker's keeper and engine; a restart follows."""
        worker = self.workers[ordinal]
        for name in (worker.keeper, worker.engine):
            if name and self.kernel.alive(name):
                self.died(name)

    def remove_worker(self, ordinal: Ordinal) -> None:
        """Kill a worker for good."""
        self.workers[ordinal].gone = True
        self.end_worker(ordinal)

    def died(self, name: str) -> None:
        """End a process. Its memory, its sockets and its streams are lost."""
        self.kernel.kill(name)
        self.network.break_all_of(name)
        ordinal = Ordinal(int(name[1:].split(".", maxsplit=1)[0]))
        if name.startswith("k"):
            self.kernel.at(1_000, "super", KeeperDied(ordinal))
            for engine in [e for e, k in self.keeper_of.items() if k == name]:
                self._socket(name, engine, SocketClosed())
        else:
            self._socket(name, self.keeper_of[name], EngineEnded(Incarnation(name)))

    # --- What the supervisor sees

    def latest(self) -> Latest:
        """Return the committed object of the job."""
        stored = self.service.objects[LATEST].data
        assert isinstance(stored, Latest)
        return stored

    def running(self) -> Attempt | None:
        """Return the committed attempt if the engine of each of its workers runs it, None otherwise.

        A keeper knows this of its engine, so nobody knows it of a worker without a keeper.
        """
        at = self.latest()
        lives = [self.workers[Ordinal(n)].keeper for n in range(at.workers) if Ordinal(n) in self.workers]
        members = [self._keepers[name].member for name in lives if self.kernel.alive(name)]
        run = [m for m in members if m.engine is EnginePhase.UP and m.status.running == at.attempt]
        return at.attempt if len(run) == at.workers and at.attempt else None

    def write_desired(self, desired: Desired) -> None:
        """Write what is wanted."""
        self.service.write(DESIRED, desired)

    def let_collect(self, left: Callable[[], list[str]]) -> None:
        """Wait until no garbage is ``left`` behind a job that has ended. Raises Violation after a while.

        A closed job gets no new keeper. If its last keeper dies, the next run collects its garbage.
        """
        until_us = self.kernel.now_us + COLLECTED_WITHIN_US
        while names := left():
            if not any(self.worker_runs(ordinal) for ordinal in self.ordinals()):
                self.kernel.happened("no keeper left to collect")
                return
            if self.kernel.now_us >= until_us:
                raise Violation("N", f"{len(names)} files are left at rest, {names[0]} is one")
            self._advance(self.kernel.now_us + SECOND // 2)

    def ordinals(self) -> list[Ordinal]:
        """List the workers that are known."""
        return [o for o, w in self.workers.items() if not w.gone]

    def worker_known(self, ordinal: Ordinal) -> bool:
        """Return whether a worker is there, running or about to be restarted."""
        return ordinal in self.workers and not self.workers[ordinal].gone

    def worker_runs(self, ordinal: Ordinal) -> bool:
        """Return whether a worker's keeper lives."""
        return self.kernel.alive(self.workers[ordinal].keeper)

    def engine_life(self, ordinal: Ordinal) -> Incarnation | None:
        """Return the newest engine that a worker's keeper has started."""
        worker = self.workers.get(ordinal)
        return Incarnation(worker.engine) if worker is not None else None
