"""A simulated engine: tasks, channels and the orders of its keeper.

Everything an engine's shell does is here, in one thread: it builds tasks at a reset, gives each
the events that the keeper's commands stand for, takes their input in an order that the schedule
chooses, and says where it stands whenever that changes.
"""

from penstock.contract import control_messages as msg
from penstock.contract.ids import (
    BlobName,
    Epoch,
    Incarnation,
    Ordinal,
    SplitId,
    TaskId,
    Term,
    blob_name,
)
from penstock.contract.latest import Unpublished, how_of
from penstock.contract.manifest import RootManifest, SplitState
from penstock.protocol.engine import engine_messages as em
from penstock.protocol.engine.engine_core import EngineCore
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskSetup
from sim.cluster.channel_ends import Flush, SimStreamIdentity
from sim.cluster.exchange import SimExchange
from sim.cluster.ports import Cluster
from sim.cluster.task import SimTask
from sim.cluster.task_files import Token, publications, staged_name
from sim.cluster.task_scheduler import POLL_US, SimTaskScheduler
from sim.kernel.calls import ClaimOutput, Get, Op, Reply, Sweep, Unstage
from sim.kernel.kernel import SimCrash
from sim.kernel.messages import (
    Answered,
    Beat,
    Compiled,
    Doomed,
    Heard,
    Order,
    Poll,
    RunTask,
    SocketClosed,
)
from sim.kernel.network import Carried, SimStreamBroken

HELD_BYTES_MAX = 20_000
POISON_US = 700_000  # from a record that kills to the end of its process


class EngineNode(SimTaskScheduler):
    """One life of one engine."""

    def __init__(self, cluster: Cluster, ordinal: Ordinal, name: str) -> None:
        super().__init__()
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.job = cluster.job
        self.ordinal = ordinal
        self.name = name
        self.incarnation = Incarnation(name)
        self.core = EngineCore(ordinal, cluster.job.plan, lambda: tuple(self.tasks.values()))
        self.exchange = SimExchange(
            cluster.kernel,
            cluster.network,
            SimStreamIdentity(cluster.job_uid, ordinal, self.incarnation, name),
            cluster.sizes,
            cluster.monitor,
            may_close=self.core.may_close,
        )
        self.monitor = cluster.monitor
        self.status = msg.EngineStatus()
        self._files = 0
        self._broken = False
        self._doomed = False
        self._direct: dict[tuple[Epoch, bool], int] = {}

    # --- The node

    def handle(self, event: object, now: float) -> None:
        """Take one event; afterwards send what may leave and say what has changed."""
        match event:
            case Compiled():
                self._hello()
            case SocketClosed():
                raise SimCrash
            case Doomed():
                self.kernel.happened("engine killed by its record")
                raise SimCrash
            case Order(term, command):
                self._order(term, command)
            case Reply():
                self._replied(event)
            case Carried():
                self.exchange.carried(event)
            case SimStreamBroken():
                self.exchange.stream_broken(event)
            case RunTask():
                self._run_task(event)
            case Heard():
                self._heard(event)
            case Beat():
                self._report(self.status)
                self.kernel.at(self.cluster.beat_us, self.name, Beat())
            case Poll():
                self._poll()
        self._settle(due_now=isinstance(event, Flush))

    def _hello(self) -> None:
        self._report(msg.EngineHello(self.ordinal, self.incarnation, self.name, self.job.plan))
        self.kernel.at(self.cluster.beat_us, self.name, Beat())
        self.kernel.at(POLL_US, self.name, Poll())

    def _settle(self, *, due_now: bool) -> None:
        self.exchange.pump(due_now=due_now)
        while self.exchange.versions:
            channel, version = self.exchange.versions.pop(0)
            if channel.sender in self.tasks:
                self.tasks[channel.sender].tell(ev.PeerVersion(channel, version))
            self.exchange.pump()
        if self.exchange.broken and not self._broken:
            self._broken = True
            self._report(msg.Broken(self.attempt, self.exchange.broken[0]))
        self._wake_tasks()
        status = self.core.status()
        if status != self.status:
            self.status = status
            self._report(status)

    def _report(self, report: msg.EngineReport) -> None:
        self.cluster.to_keeper(self.name, self.incarnation, report)

    # --- Orders

    def _order(self, term: Term, order: msg.Command) -> None:
        if isinstance(order, msg.Shutdown):
            raise SimCrash
        if isinstance(order, msg.Abort) and order.attempt == self.attempt:
            self.kernel.happened("epoch aborted")
            self.monitor.aborted(self.attempt, term, order.epoch)
        self._do(em.OrderReceived(term, order, self.kernel.now_us))

    def _do(self, event: em.Event) -> None:
        """Perform what the core asks for, in order; replies of the store come back as events."""
        for action in self.core.step(event):
            match action:
                case em.TellTasks(told):
                    self._tell_all(told)
                case em.InjectBarrier(barrier):
                    self._inject(barrier)
                case em.MakeTasks():
                    self._make(action)
                case em.OpenStreams(members, channels, version):
                    self.exchange.open(members, channels, version)
                case em.ForgetStreams(channels):
                    self.exchange.forget(channels)
                case em.PublishFor():
                    self._publish(action)
                case _:
                    self._do_seldom(action)

    def _do_seldom(self, action: em.Action) -> None:
        """Perform an action that begins or ends an attempt or a rescale."""
        match action:
            case em.EndTasks(order):
                self._tell_all(order)
                self._begin()
            case em.RetireTasks(tasks):
                self._forget(tasks)
            case em.DropTasks(tasks):
                for task in tasks:
                    self.tasks[task].tell(ev.ResetTo(Epoch(0)))
                self._forget(tasks)
            case em.ResetStreams(attempt):
                self.exchange.reset(attempt)
            case em.ListSplits(order):
                found = self.job.splits_by_stage().items()
                listed = tuple(msg.StageSplits(i, tuple(SplitState(s, "", 0) for s in splits)) for i, splits in found)
                self._report(msg.Splits(order.attempt, listed, self.job.plan.fingerprint))
            case em.ClaimOutput():
                self.call(ClaimOutput(self.cluster.job_uid, action.origin), action)
            case em.ReadManifest(_, ref, _):
                self.call(Get(ref), action)
            case em.SweepStaging():
                for made in self.tasks.values():
                    made.open_sinks()
            case em.ClearStaging(attempt):
                self.call(Sweep(None, attempt + 1), action)
            case em.WatchInputs():
                pass  # the simulated input is all there from the beginning

    # --- Tasks

    def _begin(self) -> None:
        self.tasks = {}
        self._scheduled = {}
        self._direct = {}
        self._broken = False

    def _forget(self, tasks: tuple[TaskId, ...]) -> None:
        for task in tasks:
            self.tasks.pop(task, None)

    def _make(self, order: em.MakeTasks) -> None:
        first = {s.stage: s.splits for s in order.splits}
        for task in order.tasks:
            setup = TaskSetup(
                self.job.plan,
                task,
                order.assignment,
                HELD_BYTES_MAX,
                self.cluster.idle_after_s,
                self.cluster.disorder_us,
                first.get(task.stage, ()),
                order.joining,
            )
            self.tasks[task] = SimTask(self, setup, order.root)
            self.tasks[task].tell(ev.Build())

    # --- Publication on behalf of the leader

    def _publish(self, order: em.PublishFor) -> None:
        key = (order.epoch, order.whole)
        if key in self._direct:
            return
        dropped = [h for h in order.handles if how_of(h.sink, order.sinks) is Unpublished.DROP]
        calls: list[Op] = [Unstage(staged_name(handle)) for handle in dropped]
        calls += publications([handle for handle in order.handles if handle not in dropped], order.epoch)
        self._direct[key] = len(calls)
        for op in calls:
            self.call(op, order)
        if not calls:
            self.core.published(order)

    # --- The store

    def call(self, op: Op, token: object) -> None:
        """Ask the store; a reply to an attempt that is over is dropped."""
        self.cluster.call(self.name, op, Answered(self.attempt, token))

    def _replied(self, reply: Reply) -> None:
        assert isinstance(reply.token, Answered)
        if reply.token.attempt != self.attempt:
            return
        token = reply.token.token
        if isinstance(token, Token):
            if token.task in self.tasks:
                self.tasks[token.task].replied(token, reply)
        elif isinstance(token, em.PublishFor):
            self._published_one(token, reply)
        elif isinstance(token, em.ClearStaging):
            self.core.cleared(token)  # also after an error: the product warns, and goes on
        elif reply.error in {"failed", "unknown"}:
            self.call(reply.op, token)
        elif isinstance(token, em.ClaimOutput):
            if reply.error:
                self.damaged(f"output folder {reply.error}")
            else:
                self._do(em.OutputClaimed(token.order, token.root))
        else:
            assert isinstance(token, em.ReadManifest)
            self._manifest(token, reply)

    def _manifest(self, asked: em.ReadManifest, reply: Reply) -> None:
        if not reply.error:
            assert isinstance(reply.value, RootManifest)
            self._do(em.ManifestRead(asked.order, reply.value))
            return
        if isinstance(asked.order, msg.Prepare):
            version = asked.order.assignment.version
            self.monitor.missing(self.attempt, version, asked.ref.name)
        if asked.optional:  # a member loads at the adoption all the same
            self._do(em.ManifestRead(asked.order, None))
        else:
            self.damaged(f"manifest {asked.ref.name} is {reply.error}")

    def _published_one(self, order: em.PublishFor, reply: Reply) -> None:
        if reply.error:
            self.call(reply.op, order)
            return
        key = (order.epoch, order.whole)
        self._direct[key] -= 1
        if self._direct[key] == 0:
            self.core.published(order)

    # --- For the tasks

    def fresh(self, term: Term, epoch: Epoch, suffix: str) -> BlobName:
        """Return a name for a new file."""
        self._files += 1
        return blob_name(term, epoch, self.incarnation, self._files, suffix)

    def report(self, report: msg.EngineReport) -> None:
        """Say something to the keeper."""
        self._report(report)

    def meet(self, split: SplitId, offset: int) -> None:
        """Work on a record; after the one that no process survives, this one has little time."""
        poison = self.cluster.poison
        if poison is not None and not self._doomed and poison[0] == split and offset >= poison[1]:
            self._doomed = True
            self.kernel.at(POISON_US, self.name, Doomed())

    def damaged(self, reason: str) -> None:
        """Give the attempt up: stored data is gone or altered, and trying again cannot help."""
        if not self._broken:
            self._broken = True
            self._report(msg.Broken(self.attempt, reason, fatal=True))

    def available(self, split: SplitId) -> int:
        """Return how many records of a split exist by now."""
        return self.cluster.available(split)

    def now(self) -> float:
        """Return the engine's clock."""
        return self.kernel.clock(self.name)
