"""A small model of checkpoints and rescales, for the search of all orders of events.

There are two workers with one split each, four records, and queues of one. Every task is the real
TaskCore. The leader is a nondeterministic script: a checkpoint that commits or aborts, then a
rescale that commits or aborts, at any moment that the protocol allows. Checked on the way: each
commit is exactly the fold of the records before its offsets. Checked in every final state: each
record was counted once, in order, by its owner.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from penstock.base.values import replace
from penstock.contract.ids import (
    Attempt,
    Epoch,
    JobUid,
    SplitId,
    StageIndex,
    TaskId,
    Term,
)
from penstock.contract.keygroups import groups_of
from penstock.contract.manifest import RootManifest, SplitState, TaskManifest
from penstock.contract.plan import PhysicalPlan, channels_of, first_assignment, next_assignment, routes
from penstock.model.elements import Barrier, BarrierKind, Data
from penstock.protocol.task import task_messages as ev
from penstock.protocol.task.task_core import TaskCore, TaskSetup
from sim.kernel.kernel import Violation
from sim.models.pool import Cores, Pool
from sim.workload import Shape, make_plan

Row = tuple[int, SplitId, int]  # key (= key group), split, offset
Counts = tuple[tuple[Row, ...], ...]  # by key group: the rows counted, in order
TERM = Term(1)
GROUPS = 2
RECORDS = 2


@dataclass(frozen=True, slots=True)
class ModelShell:
    """The shell of a task: counted rows, split offsets, a snapshot under way."""

    counts: Counts = ((),) * GROUPS
    offsets: tuple[tuple[SplitId, int], ...] = ()
    storing: tuple[Barrier, Counts, tuple[tuple[SplitId, int], ...]] | None = None
    stored: Counts = ()
    mail: tuple[ev.Event, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelLeader:
    """The state of the script, and the acknowledgements of the epoch in flight."""

    epoch: int = 0
    state: str = "idle"
    acks: tuple[tuple[TaskId, TaskManifest, Counts], ...] = ()
    committed: int = 0
    held: Counts = ((),) * GROUPS
    root: RootManifest | None = None
    version: int = 1


@dataclass(frozen=True, slots=True)
class CheckpointModelState:
    """A state of the model, immutable. Pools keep its parts, so equal parts are one object."""

    cores: tuple[TaskCore, ...]
    shells: tuple[ModelShell, ...]
    queues: tuple[tuple[Any, ...], ...]
    leader: ModelLeader


class CheckpointModel:
    """The rules of the model: the possible steps, and their results."""

    def __init__(self, workers_after: int = 1) -> None:
        plan, _ = make_plan("count", Shape(groups=GROUPS))
        names = (SplitId("s0"), SplitId("s1"))
        self.plan: PhysicalPlan = plan
        self.old = first_assignment(plan, 2, {StageIndex(0): names})
        self.new = next_assignment(plan, self.old, workers_after)
        self.tables = {int(t.version): t for t in (self.old, self.new)}
        self.tasks = self.old.tasks()
        self.channels = channels_of(plan, self.old)
        self.rows: dict[SplitId, tuple[Row, ...]] = {
            s: tuple((i % GROUPS, s, i) for i in range(RECORDS)) for s in names
        }
        self.setups = {t: self._setup(t) for t in self.tasks}
        self._pool = Pool()
        self._cores = Cores()

    def _setup(self, task: TaskId) -> TaskSetup:
        first = tuple(SplitState(s, "", 0) for s in self.old.splits_of(task))
        return TaskSetup(self.plan, task, self.old, 1 << 20, first_splits=first)

    def key(self, state: CheckpointModelState) -> tuple[int, ...]:
        """Return a key that only equal states share."""
        parts = (*state.cores, *state.shells, *state.queues, state.leader)
        return tuple(map(id, parts))

    # --- Changing a part

    def _with_shell(self, state: CheckpointModelState, index: int, shell: ModelShell) -> CheckpointModelState:
        shells = (*state.shells[:index], self._pool.keep(shell), *state.shells[index + 1 :])
        return CheckpointModelState(state.cores, shells, state.queues, state.leader)

    def _with_queue(self, state: CheckpointModelState, number: int, queue: tuple[Any, ...]) -> CheckpointModelState:
        queues = (*state.queues[:number], self._pool.keep(queue), *state.queues[number + 1 :])
        return CheckpointModelState(state.cores, state.shells, queues, state.leader)

    def _with_leader(self, state: CheckpointModelState, leader: ModelLeader) -> CheckpointModelState:
        return CheckpointModelState(state.cores, state.shells, state.queues, self._pool.keep(leader))

    def _mailed(self, state: CheckpointModelState, index: int, *events: ev.Event) -> CheckpointModelState:
        shell = state.shells[index]
        return self._with_shell(state, index, replace(shell, mail=(*shell.mail, *events)))

    # --- Steps

    def first(self) -> CheckpointModelState:
        """Return the state in which all tasks run and nothing has happened."""
        state = CheckpointModelState(
            tuple(self._cores.keep(TaskCore(self.setups[t])) for t in self.tasks),
            (self._pool.keep(ModelShell()),) * len(self.tasks),
            (self._pool.keep(()),) * len(self.channels),
            self._pool.keep(ModelLeader()),
        )
        for index in range(len(self.tasks)):
            state = self._tell(state, index, ev.Build())
            state = self._tell(state, index, ev.Started())
        return state

    def following(self, state: CheckpointModelState) -> Iterator[CheckpointModelState]:
        """Yield every state that follows by one step."""
        yield from self._lead(state)
        for index, task in enumerate(self.tasks):
            shell = state.shells[index]
            if shell.mail:
                told = self._with_shell(state, index, replace(shell, mail=shell.mail[1:]))
                yield self._tell(told, index, shell.mail[0])
            if shell.storing is not None:
                yield self._store(state, index)
            yield from self._inputs(state, index, task)

    def _inputs(self, state: CheckpointModelState, index: int, task: TaskId) -> Iterator[CheckpointModelState]:
        core = state.cores[index]
        for number, channel in enumerate(self.channels):
            queue = state.queues[number]
            if channel.receiver == task and queue and core.reads(channel):
                taken = self._with_queue(state, number, queue[1:])
                yield self._tell(taken, index, ev.ElementReceived(channel, queue[0]))
        if self._full(state, task):
            return
        for split, offset in state.shells[index].offsets:
            if core.reads_split(split):
                yield self._read(state, index, split, offset)

    def _full(self, state: CheckpointModelState, task: TaskId) -> bool:
        mine = [q for c, q in zip(self.channels, state.queues, strict=True) if c.sender == task]
        return any(isinstance(element, Data) for queue in mine for element in queue)

    def _read(self, state: CheckpointModelState, index: int, split: SplitId, offset: int) -> CheckpointModelState:
        rows = self.rows[split]
        if offset >= len(rows):
            return self._tell(state, index, ev.SplitEnded(split))
        shell = state.shells[index]
        offsets = tuple((s, o + 1 if s == split else o) for s, o in shell.offsets)
        moved = self._with_shell(state, index, replace(shell, offsets=offsets))
        return self._tell(moved, index, ev.RowsRead(split, Data((rows[offset],), 1, 1)))

    def _store(self, state: CheckpointModelState, index: int) -> CheckpointModelState:
        shell = state.shells[index]
        assert shell.storing is not None
        barrier, counts, offsets = shell.storing
        parts = ev.SnapshotParts((), tuple(SplitState(s, "", o) for s, o in offsets))
        state = self._with_shell(state, index, replace(shell, storing=None, stored=counts))
        state = self._tell(state, index, ev.SnapshotStored(barrier.term, barrier.epoch, parts))
        return self._with_shell(state, index, replace(state.shells[index], stored=()))

    # --- The leader

    def _lead(self, state: CheckpointModelState) -> Iterator[CheckpointModelState]:
        leader = state.leader
        if leader.state == "idle" and leader.epoch < 2 and self._seen(state):
            for told in ((0, 1), (0,), (1,)):
                yield self._inject(state, told)
        if leader.state == "flight":
            yield self._decide(state, commit=False)
            if len(leader.acks) == len(self.tasks):
                yield self._decide(state, commit=True)

    def _seen(self, state: CheckpointModelState) -> bool:
        # All have heard of the epoch before: none starts before that.
        return not any(s.mail or s.storing for s in state.shells)

    def _inject(self, state: CheckpointModelState, told: tuple[int, ...]) -> CheckpointModelState:
        """Begin an epoch. The workers in ``told`` get the command, the others get the barrier."""
        leader = state.leader
        epoch = Epoch(leader.epoch + 1)
        rescale = epoch == 2
        table = self.new if rescale else self.old
        kind = BarrierKind.RESCALE if rescale else BarrierKind.CHECKPOINT
        barrier = Barrier(TERM, epoch, table.version, kind, Epoch(leader.committed), 0)
        started = replace(leader, epoch=int(epoch), state="flight", acks=())
        state = self._with_leader(state, started)
        for index, task in enumerate(self.tasks):
            mail: list[ev.Event] = []
            if rescale:
                mail.append(ev.Proposed(self.new, None))
            if self.plan.stages[task.stage].source is not None and task.worker in told:
                mail.append(ev.Injected(barrier))
            state = self._mailed(state, index, *mail)
        return state

    def _decide(self, state: CheckpointModelState, *, commit: bool) -> CheckpointModelState:
        leader = state.leader
        epoch = Epoch(leader.epoch)
        events: list[ev.Event] = []
        if not commit:
            state = self._with_leader(state, replace(leader, state="idle", acks=()))
            events.append(ev.Aborted(TERM, epoch))
            if epoch == 2:
                events.append(ev.Cancelled(self.new.version))
        else:
            state = self._with_leader(state, self._commit(leader))
            version = self.new.version if epoch == 2 else self.old.version
            events.append(ev.EpochCommitted(epoch, version))
            if epoch == 2:
                assert state.leader.root is not None
                events.append(ev.RescaleCommitted(version, state.leader.root))
        for index in range(len(self.tasks)):
            state = self._mailed(state, index, *events)
        return state

    def _commit(self, leader: ModelLeader) -> ModelLeader:
        rescale = leader.epoch == 2
        table = self.new if rescale else self.old
        held = _union(c for _, _, c in leader.acks)
        offsets = {s.split: s.offset for _, m, _ in leader.acks for s in m.splits}
        every = [r for rows in held for r in rows]
        before = {r for s, o in offsets.items() for r in self.rows[s][:o]}
        if set(every) != before or len(every) != len(before):
            raise Violation("C", f"epoch {leader.epoch} holds {every}, not {sorted(before)}")
        root = RootManifest(
            JobUid("job"),
            Epoch(leader.epoch),
            TERM,
            Attempt(1),
            "rescale" if rescale else "checkpoint",
            GROUPS,
            "",
            table,
            tuple(m for _, m, _ in leader.acks),
            self.plan.states,
            self.plan.steps,
        )
        return replace(
            leader,
            state="idle",
            acks=(),
            committed=leader.epoch,
            held=held,
            root=root,
            version=int(table.version),
        )

    # --- One event at one core

    def _tell(self, state: CheckpointModelState, index: int, event: ev.Event) -> CheckpointModelState:
        core, actions = self._cores.step(state.cores[index], event)
        cores = (*state.cores[:index], core, *state.cores[index + 1 :])
        state = CheckpointModelState(cores, state.shells, state.queues, state.leader)
        for action in actions:
            state = self._do(state, index, action)
        return state

    def _do(self, state: CheckpointModelState, index: int, action: ev.Action) -> CheckpointModelState:
        shell = state.shells[index]
        match action:
            case ev.ProcessRows(_, data):
                return self._process(state, index, data.payload)
            case ev.Send(channel, element):
                number = self.channels.index(channel)
                return self._with_queue(state, number, (*state.queues[number], element))
            case ev.RelayBarrier(barrier):
                return self._spread(state, index, barrier)
            case ev.Snapshot(barrier, _, _):
                storing = (barrier, shell.counts, shell.offsets)
                return self._with_shell(state, index, replace(shell, storing=storing))
            case ev.Ack(_, epoch, manifest):
                return self._ack(state, index, epoch, manifest)
            case ev.LoadState():
                return self._load(state, index, action)
            case ev.Preload(version, _):
                return self._tell(state, index, ev.Preloaded(version))
            case ev.CloseSplits(splits):
                kept = tuple(x for x in shell.offsets if x[0] not in splits)
                return self._with_shell(state, index, replace(shell, offsets=kept))
            case ev.DropGroups(share):
                gone = groups_of(share)
                counts = tuple(() if g in gone else c for g, c in enumerate(shell.counts))
                return self._with_shell(state, index, replace(shell, counts=counts))
            case ev.AnnounceVersion(version):
                return self._announce(state, index, version)
            case _:
                return state

    def _spread(self, state: CheckpointModelState, index: int, barrier: Barrier) -> CheckpointModelState:
        for other, task in enumerate(self.tasks):
            beside = task.worker == self.tasks[index].worker
            if beside and self.plan.stages[task.stage].source is not None:
                state = self._mailed(state, other, ev.Injected(barrier))
        return state

    def _process(self, state: CheckpointModelState, index: int, rows: tuple[Row, ...]) -> CheckpointModelState:
        edges = self.plan.outputs_of(self.tasks[index].stage)
        if not edges:
            shell = state.shells[index]
            fresh = [tuple(r for r in rows if r[0] == g) for g in range(GROUPS)]
            counts = tuple(c + f for c, f in zip(shell.counts, fresh, strict=True))
            return self._with_shell(state, index, replace(shell, counts=counts))
        old, new = state.cores[index].state.routing
        table = routes(self.plan, edges[0], self.tasks[index], old, new)
        pieces = tuple(ev.RoutedRows(table.old[r[0]], table.new[r[0]], Data((r,), 1, 1)) for r in rows)
        return self._tell(state, index, ev.Produced(pieces))

    def _ack(
        self, state: CheckpointModelState, index: int, epoch: Epoch, manifest: TaskManifest
    ) -> CheckpointModelState:
        counts, leader = state.shells[index].stored, state.leader
        if leader.state != "flight" or leader.epoch != epoch:
            return state
        acks = (*leader.acks, (self.tasks[index], manifest, counts))
        return self._with_leader(state, replace(leader, acks=tuple(sorted(acks, key=lambda ack: ack[0]))))

    def _load(self, state: CheckpointModelState, index: int, load: ev.LoadState) -> CheckpointModelState:
        shell = state.shells[index]
        known = dict(shell.offsets)
        offsets = (*shell.offsets, *((s.split, s.offset) for s in load.splits))
        assert not any(s.split in known for s in load.splits), "a split was gained twice"
        counts = shell.counts
        table = self.tables[int(load.version)]
        if state.leader.root is not None:
            mine = groups_of(table.share_of(self.tasks[index]))
            counts = tuple(state.leader.held[g] if g in mine and not counts[g] else counts[g] for g in range(GROUPS))
        state = self._with_shell(state, index, replace(shell, offsets=offsets, counts=counts))
        return self._tell(state, index, ev.Loaded(load.version))

    def _announce(self, state: CheckpointModelState, index: int, version: Any) -> CheckpointModelState:
        for channel in self.channels:
            if channel.receiver == self.tasks[index]:
                sender = self.tasks.index(channel.sender)
                state = self._mailed(state, sender, ev.PeerVersion(channel, version))
        return state

    # --- The end

    def check_end(self, state: CheckpointModelState) -> None:
        """Check a final state: every record is counted once, in order, by its owner."""
        table = self.tables[state.leader.version]
        for index, task in enumerate(self.tasks):
            owned = groups_of(table.share_of(task)) if table.has(task) else []
            for group, rows in enumerate(state.shells[index].counts):
                due = {r for rows in self.rows.values() for r in rows if r[0] == group}
                wanted = due if group in owned else set()
                if set(rows) != wanted or len(rows) != len(wanted):
                    raise Violation("E", f"{task} counted {rows} of group {group}")
                for split in self.rows:
                    offsets = [r[2] for r in rows if r[1] == split]
                    if offsets != sorted(offsets):
                        raise Violation("O", f"{task} counted {split} as {offsets}")


def _union(counts: Iterator[Counts]) -> Counts:
    every = list(counts)
    return tuple(tuple(r for c in every for r in c[g]) for g in range(GROUPS))
