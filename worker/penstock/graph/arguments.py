"""Reads the arguments of the Python API: a wrong one is an error with the file and line of the caller."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.suggest import NOT_BUILT, unknown
from penstock.base.user_code import caller_place
from penstock.contract.call_types import CompileChoice
from penstock.contract.codec import ABSENT
from penstock.contract.columns import Column, Columns, normal_type
from penstock.contract.event_time import EventTime, TimeUnit
from penstock.contract.graph import PYTHON_CONNECTOR, Call, Compute, Connector, FlatMap, How, OnError, Per
from penstock.graph.aggregations import Aggregation
from penstock.graph.draft import label
from penstock.graph.window_shapes import Duration, microseconds

UserFunction = Callable[..., Any]
ColumnsLike = Mapping[str, object] | Iterable[Any] | None
PerLike = Literal["batch", "record"]
CompiledLike = Literal["auto", "never", "require"]
OnErrorLike = Literal["fail", "dead-letter"]
TimeUnitLike = Literal["s", "ms", "us"]
AsOfLike = Literal["event", "now"]
HowLike = Literal["inner", "left", "right", "full"]
LookupHowLike = Literal["inner", "left"]
OnLike = str | Iterable[str] | Mapping[str, str]


def how_of(step: str, how: str) -> How:
    """Return which rows without a partner a join emits. Raises ConfigError."""
    if how not in set(How):
        raise ConfigError(f"{caller_place()}: step {step!r}: how={how!r} is not one of {', '.join(How)}")
    return How(how)


def unit_of(step: str, unit: str) -> TimeUnit:
    """Return a unit of time. Raises ConfigError with the user's place."""
    if unit not in set(TimeUnit):
        raise ConfigError(f"{caller_place()}: step {step!r}: time_unit={unit!r} is not one of {', '.join(TimeUnit)}")
    return TimeUnit(unit)


def event_time_of(
    step: str, column: str | None, unit: str | None, out_of_orderness: Duration, idle_after: Duration | None
) -> EventTime | None:
    """Describe the event time of a source, if it has one. Raises ConfigError."""
    bound = microseconds("out_of_orderness", out_of_orderness)
    idle = None if idle_after is None else microseconds("idle_after", idle_after)
    if column is not None:
        return EventTime(column, bound, idle, None if unit is None else unit_of(step, unit))
    if bound or idle is not None or unit is not None:
        raise ConfigError(
            f"{caller_place()}: step {step!r}: out_of_orderness, idle_after and time_unit are about event_time, which "
            "is missing"
        )
    return None


def no_step(name: str, keyed: bool, known: Iterable[str]) -> str:
    """Say why a stream does not have an attribute. ``known`` are those of a keyed stream."""
    steps = [step for step in known if not step.startswith("_")]
    if name in steps and not keyed:
        return f"{name} keeps state for each key: write .key_by(...).{name}(...)"
    return f"a stream has no such step: {unknown('name', name, steps)}"


def tasks_of(about: str, tasks: int) -> int:
    """Return a number of tasks. Raises ConfigError with the user's place."""
    if type(tasks) is not int or not 1 <= tasks <= limits.STAGE_TASKS_MAX:
        must = f"it must be a whole number from 1 to {limits.STAGE_TASKS_MAX:,}"
        raise ConfigError(f"{caller_place()}: {about}{tasks!r}: {must}")
    return tasks


def on_of(place: str, step: str, on: OnLike) -> dict[str, str]:
    """Return the key columns of the left side, each with that of the right side."""
    pairs = [(on, on)] if isinstance(on, str) else list(on.items() if isinstance(on, Mapping) else ((n, n) for n in on))
    if not pairs or not all(isinstance(name, str) for pair in pairs for name in pair):
        raise ConfigError(f'{place}: step {step!r}: on={on!r}: write on="id", on=["id", "day"] or on={{"id": "order"}}')
    return {str(left): str(right) for left, right in pairs}


def columns_of(columns: ColumnsLike) -> Columns:
    """Read columns from a mapping of names to types, from pairs, or from a pyarrow schema.

    None gives ().
    """
    if columns is None:
        return ()
    if isinstance(columns, Mapping):
        return tuple(Column(n, normal_type(str(t))) for n, t in columns.items())
    return tuple(_column(entry) for entry in columns)


def _column(entry: Any) -> Column:
    if isinstance(entry, Column):
        return entry
    name, kind = (entry.name, entry.type) if hasattr(entry, "type") else entry
    return Column(name, normal_type(str(kind)))


def connector_of(connector: object) -> Connector:
    """Return the connector of a source or sink; of an object of the user's own, its class."""
    if isinstance(connector, Connector):
        return connector
    return Connector(PYTHON_CONNECTOR, {"class": label(type(connector))})


def call_of(
    function: UserFunction,
    per: str | None,
    batch_rows: int | None,
    columns: ColumnsLike,
    on_error: str,
    *,
    compiled: str = CompileChoice.AUTO,
) -> Call:
    """Describe a user function and how it is called. Raises ConfigError."""
    if not callable(function):
        raise ConfigError(f"{caller_place()}: {function!r} is not a function")
    given = per or Per.BATCH
    for value, kind in ((given, Per), (on_error, OnError), (compiled, CompileChoice)):
        if value not in set(kind):
            raise ConfigError(f"{caller_place()}: {value!r} is not one of {', '.join(kind)}")
    choice = CompileChoice(compiled)
    return Call(label(function), Per(given), batch_rows, columns_of(columns), OnError(on_error), choice)


def pairs_call_of(
    step: str, function: UserFunction | None, per: str, batch_rows: int | None, columns: ColumnsLike
) -> Call | None:
    """Describe the function of a join, if it has one. Raises ConfigError."""
    if function is not None:
        return call_of(function, per, batch_rows, columns, OnError.FAIL)
    if columns is not None or batch_rows is not None or per != Per.BATCH:
        raise ConfigError(
            f"{caller_place()}: step {step!r}: columns, per and batch_rows are about the function of the join, which "
            "is missing"
        )
    return None


def flat_map_of(call: Call, function: UserFunction) -> FlatMap:
    """Describe a flat map: a node may have an output for rows that it sheds."""
    return FlatMap(call, True if getattr(function, "sheds", False) is True else ABSENT)


def computed_of(step: str, compute: Mapping[str, Aggregation]) -> tuple[Compute, ...]:
    """Return the computed columns of a step by their keywords. Raises ConfigError."""
    for name, value in compute.items():
        if not isinstance(value, Aggregation):
            raise ConfigError(
                f"{caller_place()}: step {step!r}: {name}={value!r} is not an aggregate; "
                + NOT_BUILT.get(name, "write for example count=ps.count()")
            )
    if not compute:
        raise ConfigError(f"{caller_place()}: step {step!r} computes nothing; write count=ps.count()")
    return tuple(Compute(n, a.function, a.column) for n, a in compute.items())
