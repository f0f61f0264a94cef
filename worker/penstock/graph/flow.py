"""Follows columns through the graph: which columns each step reads and emits, with their types.

The columns of an output are unknown (None) if no inspector can look at the input. Checks that need
them are then skipped. An engine has an inspector, and makes these checks when it starts.
"""

from dataclasses import dataclass
from typing import Protocol

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.contract.asynchronous import OnFailure
from penstock.contract.chosen_rows import Distinct, LatestRow, Top, WindowTop
from penstock.contract.codec import ABSENT
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
    DEAD_LETTER_RIGHT,
    LATE,
    LATE_RIGHT,
    LEFT,
    MAIN,
    ONLY,
    OP,
    RIGHT,
    SHED,
    Aggregate,
    AsOf,
    Call,
    Compute,
    Connect,
    CountWindow,
    Enrich,
    Filter,
    FlatMap,
    Function,
    Join,
    LogicalGraph,
    Lookup,
    Map,
    OnError,
    Per,
    Process,
    Session,
    Sink,
    Source,
    Split,
    Step,
    TimeKind,
    Window,
    WindowAll,
    WindowParts,
)
from penstock.contract.join_times import loaded_us
from penstock.contract.side_inputs import SideTable
from penstock.contract.window_parts import parts_of
from penstock.graph.problems import Problems

TIME_TYPE = "timestamp[us]"
WHOLE_TYPES = ("int64", "int32")
PANE_COLUMNS = (Column("pane", "int64"), Column("final", "bool"))  # of windows that emit more than once
ERROR_COLUMNS = (
    Column("error_step", "string"),
    Column("error", "string"),
    Column("error_source", "string"),
    Column("error_partition", "string"),
    Column("error_offset", "int64"),
)
RECORD_COLUMNS = (Column("key", "binary"), Column("value", "binary"))  # of a dead letter of a source
_NAME_TIME = (
    "name the column at the source (event_time, eventTime) and keep it in all steps up to here; the result of a join "
    "has one that its event_time (eventTime) names"
)
_TEXT_TYPES = ("string", "large_string", "string_view")


@dataclass(frozen=True, slots=True)
class Flow:
    """The rows of one output: their columns (None if unknown) and the name of the event-time column.

    ``time`` is None if the rows have no event time; ``without_time`` says why, or what to do. ``changes``: the rows are
    changes of a table, which the column ``op`` tells. Only a sink can read them.
    """

    columns: Columns | None
    time: str | None = None
    changes: bool = False
    without_time: str = _NAME_TIME


class ColumnFinder(Protocol):
    """Finds columns that are not declared. Each method returns None if it does not know."""

    def source_columns(self, step: Step) -> Columns | None:
        """Return the columns of a source that declares none."""
        ...

    def type_problem(self, column: Column) -> str | None:
        """Return what is wrong with the type of a column, or None if nothing is."""
        ...

    def record_problem(self, step: Step, columns: Columns, side: str) -> str | None:
        """Return why rows with ``columns`` do not fit the types of the function of a side, or None if they do."""
        ...

    def call_columns(self, step: Step, columns: Columns) -> Columns | None:
        """Return the columns that a user function returns for input with ``columns``."""
        ...


Flows = dict[tuple[str, str], Flow]


def trace(graph: LogicalGraph, column_finder: ColumnFinder, problems: Problems) -> Flows:
    """Return the flow of every output by (step, output). Adds what is wrong to ``problems``."""
    flows: Flows = {}
    for step in graph.steps:
        tracer = _Tracer(step, column_finder, problems)
        flow = tracer.source() if isinstance(step.parameters, Source) else tracer.merged(flows)
        match step.parameters:
            case Join():
                emits = tracer.joined(flows)
            case Connect(left, right):
                emits = tracer.connected(flows, {LEFT: left, RIGHT: right})
            case _:
                emits = tracer.outputs(flow)
        for output, emitted in emits.items():
            flows[step.name, output] = emitted
    return flows


def input_flow(step: Step, flows: Flows, side: str | None = None) -> Flow:
    """Return the flow that a step reads on a side (None: the first one).

    All inputs of a side have the same columns, which ``trace`` checks. Without a common event time they have none.
    """
    first = next(i for i in step.inputs if side in (None, i.side))
    flow = flows[first.step, first.output]
    times = [(i.step, flows[i.step, i.output].time) for i in step.inputs if i.side == first.side]
    if all(time == flow.time for _, time in times):
        return flow
    told = ", ".join(f"{name} has {'none' if time is None else repr(time)}" for name, time in times)
    return replace(flow, time=None, without_time=f"its inputs have different ones ({told})")


@dataclass(frozen=True, slots=True)
class _Tracer:
    step: Step
    column_finder: ColumnFinder
    problems: Problems

    # --- Input --------------------------------------------------------------------------------

    def source(self) -> Flow:
        parameters = self.step.parameters
        assert isinstance(parameters, Source)
        columns = parameters.columns or self.column_finder.source_columns(self.step)
        time = parameters.event_time
        if columns is not None:
            self._check_names(columns)
            if time is not None:
                wanted = ("timestamp[us]",) if time.unit is None else WHOLE_TYPES
                self._column(columns, time.column, "event-time column", wanted)
                if time.unit is not None:
                    columns = tuple(Column(c.name, TIME_TYPE) if c.name == time.column else c for c in columns)
        return Flow(columns, None if time is None else time.column)

    def merged(self, flows: Flows) -> Flow:
        for entry in self.step.inputs:
            flow = flows[entry.step, entry.output]
            first = next(i for i in self.step.inputs if i.side == entry.side)
            expected = flows[first.step, first.output]
            if flow.changes and not isinstance(self.step.parameters, Sink):
                self._report(
                    f"{entry.step!r} emits changes of a table (column {OP!r}), which only a sink can read: put this "
                    "step before it"
                )
            known = flow.columns is not None and expected.columns is not None
            if known and flow.columns != expected.columns:
                self._report(
                    f"its inputs have different columns: {first.step} has "
                    f"{_columns_text(expected.columns)}, {entry.step} has {_columns_text(flow.columns)}"
                )
            for key in entry.keys if flow.columns is not None else ():
                self._check_key(flow.columns or (), key)
        return input_flow(self.step, flows)

    def _check_key(self, columns: Columns, key: str) -> None:
        column = self._column(columns, key, "key column")
        if column is not None and not is_key_type(column.type):
            self._report(
                f"key column {key!r} has type {column.type}, for which there is no key hash; "
                "cast it to int64, string or timestamp[us] in a map step first"
            )

    # --- Output -------------------------------------------------------------------------------

    def outputs(self, flow: Flow) -> dict[str, Flow]:
        match self.step.parameters:
            case Sink():
                return {}
            case Source():
                letters = {DEAD_LETTER: Flow(RECORD_COLUMNS + ERROR_COLUMNS)}
                return {MAIN: flow} | (letters if DEAD_LETTER in self.step.outputs else {})
            case Filter(call):
                return self._called(call, flow, flow)
            case Map(call) | FlatMap(call):
                return self._called(call, flow, self._call_flow(call, flow))
            case Process(call, state):
                self._check_state(state, call)
                return self._called(call, flow, self._call_flow(call, flow))
            case Split(column, into):
                return {MAIN: self._split(column, into, flow)}
            case Aggregate(compute) | CountWindow(compute=compute):
                return {MAIN: self._computed(compute, flow, ())}
            case Window(time=TimeKind.CLOCK, compute=compute) | Session(time=TimeKind.CLOCK, compute=compute):
                bounds = Column("window_start", TIME_TYPE), Column("window_end", TIME_TYPE)
                return {MAIN: Flow(self._computed(compute, flow, bounds).columns)}
            case Window(compute=compute, trigger=trigger):
                return self._window(compute, flow, () if trigger is None else PANE_COLUMNS)
            case Session(compute=compute):
                return self._window(compute, flow)
            case Distinct(within_us):
                if within_us is not None and flow.time is None:
                    self._report(f"within needs event time, and its rows have none: {flow.without_time}")
                return {MAIN: flow, LATE: flow}
            case LatestRow(by) | Top(by=by):
                return {MAIN: self._ranked(by, flow)}
            case WindowParts(compute=compute):
                return self._window(parts_of(compute), flow)
            case WindowAll(compute=compute):
                return {MAIN: self._put_together(compute, flow), LATE: flow}
            case WindowTop(by=by):
                if flow.columns is not None:
                    self._column(flow.columns, by, "column to rank by", ORDERED_TYPES)
                return {MAIN: flow, LATE: flow}
            case SideTable(on) as table:
                for key in on if flow.columns is not None else ():
                    self._check_key(flow.columns or (), key)
                if table.load_until is not None:
                    self._check_loading(table.load_until, flow)
                return {MAIN: flow}
            case Enrich() | Lookup():
                return self._enriched(self.step.parameters, flow)
            case Join() | Connect():
                raise AssertionError("it has two flows")

    def _check_loading(self, load_until: str, table: Flow) -> None:
        """Report a time up to which a table cannot be loaded."""
        if table.time is None:
            self._report(f"load until: the rows of the table have no event time: {table.without_time}")
        try:
            loaded_us(load_until)
        except ConfigError as error:
            self._report(str(error))

    def _called(self, call: Call, before: Flow, after: Flow, side: str = ONLY) -> dict[str, Flow]:
        flows = {MAIN: after, SHED: after} if SHED in self.step.outputs else {MAIN: after}
        if call.types is not None:
            known = before.columns is not None
            problem = self.column_finder.record_problem(self.step, before.columns or (), side) if known else None
            if problem is not None:
                self._report(problem)
            flows |= {side.output: self._side_flow(side.record.columns, before) for side in call.types.sides}
        if call.on_error is OnError.DEAD_LETTER:
            flows[DEAD_LETTER] = Flow(None if before.columns is None else before.columns + ERROR_COLUMNS)
        return flows

    def _enriched(self, enrich: Enrich | Lookup, flow: Flow) -> dict[str, Flow]:
        """Return the flows of rows with the columns of their answers."""
        if isinstance(enrich, Lookup):
            return {MAIN: self._with_columns(enrich.columns, "of the table", flow)}
        flows = self._called(enrich.call, flow, Flow(None, flow.time))
        flows[MAIN] = self._with_columns(enrich.call.columns, "of the answer", flow)
        if enrich.on_error is OnFailure.DEAD_LETTER:
            flows[DEAD_LETTER] = Flow(None if flow.columns is None else flow.columns + ERROR_COLUMNS)
        return flows

    def _with_columns(self, added: Columns, about: str, flow: Flow) -> Flow:
        """Return the flow of rows with more columns; ``about`` says whose these are."""
        if not added:
            self._report(f"columns are missing: declare the columns {about}")
        if not added or flow.columns is None:
            return Flow(None, flow.time)
        columns = (*flow.columns, *added)
        self._check_names(columns)
        return Flow(columns, flow.time)

    def _side_flow(self, columns: Columns, before: Flow) -> Flow:
        self._check_names(columns)
        return self._with_time(columns, before)

    def _with_time(self, columns: Columns, before: Flow) -> Flow:
        """Return the flow of rows that a function has made. They keep event time while its column keeps the type."""
        column = None if before.time is None else find(columns, before.time)
        if column is None:
            return Flow(columns, without_time=before.without_time)
        if _plain_type(column) == TIME_TYPE:
            return Flow(columns, before.time)
        why = f"step {self.step.name!r} gives {column.name!r} the type {column.type}, and event time is {TIME_TYPE}"
        return Flow(columns, without_time=why)

    def _call_flow(self, call: Call, flow: Flow) -> Flow:
        columns: Columns | None = call.columns
        if not columns and (call.per is Per.RECORD or isinstance(self.step.parameters, Process)):
            self._report("columns are missing: declare the columns that the function returns")
            return Flow(None)
        if not columns:
            columns = None if flow.columns is None else self.column_finder.call_columns(self.step, flow.columns)
        if columns is None:
            return Flow(None, flow.time)
        self._check_names(columns)
        return self._with_time(columns, flow)

    def _split(self, column: str, into: str, flow: Flow) -> Flow:
        kind = "string"
        if flow.columns is not None:
            found = self._column(flow.columns, column, "column", _TEXT_TYPES)
            kind = kind if found is None else value_type(found.type)
        return Flow((Column(into, kind),))

    def _window(self, compute: tuple[Compute, ...], flow: Flow, more: Columns = ()) -> dict[str, Flow]:
        if flow.time is None:
            self._report(f"a window needs event time, and its rows have none: {flow.without_time}")
        time = find(flow.columns or (), flow.time or "")
        kind = TIME_TYPE if time is None else value_type(time.type)  # keeps a time zone
        bounds = Column("window_start", kind), Column("window_end", kind)
        return {MAIN: self._computed(compute, flow, (*bounds, *more)), LATE: flow}

    def _put_together(self, compute: tuple[Compute, ...], flow: Flow) -> Flow:
        """Return the flow of windows whose parts ``flow`` has."""
        if flow.columns is None:
            return Flow(None)
        kinds = {c.name: c.type for c in flow.columns}
        values = tuple(Column(c.name, kinds.get(c.name, "double")) for c in compute)  # only a mean has no such part
        return Flow((*flow.columns[:2], *values), flow.time)

    def _ranked(self, by: str, flow: Flow) -> Flow:
        """Return the flow of changes of the best rows."""
        if flow.columns is None:
            return Flow(None, changes=True)
        self._column(flow.columns, by, "column to rank by", ORDERED_TYPES)
        columns = (Column(OP, "string"), *flow.columns)
        self._check_names(columns)
        return Flow(columns, changes=True)

    def joined(self, flows: Flows) -> dict[str, Flow]:
        """Return the flows of a join: all columns of both sides, the keys once, by their names on the left side."""
        left, right = (input_flow(self.step, flows, side) for side in (LEFT, RIGHT))
        parameters = self.step.parameters
        assert isinstance(parameters, Join), "a join has two flows"
        now = parameters.as_of is AsOf.NOW
        for side, flow in ((LEFT, left), (RIGHT, right)):
            if flow.time is None and not now:
                self._report(f"a join needs event time, and the rows of its {side} side have none: {flow.without_time}")
        if now and right.time is None and parameters.load_until is not ABSENT:
            self._report(f"load until: the rows of the table have no event time: {right.without_time}")
        lates = {} if now else {LATE: left, LATE_RIGHT: right}
        if left.columns is None or right.columns is None:
            return {MAIN: Flow(None), **lates}
        keys = dict(zip(self.step.keys_of(LEFT), self.step.keys_of(RIGHT), strict=True))
        for key, other in keys.items():
            self._check_same_type(key, other, left.columns, right.columns)
        if parameters.call is not None:
            return {MAIN: self._joined_flow(parameters, left, parameters.call.columns), **lates}
        rest = tuple(c for c in right.columns if c.name not in keys.values())
        for name in (c.name for c in rest if find(left.columns, c.name) is not None):
            advice = "rename one of them in a map step before the join"
            if name == right.time:  # a map step that renames it takes event time away
                advice = "it is event time, so rename it in the input of one side, or give the join a function"
            self._report(f"both sides have a column {name!r}: {advice}")
        return {MAIN: self._joined_flow(parameters, left, (*left.columns, *rest)), **lates}

    def connected(self, flows: Flows, calls: dict[str, Call]) -> dict[str, Flow]:
        """Return the flows of a step with two inputs and one state. ``calls`` has the function of each."""
        sides = {side: input_flow(self.step, flows, side) for side in calls}
        left, right = sides.values()
        if left.columns is not None and right.columns is not None:
            for key, other in zip(self.step.keys_of(LEFT), self.step.keys_of(RIGHT), strict=True):
                self._check_same_type(key, other, left.columns, right.columns)
        found: dict[str, Flow] = {}
        for side, flow in sides.items():
            same_time = flow if left.time == right.time else replace(flow, time=None)
            emitted = self._called(calls[side], same_time, self._call_flow(calls[side], same_time), side)
            letters = emitted.pop(DEAD_LETTER, None)
            if letters is not None:
                found[DEAD_LETTER if side == LEFT else DEAD_LETTER_RIGHT] = letters
            found |= emitted
        return found

    def _joined_flow(self, join: Join, left: Flow, columns: Columns) -> Flow:
        """Return the flow of a join's result. Its event time is a column of its own, or there is none."""
        if not columns:
            self._report("columns are missing: declare the columns that the function returns")
            return Flow(None)
        if join.event_time is None:
            self._check_names(columns)
            return Flow(columns) if join.as_of is None else self._with_time(columns, left)
        if find(columns, join.event_time) is not None:
            self._report(
                f"the result has a column {join.event_time!r}: give its event time (event_time, eventTime) a name of "
                "its own"
            )
            return Flow(columns)
        of_left = find(left.columns or (), left.time or "")
        kind = TIME_TYPE if of_left is None else value_type(of_left.type)  # keeps a time zone
        columns = (*columns, Column(join.event_time, kind))
        self._check_names(columns)
        return Flow(columns, join.event_time)

    def _check_same_type(self, key: str, other: str, left: Columns, right: Columns) -> None:
        one, two = find(left, key), find(right, other)
        if one is not None and two is not None and value_type(one.type) != value_type(two.type):
            self._report(
                f"key column {key!r} has type {one.type} on the left side, and {other!r} has type {two.type} on the "
                "right side: equal values would not meet. Cast one of them in a map step before the join"
            )

    def _computed(self, compute: tuple[Compute, ...], flow: Flow, window: Columns) -> Flow:
        """Return the flow of computed columns. ``window`` are the columns of a window, or none."""
        if flow.columns is None:
            return Flow(None)
        keys = tuple(c for k in self.step.keys if (c := find(flow.columns, k)) is not None)
        values = tuple(Column(c.name, self._computed_type(c, flow.columns)) for c in compute) or self._of_function()
        columns = keys + window + values
        self._check_names(columns)
        return Flow(columns, "window_end" if window else None)

    def _of_function(self) -> Columns:
        """Return the columns of the function that sees all rows of a window."""
        windows = self.step.parameters
        if not isinstance(windows, Window | Session) or windows.whole is ABSENT:
            return ()
        if not windows.whole.columns:
            self._report("columns are missing: declare the columns that the function emits")
        return windows.whole.columns

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

    def _column(self, columns: Columns, name: str, what: str, allowed: tuple[str, ...] | None = None) -> Column | None:
        column = find(columns, name)
        if column is None:
            self._report(f"{what} {name!r} does not exist: {unknown('column', name, names(columns))}")
        elif allowed is not None and _plain_type(column) not in allowed:
            advice = _cast_advice(column) if allowed in (NUMERIC_TYPES, ORDERED_TYPES) else ""
            must = f"it must be {_allowed_text(allowed)}{advice}"
            self._report(f"{what} {name!r} has type {column.type}; {must}")
        return column

    def _check_state(self, state: Columns, call: Call) -> None:
        self._check_names(state)
        for column in state:
            if not is_state_type(column.type):
                self._report(
                    f"state column {column.name!r} cannot be of type {column.type}; use a number, "
                    "bool, decimal128, date, time, string or binary"
                )
            elif call.per is Per.RECORD and "[ns" in column.type:
                self._report(
                    f"state column {column.name!r} has type {column.type}, but Python's dates and "
                    'times have no ns: use us, or a function per="batch"'
                )

    def _check_names(self, columns: Columns) -> None:
        seen: set[str] = set()
        for column in columns:
            if problem := self.column_finder.type_problem(column):
                self._report(f"column {column.name!r}: {problem}")
            if column.name in seen:
                self._report(f"two columns are named {column.name!r}")
            if column.name.startswith(HIDDEN_PREFIX):
                self._report(f"column {column.name!r}: names that begin with {HIDDEN_PREFIX} belong to the engine")
            seen.add(column.name)

    def _report(self, text: str) -> None:
        self.problems.at(self.step, text)


def _plain_type(column: Column) -> str:
    return without_zone(value_type(column.type))


def _columns_text(columns: Columns | None) -> str:
    return "(" + ", ".join(f"{c.name} {c.type}" for c in columns or ()) + ")"


def _cast_advice(column: Column) -> str:
    """Return advice for types of numbers that aggregates do not support, or an empty text."""
    if value_type(column.type).startswith("decimal"):
        return ": cast a decimal to int64 (of its smallest unit) or double in a map step first"
    halves = value_type(column.type) == "halffloat"
    return ": cast it to float in a map step first" if halves else ""


def _allowed_text(allowed: tuple[str, ...]) -> str:
    if len(allowed) == 1:
        return allowed[0]
    if allowed is NUMERIC_TYPES:
        return "a number"
    if allowed is WHOLE_TYPES:
        return "int64 or int32, because a time unit is given"
    return "a number, bool, date or time" if allowed is ORDERED_TYPES else "a text"
