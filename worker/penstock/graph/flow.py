"""Columns through the graph: what each step sees and gives, checked by name and type.

Columns may be unknown (None) when no inspector can look at the input: then the checks that need
them are left to whoever can.
"""

from dataclasses import dataclass
from typing import Protocol

from penstock.base.suggest import unknown
from penstock.contract.columns import (
    HIDDEN_PREFIX,
    NUMERIC_TYPES,
    ORDERED_TYPES,
    Column,
    Columns,
    find,
    is_key_type,
    is_state_type,
    names,
    value_type,
    without_zone,
)
from penstock.contract.graph import (
    DEAD_LETTER,
    LATE,
    MAIN,
    Aggregate,
    Call,
    Compute,
    Filter,
    FlatMap,
    Function,
    LogicalGraph,
    Map,
    OnError,
    Per,
    Process,
    Sink,
    Source,
    Split,
    Step,
    Window,
)
from penstock.graph.problems import Problems

TIME_TYPE = "timestamp[us]"
ERROR_COLUMNS = (
    Column("error_step", "string"),
    Column("error", "string"),
    Column("error_source", "string"),
    Column("error_partition", "string"),
    Column("error_offset", "int64"),
)
_TEXT_TYPES = ("string", "large_string", "string_view")


@dataclass(frozen=True, slots=True)
class Flow:
    """Rows of one output: their columns (None: unknown) and the event-time column, if any."""

    columns: Columns | None
    time: str | None = None


class Columnist(Protocol):
    """Finds columns that only data or user code can tell; None when it cannot."""

    def source_columns(self, step: Step) -> Columns | None:
        """Return the columns of a source that declares none."""
        ...

    def type_problem(self, column: Column) -> str | None:
        """Say why a column's type is none."""
        ...

    def call_columns(self, step: Step, columns: Columns) -> Columns | None:
        """Return the columns that a user function gives for ``columns``."""
        ...


Flows = dict[tuple[str, str], Flow]


def trace(graph: LogicalGraph, columnist: Columnist, problems: Problems) -> Flows:
    """Return the flow of every named output; complaints go to ``problems``."""
    flows: Flows = {}
    for step in graph.steps:
        tracer = _Tracer(step, columnist, problems)
        flow = tracer.source() if isinstance(step.parameters, Source) else tracer.merged(flows)
        for output, given in tracer.outputs(flow).items():
            flows[step.name, output] = given
    return flows


def input_flow(step: Step, flows: Flows) -> Flow:
    """Return what a step sees: the flow of its first input (all are equal once checked)."""
    return flows[step.inputs[0].step, step.inputs[0].output]


@dataclass(frozen=True, slots=True)
class _Tracer:
    step: Step
    columnist: Columnist
    problems: Problems

    # --- What comes in ------------------------------------------------------------------------

    def source(self) -> Flow:
        parameters = self.step.parameters
        assert isinstance(parameters, Source)
        columns = parameters.columns or self.columnist.source_columns(self.step)
        time = parameters.event_time
        if columns is not None:
            self._check_names(columns)
            if time is not None:
                self._column(columns, time.column, "event-time column", ("timestamp[us]",))
        return Flow(columns, None if time is None else time.column)

    def merged(self, flows: Flows) -> Flow:
        first = input_flow(self.step, flows)
        for entry in self.step.inputs:
            flow = flows[entry.step, entry.output]
            known = flow.columns is not None and first.columns is not None
            if known and flow.columns != first.columns:
                self._complain(
                    f"its inputs have different columns: {self.step.inputs[0].step} has "
                    f"{_spell(first.columns)}, {entry.step} has {_spell(flow.columns)}"
                )
            for key in entry.keys if flow.columns is not None else ():
                self._check_key(flow.columns or (), key)
        return first

    def _check_key(self, columns: Columns, key: str) -> None:
        column = self._column(columns, key, "key column")
        if column is not None and not is_key_type(column.type):
            self._complain(
                f"key column {key!r} has type {column.type}, for which there is no key hash; "
                "cast it to int64, string or timestamp[us] in a map step first"
            )

    # --- What goes out ------------------------------------------------------------------------

    def outputs(self, flow: Flow) -> dict[str, Flow]:
        match self.step.parameters:
            case Sink():
                return {}
            case Source():
                return {MAIN: flow}
            case Filter(call):
                return self._called(call, flow, flow)
            case Map(call) | FlatMap(call):
                return self._called(call, flow, self._call_flow(call, flow))
            case Process(call, state):
                self._check_state(state, call)
                return self._called(call, flow, self._call_flow(call, flow))
            case Split(column, into):
                return {MAIN: self._split(column, into, flow)}
            case Aggregate(compute):
                return {MAIN: self._computed(compute, flow, ())}
            case Window(compute=compute):
                return self._window(compute, flow)

    def _called(self, call: Call, before: Flow, after: Flow) -> dict[str, Flow]:
        if call.on_error is not OnError.DEAD_LETTER:
            return {MAIN: after}
        dead = None if before.columns is None else before.columns + ERROR_COLUMNS
        return {MAIN: after, DEAD_LETTER: Flow(dead)}

    def _call_flow(self, call: Call, flow: Flow) -> Flow:
        columns: Columns | None = call.columns
        if not columns and (call.per is Per.RECORD or isinstance(self.step.parameters, Process)):
            self._complain(
                "columns are missing: what the function gives cannot be known before it runs"
            )
            return Flow(None)
        if not columns:
            columns = (
                None
                if flow.columns is None
                else self.columnist.call_columns(self.step, flow.columns)
            )
        if columns is None:
            return Flow(None, flow.time)
        self._check_names(columns)
        kept = flow.time if flow.time in names(columns) else None
        return Flow(columns, kept)

    def _split(self, column: str, into: str, flow: Flow) -> Flow:
        kind = "string"
        if flow.columns is not None:
            found = self._column(flow.columns, column, "column", _TEXT_TYPES)
            kind = kind if found is None else value_type(found.type)
        return Flow((Column(into, kind),))

    def _window(self, compute: tuple[Compute, ...], flow: Flow) -> dict[str, Flow]:
        if flow.time is None:
            self._complain(
                "a window goes by event time, and its rows have none: name the column at "
                "the source (event_time, eventTime) and keep it on the way"
            )
        time = find(flow.columns or (), flow.time or "")
        kind = TIME_TYPE if time is None else value_type(time.type)  # its zone, if it has one
        between = Column("window_start", kind), Column("window_end", kind)
        return {MAIN: self._computed(compute, flow, between), LATE: flow}

    def _computed(self, compute: tuple[Compute, ...], flow: Flow, between: Columns) -> Flow:
        if flow.columns is None:
            return Flow(None)
        keys = tuple(c for k in self.step.keys if (c := find(flow.columns, k)) is not None)
        values = tuple(Column(c.name, self._computed_type(c, flow.columns)) for c in compute)
        columns = keys + between + values
        self._check_names(columns)
        return Flow(columns, "window_end" if between else None)

    def _computed_type(self, compute: Compute, columns: Columns) -> str:
        allowed = {
            Function.SUM: NUMERIC_TYPES,
            Function.MEAN: NUMERIC_TYPES,
            Function.MIN: ORDERED_TYPES,
            Function.MAX: ORDERED_TYPES,
            Function.LAST: ORDERED_TYPES,
        }.get(compute.function)
        if compute.column is None:
            return "int64"
        column = self._column(columns, compute.column, f"column of {compute.name!r}", allowed)
        kind = "int64" if column is None else value_type(column.type)
        match compute.function:
            case Function.COUNT:
                return "int64"
            case Function.MEAN:
                return "double"
            case Function.SUM:
                if kind in ("float", "double"):
                    return "double"
                return "uint64" if kind == "uint64" else "int64"
            case Function.MIN | Function.MAX | Function.LAST:
                return kind

    # --- Checks -------------------------------------------------------------------------------

    def _column(
        self, columns: Columns, name: str, what: str, allowed: tuple[str, ...] | None = None
    ) -> Column | None:
        column = find(columns, name)
        if column is None:
            self._complain(
                f"{what} {name!r} is not there: {unknown('column', name, names(columns))}"
            )
        elif allowed is not None and _plain_type(column) not in allowed:
            advice = _cast_first(column) if allowed in (NUMERIC_TYPES, ORDERED_TYPES) else ""
            must = f"it must be {_one_of(allowed)}{advice}"
            self._complain(f"{what} {name!r} has type {column.type}; {must}")
        return column

    def _check_state(self, state: Columns, call: Call) -> None:
        self._check_names(state)
        for column in state:
            if not is_state_type(column.type):
                self._complain(
                    f"state column {column.name!r} cannot be of type {column.type}; take a number, "
                    "bool, decimal128, date, time, string or binary"
                )
            elif call.per is Per.RECORD and "[ns" in column.type:
                self._complain(
                    f"state column {column.name!r} has type {column.type}, but Python's dates and "
                    'times have no ns: take us, or a function per="batch"'
                )

    def _check_names(self, columns: Columns) -> None:
        seen: set[str] = set()
        for column in columns:
            if problem := self.columnist.type_problem(column):
                self._complain(f"column {column.name!r}: {problem}")
            if column.name in seen:
                self._complain(f"two columns are named {column.name!r}")
            if column.name.startswith(HIDDEN_PREFIX):
                self._complain(
                    f"column {column.name!r}: names with {HIDDEN_PREFIX} belong to the engine"
                )
            seen.add(column.name)

    def _complain(self, text: str) -> None:
        self.problems.at(self.step, text)


def _plain_type(column: Column) -> str:
    return without_zone(value_type(column.type))


def _spell(columns: Columns | None) -> str:
    return "(" + ", ".join(f"{c.name} {c.type}" for c in columns or ()) + ")"


def _cast_first(column: Column) -> str:
    """Say what to do with numbers that are not folded."""
    if value_type(column.type).startswith("decimal"):
        return ": cast a decimal to int64 (of its smallest unit) or double in a map step first"
    halves = value_type(column.type) == "halffloat"
    return ": cast it to float in a map step first" if halves else ""


def _one_of(allowed: tuple[str, ...]) -> str:
    if len(allowed) == 1:
        return allowed[0]
    if allowed is NUMERIC_TYPES:
        return "a number"
    return "a number, bool, date or time" if allowed is ORDERED_TYPES else "a text"
