"""Logical graph to physical plan: chains become stages, shuffles become edges.

A step joins the stage of its inputs when all of them are there, nothing deals the rows out anew
and the parallelism is the same; so steps that are not keyed never shuffle. Nor does a keyed step
whose rows are where their keys belong already: behind steps of the same keys that leave them as
they are. Everything else begins a stage, entered only at its first step.
"""

import json
from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract import codec
from penstock.contract.graph import (
    MAIN,
    Aggregate,
    Filter,
    Input,
    LogicalGraph,
    Process,
    Sink,
    Source,
    Step,
    Window,
)
from penstock.contract.ids import StageIndex
from penstock.contract.plan import EdgePlan, Partitioning, PhysicalPlan, StagePlan
from penstock.graph.flow import Flows
from penstock.graph.problems import Problems
from penstock.graph.states import key_columns, states_of

FINGERPRINT_CHARS = 16


@dataclass(slots=True)
class PlannedStage:
    """A stage while it is put together. ``steps[0]`` is the only one that edges lead to."""

    index: StageIndex
    parallelism: int | None
    steps: list[Step] = field(default_factory=list)

    @property
    def keyed(self) -> bool:
        """Say whether key groups are owned here."""
        return any(i.partitioning is Partitioning.KEY for i in self.steps[0].inputs)


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows of ``input`` to the first step of a stage; ``port`` counts that step's inputs."""

    plan: EdgePlan
    input: Input
    receiver: Step
    port: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The graph cut into stages and edges; ``stage_of`` finds a step's stage by its name."""

    stages: tuple[PlannedStage, ...]
    edges: tuple[Edge, ...]
    stage_of: dict[str, StageIndex]


def lay_out(graph: LogicalGraph, problems: Problems) -> Layout:
    """Cut the graph into stages and edges, in topological order."""
    stages: list[PlannedStage] = []
    edges: list[Edge] = []
    stage_of: dict[str, StageIndex] = {}
    for step in graph.steps:
        before = [stages[stage_of[i.step]] for i in step.inputs]
        home = _home(step, before)
        if home is None:
            home = PlannedStage(StageIndex(len(stages)), _own_parallelism(step, before))
            stages.append(home)
            for port, (entry, sender) in enumerate(zip(step.inputs, before, strict=True)):
                how = _partitioning(step, entry, sender, home, problems)
                plan = EdgePlan(len(edges), sender.index, home.index, how)
                edges.append(Edge(plan, entry, step, port))
        home.steps.append(step)
        stage_of[step.name] = home.index
    return Layout(tuple(stages), tuple(edges), stage_of)


def _home(step: Step, before: list[PlannedStage]) -> PlannedStage | None:
    """Return the stage that a step is chained into, or None when it begins one."""
    same = {stage.index for stage in before}
    if len(same) != 1 or not all(_stays(entry, before[0]) for entry in step.inputs):
        return None
    return before[0] if step.parallelism in (None, before[0].parallelism) else None


def _stays(entry: Input, stage: PlannedStage) -> bool:
    """Say whether rows of a stage may go on in their task: nothing deals them out anew."""
    if entry.partitioning is Partitioning.KEY:
        first = stage.steps[0]
        dealt = stage.keyed and all(i.keys == entry.keys for i in first.inputs)
        return dealt and _keeps_keys(entry, stage)
    return entry.partitioning in (None, Partitioning.FORWARD)


def _keeps_keys(entry: Input, stage: PlannedStage) -> bool:
    """Say whether the key columns of rows have come through a stage as they were dealt out.

    A user function may change any column, so only what lies behind built-in steps is known.
    """
    steps = {step.name: step for step in stage.steps}
    step = steps[entry.step]
    match step.parameters:
        case Aggregate() | Window():
            kept = step.keys == entry.keys
        case Filter():
            kept = entry.output == MAIN
        case _:
            kept = False
    inner = step.inputs if step is not stage.steps[0] else ()
    return kept and all(_keeps_keys(replace(i, keys=entry.keys), stage) for i in inner)


def _own_parallelism(step: Step, before: list[PlannedStage]) -> int | None:
    """Take the step's own; a union of equally parallel stages that says nothing keeps theirs."""
    given = {stage.parallelism for stage in before}
    unsaid = all(i.partitioning in (None, Partitioning.FORWARD) for i in step.inputs)
    if step.parallelism is None and unsaid and len(given) == 1:
        return given.pop()
    return step.parallelism


def _partitioning(
    step: Step, entry: Input, sender: PlannedStage, receiver: PlannedStage, problems: Problems
) -> Partitioning:
    equal = sender.parallelism == receiver.parallelism
    if entry.partitioning is None:
        return Partitioning.FORWARD if equal else Partitioning.ROUND_ROBIN
    if entry.partitioning is Partitioning.FORWARD and not equal:
        problems.at(
            step,
            f"forward from {entry.step!r} needs equal parallelism; it is "
            f"{_spell(sender.parallelism)} there and {_spell(receiver.parallelism)} here",
        )
    return entry.partitioning


def _spell(parallelism: int | None) -> str:
    return "one per worker" if parallelism is None else str(parallelism)


def to_plan(
    graph: LogicalGraph, layout: Layout, flows: Flows, bounded: dict[str, bool], key_groups: int
) -> PhysicalPlan:
    """Return the plan as keepers know it. ``bounded`` says of each source whether it ends."""
    stages = tuple(_stage_plan(stage, bounded) for stage in layout.stages)
    edges = tuple(edge.plan for edge in layout.edges)
    states = states_of(graph, flows)
    sent = [flows[e.input.step, e.input.output].columns for e in layout.edges]
    whole = fingerprint(graph, key_groups, stages, edges, states, sent)
    old = state_fingerprint(layout, flows)
    return PhysicalPlan(graph.job, key_groups, stages, edges, whole, states, old)


def _stage_plan(stage: PlannedStage, bounded: dict[str, bool]) -> StagePlan:
    source = next((s.name for s in stage.steps if isinstance(s.parameters, Source)), None)
    return StagePlan(
        stage.index,
        stage.steps[0].name,
        tuple(s.name for s in stage.steps),
        stage.parallelism,
        source,
        bounded.get(source, False) if source is not None else False,
        stage.keyed,
        tuple(s.name for s in stage.steps if isinstance(s.parameters, Sink)),
    )


def fingerprint(graph: LogicalGraph, *parts: object) -> str:
    """Hash the whole job: its graph, how it was cut, what it keeps and what tasks send.

    Only the names of user functions are in it, and of columns that an input was found to have
    only those that meet another task or a state: a file with one more must not part workers.
    """
    return _hash([codec.to_plain(graph), codec.to_plain(parts)])


def state_fingerprint(layout: Layout, flows: Flows) -> str:
    """Hash what manifests of format 1 say of the state: stages, names, keys, state columns."""
    return _hash(
        [[stage.keyed, [_state_of(step, flows) for step in stage.steps]] for stage in layout.stages]
    )


def _hash(plain: object) -> str:
    return codec.digest(json.dumps(plain, sort_keys=True).encode())[:FINGERPRINT_CHARS]


def _state_of(step: Step, flows: Flows) -> list[object]:
    match step.parameters:
        case Source(connector):
            return [step.kind, step.name, connector.kind]
        case Sink(connector):
            return [step.kind, step.name, connector.kind]
        case Aggregate(compute):
            return [*_keyed(step, flows), codec.to_plain(compute), _given(step, flows)]
        case Window(size_us, compute, offset_us):
            times = [size_us, offset_us]
            return [*_keyed(step, flows), codec.to_plain(compute), _given(step, flows), times]
        case Process(state=state):
            return [*_keyed(step, flows), codec.to_plain(state)]
        case _:
            return []


def _keyed(step: Step, flows: Flows) -> list[object]:
    keys = [[c.name, c.type] for c in key_columns(step, flows)]
    return [step.kind, step.name, keys]


def _given(step: Step, flows: Flows) -> list[str]:
    return [c.type for c in flows[step.name, MAIN].columns or ()]
