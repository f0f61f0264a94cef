"""What an engine runs: the plan, and for each stage its steps with their columns and functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.contract.columns import Columns
from penstock.contract.graph import MAIN, FlatMap, LogicalGraph, Parameters
from penstock.contract.plan import EdgePlan, PhysicalPlan, StagePlan
from penstock.contract.streamjob import Spec
from penstock.graph.migrations import Migration
from penstock.model.declared.function_types import FunctionTypes

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

ENTRY = -1  # stands for the entry of the stage: the rows that its edges bring


@dataclass(frozen=True, slots=True)
class Link:
    """An input of a node inside a stage: ``output`` of node number ``node``, or ENTRY."""

    node: int
    output: str


@dataclass(frozen=True, slots=True)
class CompiledSide:
    """One input of a step that has several: its columns, event time and keys.

    ``edges`` are the indexes of the edges that bring its rows. ``function`` is called for them, and ``types`` are its
    types, if the step has a function for each input. ``table`` names the step of a side table, of which each task has a
    copy by ``keys``. With ``loads_first`` rows wait for the table: to the time ``load_until``; None is
    its end. ``timed`` is true if its rows come from a source with event time.
    """

    name: str
    columns: Columns
    time: str | None = None
    keys: tuple[str, ...] = ()
    edges: tuple[int, ...] = ()
    function: "Callable[..., object] | None" = None
    types: FunctionTypes | None = None
    timed: bool = False
    table: str = ""
    loads_first: bool = False
    load_until: str | None = None

    def schema(self) -> "pa.Schema":
        """Return the Arrow schema of its rows, without hidden columns."""
        from penstock.graph.arrow import arrow_schema  # noqa: PLC0415  Arrow stays out of the CLI

        return arrow_schema(self.columns)


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """One step of a stage.

    ``inputs`` are nodes that come earlier in the stage. ``edges`` are pairs of an output and the
    index of an edge that reads it. ``columns`` are the columns of its input; for a source, the
    columns that it reads. ``outputs`` has the columns of each output by its name. ``time`` names
    the event-time column among ``columns``. ``function`` is the user's function, and ``connector``
    the user's own source or sink object. ``sides`` are the inputs of a step that has several;
    ``columns``, ``time`` and ``keys`` are then those of the first one. ``types`` are those of the
    function, if it has any. ``handlers`` are called when timers fire, by the name of the timer. ``timed`` is true if
    its rows come from a source with event time.
    """

    name: str
    parameters: Parameters
    inputs: tuple[Link, ...]
    edges: tuple[tuple[str, int], ...]
    columns: Columns
    outputs: dict[str, Columns] = field(default_factory=dict)
    time: str | None = None
    keys: tuple[str, ...] = ()
    function: "Callable[..., object] | None" = None
    connector: object | None = None
    sides: tuple[CompiledSide, ...] = ()
    types: FunctionTypes | None = None
    handlers: "Mapping[str, Callable[..., object]]" = field(default_factory=dict)
    migration: Migration | None = None
    timed: bool = False

    def side(self, name: str) -> CompiledSide:
        """Return the input of that name. It must exist."""
        return next(side for side in self.sides if side.name == name)

    def input_schema(self) -> "pa.Schema":
        """Return the Arrow schema of its input rows, without hidden columns."""
        from penstock.graph.arrow import arrow_schema  # noqa: PLC0415  Arrow stays out of the CLI

        return arrow_schema(self.columns)

    def output_schema(self, output: str) -> "pa.Schema":
        """Return the Arrow schema of a named output, without hidden columns."""
        from penstock.graph.arrow import arrow_schema  # noqa: PLC0415  Arrow stays out of the CLI

        return arrow_schema(self.outputs[output])


@dataclass(frozen=True, slots=True)
class CompiledStage:
    """A stage with its nodes in topological order. The first one is the source, or reads the edges."""

    plan: StagePlan
    nodes: tuple[CompiledStep, ...]

    def edges_behind(self, place: int) -> frozenset[int]:
        """Return the indexes of the edges that take rows of a node's main output, perhaps by way of later nodes."""
        edges = {index for output, index in self.nodes[place].edges if output == MAIN}
        reached = {place}
        for later, node in enumerate(self.nodes[place + 1 :], place + 1):
            if any(link.node in reached and (link.node != place or link.output == MAIN) for link in node.inputs):
                reached.add(later)
                edges.update(index for _, index in node.edges)
        return frozenset(edges)

    def node(self, name: str) -> CompiledStep:
        """Return the node with this name. It must exist."""
        return next(n for n in self.nodes if n.name == name)


@dataclass(frozen=True, slots=True)
class CompiledEdge:
    """An edge between two stages, with its columns.

    ``keys`` are the key columns of a KEY edge. A CUSTOM edge is partitioned by ``function(batch, tasks)`` of the scheme
    that holds. ``functions`` has them by the names of the schemes, and without a name where there is only one.
    ``scheme`` names the one with which the job begins.
    ``timed`` is true if the rows come from a source with event time; they then carry the hidden
    bound column. ``side`` names the input of the receiver if that has several.
    """

    plan: EdgePlan
    output: str
    columns: Columns
    keys: tuple[str, ...] = ()
    timed: bool = False
    functions: "Mapping[str, Callable[..., object]]" = field(default_factory=dict)
    side: str = ""
    scheme: str = ""

    def schema(self) -> "pa.Schema":
        """Return the Arrow schema of the rows, without hidden columns."""
        from penstock.graph.arrow import arrow_schema  # noqa: PLC0415  Arrow stays out of the CLI

        return arrow_schema(self.columns)


@dataclass(frozen=True, slots=True)
class CompiledJob:
    """A job that is ready to run. An engine builds its tasks from it without further look-ups.

    ``places`` says for each step in which file and line the user wrote it. ``asked`` has the parameters that a function
    has asked for as it built the job; None if no function was called.
    """

    name: str
    namespace: str
    spec: Spec
    graph: LogicalGraph
    plan: PhysicalPlan
    stages: tuple[CompiledStage, ...]
    edges: tuple[CompiledEdge, ...]
    places: Mapping[str, str] = field(default_factory=dict)
    asked: frozenset[str] | None = None

    @property
    def prompt_edges(self) -> frozenset[int]:
        """Return the edges behind nodes that ask how many rows are outstanding."""
        return frozenset(
            edge
            for stage in self.stages
            for place, node in enumerate(stage.nodes)
            if isinstance(node.parameters, FlatMap) and node.parameters.sheds is True
            for edge in stage.edges_behind(place)
        )

    @property
    def runs_user_code(self) -> bool:
        """Return whether the job has a function or connector of the user, not only built-in steps."""
        nodes = (node for stage in self.stages for node in stage.nodes)
        own = any(node.function is not None or node.connector is not None for node in nodes)
        return own or any(edge.functions for edge in self.edges)
