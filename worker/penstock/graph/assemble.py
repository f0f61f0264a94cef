"""Builds the chain of steps of a stage. Imports Arrow and numba, so only engines import it."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.contract.chosen_rows import Distinct, LatestRow, Top, WindowTop
from penstock.contract.codec import ABSENT
from penstock.contract.graph import (
    DEAD_LETTER,
    DEAD_LETTER_RIGHT,
    LEFT,
    MAIN,
    ONLY,
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
    How,
    Join,
    Lookup,
    Map,
    Process,
    Session,
    Sink,
    Source,
    Split,
    TimeKind,
    Window,
    WindowAll,
    WindowParts,
)
from penstock.contract.join_times import loaded_us
from penstock.contract.manifest import child_state
from penstock.contract.side_inputs import SideTable, copy_state
from penstock.graph.arrow import arrow_schema
from penstock.graph.compiled import ENTRY, CompiledSide, CompiledStage, CompiledStep
from penstock.graph.timer_handlers import in_order
from penstock.model.declared.function_types import FunctionTypes
from penstock.ports import Lookup as LookupPort
from penstock.steps import keyed, stateless
from penstock.steps.base import NOTHING_DUE, Emit, KeyedState, StateSchema, Step
from penstock.steps.chain import Chain, WiredStep
from penstock.steps.distinct import DistinctStep
from penstock.steps.enrich.enrich_step import EnrichStep
from penstock.steps.joins.event_join import EventJoinStep
from penstock.steps.joins.events import Interval
from penstock.steps.joins.now_join import NowJoinStep
from penstock.steps.joins.pair_function import PairFunction
from penstock.steps.joins.pairs import PairBatches
from penstock.steps.joins.partners import IntervalPartners, VersionPartners
from penstock.steps.joins.sides import JoinSide, join_side, timed_side, untimed_side
from penstock.steps.joins.window_join import JoinWindows, WindowJoinStep
from penstock.steps.load_first import HeldInput, InnerStep, LoadFirstStep
from penstock.steps.lookup.lookup_step import LookupStep
from penstock.steps.process import ProcessStep
from penstock.steps.ranked import RankedStep, Ranking
from penstock.steps.seq_node import SeqNode, SeqNodeStep
from penstock.steps.shedding import SheddingNodeStep
from penstock.steps.side_copies import PassStep, SideCopy, SideView
from penstock.steps.side_process import SideProcessStep, TypedSideProcessStep, reading
from penstock.steps.typed.emitted_records import Schemas
from penstock.steps.typed.plain_steps import TypedFilterStep, TypedFlatMapStep, TypedMapStep, outputs_of
from penstock.steps.typed.process_input import InputFunction
from penstock.steps.typed.process_step import TypedProcessStep
from penstock.steps.undecoded import UndecodedStep
from penstock.steps.windows.all_keys import AllKeysStep, PartsStep
from penstock.steps.windows.by_clock import CLOCK, ClockStep
from penstock.steps.windows.by_shape import AnyWindowStep, whole_window, window
from penstock.steps.windows.counted import CountStep
from penstock.steps.windows.late_rows import LateRows, WindowShape, instants
from penstock.steps.windows.sessions import SessionShape
from penstock.steps.windows.top import WindowTopStep

if TYPE_CHECKING:
    from typing import Any

_Opening = AnyWindowStep | AllKeysStep | ClockStep | CountStep | WindowTopStep | EnrichStep | LookupStep
Emits = Mapping[tuple[str, int | str], Emit]


class States(Protocol):
    """The keyed state of one task. Its steps open their state here."""

    max_key_groups: int

    def open(self, schema: StateSchema) -> KeyedState:
        """Create the state of a step, without any key."""
        ...


def assemble(
    stage: CompiledStage, states: States | None, emits: Emits, tables: Mapping[str, LookupPort] = MappingProxyType({})
) -> Chain:
    """Build the chain of one task.

    ``emits`` has a callable for every edge, ``("edge", index)``, and every sink,
    ``("sink", name)``. In a source stage, the caller gives the chain the rows that the source has
    read. ``states`` is None for a stage that is not keyed. ``tables`` has those of lookups, by step.
    Raises ConfigError for columns that do not fit the steps.
    """
    inner = [i for i, node in enumerate(stage.nodes) if not _is_source_or_sink(node)]
    source = next((i for i, n in enumerate(stage.nodes) if isinstance(n.parameters, Source)), ENTRY)
    has_letters = source != ENTRY and DEAD_LETTER in stage.nodes[source].outputs
    position = {node: i for i, node in enumerate(inner, int(has_letters))}
    wired = [
        WiredStep(
            _step(stage, i, states, tables),
            _readers_by_output(stage, i, position),
            _emits_by_output(stage, i, emits),
        )
        for i in inner
    ]
    if has_letters:
        readers, outside = _readers_by_output(stage, source, position), _emits_by_output(stage, source, emits)
        return Chain([WiredStep(_undecoded(stage.nodes[source]), readers, outside), *wired], (0,), ())
    sides = {edge: side.name for side in stage.nodes[0].sides for edge in side.edges}
    return Chain(wired, _readers(stage, source, MAIN, position), _emits(stage, source, MAIN, emits), sides)


def _undecoded(node: CompiledStep) -> Step:
    return UndecodedStep(node.name, node.output_schema(MAIN), node.output_schema(DEAD_LETTER))


def _is_source_or_sink(node: CompiledStep) -> bool:
    return isinstance(node.parameters, Source | Sink)


def _readers(stage: CompiledStage, node: int, output: str, position: Mapping[int, int]) -> tuple[int, ...]:
    """List the inner steps that read an output of a node, or the entry of the stage."""
    return tuple(
        position[i]
        for i in position
        for link in stage.nodes[i].inputs
        if link.node == node and (link.output == output or node == ENTRY)
    )


def _readers_by_output(stage: CompiledStage, node: int, position: Mapping[int, int]) -> dict[str, tuple[int, ...]]:
    outputs = stage.nodes[node].outputs
    return {output: _readers(stage, node, output, position) for output in outputs}


def _emits_by_output(stage: CompiledStage, node: int, emits: Emits) -> dict[str, tuple[Emit, ...]]:
    outputs = stage.nodes[node].outputs
    return {output: _emits(stage, node, output, emits) for output in outputs}


def _emits(stage: CompiledStage, node: int, output: str, emits: Emits) -> tuple[Emit, ...]:
    """List the callables of the edges and sinks that read an output of a node."""
    own = stage.nodes[node].edges if node != ENTRY else ()
    edges = [emits["edge", index] for name, index in own if name == output]
    sinks = [
        emits["sink", n.name]
        for n in stage.nodes
        if isinstance(n.parameters, Sink)
        for link in n.inputs
        if link.node == node and (link.output == output or node == ENTRY)
    ]
    return (*edges, *sinks)


def _step(stage: CompiledStage, place: int, states: States | None, tables: Mapping[str, LookupPort]) -> Step:
    node = stage.nodes[place]
    input_schema = node.input_schema()
    if node.types is not None and not isinstance(node.parameters, Process | Connect | Enrich):
        return _typed_step(node, node.types)
    match node.parameters:
        case Split(column):
            return stateless.SplitStep(node.name, column, node.output_schema(MAIN))
        case Map(call):
            return stateless.MapStep(node.name, call, _function(node), node.output_schema(MAIN))
        case FlatMap(call, sheds) if isinstance(node.function, SeqNode):
            output = node.output_schema(MAIN)
            if sheds is True:
                return SheddingNodeStep(node.name, call, node.function, output, stage.edges_behind(place))
            return SeqNodeStep(node.name, call, node.function, output)
        case FlatMap(call):
            return stateless.FlatMapStep(node.name, call, _function(node), node.output_schema(MAIN))
        case SideTable():
            return PassStep(node.name)
        case Filter(call):
            return stateless.FilterStep(node.name, call, _function(node))
        case WindowParts(size, compute, offset, lateness, step_us):
            assert node.time is not None, f"step {node.name!r} was checked to have event time"
            shape = WindowShape(size, offset, lateness, node.time, step_us)
            return PartsStep(node.name, shape, compute, (input_schema, node.output_schema(MAIN)))
        case _ if isinstance(node.parameters, STATEFUL):
            assert states is not None, f"step {node.name!r} keeps state: its stage is keyed"
            return _keyed_step(node, input_schema, states, tables.get(node.name))
        case _:
            raise AssertionError(f"{type(node.parameters).__name__} is not an inner step")


def _typed_step(node: CompiledStep, types: FunctionTypes) -> Step:
    """Build a step without state whose function has types."""
    function, input_schema = _function(node), node.input_schema()
    match node.parameters:
        case Map(call):
            return TypedMapStep(node.name, call, function, types, (input_schema, node.output_schema(MAIN)))
        case Filter(call):
            return TypedFilterStep(node.name, call, function, types, input_schema)
        case FlatMap(call):
            schemas = {"": input_schema, **_typed_schemas(node, types)}
            return TypedFlatMapStep(node.name, call, function, types, schemas)
        case _:
            raise AssertionError(f"{type(node.parameters).__name__} keeps state")


def _typed_schemas(node: CompiledStep, types: FunctionTypes) -> Schemas:
    """Return the schemas of the outputs of functions that emit."""
    return {output: node.output_schema(output) for output in outputs_of(types)}


def _keyed_step(node: CompiledStep, input_schema: pa.Schema, states: States, table: LookupPort | None) -> Step:
    try:
        keys = keyed.KeyColumns(input_schema, node.keys, states.max_key_groups)
    except ConfigError as error:
        raise ConfigError(f"step {node.name!r}: {error}") from error
    schemas = (input_schema, node.output_schema(MAIN))
    match node.parameters:
        case Join():
            return _join(node, node.parameters, states)
        case Aggregate(compute):
            return keyed.RunningAggregate(node.name, keys, compute, schemas, states.open)
        case Window() | Session():
            return _window(node, node.parameters, keys, schemas, states)
        case WindowAll(_, compute, _, lateness):
            return _opened(AllKeysStep(node.name, lateness, compute, keys, schemas), states)
        case CountWindow(size, compute):
            aggregates = keyed.Aggregates(node.name, compute, input_schema)
            return _opened(CountStep(node.name, size, aggregates, keys, schemas[1], timed=node.timed), states)
        case WindowTop(most, by):
            assert node.time is not None, f"step {node.name!r} was checked to have event time"
            ranking = Ranking(by, most, leaving=False)
            return _opened(WindowTopStep(node.name, ranking, keys, input_schema, node.time), states)
        case Distinct() | LatestRow() | Top():
            step = _choosing_step(node, node.parameters, keys, schemas)
            step.open(states.open)
            return step
        case Process(call) if node.types is not None:
            copies = _copies(node, states)
            function = reading(_function(node), SideView(copies), typed=True) if copies else _function(node)
            own = InputFunction(keys, call, function, node.types, input_schema, node.time)
            return _typed_process(node, (own,), node.types, states, copies)
        case Enrich():
            typed = (_function(node), node.types)
            return _opened(EnrichStep(node.name, keys, node.parameters, typed, schemas, timed=node.timed), states)
        case Lookup():
            return _opened(LookupStep(node.name, keys, node.parameters, table, schemas, timed=node.timed), states)
        case Connect(left, right):
            assert node.types is not None, f"step {node.name!r} was checked to have types"
            calls = ((LEFT, left, DEAD_LETTER), (RIGHT, right, DEAD_LETTER_RIGHT))
            both = tuple(_input_function(node.side(side), call, letters, states) for side, call, letters in calls)
            return _typed_process(node, both, node.types, states)
        case Process(call, columns):
            state_and_output = (arrow_schema(columns), node.output_schema(MAIN))
            return _process(node, keys, call, state_and_output, states)
        case _:
            raise AssertionError(f"{type(node.parameters).__name__} keeps no state")


def _copies(node: CompiledStep, states: States) -> dict[str, SideCopy]:
    """Return the copies of the side tables that a step reads, by the names of its inputs. Their states are open."""
    groups = states.max_key_groups
    tables = [side for side in node.sides if side.table]
    copies = {s.name: SideCopy(copy_state(s.table, node.name), s.schema(), s.keys, groups) for s in tables}
    for copy in copies.values():
        copy.open(states.open)
    return copies


def _process(
    node: CompiledStep, keys: keyed.KeyColumns, call: Call, schemas: tuple[pa.Schema, pa.Schema], states: States
) -> Step:
    """Build a process step whose function has no types."""
    copies = _copies(node, states)
    if copies:
        function = reading(_function(node), SideView(copies), typed=False)
        sided = SideProcessStep(node.name, keys, call, function, schemas)
        sided.copies = copies
        return _behind_tables(node, sided, states)
    process = ProcessStep(node.name, keys, call, _function(node), schemas)
    process.open(states.open)
    return process


def _behind_tables(node: CompiledStep, step: InnerStep, states: States) -> Step:
    """Let the rows of a step that reads side tables wait until those are loaded that are to be loaded first."""
    own = node.side(ONLY)
    schema = own.schema()
    keys = keyed.KeyColumns(schema, own.keys, states.max_key_groups)
    held = HeldInput(ONLY, child_state(node.name, "waiting-rows"), keys, schema, own.timed)  # no field has this name
    first = [(edge, s.load_until) for s in node.sides if s.loads_first for edge in s.edges]
    waiting = LoadFirstStep(step, held, {edge: _until_us(until) for edge, until in first})
    waiting.open(states.open)
    return waiting


def _until_us(load_until: str | None) -> int:
    return NOTHING_DUE if load_until is None else loaded_us(load_until)


def _typed_process(
    node: CompiledStep,
    inputs: Sequence[InputFunction],
    types: FunctionTypes,
    states: States,
    copies: Mapping[str, SideCopy] = MappingProxyType({}),
) -> Step:
    handlers = in_order(types, node.handlers)
    schemas = _typed_schemas(node, types)
    kind = TypedSideProcessStep if copies else TypedProcessStep
    step = kind(node.name, inputs, types, schemas, handlers=handlers, migration=node.migration, timed=node.timed)
    if isinstance(step, TypedSideProcessStep):
        step.copies = copies
        return _behind_tables(node, step, states)
    step.open(states.open)
    return step


def _input_function(side: CompiledSide, call: Call, letters: str, states: States) -> InputFunction:
    """Return the function for the rows of one of two inputs. ``letters`` is the output of its dead letters."""
    assert side.function is not None, "a step with two inputs has a function for each"
    assert side.types is not None, "both functions were checked to have types"
    schema = side.schema()
    keys = keyed.KeyColumns(schema, side.keys, states.max_key_groups)
    return InputFunction(keys, call, side.function, side.types, schema, side.time, letters)


def _choosing_step(
    node: CompiledStep,
    declared: Distinct | LatestRow | Top,
    keys: keyed.KeyColumns,
    schemas: tuple[pa.Schema, pa.Schema],
) -> DistinctStep | RankedStep:
    """Build a step that emits some of its rows."""
    match declared:
        case Distinct(None):
            return DistinctStep(node.name, keys, None, None)
        case Distinct(within, lateness):
            assert node.time is not None, f"step {node.name!r} was checked to have event time"
            return DistinctStep(node.name, keys, within, LateRows(instants(lateness, node.time), keys))
        case LatestRow(by):
            return RankedStep(node.name, Ranking(by, 1, leaving=False), keys, schemas)
        case Top(most, by):
            return RankedStep(node.name, Ranking(by, most, leaving=True), keys, schemas)


def _window(
    node: CompiledStep,
    declared: Window | Session,
    keys: keyed.KeyColumns,
    schemas: tuple[pa.Schema, pa.Schema],
    states: States,
) -> Step:
    """Build a step of windows of event time, or of the clock."""
    by_clock = declared.time is TimeKind.CLOCK
    time = CLOCK.name if by_clock else node.time
    assert time is not None, f"step {node.name!r} was checked to have event time"
    shape: WindowShape | SessionShape
    trigger = None
    match declared:
        case Session(gap, _, lateness):
            shape = SessionShape(gap, lateness, time)
        case Window(size, _, offset, lateness):
            shape = WindowShape(size, offset, lateness, time, declared.step_us)
            trigger = declared.trigger
    shown, output = schemas
    taken = shown.append(CLOCK) if by_clock else shown
    step: AnyWindowStep
    if declared.whole is not ABSENT:
        step = whole_window(node.name, shape, keys, _function_of_several(node), (taken, shown, output))
    else:
        step = window(node.name, shape, keys, declared.compute, (taken, output), trigger=trigger)
    return _opened(ClockStep(step, timed=node.timed) if by_clock else step, states)


def _opened(step: _Opening, states: States) -> Step:
    step.open(states.open)
    return step


def _join(node: CompiledStep, join: Join, states: States) -> Step:
    if join.as_of is AsOf.NOW:
        return _now_join(node, join, states)
    sides = tuple(
        _join_side(node, number, states.max_key_groups, (join.how in alone, join.within_us is None))
        for number, alone in enumerate(((How.LEFT, How.FULL), (How.RIGHT, How.FULL)))
    )
    output, time, function = node.output_schema(MAIN), None, None
    if join.event_time is not None:
        output, time = output.remove(len(output) - 1), output.field(len(output) - 1)
    if join.call is not None:
        schemas = (node.side(LEFT).schema(), node.side(RIGHT).schema(), output)
        function = PairFunction(node.name, join.call, _function_of_several(node), schemas)
    pairs = PairBatches(sides, output, function, time)
    step: WindowJoinStep | EventJoinStep
    partners: IntervalPartners | VersionPartners
    if join.within_us is not None:
        windows = JoinWindows(join.within_us, join.offset_us, join.allowed_lateness_us)
        step = WindowJoinStep(node.name, windows, sides, pairs)
    elif join.lower_us is not None and join.upper_us is not None:
        partners = IntervalPartners(Interval(join.lower_us, join.upper_us, join.allowed_lateness_us), sides)
        step = EventJoinStep(node.name, partners, sides, pairs)
    else:
        assert join.as_of is not None, f"step {node.name!r} was checked to have an interval or a table"
        step = EventJoinStep(node.name, VersionPartners(join.allowed_lateness_us, sides), sides, pairs)
    step.open(states.open)
    return step


def _now_join(node: CompiledStep, join: Join, states: States) -> Step:
    """Build a join with a table as it is now, behind what loads the table first."""
    left, right = node.side(LEFT), node.side(RIGHT)
    schemas = left.schema(), right.schema(), node.output_schema(MAIN)
    keys = keyed.KeyColumns(schemas[0], left.keys, states.max_key_groups)
    of_table = keyed.KeyColumns(schemas[1], right.keys, states.max_key_groups)
    sides = untimed_side(0, keys, schemas[0], join.how is How.LEFT), untimed_side(1, of_table, schemas[1], False)
    call = join.call
    function = None if call is None else PairFunction(node.name, call, _function_of_several(node), schemas)
    inner = NowJoinStep(node.name, sides, PairBatches(sides, schemas[2], function), schemas[1], timed=node.timed)
    held = HeldInput(LEFT, child_state(node.name, "waiting"), keys, schemas[0], left.timed)
    step = LoadFirstStep(inner, held, dict.fromkeys(right.edges, _until_us(join.load_until or None)))
    step.open(states.open)
    return step


def _join_side(node: CompiledStep, number: int, max_key_groups: int, kind: tuple[bool, bool]) -> JoinSide:
    """Describe a side. ``kind``: whether its rows are emitted alone, and whether an interval joins them."""
    side = node.side((LEFT, RIGHT)[number])
    assert side.time is not None, f"step {node.name!r} was checked to have event time"
    schema = side.schema()
    keys = keyed.KeyColumns(schema, side.keys, max_key_groups)
    alone, by_interval = kind
    return (timed_side if by_interval else join_side)(number, keys, schema, side.time, alone)


def _function_of_several(node: CompiledStep) -> "Callable[..., Any]":
    assert node.function is not None, f"step {node.name!r} has a user function"
    return node.function


def _function(node: CompiledStep) -> "Callable[[Any], Any]":
    assert node.function is not None, f"step {node.name!r} has a user function"
    return node.function
