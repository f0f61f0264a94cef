"""The core of one engine: events in, actions out. The rules of tasks are in :mod:`penstock.protocol.task`.

    Reset ──> tasks end, streams close ──> manifest ──> output claimed ──> tasks made ──> Start
    Prepare ──> manifest ──> tasks are told, joining tasks made
        ├── CancelRescale ──> joining tasks dropped, the others told
        └── Adopt ──> streams opened ──> manifest ──> tasks are told ──> Settled

The leader repeats an order until it sees the effect. So every order may come twice, and late. A
Reset of a higher attempt begins that attempt. Other orders of another attempt are dropped. A version
is proposed once: an order to prepare a version that was cancelled or is known changes nothing.

The status of an engine is computed from the attempt and the tasks, and never stored. It is computed in
another thread than the one that carries out orders. An attempt is one object, which a reset replaces
as a whole. A task that is expected and not made yet is not ready.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.contract import control_messages as c
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.control_messages import EngineStatus
from penstock.contract.ids import Attempt, ChannelId, Epoch, Ordinal, TaskId, Term, Version
from penstock.contract.latest import Member
from penstock.contract.manifest import RootManifest, StepRows
from penstock.contract.plan import Assignment, PhysicalPlan, channels_of
from penstock.model.elements import Barrier, BarrierKind
from penstock.protocol.engine import engine_messages as em
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore
from penstock.protocol.task.task_state import TaskLifecycle


@dataclass(slots=True)
class TaskMarks:
    """The progress of a task. Written by the task's thread only."""

    ready: bool = False
    prepared: Version = Version(0)
    resumed: Version = Version(0)
    exhausted: bool = False
    published: Epoch = Epoch(0)
    settled: Version = Version(0)
    finished: bool = False


class EngineTask(Protocol):
    """A task that the shell has made."""

    @property
    def core(self) -> TaskCore:
        """Return the task's protocol."""
        ...

    @property
    def marks(self) -> TaskMarks:
        """Return the progress of the task."""
        ...


@dataclass(slots=True)
class EngineAttempt:
    """The state of an engine's attempt beside its tasks.

    - ``restored``: the epoch that the attempt began from; ``joined``: it began by an order to
      prepare.
    - ``prepared``: the version that the tasks were told of; ``newest``: the highest version that was
      proposed here.
    - ``first``: the tasks of the reset; ``expected``: these and the tasks that join.
    - ``committed``: the newest epoch that a leader has called committed here.
    - ``published_for``: the newest epoch of lost workers whose output was published here; ``whole``: that of whole
      sinks; ``skipped``: rows that a restore has left out.
    """

    attempt: Attempt = Attempt(0)
    restored: Epoch = Epoch(0)
    joined: bool = False
    assignment: Assignment | None = None
    proposed: Assignment | None = None
    prepared: Version = Version(0)
    newest: Version = Version(0)
    members: dict[Ordinal, Member] = field(default_factory=dict)
    opened: dict[ChannelId, None] = field(default_factory=dict)
    built: bool = False
    first: frozenset[TaskId] = frozenset()
    expected: frozenset[TaskId] = frozenset()
    running: bool = False
    settled: Version = Version(0)
    committed: Epoch = Epoch(0)
    published_for: Epoch = Epoch(0)
    whole: Epoch | Absent = ABSENT
    skipped: tuple[StepRows, ...] | Absent = ABSENT
    ending: bool = False
    cleared: bool = False

    def confirm(self, epoch: Epoch) -> None:
        """Note that an epoch is committed."""
        self.committed = max(self.committed, epoch)

    def propose(self, table: Assignment, members: tuple[Member, ...]) -> None:
        """Note a proposed table and its members. Its version must not be proposed again."""
        self.proposed = table
        self.newest = table.version
        self.members = {**self.members, **{m.ordinal: m for m in members}}


def status_of(at: EngineAttempt, ordinal: Ordinal, tasks: list[EngineTask]) -> EngineStatus:
    """Compute the status. Every field is about the attempt ``at``, and zero before it is reached."""
    made = {task.core.state.task for task in tasks}
    if not at.built or not at.first <= made:
        return EngineStatus(attempt=at.attempt)
    members = [t for t in tasks if t.core.state.life is not TaskLifecycle.JOINING]
    leaving = [t for t in members if is_leaving(t.core)]
    known = at.expected <= made and all(t.marks.prepared == at.prepared for t in tasks)
    prepared = at.prepared if known else Version(0)
    ready = _ready(at, tasks, members, prepared)
    running = ready and (at.running or at.joined)
    return EngineStatus(
        attempt=at.attempt,
        ready=at.attempt if ready else Attempt(0),
        running=at.attempt if running else Attempt(0),
        prepared=prepared,
        resumed=min((t.marks.resumed for t in tasks), default=_version(at)),
        settled=min((_settled(t) for t in tasks), default=at.settled),
        published=_published(at, tasks),
        exhausted=all(t.marks.exhausted for t in members if t not in leaving),
        left=_leaves(at, ordinal) and all(t.marks.finished for t in tasks),
        ended=at.cleared and all(t.marks.finished for t in tasks),
        skipped=at.skipped,
        whole=at.whole,
    )


def is_leaving(core: TaskCore) -> bool:
    """Return whether a task leaves with the version that holds, or has left."""
    state = core.state
    return state.life is TaskLifecycle.LEAVING or not state.assignment.has(state.task)


def _ready(at: EngineAttempt, tasks: list[EngineTask], members: list[EngineTask], prepared: Version) -> bool:
    if at.joined:  # ready with the table it joins for, and from then on
        return prepared > 0 or len(members) == len(tasks)
    return all(t.marks.ready for t in tasks if not t.core.state.setup.joining)


def _version(at: EngineAttempt) -> Version:
    return Version(0) if at.assignment is None else at.assignment.version


def _leaves(at: EngineAttempt, ordinal: Ordinal) -> bool:
    return at.assignment is not None and ordinal >= at.assignment.workers


def _settled(task: EngineTask) -> Version:
    """Return the version under which a task lives. A task that leaves must have ended.

    The next version may have it again, on channels of the same names.
    """
    marks = task.marks
    return marks.settled if marks.finished or not is_leaving(task.core) else Version(0)


def _published(at: EngineAttempt, tasks: list[EngineTask]) -> Epoch:
    """Return the newest epoch whose output is visible, as all tasks here know.

    Joining tasks count. When the leader dies behind the swap that commits a rescale, the next
    leader asks the joiner, which is a member now, before any worker has adopted the version.
    A worker without tasks has no output: all of it is visible as soon as the epoch is committed.
    """
    lowest = min((t.marks.published for t in tasks), default=at.committed)
    own = lowest if lowest > at.restored else Epoch(0)
    return max(own, at.published_for)


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

    def published(self, order: em.PublishFor, skipped: tuple[StepRows, ...] = ()) -> None:
        """Note that the output of ``order`` is visible, but for ``skipped``. From any thread."""
        at = self.at
        if at.attempt != order.attempt:
            return
        at.skipped = (*(() if at.skipped is ABSENT else at.skipped), *skipped) or ABSENT
        if order.whole:
            at.whole = order.epoch
        else:
            at.published_for = max(at.published_for, order.epoch)

    def cleared(self, order: em.ClearStaging) -> None:
        """Note that staged files were removed, or that removing them has failed. From any thread."""
        if self.at.attempt == order.attempt:
            self.at.cleared = True

    def may_close(self, peer: Ordinal) -> bool:
        """Return whether the streams of ``peer`` may close without an end: no table has that worker any more.

        Not if this worker leaves, too: each of the two waits for the end of the other's streams.
        """
        tables = [t for t in (self.at.assignment, self.at.proposed) if t is not None]
        return bool(tables) and all(self._ordinal < table.workers <= peer for table in tables)

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
            case c.Publish(attempt, epoch, handles, sinks):
                return [em.PublishFor(attempt, epoch, handles, () if sinks is ABSENT else sinks)]
            case c.PublishWhole(attempt, epoch, handles, sinks):
                return [em.PublishFor(attempt, epoch, handles, () if sinks is ABSENT else sinks, whole=True)]
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
                return self._end()
        raise AssertionError(f"no such order: {order}")

    # --- Attempts -----------------------------------------------------------------------------

    def _end(self) -> list[em.Action]:
        at = self.at
        clear = [] if at.ending else [em.ClearStaging(at.attempt)]
        at.ending = True
        return [em.TellTasks(ev.EndAll()), *clear]

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
