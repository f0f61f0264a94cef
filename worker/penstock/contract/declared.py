"""The declarative graph as it is written under ``job.graph``: one entry per step, in order.

``penstock.graph.declare`` turns it into a logical graph; what a step reads and which columns it
sees is checked there.
"""

from dataclasses import dataclass
from enum import StrEnum

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.contract.columns import Columns
from penstock.contract.graph import (
    Aggregate,
    Call,
    Compute,
    Connector,
    EventTime,
    Filter,
    FlatMap,
    Function,
    Map,
    OnError,
    Option,
    Parameters,
    Per,
    Process,
    Sink,
    Source,
    Split,
    Window,
)


class Strategy(StrEnum):
    """How the rows of a step's inputs are dealt out, when they are not keyed."""

    FORWARD = "forward"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round-robin"
    CUSTOM = "custom"


@dataclass(frozen=True, slots=True)
class DeclaredStep:
    """One entry. ``inputs`` are ``step`` or ``step.output``; none: the entry above."""

    name: str
    parameters: Parameters
    inputs: tuple[str, ...] = ()
    key_by: tuple[str, ...] = ()
    partition: Strategy | None = None
    partition_function: str | None = None
    parallelism: int | None = None


@dataclass(frozen=True, slots=True)
class DeclaredGraph:
    """All entries of ``job.graph.steps``."""

    steps: tuple[DeclaredStep, ...]


# --- How the rows of ``graph_fields`` become values -------------------------------------------


def declared_step(
    *,
    name: str,
    inputs: tuple[str, ...],
    key_by: tuple[str, ...],
    partition: Strategy | None,
    partition_function: str | None,
    parallelism: int | None,
    **kinds: Parameters | None,
) -> DeclaredStep:
    """Build an entry; ``kinds`` holds exactly one that is not None."""
    if key_by and partition is not None:
        raise ConfigError(
            "keyBy and partition are both there: keyed rows go to the owner of their key"
        )
    if (partition is Strategy.CUSTOM) != (partition_function is not None):
        raise ConfigError("partition: custom and partitionFunction belong together")
    parameters = next(p for p in kinds.values() if p is not None)
    if isinstance(parameters, Aggregate | Window | Process) and not key_by:
        raise ConfigError(f"step {name!r} keeps state by key: keyBy is missing")
    return DeclaredStep(
        name, parameters, inputs, key_by, partition, partition_function, parallelism
    )


def source(
    *,
    columns: Columns,
    event_time: EventTime | None,
    batch_rows: int = limits.SOURCE_BATCH_ROWS_DEFAULT,
    **connectors: dict[str, object] | None,
) -> Source:
    """Build a source from the one connector that is not None."""
    return Source(_connector(connectors), columns, event_time, batch_rows)


def sink(**connectors: dict[str, object] | None) -> Sink:
    """Build a sink from the one connector that is not None."""
    return Sink(_connector(connectors))


def _connector(connectors: dict[str, dict[str, object] | None]) -> Connector:
    kind, options = next((k, o) for k, o in connectors.items() if o is not None)
    kept: dict[str, Option] = {
        n: v for n, v in options.items() if isinstance(v, str | int | float | bool)
    }
    return Connector(kind, kept)


def call(
    *,
    function: str,
    per: Per,
    batch_rows: int | None,
    on_error: OnError,
    columns: Columns = (),
) -> Call:
    """Build the call of a user function."""
    return Call(function, per, batch_rows, columns, on_error)


def mapping(**fields: object) -> Map:
    """Build a map step."""
    return Map(call(**fields))  # type: ignore[arg-type]


def flat_mapping(**fields: object) -> FlatMap:
    """Build a flatMap step."""
    return FlatMap(call(**fields))  # type: ignore[arg-type]


def filtering(**fields: object) -> Filter:
    """Build a filter step."""
    return Filter(call(**fields))  # type: ignore[arg-type]


def processing(*, state: Columns, **fields: object) -> Process:
    """Build a process step."""
    return Process(call(**fields), state)  # type: ignore[arg-type]


def compute(*, name: str, function: Function, column: str | None) -> Compute:
    """Build a computed column; only count works without a column."""
    if column is None and function is not Function.COUNT:
        raise ConfigError(f"{function} needs a column")
    return Compute(name, function, column)


__all__ = [
    "Aggregate",
    "DeclaredGraph",
    "DeclaredStep",
    "Split",
    "Strategy",
    "Window",
    "call",
    "compute",
    "declared_step",
    "filtering",
    "flat_mapping",
    "mapping",
    "processing",
    "sink",
    "source",
]
