"""The declarative graph as it is written under ``job.graph``: one entry for each step, in order.

``penstock.graph.declare`` turns it into a logical graph, and checks what a step reads and which
columns it sees. :mod:`penstock.contract.graph` has the fields of each kind of step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.contract.connectors import Role, connector_kinds, option_row
from penstock.contract.graph import (
    Aggregate,
    Call,
    Connector,
    Filter,
    FlatMap,
    Map,
    Option,
    Parameters,
    Process,
    Reference,
    Sink,
    Source,
    Split,
    StepName,
    Window,
)
from penstock.contract.schema import Field, FieldRow, Fields, Kind, Rule, object_row, rows_of


class Strategy(StrEnum):
    """How the rows of a step's inputs are distributed over its tasks, when they have no keys."""

    FORWARD = "forward"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round-robin"
    CUSTOM = "custom"


def _connected(role: Role, meaning: str, kind: type[object], make: Callable[..., object]) -> FieldRow:
    """Return the field row of a step with exactly one connector."""
    connectors = connector_kinds(role).values()
    fields = (*(option_row(each) for each in connectors), *rows_of(kind))
    names = tuple(each.name for each in connectors)
    return FieldRow(str(role), Kind.OBJECT, meaning, fields=fields, make=make, one_of=names)


def _split(values: dict[str, object], role: Role) -> tuple[Connector, dict[str, object]]:
    """Split the values of a step into its connector and the other values."""
    kinds = connector_kinds(role)
    given = {n: v for n, v in values.items() if n in kinds and isinstance(v, dict)}
    kind, options = next(iter(given.items()))
    kept: dict[str, Option] = {n: v for n, v in options.items() if isinstance(v, str | int | float | bool)}
    return Connector(kind, kept), {n: v for n, v in values.items() if n not in kinds}


def _source(**values: object) -> Source:
    connector, others = _split(values, Role.SOURCE)
    return Source(connector, **others)  # type: ignore[arg-type]


def _sink(**values: object) -> Sink:
    connector, _ = _split(values, Role.SINK)
    return Sink(connector)


def _calling(kind: type[Map | FlatMap | Filter | Process], name: str, meaning: str) -> FieldRow:
    """Return the field row of a step with a user function. It has the fields of the call."""
    calls = tuple(f for f in rows_of(Call) if kind is not Filter or f.name != "columns")
    own = rows_of(kind)

    def make(**values: object) -> object:
        rest = {f.target: values.pop(f.target) for f in own}
        return kind(Call(**values), **rest)  # type: ignore[arg-type]

    return FieldRow(name, Kind.OBJECT, meaning, fields=(*calls, *own), make=make)


SOURCE = _connected(Role.SOURCE, "reads a replayable input", Source, _source)
SINK = _connected(Role.SINK, "writes to an output", Sink, _sink)
MAP = _calling(Map, "map", "one row out for each row in")
FLAT_MAP = _calling(FlatMap, "flatMap", "any number of rows for each row in")
FILTER = _calling(Filter, "filter", "keeps rows for which the function says true")
PROCESS = _calling(Process, "process", "a user function over the rows of keys, with state")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredStep(Fields):
    """One entry."""

    ONE_OF = (
        "source",
        "map",
        "flatMap",
        "filter",
        "split",
        "aggregate",
        "window",
        "process",
        "sink",
    )
    RULES = (
        Rule(
            "!(has(self.keyBy) && size(self.keyBy) > 0 && has(self.partition))",
            "keyBy and partition are both there: keyed rows go to the owner of their key",
            path=".partition",
        ),
        Rule(
            "has(self.partitionFunction) == (has(self.partition) && self.partition == 'custom')",
            "partition: custom and partitionFunction belong together",
            path=".partitionFunction",
        ),
        Rule(
            "has(self.keyBy) && size(self.keyBy) > 0"
            " || !has(self.aggregate) && !has(self.window) && !has(self.process)",
            "a step that keeps state needs keyBy",
            path=".keyBy",
        ),
    )

    name: Annotated[StepName, Field("name", "name of the step")]
    inputs: Annotated[
        tuple[str, ...],
        Field(
            "inputs",
            "outputs that the step reads, as step or step.output; the step above when left out",
        ),
    ] = ()
    key_by: Annotated[tuple[str, ...], Field("keyBy", "key columns: all rows of a key meet in one task")] = ()
    partition: Annotated[
        Strategy | None, Field("partition", "how rows without keys are distributed over the tasks")
    ] = None
    partition_function: Annotated[
        Reference | None,
        Field(
            "partitionFunction",
            "function that returns the task number of each row; for partition: custom",
        ),
    ] = None
    parallelism: Annotated[
        int | None,
        Field("parallelism", "number of tasks; one per worker when left out", minimum=1, maximum=4096),
    ] = None
    source: Annotated[Source | None, SOURCE] = None
    map: Annotated[Map | None, MAP] = None
    flat_map: Annotated[FlatMap | None, FLAT_MAP] = None
    filter: Annotated[Filter | None, FILTER] = None
    split: Annotated[Split | None, Field("split", "splits a text into words at every single space")] = None
    aggregate: Annotated[
        Aggregate | None, Field("aggregate", "running values of a key: one row out for each row in")
    ] = None
    window: Annotated[Window | None, Field("window", "tumbling windows of event time")] = None
    process: Annotated[Process | None, PROCESS] = None
    sink: Annotated[Sink | None, SINK] = None

    def __post_init__(self) -> None:
        """Refuse two ways to distribute rows, and state without keys."""
        both, function, _ = self.RULES
        both.refuse(bool(self.key_by) and self.partition is not None)
        function.refuse((self.partition is Strategy.CUSTOM) != (self.partition_function is not None))
        if isinstance(self.parameters, Aggregate | Window | Process) and not self.key_by:
            raise ConfigError(f"step {self.name!r} keeps state by key: keyBy is missing")

    @property
    def parameters(self) -> Parameters:
        """Return the one kind of step that is given."""
        calls = (self.map, self.flat_map, self.filter, self.process)
        others = (self.source, self.split, self.aggregate, self.window, self.sink)
        return next(each for each in (*calls, *others) if each is not None)


@dataclass(frozen=True, slots=True)
class DeclaredGraph(Fields):
    """All entries of ``job.graph.steps``."""

    steps: Annotated[
        tuple[DeclaredStep, ...],
        Field(
            "steps",
            "the steps, inputs before their readers",
            key="name",
            length_max=limits.STEPS_MAX,
        ),
    ]


GRAPH = object_row(DeclaredGraph, "graph", "declarative steps")
