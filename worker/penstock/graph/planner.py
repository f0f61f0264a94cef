"""Makes the physical plan of a logical graph: chains of steps become stages, shuffles become edges.

A step joins the stage of its inputs if three things are true: all its inputs are in that stage, the
rows stay in their task, and the parallelism is the same. The rows stay in their task if the input
has no partitioning, or is forward. They also stay if the input is keyed and the stage already is
keyed by the same columns, provided that no step in between can change these columns. Every other
step begins a new stage, and so does every step with several sides. Edges lead only to the first step of a stage.
"""

import json
from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract import codec
from penstock.contract.call_types import CallTypes, StateFields
from penstock.contract.chosen_rows import Distinct, LatestRow, Top, WindowTop
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.graph import (
    MAIN,
    RIGHT,
    STATEFUL,
    Aggregate,
    AsOf,
    Call,
    Connect,
    CountWindow,
    Enrich,
    Filter,
    FlatMap,
    Holding,
    Input,
    Join,
    LogicalGraph,
    Lookup,
    Process,
    Session,
    Sink,
    Source,
    Step,
    TimeKind,
    Trigger,
    Window,
    WindowAll,
)
from penstock.contract.ids import StageIndex
from penstock.contract.plan import EdgePlan, Partitioning, PhysicalPlan, StagePlan
from penstock.contract.schemes import SchemeNames
from penstock.contract.side_inputs import copy_state
from penstock.graph.flow import Flows
from penstock.graph.problems import Problems
from penstock.graph.side_input import is_side
from penstock.graph.states import key_columns, states_of

FINGERPRINT_CHARS = 16


@dataclass(slots=True)
class PlannedStage:
    """A stage under construction. Edges lead only to ``steps[0]``."""

    index: StageIndex
    parallelism: int | None
    steps: list[Step] = field(default_factory=list)

    @property
    def keyed(self) -> bool:
        """Return whether the tasks of this stage own key groups."""
        return any(i.partitioning is Partitioning.KEY for i in self.steps[0].inputs)


@dataclass(frozen=True, slots=True)
class Edge:
    """Brings rows of ``input`` to the first step of a stage. ``port`` is the number of the input."""

    plan: EdgePlan
    input: Input
    receiver: Step
    port: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The stages and edges of a graph. ``stage_of`` has the stage of each step by its name."""

    stages: tuple[PlannedStage, ...]
    edges: tuple[Edge, ...]
    stage_of: dict[str, StageIndex]


def lay_out(graph: LogicalGraph, problems: Problems) -> Layout:
    """Divide the graph into stages and edges, in topological order. Adds to ``problems``."""
    stages: list[PlannedStage] = []
    edges: list[Edge] = []
    stage_of: dict[str, StageIndex] = {}
    for step in graph.steps:
        senders = [stages[stage_of[i.step]] for i in step.inputs]
        stage = _stage_to_join(step, senders)
        if stage is None:
            stage = PlannedStage(StageIndex(len(stages)), _parallelism(step, senders))
            stages.append(stage)
            for port, (entry, sender) in enumerate(zip(step.inputs, senders, strict=True)):
                how = _partitioning(step, entry, sender, stage, problems)
                plan = EdgePlan(len(edges), sender.index, stage.index, how)
                edges.append(Edge(plan, entry, step, port))
        stage.steps.append(step)
        stage_of[step.name] = stage.index
    for stage in stages:
        _check_shedding(stage, problems)
    return Layout(tuple(stages), tuple(edges), stage_of)


def _check_shedding(stage: PlannedStage, problems: Problems) -> None:
    """Refuse a node that sheds rows in a task with state. Its answers are others after a failure."""
    keeps = [step.name for step in stage.steps if isinstance(step.parameters, STATEFUL)]
    for step in stage.steps:
        if keeps and isinstance(step.parameters, FlatMap) and step.parameters.sheds is True:
            problems.at(
                step,
                f"{step.parameters.call.function} calls send_next_if in a task that keeps state (of {keeps[0]!r}): its "
                "answers are others when rows come again after a failure, so rows would be shed that the state has "
                "counted. Put the node before the step with state, or into a farm behind it",
            )


def _stage_to_join(step: Step, senders: list[PlannedStage]) -> PlannedStage | None:
    """Return the stage that a step is chained to, or None if it begins a new stage."""
    indexes = {stage.index for stage in senders}
    if step.has_sides:
        return None  # the edge that brings a row says on which side it is
    if isinstance(step.parameters, Enrich | Lookup):
        return None  # the time that its rows hold is that of the stage
    if len(indexes) != 1 or not all(_stays_in_task(entry, senders[0]) for entry in step.inputs):
        return None
    return senders[0] if step.parallelism in (None, senders[0].parallelism) else None


def _stays_in_task(entry: Input, stage: PlannedStage) -> bool:
    """Return whether the rows of an input need not leave their task."""
    if entry.partitioning is Partitioning.KEY:
        first = stage.steps[0]
        same_keys = stage.keyed and all(i.keys == entry.keys for i in first.inputs)
        return same_keys and _keeps_keys(entry, stage)
    return entry.partitioning in (None, Partitioning.FORWARD)


def _keeps_keys(entry: Input, stage: PlannedStage) -> bool:
    """Return whether no step of a stage before this input can change the key columns.

    A user function may change any column, so only some built-in steps are known to keep them.
    """
    steps = {step.name: step for step in stage.steps}
    step = steps[entry.step]
    match step.parameters:
        case Aggregate() | CountWindow():
            kept = step.keys == entry.keys
        case Window() | Session():  # a stage has one time for all its steps: so nothing behind it may need a held one
            kept = step.keys == entry.keys and not step.parameters.held_us
        case Filter() | Distinct():
            kept = entry.output == MAIN
        case _:
            kept = False
    inner = step.inputs if step is not stage.steps[0] else ()
    return kept and all(_keeps_keys(replace(i, keys=entry.keys), stage) for i in inner)


def _parallelism(step: Step, senders: list[PlannedStage]) -> int | None:
    """Return the parallelism of a new stage.

    It is that of its first step. If this step has none, and joins stages of equal parallelism
    without partitioning, the new stage has their parallelism.
    """
    of_senders = {stage.parallelism for stage in senders}
    unpartitioned = all(i.partitioning in (None, Partitioning.FORWARD) for i in step.inputs)
    if step.parallelism is None and unpartitioned and len(of_senders) == 1:
        return of_senders.pop()
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
            f"{_parallelism_text(sender.parallelism)} there and "
            f"{_parallelism_text(receiver.parallelism)} here",
        )
    return entry.partitioning


def _parallelism_text(parallelism: int | None) -> str:
    return "one per worker" if parallelism is None else str(parallelism)


def to_plan(
    graph: LogicalGraph, layout: Layout, flows: Flows, bounded: dict[str, bool], key_groups: int
) -> PhysicalPlan:
    """Return the plan that keepers use. ``bounded`` says for each source whether its input ends."""
    stages = tuple(_stage_plan(stage, bounded, layout.edges) for stage in layout.stages)
    edges = tuple(edge.plan for edge in layout.edges)
    states = states_of(graph, flows)
    sent = [flows[e.input.step, e.input.output].columns for e in layout.edges]
    of_job = fingerprint(graph, key_groups, stages, edges, states, sent)
    of_state = state_fingerprint(layout, flows)
    return PhysicalPlan(graph.job, key_groups, stages, edges, of_job, states, of_state)


def _stage_plan(stage: PlannedStage, bounded: dict[str, bool], edges: tuple[Edge, ...]) -> StagePlan:
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
        max((s.parameters.held_us for s in stage.steps if isinstance(s.parameters, Holding)), default=0) or ABSENT,
        tuple(s.name for s in stage.steps if _varies(s)) or ABSENT,
        tuple(e.plan.index for e in edges if e.receiver is stage.steps[0] and _is_aside(e)) or ABSENT,
        tuple(copy_state(i.step, s.name) for s in stage.steps for i in s.inputs if is_side(i)) or ABSENT,
        _scheme_names(stage.steps[0]),
    )


def _scheme_names(step: Step) -> SchemeNames | Absent:
    """Return the schemes of the step that the rows go to. All its inputs have the same ones."""
    found = next((i.schemes for i in step.inputs if i.schemes is not ABSENT), None)
    return ABSENT if found is None else SchemeNames(found.names, found.use)


def _is_aside(edge: Edge) -> bool:
    """Return whether an input does not hold the time of its stage back: a table that is read as it is now."""
    if is_side(edge.input):
        return True
    match edge.receiver.parameters:
        case Join(as_of=AsOf.NOW):
            return edge.input.side == RIGHT
        case _:
            return False


def _varies(step: Step) -> bool:
    """Return whether the results of a step depend on the clock, or on when rows came."""
    if any(is_side(i) for i in step.inputs):
        return True
    match step.parameters:
        case Window(trigger=Trigger()) | Window(time=TimeKind.CLOCK) | Session(time=TimeKind.CLOCK) | CountWindow():
            return True
        case Connect() | Enrich() | Lookup() | FlatMap(sheds=True) | Join(as_of=AsOf.NOW):
            return True
        case Process(Call(types=CallTypes(state=StateFields(fields=fields)))):
            return any(field.type == "ClockTimer" for field in fields)
        case _:
            return False


def fingerprint(graph: LogicalGraph, *parts: object) -> str:
    """Hash the whole job. ``parts`` are its stages, edges, states and the columns that tasks send.

    Of user functions only the names are hashed. Columns that were found in an input are hashed only
    if they are sent to another task or stored. So a new column in an input file, which some
    workers have seen and others have not, does not give workers different fingerprints.
    """
    return _hash([codec.to_plain(graph), codec.to_plain(parts)])


def state_fingerprint(layout: Layout, flows: Flows) -> str:
    """Hash the state as manifests of format 1 describe it: stages, names, keys, state columns."""
    return _hash([[stage.keyed, [_state_of(step, flows) for step in stage.steps]] for stage in layout.stages])


def _hash(plain: object) -> str:
    return codec.digest(json.dumps(plain, sort_keys=True).encode())[:FINGERPRINT_CHARS]


def _state_of(step: Step, flows: Flows) -> list[object]:
    match step.parameters:
        case Source(connector):
            return [step.kind, step.name, connector.kind]
        case Sink(connector):
            return [step.kind, step.name, connector.kind]
        case Aggregate(compute):
            return [*_keyed(step, flows), codec.to_plain(compute), _output_types(step, flows)]
        case Window(size_us, compute, offset_us) as window:
            times = [size_us, offset_us, *([] if window.step_us == size_us else [window.step_us])]
            computed = codec.to_plain(compute)
            return [*_keyed(step, flows), computed, _output_types(step, flows), times]  # panes are among the types
        case WindowAll(size_us, compute, offset_us, slide_us=slide_us):
            times = [size_us, offset_us, slide_us or size_us]
            return [*_keyed(step, flows), codec.to_plain(compute), _output_types(step, flows), times]
        case Session(gap_us, compute):
            return [*_keyed(step, flows), codec.to_plain(compute), _output_types(step, flows), [gap_us]]
        case Join():
            declared = codec.to_plain(step.parameters)
            del declared["event_time"]  # nothing of it is kept
            declared.pop("load_until", None)
            if step.parameters.as_of is None:
                del declared["as_of"]
            return [*_keyed(step, flows), declared]
        case CountWindow() | Distinct() | LatestRow() | Top() | WindowTop():
            return [*_keyed(step, flows), codec.to_plain(step.parameters), _output_types(step, flows)]
        case Process(state=state):
            return [*_keyed(step, flows), codec.to_plain(state)]
        case Connect() | Enrich() | Lookup():
            return _keyed(step, flows)
        case _:
            return []


def _keyed(step: Step, flows: Flows) -> list[object]:
    keys = [[c.name, c.type] for c in key_columns(step, flows)]
    return [step.kind, step.name, keys]


def _output_types(step: Step, flows: Flows) -> list[str]:
    return [c.type for c in flows[step.name, MAIN].columns or ()]
