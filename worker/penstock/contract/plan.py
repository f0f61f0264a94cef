"""The physical plan as the keepers know it, the assignment of its tasks, and the routes between them.

A stage is a chain of steps without a shuffle inside. Its parallel instances are tasks. An assignment
says which task owns which key groups of keyed stages and which splits of sources, under one version.
The functions here are pure and deterministic: every worker computes the same table. There is no user
code here. A task never changes its worker. A rescale makes and ends tasks. It moves as few key groups
and splits as a balance of +-1 allows.

The routes of an edge say which channel receives what, under the assignment that holds and the next.
The engine turns them into arrays; the simulation looks them up. The table of a key edge has one entry
per key group. The table of a custom edge lists the receivers of each version, with the name of the scheme
that deals rows out to them. The table of any other edge lists the receivers of both versions: each entry
says which of them is there before and after.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.base.values import replace
from penstock.contract.balance import Balance
from penstock.contract.codec import ABSENT, Absent, Message
from penstock.contract.columns import Columns
from penstock.contract.ids import ChannelId, Ordinal, SplitId, StageIndex, TaskId, Version
from penstock.contract.keygroups import Share, first_shares, groups_of, rebalance, to_share
from penstock.contract.schemes import Choices, SchemeNames, chosen, given

SOURCE, SINK = "source", "sink"  # kinds of steps that checkpoints know besides the keyed ones

Receivers = tuple[ChannelId | None, ...]


class Partitioning(StrEnum):
    """How the rows of an edge find their receiver."""

    KEY = "key"
    FORWARD = "forward"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round-robin"
    CUSTOM = "custom"


class StagePlan(Message, tag="StagePlan"):
    """One chain of steps. ``parallelism`` None means one task per worker.

    ``source`` and ``sinks`` name steps of the chain; ``keyed`` says that the stage owns key
    groups, ``bounded`` that its source ends. The outputs are told a time that lies ``held_us`` before the time that
    the steps have reached: so far the event times of results can lie behind it. ``varying`` names steps whose results
    depend on the clock, or on when rows came: after a rollback they may be others. Inputs over the edges ``aside`` do
    not hold the time of the stage back: its steps are told apart how far these have come. ``copies`` are states of
    which each task has a copy; the first task stores it. ``schemes`` has the names of the functions by which rows may
    go to the tasks, if there are several.
    """

    index: StageIndex
    name: str
    steps: tuple[str, ...]
    parallelism: int | None = None
    source: str | None = None
    bounded: bool = False
    keyed: bool = False
    sinks: tuple[str, ...] = ()
    held_us: int | Absent = ABSENT
    varying: tuple[str, ...] | Absent = ABSENT
    aside: tuple[int, ...] | Absent = ABSENT
    copies: tuple[str, ...] | Absent = ABSENT
    schemes: SchemeNames | Absent = ABSENT


class EdgePlan(Message, tag="EdgePlan"):
    """Rows from stage ``sender`` to stage ``receiver``; ``index`` is the place in the plan."""

    index: int
    sender: StageIndex
    receiver: StageIndex
    partitioning: Partitioning


class StateColumn(Message, tag="StateColumn"):
    """A value per key: its name and type as the job shows them, and how it is computed.

    ``of`` is like ``sum(x: int64)``. It is empty for a value of the user's own. ``number`` counts the fields of a
    state with types from 1; it is 0 for all others. Such a field may say by ``renamed`` under which name it was stored.
    """

    name: str
    type: str
    of: str = ""
    number: int = 0
    renamed: str | Absent = ABSENT


class StepState(Message, tag="StepState"):
    """What a checkpoint holds of one step. A job that reads it again must have the same.

    A source or sink has a ``connector``; a keyed step has ``keys`` and ``columns`` in their order;
    a window has ``times``: its size and its offset (us). ``migrates`` has the columns of the earlier state that the job
    converts.
    """

    step: str
    kind: str
    connector: str = ""
    keys: Columns = ()
    columns: tuple[StateColumn, ...] = ()
    times: tuple[int, ...] = ()
    migrates: tuple[StateColumn, ...] | Absent = ABSENT


class PhysicalPlan(Message, tag="PhysicalPlan"):
    """Stages in topological order.

    ``fingerprint`` is that of the whole graph: engines of two plans never share an attempt.
    ``states`` lists what checkpoints hold, step by step. A manifest of format 1 has
    ``state_fingerprint`` instead.
    """

    job: str
    max_key_groups: int
    stages: tuple[StagePlan, ...]
    edges: tuple[EdgePlan, ...]
    fingerprint: str
    states: tuple[StepState, ...] = ()
    state_fingerprint: str = ""

    @property
    def steps(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the steps of each stage."""
        return tuple(stage.steps for stage in self.stages)

    @property
    def schemes(self) -> dict[str, SchemeNames]:
        """Return the schemes of each step that has several."""
        return {stage.name: stage.schemes for stage in self.stages if stage.schemes is not ABSENT}

    def outputs_of(self, stage: StageIndex) -> tuple[EdgePlan, ...]:
        """List the edges out of a stage, in plan order."""
        return tuple(e for e in self.edges if e.sender == stage)


class StageAssignment(Message, tag="StageAssignment"):
    """``shares[i]`` and ``splits[i]`` belong to ``tasks[i]``; empty where a stage has none."""

    stage: StageIndex
    tasks: tuple[TaskId, ...]
    shares: tuple[Share, ...] = ()
    splits: tuple[tuple[SplitId, ...], ...] = ()


class Assignment(Message, tag="Assignment"):
    """The whole table of one version; workers are the ordinals ``0 .. workers-1``.

    ``schemes`` has the scheme of each step that has several. It is left out when there is none. ``balance`` says which
    request to balance the version answers, if it answers one.
    """

    version: Version
    workers: int
    stages: tuple[StageAssignment, ...]
    schemes: Choices | Absent = ABSENT
    balance: Balance | Absent = ABSENT

    def tasks(self) -> tuple[TaskId, ...]:
        """List every task, stage by stage."""
        return tuple(t for s in self.stages for t in s.tasks)

    def has(self, task: TaskId) -> bool:
        """Return whether the table has a task."""
        return task.stage < len(self.stages) and task in self.stages[task.stage].tasks

    def tasks_on(self, worker: Ordinal) -> tuple[TaskId, ...]:
        """List the tasks of one worker, stage by stage."""
        return tuple(t for t in self.tasks() if t.worker == worker)

    def scheme_of(self, step: str) -> str:
        """Return the name of the scheme of a step; empty when it has only one."""
        return next((choice.use for choice in given(self.schemes) if choice.step == step), "")

    def share_of(self, task: TaskId) -> Share:
        """Return the key groups of a task; empty when its stage is not keyed or has none for it."""
        stage = self.stages[task.stage]
        return stage.shares[stage.tasks.index(task)] if stage.shares and task in stage.tasks else ()

    def splits_of(self, task: TaskId) -> tuple[SplitId, ...]:
        """Return the splits of a source task."""
        stage = self.stages[task.stage]
        return stage.splits[stage.tasks.index(task)] if stage.splits and task in stage.tasks else ()


def stage_tasks(stage: StagePlan, workers: int) -> tuple[TaskId, ...]:
    """Place a stage: one task per worker, or its fixed number spread evenly, lowest first."""
    total = workers if stage.parallelism is None else stage.parallelism
    size, larger = divmod(total, workers)
    return tuple(
        TaskId(stage.index, Ordinal(worker), slot)
        for worker in range(workers)
        for slot in range(size + (1 if worker < larger else 0))
    )


def first_assignment(plan: PhysicalPlan, workers: int, splits: dict[StageIndex, tuple[SplitId, ...]]) -> Assignment:
    """Build version 1 from nothing: contiguous shares, splits dealt round-robin in order."""
    stages = tuple(_first_stage(plan, s, workers, splits) for s in plan.stages)
    return Assignment(Version(1), workers, stages, chosen(plan.schemes, (), ()))


def _first_stage(
    plan: PhysicalPlan,
    stage: StagePlan,
    workers: int,
    splits: dict[StageIndex, tuple[SplitId, ...]],
) -> StageAssignment:
    tasks = stage_tasks(stage, workers)
    shares = first_shares(plan.max_key_groups, len(tasks)) if stage.keyed else ()
    dealt: tuple[tuple[SplitId, ...], ...] = ()
    if stage.source is not None:
        names = splits.get(stage.index, ())
        dealt = tuple(tuple(names[i :: len(tasks)]) for i in range(len(tasks)))
    return StageAssignment(stage.index, tasks, shares, dealt)


def next_assignment(plan: PhysicalPlan, old: Assignment, workers: int) -> Assignment:
    """Build the following version for a number of workers, with minimal movement.

    Key groups stay with their tasks when these are the same, because they may have been dealt out by load.
    """
    stages = tuple(_next_stage(s, o, workers) for s, o in zip(plan.stages, old.stages, strict=True))
    return replace(old, version=Version(old.version + 1), workers=workers, stages=stages)


def _next_stage(stage: StagePlan, old: StageAssignment, workers: int) -> StageAssignment:
    tasks = stage_tasks(stage, workers)
    index = {task: i for i, task in enumerate(old.tasks)}
    keep = [index.get(task) for task in tasks]
    shares = old.shares if tasks == old.tasks or not old.shares else rebalance(old.shares, keep)
    splits = _rebalance_splits(old.splits, keep) if old.splits else ()
    return StageAssignment(stage.index, tasks, shares, splits)


def _rebalance_splits(old: tuple[tuple[SplitId, ...], ...], keep: list[int | None]) -> tuple[tuple[SplitId, ...], ...]:
    """Move splits like key groups: number them, share the numbers out, name them again."""
    names = [name for splits in old for name in splits]
    number = {name: i for i, name in enumerate(names)}
    from_names = tuple(to_share(number[n] for n in splits) for splits in old)
    moved = rebalance(from_names, keep)
    return tuple(tuple(names[i] for r in share for i in range(r.start, r.stop)) for share in moved)


def channels_of(plan: PhysicalPlan, assignment: Assignment) -> tuple[ChannelId, ...]:
    """List every channel of a version: all pairs of an edge, or slot by slot when it is forward."""
    return tuple(c for edge in plan.edges for c in _edge_channels(edge, assignment))


def _edge_channels(edge: EdgePlan, assignment: Assignment) -> list[ChannelId]:
    senders = assignment.stages[edge.sender].tasks
    receivers = assignment.stages[edge.receiver].tasks
    if edge.partitioning is Partitioning.FORWARD:
        return [ChannelId(edge.index, s, TaskId(edge.receiver, s.worker, s.slot)) for s in senders]
    return [ChannelId(edge.index, s, r) for s in senders for r in receivers]


@dataclass(frozen=True, slots=True)
class Routes:
    """One edge of one sender: ``old[i]`` and ``new[i]`` receive the rows of entry i.

    Outside a rescale both are the same object. None: that version has no such receiver. ``schemes`` are the names
    of the schemes before and after that deal out the rows of a custom edge, empty where there is only one.
    """

    edge: EdgePlan
    old: Receivers
    new: Receivers
    schemes: tuple[str, str] = ("", "")


def routes(plan: PhysicalPlan, edge: EdgePlan, sender: TaskId, old: Assignment, new: Assignment | None) -> Routes:
    """Build the routes of ``sender`` over ``edge``; ``new`` is None outside a rescale."""
    before, step = _receivers(plan, edge, sender, old), plan.stages[edge.receiver].name
    scheme = old.scheme_of(step)
    if new is None:
        return Routes(edge, before, before, (scheme, scheme))
    after = _receivers(plan, edge, sender, new)
    if not new.has(sender):
        after = ()  # a task that leaves holds all rows, because the rescale may be aborted
    if edge.partitioning in {Partitioning.KEY, Partitioning.CUSTOM}:
        return Routes(edge, before, after or (None,) * len(before), (scheme, new.scheme_of(step)))
    everyone = list(dict.fromkeys(before + after))
    return Routes(
        edge,
        tuple(c if c in before else None for c in everyone),
        tuple(c if c in after else None for c in everyone),
    )


def _receivers(plan: PhysicalPlan, edge: EdgePlan, sender: TaskId, assignment: Assignment) -> Receivers:
    stage = assignment.stages[edge.receiver]
    channels = [ChannelId(edge.index, sender, task) for task in stage.tasks]
    match edge.partitioning:
        case Partitioning.KEY:
            table: list[ChannelId | None] = [None] * plan.max_key_groups
            for channel, share in zip(channels, stage.shares, strict=True):
                for group in groups_of(share):
                    table[group] = channel
            assert None not in table, f"edge {edge.index}: a key group without an owner"
            return tuple(table)
        case Partitioning.FORWARD:
            mine = TaskId(edge.receiver, sender.worker, sender.slot)
            return tuple(c for c in channels if c.receiver == mine)
        case _:
            return tuple(channels)
