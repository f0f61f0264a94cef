"""The core of one engine: events in, actions out. The rules of tasks are in :mod:`penstock.protocol.task`.

    Reset ──> tasks end, streams close ──> manifest ──> output claimed ──> tasks made ──> Start
    Prepare ──> manifest ──> tasks are told, joining tasks made
        ├── CancelRescale ──> joining tasks dropped, the others told
        └── Adopt ──> streams opened ──> manifest ──> tasks are told ──> Settled

The leader repeats an order until it sees the effect. So every order may come twice, and late. A
Reset of a higher attempt begins that attempt. Other orders of another attempt are dropped. A version
is proposed once: an order to prepare a version that was cancelled or is known changes nothing.
"""

from collections.abc import Callable, Iterable

from penstock.contract import control_messages as c
from penstock.contract.ids import Attempt, ChannelId, Epoch, Ordinal, Term, Version
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import Assignment, PhysicalPlan, channels_of
from penstock.model.elements import Barrier, BarrierKind
from penstock.protocol.engine import engine_messages as em
from penstock.protocol.engine.engine_status import EngineAttempt, EngineTask, status_of
from penstock.protocol.task import task_messages as ev


class EngineCore:
    """The core of one engine. ``tasks`` lists the tasks that its shell has made."""

    def __init__(self, ordinal: Ordinal, plan: PhysicalPlan, tasks: Callable[[], Iterable[EngineTask]]) -> None:
        """Begin without an attempt."""
        self.at = EngineAttempt()
        self._ordinal = ordinal
        self._plan = plan
        self._tasks = tasks

    @property
    def attempt(self) -> Attempt:
        """Return the attempt that the tasks here belong to."""
        return self.at.attempt

    def step(self, event: em.Event) -> list[em.Action]:
        """Take one event. Return the actions, in order."""
        match event:
            case em.OrderReceived(term, order, wall_us):
                return self._ordered(term, order, wall_us)
            case em.OutputClaimed(order, root):
                return self._claimed(order, root)
            case em.ManifestRead(order, root):
                return self._read(order, root)

    def status(self) -> c.EngineStatus:
        """Compute the status from the attempt and its tasks. From any thread."""
        return status_of(self.at, self._ordinal, list(self._tasks()))

    def published(self, attempt: Attempt, epoch: Epoch) -> None:
        """Note that output of a lost worker is visible. From any thread."""
        at = self.at
        if at.attempt == attempt:
            at.published_for = max(at.published_for, epoch)

    def has_left(self, peer: Ordinal) -> bool:
        """Return whether a worker is in no table any more: its streams may close as they like."""
        tables = [t for t in (self.at.assignment, self.at.proposed) if t is not None]
        return bool(tables) and all(peer >= table.workers for table in tables)

    # --- Orders -------------------------------------------------------------------------------

    def _ordered(self, term: Term, order: c.Command, wall_us: int) -> list[em.Action]:
        match order:
            case c.Enumerate():
                return [em.ListSplits(order)]
            case c.Reset():
                return self._reset(order) if order.attempt > self.attempt else []
            case c.Prepare():
                return self._prepare(order)
            case c.Shutdown():
                raise AssertionError("the shell ends at a shutdown")
            case _ if order.attempt == self.attempt:
                return self._within(term, order, wall_us)
        return []

    def _within(self, term: Term, order: c.Command, wall_us: int) -> list[em.Action]:
        match order:
            case c.Announce(epoch=epoch, version=version):
                self.at.confirm(epoch)
                return [em.TellTasks(ev.TermAnnounced(term, epoch, version))]
            case c.Publish(attempt, epoch, handles):
                return [em.PublishFor(attempt, epoch, handles)]
            case c.Start():
                return self._start()
            case c.Inject():
                kind = BarrierKind(order.kind)
                barrier = Barrier(term, order.epoch, order.version, kind, order.committed, wall_us)
                return [em.InjectBarrier(barrier)]
            case c.Expedite(epoch=epoch):
                return [em.TellTasks(ev.Expedited(epoch))]
            case c.Commit(epoch=epoch, version=version):
                self.at.confirm(epoch)
                return [em.TellTasks(ev.EpochCommitted(epoch, version))]
            case c.Abort(epoch=epoch):
                return [em.TellTasks(ev.Aborted(term, epoch))]
            case c.CancelRescale(version=version):
                return self._cancel(version)
            case c.Adopt():
                return self._adopt(order)
            case c.Settled(version=version):
                return self._settle(version)
            case c.EndStreams():
                self.at.ending = True
                return [em.TellTasks(ev.EndAll())]
        raise AssertionError(f"no such order: {order}")

    # --- Attempts -----------------------------------------------------------------------------

    def _reset(self, order: c.Reset) -> list[em.Action]:
        self.at = EngineAttempt(order.attempt, order.epoch)
        end: list[em.Action] = [
            em.EndTasks(ev.ResetTo(order.epoch)),
            em.ResetStreams(order.attempt),
        ]
        if order.root is None:
            return [*end, em.ClaimOutput(order, None)]
        return [*end, em.ReadManifest(order, order.root, optional=False)]

    def _build(self, order: c.Reset, root: RootManifest | None) -> list[em.Action]:
        at, tasks = self.at, order.assignment.tasks_on(self._ordinal)
        at.assignment = order.assignment
        at.newest = order.assignment.version
        at.members = {m.ordinal: m for m in order.members}
        at.first = at.expected = frozenset(tasks)
        at.built = True
        return [
            em.MakeTasks(tuple(tasks), order.assignment, root, order.splits, joining=False),
            em.WatchInputs(root, order.splits),
        ]

    def _start(self) -> list[em.Action]:
        at = self.at
        if at.running or at.assignment is None:
            return []
        at.running = True
        opened = [] if at.joined else self._open(at.assignment, at.assignment.version)
        return [*opened, em.SweepStaging(at.attempt), em.TellTasks(ev.Started())]

    # --- Answers of the shell -----------------------------------------------------------------

    def _read(self, order: em.Loading, root: RootManifest | None) -> list[em.Action]:
        if order.attempt != self.attempt:
            return []
        match order:
            case c.Reset():
                return [em.ClaimOutput(order, root)]
            case c.Prepare():
                return self._propose(order, root)
            case c.Adopt():
                assert root is not None, "an adoption names its manifest"
                return [em.TellTasks(ev.RescaleCommitted(order.version, root))]

    def _claimed(self, order: c.Reset | c.Prepare, root: RootManifest | None) -> list[em.Action]:
        if order.attempt != self.attempt:
            return []
        if isinstance(order, c.Reset):
            return self._build(order, root)
        return self._load_base(order)

    # --- Rescale ------------------------------------------------------------------------------

    def _prepare(self, order: c.Prepare) -> list[em.Action]:
        version, joins = order.assignment.version, order.attempt > self.attempt
        if order.attempt < self.attempt or (not joins and version <= self.at.newest):
            return []
        if joins:
            self.at = EngineAttempt(order.attempt, order.epoch, joined=True)
            self.at.propose(order.assignment, order.members)
            return [
                em.EndTasks(ev.ResetTo(order.epoch)),
                em.ResetStreams(order.attempt),
                em.ClaimOutput(order, None),
            ]
        actions = self._cancel(self.at.proposed.version) if self.at.proposed is not None else []
        self.at.propose(order.assignment, order.members)
        return actions + self._load_base(order)

    def _load_base(self, order: c.Prepare) -> list[em.Action]:
        if order.root is None:
            return self._propose(order, None)
        return [em.ReadManifest(order, order.root, optional=not self.at.joined)]

    def _propose(self, order: c.Prepare, root: RootManifest | None) -> list[em.Action]:
        """Tell the tasks of the proposed table, and make those that join here."""
        at, table = self.at, order.assignment
        if at.proposed != table:
            return []  # cancelled while the manifest was read
        actions = self._retire()
        new = tuple(t for t in table.tasks_on(self._ordinal) if t not in at.expected)
        at.expected |= frozenset(new)
        at.prepared = table.version
        at.built = True
        actions.append(em.TellTasks(ev.Proposed(table, root)))
        if new:  # the streams of a task lead into its input, so the task comes first
            actions.append(em.MakeTasks(new, table, root, order.splits, joining=True))
        if at.joined:
            actions += self._open(table, Version(table.version - 1))
        return actions

    def _cancel(self, version: Version) -> list[em.Action]:
        """The proposed table is cancelled: joining tasks end, others return to the old table."""
        at = self.at
        at.newest = max(at.newest, version)
        if at.proposed is None or at.proposed.version != version:
            return []
        assert at.assignment is None or at.assignment.version < version, "adopted already"
        at.proposed, at.prepared = None, Version(0)
        kept = frozenset() if at.assignment is None else frozenset(at.assignment.tasks())
        joining = tuple(t for t in at.expected if t not in kept)
        at.expected -= frozenset(joining)
        drop: list[em.Action] = [em.DropTasks(joining)] if joining else []
        return [*drop, em.TellTasks(ev.Cancelled(version))]

    def _adopt(self, order: c.Adopt) -> list[em.Action]:
        """The version is committed: open its streams and let the tasks load and resume."""
        at, actions = self.at, []
        if at.proposed is not None and at.proposed.version == order.version:
            if not at.joined:
                actions = self._open(at.proposed, Version(order.version - 1))
            at.assignment, at.proposed = at.proposed, None
        elif at.assignment is None or at.assignment.version != order.version:
            return []
        at.confirm(order.epoch)
        if all(task.marks.resumed >= order.version for task in self._tasks()):
            return actions
        return [*actions, em.ReadManifest(order, order.root, optional=False)]

    def _settle(self, version: Version) -> list[em.Action]:
        at = self.at
        if at.assignment is None or at.assignment.version != version:
            return []
        at.settled = version
        return [em.TellTasks(ev.RescaleSettled(version))]

    # --- Streams ------------------------------------------------------------------------------

    def _open(self, table: Assignment, version: Version) -> list[em.Action]:
        """Open the channels of a table that are not open; ``version`` is what peers have loaded."""
        at = self.at
        new = tuple(ch for ch in channels_of(self._plan, table) if ch not in at.opened)
        at.opened.update(dict.fromkeys(new))
        return [em.OpenStreams(dict(at.members), new, version)]

    def _retire(self) -> list[em.Action]:
        """Forget the channels and tasks that the table does not have: it is settled, they ended.

        A worker that left may join again, as another life, and its channels begin anew. So may a
        task that left a worker that stays.
        """
        at = self.at
        if at.assignment is None:
            return []
        members = frozenset(at.assignment.tasks())
        over = tuple(t for t in at.expected if t not in members)
        at.first &= members
        at.expected &= members
        gone = self._not_in(at.assignment)
        for channel in gone:
            del at.opened[channel]
        retired: list[em.Action] = [em.RetireTasks(over)] if over else []
        return [*retired, em.ForgetStreams(gone)] if gone else retired

    def _not_in(self, table: Assignment) -> tuple[ChannelId, ...]:
        kept = frozenset(channels_of(self._plan, table))
        return tuple(channel for channel in self.at.opened if channel not in kept)
