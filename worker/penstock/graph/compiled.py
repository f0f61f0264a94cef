"""What an engine gets: the plan, and for every stage the steps with their columns and functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.contract.columns import Columns
from penstock.contract.graph import LogicalGraph, Parameters
from penstock.contract.plan import EdgePlan, PhysicalPlan, StagePlan
from penstock.contract.streamjob import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

ENTRY = -1  # an input from the stage's entry: the edges into it


@dataclass(frozen=True, slots=True)
class Link:
    """An input of a node inside its stage: output ``output`` of node ``node`` (or ENTRY)."""

    node: int
    output: str


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """One step of a stage. Inputs come earlier in the stage; ``edges`` are (output, edge index).

    ``columns`` are those it sees (of a source: those it reads), ``outputs`` those it gives by
    output; ``time`` names the event-time column among ``columns``. ``function`` is the user's
    callable, ``connector`` the user's own source or sink object.
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

    def input_schema(self) -> "pa.Schema":
        """Return the Arrow schema of the rows that it sees; hidden columns are not in it."""
        from penstock.graph.arrow import arrow_schema  # noqa: PLC0415  Arrow stays out of the CLI

        return arrow_schema(self.columns)

    def output_schema(self, output: str) -> "pa.Schema":
        """Return the Arrow schema of a named output; hidden columns are not in it."""
        from penstock.graph.arrow import arrow_schema  # noqa: PLC0415  Arrow stays out of the CLI

        return arrow_schema(self.outputs[output])


@dataclass(frozen=True, slots=True)
class CompiledStage:
    """A stage: its nodes in topological order, the first one being the entry or the source."""

    plan: StagePlan
    nodes: tuple[CompiledStep, ...]

    def node(self, name: str) -> CompiledStep:
        """Return the node of that name; it must be there."""
        return next(n for n in self.nodes if n.name == name)


@dataclass(frozen=True, slots=True)
class CompiledEdge:
    """An edge with its columns; ``keys`` for KEY, ``function(batch, tasks)`` for CUSTOM.

    ``timed``: rows descend from a source with event time and carry the hidden bound column.
    """

    plan: EdgePlan
    output: str
    columns: Columns
    keys: tuple[str, ...] = ()
    timed: bool = False
    function: "Callable[..., object] | None" = None

    def schema(self) -> "pa.Schema":
        """Return the Arrow schema of the rows; hidden columns are not in it."""
        from penstock.graph.arrow import arrow_schema  # noqa: PLC0415  Arrow stays out of the CLI

        return arrow_schema(self.columns)


@dataclass(frozen=True, slots=True)
class CompiledJob:
    """A job ready to run: nothing about it has to be looked up by name per row or batch."""

    name: str
    namespace: str
    spec: Spec
    graph: LogicalGraph
    plan: PhysicalPlan
    stages: tuple[CompiledStage, ...]
    edges: tuple[CompiledEdge, ...]
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def runs_user_code(self) -> bool:
        """Say whether rows meet a function or connector of the user, or only built-in steps."""
        nodes = (node for stage in self.stages for node in stage.nodes)
        own = any(node.function is not None or node.connector is not None for node in nodes)
        return own or any(edge.function is not None for edge in self.edges)
