"""From the nodes of a stage to its chain of steps. Imports Arrow and numba: engines only."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.contract.graph import (
    MAIN,
    Aggregate,
    Filter,
    FlatMap,
    Map,
    Process,
    Sink,
    Source,
    Split,
    Window,
)
from penstock.graph.arrow import arrow_schema
from penstock.graph.compiled import ENTRY, CompiledStage, CompiledStep
from penstock.steps import keyed, stateless
from penstock.steps.base import Emit, KeyedState, StateSchema, Step
from penstock.steps.chain import Chain, Wired
from penstock.steps.process import ProcessStep
from penstock.steps.window import WindowShape, window

if TYPE_CHECKING:
    from typing import Any

Emits = Mapping[tuple[str, int | str], Emit]


class States(Protocol):
    """Where the steps of one task open their state."""

    max_key_groups: int

    def open(self, schema: StateSchema) -> KeyedState:
        """Make the empty state of a step."""
        ...


def assemble(stage: CompiledStage, states: States | None, emits: Emits) -> Chain:
    """Build the chain of one task.

    ``emits`` has a callable for every edge, ``("edge", index)``, and sink, ``("sink", name)``.
    Rows of a source stage enter behind the source. Raises ConfigError on columns that do not fit.
    """
    inner = [i for i, node in enumerate(stage.nodes) if not _outside(node)]
    place = {node: i for i, node in enumerate(inner)}
    wired = [
        Wired(_step(stage.nodes[i], states), _inner(stage, i, place), _outer(stage, i, emits))
        for i in inner
    ]
    source = next((i for i, n in enumerate(stage.nodes) if isinstance(n.parameters, Source)), ENTRY)
    return Chain(wired, _readers(stage, source, place), _entry_emits(stage, source, emits))


def _outside(node: CompiledStep) -> bool:
    return isinstance(node.parameters, Source | Sink)


def _readers(stage: CompiledStage, node: int, place: Mapping[int, int]) -> tuple[int, ...]:
    """List the steps that read the main output of a node, or the stage's entry."""
    return _inner_of(stage, node, MAIN, place)


def _inner_of(
    stage: CompiledStage, node: int, output: str, place: Mapping[int, int]
) -> tuple[int, ...]:
    return tuple(
        place[i]
        for i in place
        for link in stage.nodes[i].inputs
        if link.node == node and (link.output == output or node == ENTRY)
    )


def _inner(stage: CompiledStage, node: int, place: Mapping[int, int]) -> dict[str, tuple[int, ...]]:
    outputs = stage.nodes[node].outputs
    return {output: _inner_of(stage, node, output, place) for output in outputs}


def _outer(stage: CompiledStage, node: int, emits: Emits) -> dict[str, tuple[Emit, ...]]:
    """Find the edges and sinks behind each output of a node."""
    outputs = stage.nodes[node].outputs
    return {output: _emits_of(stage, node, output, emits) for output in outputs}


def _emits_of(stage: CompiledStage, node: int, output: str, emits: Emits) -> tuple[Emit, ...]:
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


def _entry_emits(stage: CompiledStage, source: int, emits: Emits) -> tuple[Emit, ...]:
    return _emits_of(stage, source, MAIN, emits)


def _step(node: CompiledStep, states: States | None) -> Step:
    given = node.input_schema()
    match node.parameters:
        case Split(column):
            return stateless.SplitStep(node.name, column, node.output_schema(MAIN))
        case Map(call):
            return stateless.MapStep(node.name, call, _function(node), node.output_schema(MAIN))
        case FlatMap(call):
            return stateless.FlatMapStep(node.name, call, _function(node), node.output_schema(MAIN))
        case Filter(call):
            return stateless.FilterStep(node.name, call, _function(node))
        case Aggregate() | Window() | Process():
            assert states is not None, f"step {node.name!r} keeps state: its stage is keyed"
            return _keyed_step(node, given, states)
        case _:
            raise AssertionError(f"{type(node.parameters).__name__} is no inner step")


def _keyed_step(node: CompiledStep, given: pa.Schema, states: States) -> Step:
    try:
        keys = keyed.KeyColumns(given, node.keys, states.max_key_groups)
    except ConfigError as error:
        raise ConfigError(f"step {node.name!r}: {error}") from error
    schemas = (given, node.output_schema(MAIN))
    match node.parameters:
        case Aggregate(compute):
            return keyed.RunningAggregate(node.name, keys, compute, schemas, states.open)
        case Window(size, compute, offset, lateness):
            assert node.time is not None, f"step {node.name!r} was checked to have event time"
            shape = WindowShape(size, offset, lateness, node.time)
            made = window(node.name, shape, keys, compute, schemas)
            made.open(states.open)
            return made
        case Process(call, columns):
            kept = (arrow_schema(columns), node.output_schema(MAIN))
            process = ProcessStep(node.name, keys, call, _function(node), kept)
            process.open(states.open)
            return process
        case _:
            raise AssertionError(f"{type(node.parameters).__name__} keeps no state")


def _function(node: CompiledStep) -> "Callable[[Any], Any]":
    assert node.function is not None, f"step {node.name!r} has a user function"
    return node.function
