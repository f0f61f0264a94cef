"""The injector of faults: it performs a plan of events, and ends every fault in time."""

from dataclasses import dataclass

from penstock.contract.ids import Ordinal
from penstock.contract.schemes import SchemeChoice
from sim.cluster.ports import Doomed
from sim.kernel.kernel import SimKernel
from sim.kernel.messages import Leave
from sim.kernel.nemesis import (
    FOLLOWER,
    BalanceWish,
    BeginElsewhere,
    BeginEmpty,
    BreakStream,
    ChangeJob,
    CutNetwork,
    DiskFull,
    GiveUpOutput,
    KillEngine,
    KillKeeper,
    LoseObject,
    LoseWorker,
    Pause,
    RequestWish,
    RescaleWish,
    RunAgain,
    SchemeWish,
    StoreDown,
    Terminate,
)

FAULTS = (KillKeeper, KillEngine, Pause, CutNetwork, StoreDown, DiskFull, BreakStream)


@dataclass(frozen=True, slots=True)
class Over:
    """A fault ends: paused ``names`` go on, a link heals, or a service answers again."""

    what: str
    names: tuple[str, ...] = ()


class FaultInjector:
    """The node that kills, pauses, cuts links and makes requests."""

    def __init__(self, world: Doomed) -> None:
        self.world = world
        self.kernel: SimKernel = world.kernel
        self.calmed = False

    def handle(self, event: object, now: float) -> None:
        """Perform one event of the plan, or end a fault."""
        match event:
            case _ if self.calmed and isinstance(event, FAULTS):
                pass  # it was aimed at a state shortly before
            case KillKeeper(ordinal):
                self._kill(self._process("k", ordinal))
            case KillEngine(ordinal):
                self._kill(self._process("e", ordinal))
            case Pause():
                self._pause(event)
            case CutNetwork():
                self._cut(event)
            case StoreDown(duration_us):
                self.world.service.down = True
                self.kernel.at(duration_us, "fault_injector", Over("store"))
            case DiskFull(duration_us):
                self.world.service.disk.full = True
                self.kernel.at(duration_us, "fault_injector", Over("disk"))
            case BreakStream(pick):
                self._break_stream(pick)
            case RescaleWish(workers):
                self.world.supervisor.rescale(workers)
            case SchemeWish(scheme):
                self.world.supervisor.choose(SchemeChoice("deal", scheme))
            case BalanceWish():
                self.world.supervisor.rebalance()
            case RequestWish(kind, argument):
                self.world.supervisor.ask(kind, argument)
            case RunAgain(oldest, allow_replay):
                self.world.supervisor.run_again(oldest=oldest, allow_replay=allow_replay)
            case BeginEmpty(allow_replay, drop_unpublished):
                self.world.supervisor.begin_empty(allow_replay=allow_replay, drop_unpublished=drop_unpublished)
            case GiveUpOutput(sink):
                self.world.supervisor.give_up_output(sink)
            case BeginElsewhere():
                self.world.begin_elsewhere()
            case ChangeJob():
                self._change(event)
            case LoseObject():
                self.world.lose_object()
            case LoseWorker(ordinal):
                self.world.supervisor.impossible = ordinal
                self._kill(self._process("k", ordinal))
            case Terminate():
                self._terminate(event)
            case Over(what, names):
                self._over(what, names)

    def calm(self) -> None:
        """End every fault, and let no other begin, because the liveness phase begins."""
        self.calmed = True
        self.world.service.down = False
        self.world.service.disk.full = False
        self.world.network.heal()
        for name in self.kernel.names():
            if self.kernel.alive(name):
                self.kernel.resume(name)

    def _process(self, letter: str, ordinal: int | None) -> str:
        if ordinal in (None, FOLLOWER):
            leader = self.world.latest().leader
            leads = 0 if leader is None else leader.ordinal
            ordinal = leads if ordinal is None else (leads + 1) % len(self.world.workers)
        worker = self.world.workers.get(Ordinal(ordinal))
        if worker is None:
            return ""
        return worker.keeper if letter == "k" else worker.engine

    def _kill(self, name: str) -> None:
        if name and self.kernel.alive(name):
            self.kernel.happened("keeper killed" if name.startswith("k") else "engine killed")
            self.world.died(name)

    def _change(self, event: ChangeJob) -> None:
        self.world.change_job(event.job)
        if event.drop:
            for name in self.kernel.names():
                if name[0] in "ke" and self.kernel.alive(name):
                    self.world.died(name)
            self.world.supervisor.drop_state(event.drop)
            return
        for number, ordinal in enumerate(self.world.workers):
            self.kernel.at(number * event.apart_us, "fault_injector", KillKeeper(ordinal))

    def _terminate(self, event: Terminate) -> None:
        name = self._process("k", event.ordinal)
        if not name or not self.kernel.alive(name):
            return
        self.kernel.happened("keeper told to go")
        worker = Ordinal(int(name[1:].split(".", maxsplit=1)[0]))
        back_us = self.kernel.now_us + event.away_us
        self.world.supervisor.away_until[worker] = back_us
        self.kernel.at(0, name, Leave(event.grace_us, event.soon, event.last))

    def _pause(self, event: Pause) -> None:
        wanted = [("k", event.keeper), ("e", event.engine)]
        names = [self._process(letter, event.ordinal) for letter, asked in wanted if asked]
        alive = tuple(n for n in names if n and self.kernel.alive(n))
        for name in alive:
            self.kernel.pause(name)
        self.kernel.happened("process paused")
        self.kernel.at(event.duration_us, "fault_injector", Over("pause", alive))

    def _cut(self, event: CutNetwork) -> None:
        self.world.network.set_cut(event.source, event.target, True)
        if event.both:
            self.world.network.set_cut(event.target, event.source, True)
        self.kernel.at(event.duration_us, "fault_injector", Over("cut", (event.source, event.target)))

    def _break_stream(self, pick: int) -> None:
        streams = self.world.network.all_streams()
        if streams:
            self.kernel.happened("stream broken")
            self.world.network.break_stream(streams[pick % len(streams)])

    def _over(self, what: str, names: tuple[str, ...]) -> None:
        match what:
            case "store":
                self.world.service.down = False
            case "disk":
                self.world.service.disk.full = False
            case "cut":
                self.world.network.set_cut(names[0], names[1], False)
                self.world.network.set_cut(names[1], names[0], False)
            case "pause":
                for name in names:
                    if self.kernel.alive(name):
                        self.kernel.resume(name)
