"""A simulated engine: tasks, channels and the orders of its keeper.

Everything an engine's shell does is here, in one thread: it builds tasks at a reset, gives each
the events that the keeper's commands stand for, takes their input in an order that the schedule
chooses, and says where it stands whenever that changes.
"""

from penstock.contract import control as msg
from penstock.contract.assignment import Assignment, channels_of
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    Ordinal,
    SplitId,
    StageIndex,
    Term,
    Version,
)
from penstock.contract.latest import Member
from penstock.contract.manifest import RootManifest, SinkHandle, SplitState
from penstock.contract.names import blob_name
from penstock.model.elements import Barrier, BarrierKind
from penstock.protocol.task import task_events as ev
from penstock.protocol.task.task_core import TaskSetup
from sim.cluster.channel_ends import Flush, SimStreamIdentity
from sim.cluster.exchange import SimExchange
from sim.cluster.ports import Cluster
from sim.cluster.task import SimTask
from sim.cluster.task_files import Token, publication
from sim.cluster.turns import POLL_US, TurnScheduler
from sim.kernel.calls import ClaimOutput, Get, Op, Reply
from sim.kernel.kernel import SimCrash
from sim.kernel.messages import (
    Answered,
    Beat,
    Compiled,
    Doomed,
    Heard,
    Order,
    Poll,
    SocketClosed,
    Turn,
)
from sim.kernel.network import Carried, SimStreamBroken

HELD_BYTES_MAX = 20_000
POISON_US = 700_000  # from a record that kills to the end of its process


class EngineNode(TurnScheduler):
    """One life of one engine."""

    def __init__(self, cluster: Cluster, ordinal: Ordinal, name: str) -> None:
        super().__init__()
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.job = cluster.job
        self.ordinal = ordinal
        self.name = name
        self.incarnation = Incarnation(name)
        self.exchange = SimExchange(
            cluster.kernel,
            cluster.network,
            SimStreamIdentity(cluster.job_uid, ordinal, self.incarnation, name),
            cluster.sizes,
            cluster.witness,
        )
        self.witness = cluster.witness
        self.status = msg.EngineStatus()
        self._files = 0
        self._broken = False
        self._doomed = False
        self._members: tuple[Member, ...] = ()
        self._next_members: tuple[Member, ...] = ()
        self._direct: dict[tuple[Attempt, Epoch], int] = {}

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
            case Turn():
                self._turn(event)
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
        status = self.standing()
        if status != self.status:
            self.status = status
            self._report(status)

    def _report(self, report: msg.EngineReport) -> None:
        self.cluster.to_keeper(self.name, self.incarnation, report)

    # --- Commands

    def _order(self, term: Term, command: msg.Command) -> None:
        match command:
            case msg.Enumerate(attempt):
                self._enumerate(attempt)
            case msg.Reset():
                self._reset(command)
            case msg.Prepare():
                self._prepare(command)
            case msg.Shutdown():
                raise SimCrash
            case _ if command.attempt == self.attempt:
                self._fenced(term, command)
            case _:
                self.kernel.happened("command of another attempt dropped")

    def _fenced(self, term: Term, command: msg.Command) -> None:
        match command:
            case msg.Announce(_, _, epoch, version, _):
                self._tell_all(ev.TermAnnounced(term, epoch, version))
            case msg.Publish(_, epoch, handles):
                self._publish(epoch, handles)
            case msg.Start():
                self._start()
            case msg.Inject(_, epoch, version, kind, committed):
                barrier = Barrier(
                    term, epoch, version, BarrierKind(kind), committed, self.kernel.now_us
                )
                self._inject(barrier)
            case msg.Hurry(_, epoch):
                self._tell_all(ev.Hurried(epoch))
            case msg.Commit(_, epoch, version):
                self._tell_all(ev.EpochCommitted(epoch, version))
            case msg.Abort(_, epoch):
                self.kernel.happened("epoch aborted")
                self.witness.aborted(self.attempt, term, epoch)
                self._tell_all(ev.Aborted(term, epoch))
            case msg.CancelRescale(_, version):
                self._cancelled = max(self._cancelled, version)
                self._tell_all(ev.Cancelled(version))
            case msg.Adopt(_, version, _, root):
                self.call(Get(root), ("adopt", version))
            case msg.Settled(_, version):
                self._settle_version(version)
            case msg.EndStreams():
                self._tell_all(ev.EndAll())
                self._ended = True

    def _enumerate(self, attempt: Attempt) -> None:
        splits = tuple(SplitState(s, "", 0) for s in self.job.input)
        listed = (msg.StageSplits(StageIndex(0), splits),)
        self._report(msg.Splits(attempt, listed, self.job.plan.fingerprint))

    # --- Attempts

    def _reset(self, command: msg.Reset) -> None:
        if command.attempt <= self.attempt:
            return
        self._tell_all(ev.ResetTo(command.epoch))
        self._begin(command.attempt, command.members, command.assignment)
        self._base = command.epoch
        if command.root is None:
            self._claim(command, None)
        else:
            self.call(Get(command.root), ("reset", command))

    def _claim(self, command: msg.Reset, root: RootManifest | None) -> None:
        """Take the output folder before any task is built."""
        origin = root.origin if root is not None else None
        self.call(ClaimOutput(self.cluster.job_uid, origin), ("claim", command, root))

    def _begin(
        self, attempt: Attempt, members: tuple[Member, ...], assignment: Assignment | None
    ) -> None:
        self.attempt = attempt
        self.tasks = {}
        self._turns = {}
        self._members = members
        self._assignment = assignment
        self._proposed = None
        self._published = Epoch(0)
        self._direct = {}
        self._built = self._running = self._ended = self._broken = False
        self._was_ready = self._was_running = False
        self._cancelled = self._settled = Version(0)
        self.exchange.reset(attempt)

    def _build(
        self,
        assignment: Assignment,
        root: RootManifest | None,
        splits: tuple[msg.StageSplits, ...],
        *,
        joining: bool = False,
    ) -> None:
        self._built = True
        added = [t for t in assignment.tasks_on(self.ordinal) if t not in self.tasks]
        first = {s.stage: s.splits for s in splits}
        for task in added:
            setup = TaskSetup(
                self.job.plan,
                task,
                assignment,
                HELD_BYTES_MAX,
                self.cluster.idle_after_s,
                self.cluster.disorder_us,
                first.get(task.stage, ()),
                joining,
            )
            self.tasks[task] = SimTask(self, setup, root)
            self.tasks[task].tell(ev.Build())

    def _start(self) -> None:
        if self._running or self._assignment is None:
            return
        if not all(t.ready for t in self.tasks.values()):
            self.kernel.happened("start before ready")
        self._running = True
        table = self._assignment
        self.exchange.open(self._members, channels_of(self.job.plan, table), table.version)
        for task in self.tasks.values():
            task.open_sinks()
        self._tell_all(ev.Started())

    # --- Rescale

    def _prepare(self, command: msg.Prepare) -> None:
        if command.attempt < self.attempt or command.assignment.version <= self._cancelled:
            return
        if self._proposed is not None and self._proposed.version >= command.assignment.version:
            return
        if command.attempt > self.attempt:
            self._begin(command.attempt, command.members, None)
        if self._assignment is not None:
            self.exchange.forget(channels_of(self.job.plan, self._assignment))
            members = frozenset(self._assignment.tasks())
            self.tasks = {name: t for name, t in self.tasks.items() if name in members}
        self._proposed = command.assignment
        self._next_members = command.members
        if command.root is None:
            self._propose(command, None)
        else:
            self.call(Get(command.root), ("prepare", command))

    def _propose(self, command: msg.Prepare, root: RootManifest | None) -> None:
        table = command.assignment
        if self._proposed != table or table.version <= self._cancelled:
            return
        self._tell_all(ev.Proposed(table, root))
        self._build(table, root, command.splits, joining=True)
        if self._assignment is None:
            self.exchange.open(command.members, channels_of(self.job.plan, table), Version(0))
            self._running = True

    def _adopt(self, version: Version, root: RootManifest) -> None:
        if self._assignment is None or self._assignment.version < version:
            if self._proposed is None or self._proposed.version != version:
                return
            joins, self._assignment = self._assignment is None, self._proposed
            if not joins:
                channels = channels_of(self.job.plan, self._assignment)
                self.exchange.extend(self._next_members, channels)
        self._tell_all(ev.RescaleCommitted(version, root))

    def _settle_version(self, version: Version) -> None:
        if self._assignment is None or self._assignment.version != version:
            return
        self._tell_all(ev.RescaleSettled(version))
        self.exchange.retire(channels_of(self.job.plan, self._assignment))
        self._settled = version

    # --- Publication on behalf of the leader

    def _publish(self, epoch: Epoch, handles: tuple[SinkHandle, ...]) -> None:
        key = (self.attempt, epoch)
        if key in self._direct or self._published >= epoch:
            return
        self._direct[key] = len(handles)
        for handle in handles:
            self.call(publication(handle, epoch), ("publish", key))
        if not handles:
            self._published = epoch

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
            return
        assert isinstance(token, tuple)
        if token[0] == "publish":
            self._published_one(token, reply)
        elif reply.error in {"failed", "unknown"}:
            self.call(reply.op, token)
        elif isinstance(reply.op, ClaimOutput):
            self._claimed(token, reply.error)
        elif reply.error:
            assert isinstance(reply.op, Get)
            if isinstance(token[1], msg.Prepare):
                version = token[1].assignment.version
                self.witness.missing(self.attempt, version, reply.op.ref.name)
                if self._assignment is not None:  # a member loads at the adoption all the same
                    self._propose(token[1], None)
                    return
            self.damaged(f"manifest {reply.op.ref.name} is {reply.error}")
        else:
            self._manifest(token, reply.value)

    def _claimed(self, token: tuple[object, ...], refused: str) -> None:
        _, command, root = token
        assert isinstance(command, msg.Reset)
        assert root is None or isinstance(root, RootManifest)
        if refused:
            self.damaged(f"output folder {refused}")
        else:
            self._build(command.assignment, root, command.splits)

    def _manifest(self, token: tuple[object, ...], root: object) -> None:
        assert isinstance(root, RootManifest)
        match token:
            case ("reset", msg.Reset() as command):
                self._claim(command, root)
            case ("prepare", msg.Prepare() as command):
                self._propose(command, root)
            case ("adopt", int(version)):
                self._adopt(Version(version), root)

    def _published_one(self, token: tuple[object, ...], reply: Reply) -> None:
        if reply.error:
            self.call(reply.op, token)
            return
        key = token[1]
        assert isinstance(key, tuple)
        self._direct[key] -= 1
        if self._direct[key] == 0:
            self._published = max(self._published, key[1])

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
