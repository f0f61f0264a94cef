"""The simulated cluster: processes and stores on one kernel, faults, and the checker.

A run has two phases. In the safety phase faults happen. In the liveness phase nothing fails any more,
and the job must end within a bound. Then everything is compared and counted.
"""

from dataclasses import dataclass

from penstock.base.values import replace
from penstock.contract.control_messages import Command, EngineReport
from penstock.contract.ids import Incarnation, JobUid, Ordinal, SplitId, SwapId, Term
from penstock.contract.latest import Desired, Latest
from penstock.protocol import control_events as ev
from sim.checks.call_recorder import LEASE, CallRecorder
from sim.checks.invariant_checker import InvariantChecker
from sim.cluster.engine import EngineNode
from sim.cluster.fault_injector import FaultInjector
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
    SAVEPOINTS,
    Call,
    DeleteFiles,
    LinkFile,
    MetaSwap,
    Op,
    PublishFile,
    Put,
    Reply,
    Unstage,
    WriteLease,
)
from sim.kernel.faults import Faults, Verdict
from sim.kernel.kernel import SECOND, SimCrash, SimKernel, Violation
from sim.kernel.messages import Compiled, Order, SocketClosed
from sim.kernel.nemesis import Moment, Timed, draw_faults, draw_moments
from sim.kernel.network import Network, Packet
from sim.scenario import Scenario
from sim.workload import make_job, make_plan

EVENTS_MAX = 400_000
GRACE_US = 8 * SECOND
SOCKET_US = (20, 400)
COMPILE_US = (20_000, 150_000)
HINTED = 0.5  # of the writes are told to a keeper
HINT_US = (100, 60_000)
KIND: dict[type, str] = {
    MetaSwap: "swap",
    WriteLease: "lease",
    Put: "put",
    LinkFile: "put",
    DeleteFiles: "delete",
    PublishFile: "publish",
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


class World:
    """One run of one scenario under one seed."""

    def __init__(self, scenario: Scenario, seed: int, faults: Faults | None = None) -> None:
        self.scenario = scenario
        self.kernel = SimKernel(seed, self.died)
        streams = self.kernel.streams
        self.job = make_job(scenario.job, scenario.shape(streams.workload), streams.workload)
        self.jobs = 1
        self.job_uid = JobUid("job")
        self.faults = faults or Faults(streams.faults, scenario.rates)
        self.host_of: dict[str, str] = {"super": "super", "store": "store"}
        self.network = Network(self.kernel, self.host_of)
        self.network.slow_chance = scenario.slow_chance
        codec = streams.workload.random() < scenario.codec_share
        self.service = Service(self.kernel, streams.faults, codec=codec)
        self.service.applied_when_unknown = self.faults.single is not None
        self.judge = InvariantChecker(self.kernel, self.job, self.service.disk)
        self.service.watcher = self.judge
        self.recorder = CallRecorder(lambda: self.kernel.now_us, LATEST)
        self.kernel.delivered = self.recorder.delivered
        self.service.noted = self._hint
        self.monitor = self.judge.monitor
        self.monitor.barrier_max_us = scenario.barrier_max_us
        self.monitor.call_max_us = scenario.call_max_us
        self.workers: dict[Ordinal, SimWorker] = {}
        self.keeper_of: dict[str, str] = {}
        self.sizes = scenario.sizes(streams.workload)
        self.control = scenario.control
        self.beat_us = int(scenario.control.heartbeat_interval_s * SECOND)
        self.poll_us = scenario.poll_us
        self.idle_after_s = scenario.idle_after_s
        self.poison = scenario.poison
        self.disorder_us: int | None = 30 if scenario.job == "window" else None
        self.pace_us = scenario.pace(streams.workload)
        self.moments: tuple[Moment, ...] = scenario.moments
        self.plan: tuple[Timed, ...] = scenario.happenings(streams.workload)
        if faults is None and scenario.profile is not None:
            self.plan += draw_faults(streams.faults, scenario.profile, scenario.workers)
            self.moments += draw_moments(streams.faults, scenario.profile, scenario.workers)
        self._begin()

    def _begin(self) -> None:
        self.kernel.add("store", self.service)
        self.kernel.add("net", self.network)
        self.fault_injector = FaultInjector(self)
        self.kernel.add("fault_injector", self.fault_injector)
        self.supervisor = SupervisorNode(self.kernel, self, self.scenario.workers)
        self.kernel.add("super", self.supervisor)
        self._begin_object()
        self._begin_lease()
        self.write_desired(self.supervisor.desired)
        for number in range(self.scenario.workers):
            self.start_worker(Ordinal(number))
        self.kernel.at(SECOND, "super", Look())
        for timed in self.plan:
            self.kernel.at(timed.at_us, "fault_injector", timed.what)
        self.kernel.listener = self._happened

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

    # --- A run

    def run(self) -> None:
        """Run both phases and compare. Raises Violation."""
        safety = self.scenario.safety_us
        self._advance(safety)
        self._check_attempts()
        self.faults.quiet = True
        self.fault_injector.calm()
        if not self._advance(safety + self.scenario.liveness_us, until_done=True):
            seconds = self.scenario.liveness_us // SECOND
            raise Violation("L", f"no end {seconds} s after the last fault")
        self._compare()

    def _check_attempts(self) -> None:
        least, most = self.scenario.attempts or (0, self.latest().attempt)
        if not least <= self.latest().attempt <= most:
            raise Violation("L", f"{self.latest().attempt} attempts, not {least} to {most}")

    def _compare(self) -> None:
        self.recorder.check()
        self.recorder.check_publications(self.service.disk)
        latest = self.latest()
        said = latest.failure or latest.stalled
        if self.scenario.refusal is not None:
            if said is None or self.scenario.refusal not in said:
                raise Violation("G", f"it should have been refused, but: {said}")
            return
        if latest.failure is not None:
            raise Violation("L", f"the job failed: {latest.failure}")
        self.judge.output.finish(self.service.disk.visible)
        self._rest()

    def _rest(self) -> None:
        """Let the collection of files come to rest, then look for leaks.

        A closed job gets no new keeper. When its last keeper dies, the files that are left wait for
        the next run.
        """
        calm = self.scenario.profile is None and not self.moments
        undisturbed = calm and not self.faults.injected
        until = self.kernel.now_us + GRACE_US
        while self.judge.left(self.latest(), undisturbed=undisturbed):
            if not any(self.worker_runs(ordinal) for ordinal in self.ordinals()):
                self.kernel.happened("no keeper left to collect")
                return
            if self.kernel.now_us >= until:
                left = self.judge.left(self.latest(), undisturbed=undisturbed)
                raise Violation("N", f"{len(left)} files are left at rest, {left[0]} is one")
            self._advance(self.kernel.now_us + SECOND // 2)

    def _advance(self, until_us: int, *, until_done: bool = False) -> bool:
        while self.kernel.now_us < until_us:
            step = min(until_us, self.kernel.now_us + SECOND // 2)
            if self.kernel.run(step, self.done if until_done else None):
                return True
            self.kernel.now_us = step
            if self.kernel.handled > EVENTS_MAX:
                raise Violation("L", f"{EVENTS_MAX} events in {step / SECOND:.0f} virtual seconds")
        return until_done and self.done()

    def done(self) -> bool:
        """Return whether the job has ended."""
        latest = self.latest()
        refused = self.scenario.refusal is not None and latest.stalled is not None
        return latest.closed() or refused

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
                refused = Packet(address, ev.PeerRefused(address))
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
        self._add(name, KeeperNode(self, ordinal, name))
        self.kernel.at(self.kernel.streams.schedule.randint(1_000, 50_000), name, Booted())

    def start_engine(self, ordinal: Ordinal) -> None:
        """Start an engine for a keeper."""
        worker = self.workers[ordinal]
        worker.engines += 1
        name = f"e{ordinal}.{worker.engines}"
        worker.engine = name
        self.host_of[name] = f"w{ordinal}"
        self.keeper_of[name] = worker.keeper
        self._add(name, EngineNode(self, ordinal, name))
        self.kernel.at(self.kernel.streams.schedule.randint(*COMPILE_US), name, Compiled())

    def _add(self, name: str, node: KeeperNode | EngineNode) -> None:
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

    def lose_object(self) -> None:
        """Replace the job's object by a new, empty one."""
        self.recorder.check()
        del self.service.objects[LATEST]
        self._begin_object()
        self.judge.lost_object = True

    def begin_elsewhere(self, savepoint: str) -> None:
        """End this job's workers, and start another job from one of its savepoints.

        The new job has a directory and a Lease of its own, the output folder is the same.
        """
        self.kernel.happened("another job begins from a savepoint")
        for ordinal in self.ordinals():
            self.end_worker(ordinal)
        self.recorder.check()
        self.jobs += 1
        self.job_uid = JobUid(f"job-{self.jobs}")
        self.service.begin_directory()
        self.judge.begin_job()
        self.monitor = self.judge.monitor
        self.service.objects.pop(LATEST)
        self._begin_object()
        self._begin_lease()
        self.supervisor.begin_from(f"{SAVEPOINTS}{savepoint}", f"run-{self.jobs}")

    def _begin_object(self) -> None:
        """Write the first ``-latest`` of a job."""
        self.service.write(LATEST, Latest(self.job_uid, SwapId("none")))
        self.recorder.begin(LATEST, self.service.objects[LATEST].version, SwapId("none"))

    def _begin_lease(self) -> None:
        self.recorder.begin(LEASE, self.service.lease_version, self.service.lease_holder)

    def change_job(self, name: str) -> None:
        """Let engines that start from now on compile another plan of the same job."""
        plan, steps = make_plan(name, self.job.shape)
        self.job = replace(self.job, plan=plan, steps=steps)

    def write_desired(self, desired: Desired) -> None:
        """Write what is wanted."""
        self.service.write(DESIRED, desired)

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

    # --- Input

    def available(self, split: SplitId) -> int:
        """Return how many records of a split exist by now."""
        return min(len(self.job.input[split]), 1 + self.kernel.now_us // self.pace_us)
