"""The logical graph of a job: steps, what they read, how rows are dealt out. Versioned JSON.

The Python API and the declarative ``job.graph`` make the same value. User functions appear by
name only (``package.module:function``, or a label when they live inside a function); the live
callables stay in the process that compiled the job.

    Step ── inputs ──> Input(step, output, partitioning, keys)     parameters say the kind

The second half is ``job.graph`` as it is written: one entry for each step, in order.
``penstock.graph.declare`` turns it into a logical graph, and checks what a step reads and which
columns it sees.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec

from penstock.base import limits
from penstock.base.errors import ConfigError, PeerError
from penstock.base.values import replace
from penstock.contract import codec
from penstock.contract.call_types import CallTypes, CompileChoice
from penstock.contract.codec import Message
from penstock.contract.columns import ColumnName, DeclaredColumns
from penstock.contract.connectors import Role, connector_kinds, option_row
from penstock.contract.join_times import JOIN_TIMES, declared_join_times
from penstock.contract.plan import Partitioning
from penstock.contract.schema import (
    DurationUs,
    Field,
    FieldRow,
    Fields,
    Kind,
    Rule,
    SignedDurationUs,
    object_row,
    rows_of,
)
from penstock.contract.window_sizes import check_windows

GRAPH_FORMAT = 1
MAIN = "main"
LATE = "late"
LATE_RIGHT = "late-right"  # late rows of the right input of a join: its columns are its own
DEAD_LETTER = "dead-letter"
ONLY, LEFT, RIGHT = "", "left", "right"  # sides: the input of a step that has one, and of a step that has two
PYTHON_CONNECTOR = "python"  # a source or sink object of the user's own

Option = str | int | float | bool | None
NAME_RULE = "a lower-case letter, then letters, digits, - and _"
StepName = Annotated[str, Field(pattern=r"[a-z]([-a-z0-9_]*[a-z0-9])?", rule=NAME_RULE, length_max=63)]
Reference = Annotated[
    str,
    Field(pattern=r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*", rule="package.module:function"),
]
BatchRows = Annotated[int, Field(minimum=1, maximum=limits.SOURCE_BATCH_ROWS_MAX)]


class Per(StrEnum):
    """What a user function takes and gives: an Arrow batch, or one record (a dict)."""

    BATCH = "batch"
    RECORD = "record"


class OnError(StrEnum):
    """What happens to a row for which a user function raises."""

    FAIL = "fail"
    DEAD_LETTER = "dead-letter"


class TimeKind(StrEnum):
    """Which time counts: that of the rows, or that of the clock (processing time)."""

    EVENT = "event"
    CLOCK = "clock"


class How(StrEnum):
    """Which rows without a partner a join emits: none, those of one side, or those of both."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


class Function(StrEnum):
    """The built-in aggregates."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MEAN = "mean"
    LAST = "last"


class Connector(Message, tag="Connector"):
    """A source or sink: ``kind`` names a row of ``connectors``, ``options`` are its fields."""

    kind: str
    options: dict[str, Option] = msgspec.field(default_factory=dict)


class EventTime(Message, tag="EventTime"):
    """The time of a row is ``column`` (timestamp, us); rows may come out of order by the bound.

    ``idle_after_us`` lets a source declare a silent split idle; None: it never is.
    """

    column: Annotated[ColumnName, Field("column", "a timestamp[us] column")]
    out_of_orderness_us: Annotated[
        DurationUs,
        Field(
            "outOfOrderness",
            "the most by which the time of a row may be below the highest time before it",
        ),
    ] = 0
    idle_after_us: Annotated[
        DurationUs | None,
        Field("idleAfter", "a split that is silent for this long does not hold others back"),
    ] = None


class Source(Message, tag="Source"):
    """Reads a replayable input. Empty ``columns``: all that the input has."""

    connector: Connector
    columns: Annotated[DeclaredColumns, Field("columns", "the columns to read; all of the input's when left out")] = ()
    event_time: Annotated[
        EventTime | None,
        Field("eventTime", "where the time of a row is, and how far rows may be out of order"),
    ] = None
    batch_rows: Annotated[BatchRows, Field("batchRows", "rows read at once")] = limits.SOURCE_BATCH_ROWS_DEFAULT


class Call(Message, tag="Call"):
    """A user function: its name, what it takes, and at most how many rows at once.

    ``columns`` are those it gives; empty: as declared nowhere, found with an empty batch. ``types`` are those of its
    hints; None: it takes dicts or batches.
    """

    function: Annotated[Reference, Field("function", "the user function")]
    per: Annotated[Per, Field("per", "what the function takes: an Arrow batch, or one record")] = Per.BATCH
    batch_rows: Annotated[BatchRows | None, Field("batchRows", "rows in one call, at most")] = None
    columns: Annotated[
        DeclaredColumns,
        Field("columns", "the columns that the function gives; needed with per: record"),
    ] = ()
    on_error: Annotated[
        OnError,
        Field(
            "onError",
            "what happens when the function raises for a row: the job fails, or the row goes to the output dead-letter",
        ),
    ] = OnError.FAIL
    compiled: Annotated[
        CompileChoice,
        Field("compiled", "whether a function with types is compiled; auto: if it can be, else Python runs it"),
    ] = CompileChoice.AUTO
    types: CallTypes | None = None


class Map(Message, tag="Map"):
    """One row out for each row in."""

    call: Call


class FlatMap(Message, tag="FlatMap"):
    """Any number of rows out for each row in, in order."""

    call: Call


class Filter(Message, tag="Filter"):
    """Keeps the rows for which the function says true; columns stay."""

    call: Call


class Split(Message, tag="Split"):
    """Text into words at each single space; an empty last word is dropped, null gives none."""

    column: Annotated[ColumnName, Field("column", "the text column")]
    into: Annotated[ColumnName, Field("into", "name of the word column", length_min=1)] = "word"


class Compute(Message, tag="Compute"):
    """One computed column: ``name = function(column)``; count may have no column."""

    RULES = (
        Rule(
            "has(self.column) || self.function == 'count'",
            "every function but count needs a column",
            path=".column",
        ),
    )

    name: Annotated[ColumnName, Field("name", "name of the computed column")]
    function: Annotated[Function, Field("function", "the aggregate")]
    column: Annotated[ColumnName | None, Field("column", "the column it is computed from; count may have none")] = None


def declared_compute(name: str, function: Function, column: str | None) -> Compute:
    """Build a computed column as a file declares it. Raises ConfigError without its column."""
    if column is None and function is not Function.COUNT:
        raise ConfigError(f"{function} needs a column")
    return Compute(name, function, column)


Computes = Annotated[tuple[Compute, ...], Field("compute", "the computed columns", key="name", make=declared_compute)]


class Aggregate(Message, tag="Aggregate"):
    """Running values of a key: one row out for each row in, with the keys and the values so far."""

    compute: Computes


class Window(Message, tag="Window"):
    """Windows of event time; one row per key and window, at its end + lateness. Without a slide they are tumbling."""

    size_us: Annotated[DurationUs, Field("size", "length of a window", minimum="1us")]
    compute: Computes
    offset_us: Annotated[DurationUs, Field("offset", "shift of all windows from 1970-01-01")] = 0
    allowed_lateness_us: Annotated[DurationUs, Field("allowedLateness", "how long a window waits for late rows")] = 0
    slide_us: Annotated[
        DurationUs | None,
        Field(
            "slide",
            "the time from the begin of a window to the begin of the next one, which divides size; size when left out",
            minimum="1us",
        ),
    ] = None

    @property
    def step_us(self) -> int:
        """Return the time from one window to the next."""
        return self.size_us if self.slide_us is None else self.slide_us


def declared_window(**values: object) -> Window:
    """Build windows as a file declares them. Raises ConfigError for a slide that does not fit."""
    window = Window(**values)  # type: ignore[arg-type]
    check_windows(window.size_us, window.slide_us)
    return window


class Session(Message, tag="Session"):
    """Windows of rows that are less than a gap apart; one row per key and session, at its end + lateness."""

    gap_us: Annotated[DurationUs, Field("gap", "the time without a row that ends a session", minimum="1us")]
    compute: Computes
    allowed_lateness_us: Annotated[DurationUs, Field("allowedLateness", "how long a session waits for late rows")] = 0


class Join(Message, tag="Join"):
    """Pairs of a left and a right row with equal keys in the same tumbling window; at its end + lateness.

    Without windows: of rows whose times differ by ``lower_us`` to ``upper_us`` (right minus left). With ``call`` a
    function of both rows gives the row that is emitted; without it that has the columns of both.
    """

    within_us: Annotated[DurationUs | None, Field("within", "length of windows that join rows", minimum="1us")] = None
    how: Annotated[How, Field("how", "which rows without a partner are emitted")] = How.INNER
    offset_us: Annotated[DurationUs, Field("offset", "shift of all windows from 1970-01-01")] = 0
    allowed_lateness_us: Annotated[DurationUs, Field("allowedLateness", "how long a window waits for late rows")] = 0
    call: Call | None = None
    lower_us: Annotated[SignedDurationUs | None, Field("lower", "the least of right time less left time")] = None
    upper_us: Annotated[SignedDurationUs | None, Field("upper", "the most of right time less left time")] = None


class Process(Message, tag="Process"):
    """A user function over keyed batches, with one value per key and ``state`` column."""

    call: Call
    state: Annotated[DeclaredColumns, Field("state", "state columns; each key has one value in each column")] = ()


class Sink(Message, tag="Sink"):
    """Writes to an output."""

    connector: Connector


Parameters = Source | Map | FlatMap | Filter | Split | Aggregate | Window | Session | Join | Process | Sink
STATEFUL = (Aggregate, Window, Session, Join, Process)
KINDS: dict[type, str] = {
    Source: "source",
    Map: "map",
    FlatMap: "flatMap",
    Filter: "filter",
    Split: "split",
    Aggregate: "aggregate",
    Window: "window",
    Session: "session",
    Join: "join",
    Process: "process",
    Sink: "sink",
}


class Input(Message, tag="Input"):
    """Rows of another step's named output, and how they are dealt out to parallel tasks.

    ``keys`` belong to KEY, ``function`` to CUSTOM. None: forward where that can be, else
    round-robin. ``side`` names the input of a step that has several. The inputs of one side have
    equal columns; those of two sides may differ.
    """

    step: str
    output: str = MAIN
    partitioning: Partitioning | None = None
    keys: tuple[str, ...] = ()
    function: str | None = None
    side: str = ONLY


class Step(Message, tag="Step"):
    """A node of the graph. ``parallelism`` None means one task per worker."""

    name: str
    parameters: Parameters
    inputs: tuple[Input, ...] = ()
    parallelism: int | None = None

    @property
    def kind(self) -> str:
        """Return the kind as the file spells it."""
        return KINDS[type(self.parameters)]

    @property
    def outputs(self) -> tuple[str, ...]:
        """List the named outputs that this step can have."""
        return outputs_of(self.parameters)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the key columns of the first side, empty when the inputs are not keyed."""
        return self.inputs[0].keys if self.inputs else ()

    def keys_of(self, side: str) -> tuple[str, ...]:
        """Return the key columns of a side."""
        return next(i.keys for i in self.inputs if i.side == side)

    @property
    def sides(self) -> tuple[str, ...]:
        """List the sides of the inputs, in order: ``("",)`` for a step that has one."""
        return tuple(dict.fromkeys(entry.side for entry in self.inputs))

    @property
    def has_sides(self) -> bool:
        """Return whether the inputs are told apart by their side."""
        return self.sides not in ((), (ONLY,))


class LogicalGraph(Message, tag="LogicalGraph"):
    """All steps of a job, inputs before their readers."""

    job: str
    steps: tuple[Step, ...]
    format: int = GRAPH_FORMAT

    def step(self, name: str) -> Step:
        """Return the step of that name; it must be there."""
        return next(s for s in self.steps if s.name == name)

    def readers_of(self, name: str, output: str = MAIN) -> tuple[Step, ...]:
        """List the steps that read an output, in order."""
        return tuple(s for s in self.steps if any(i.step == name and i.output == output for i in s.inputs))


def outputs_of(parameters: Parameters) -> tuple[str, ...]:
    """List the named outputs of a kind of step; a sink has none."""
    match parameters:
        case Sink():
            return ()
        case Window() | Session():
            return (MAIN, LATE)
        case Join():
            return (MAIN, LATE, LATE_RIGHT)
        case Map(call) | FlatMap(call) | Filter(call) | Process(call):
            sides = () if call.types is None else tuple(side.output for side in call.types.sides)
            return (MAIN, *sides, DEAD_LETTER) if call.on_error is OnError.DEAD_LETTER else (MAIN, *sides)
        case Source() | Split() | Aggregate():
            return (MAIN,)


def encode_graph(graph: LogicalGraph) -> bytes:
    """Return the canonical JSON of a graph; :func:`decode_graph` reads exactly this value back."""
    return codec.encode(graph)


def decode_graph(data: bytes) -> LogicalGraph:
    """Read a descriptor. Raises PeerError on unknown fields, kinds, types or another format."""
    graph = codec.decode(LogicalGraph, data)
    if graph.format != GRAPH_FORMAT:
        raise PeerError(f"graph format {graph.format}: this version reads {GRAPH_FORMAT}")
    return graph


# --- job.graph as it is written ---------------------------------------------------------------


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


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJoin(Fields):
    """A join as a file declares it: the entry's ``inputs`` and ``keyBy`` are those of the left side."""

    right: Annotated[tuple[str, ...], Field("right", "outputs that are the right side, as step or step.output")]
    right_key_by: Annotated[
        tuple[str, ...],
        Field("rightKeyBy", "key columns of the right side, in the order of keyBy; those of keyBy when left out"),
    ] = ()
    parameters: Join


def _join() -> FieldRow:
    """Return the field row of a join. It has the fields of both classes."""
    own, times = rows_of(DeclaredJoin), ("within_us", "lower_us", "upper_us", "offset_us")
    calls = tuple(replace(row, required=False) for row in rows_of(Call) if row.target not in ("on_error", "compiled"))

    def make(**values: object) -> DeclaredJoin:
        sides = {row.target: values.pop(row.target) for row in own}
        call = {row.target: values.pop(row.target) for row in calls}
        values |= declared_join_times({name: values[name] for name in times})
        function = None if call["function"] is None else Call(**call)  # type: ignore[arg-type]
        return DeclaredJoin(parameters=Join(call=function, **values), **sides)  # type: ignore[arg-type]

    meaning = "pairs of rows of two inputs with equal keys, in the same window or an interval apart"
    fields = (*own, *rows_of(Join), *calls)
    return FieldRow("join", Kind.OBJECT, meaning, fields=fields, make=make, rules=(JOIN_TIMES,))


JOIN = _join()
PROCESS = _calling(Process, "process", "a user function over the rows of keys, with state")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredStep(Fields):
    """One entry."""

    ONE_OF = (
        "source", "map", "flatMap", "filter", "split", "aggregate", "window", "session", "join", "process", "sink"
    )  # fmt: skip
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
            " || !has(self.aggregate) && !has(self.window) && !has(self.session) && !has(self.join)"
            " && !has(self.process)",
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
    window: Annotated[
        Window | None, Field("window", "tumbling or sliding windows of event time", make=declared_window)
    ] = None
    session: Annotated[Session | None, Field("session", "windows of rows with no gap of time between them")] = None
    join: Annotated[DeclaredJoin | None, JOIN] = None
    process: Annotated[Process | None, PROCESS] = None
    sink: Annotated[Sink | None, SINK] = None

    def __post_init__(self) -> None:
        """Refuse two ways to distribute rows, and state without keys."""
        both, function, _ = self.RULES
        both.refuse(bool(self.key_by) and self.partition is not None)
        function.refuse((self.partition is Strategy.CUSTOM) != (self.partition_function is not None))
        if isinstance(self.parameters, STATEFUL) and not self.key_by:
            raise ConfigError(f"step {self.name!r} keeps state by key: keyBy is missing")

    @property
    def parameters(self) -> Parameters:
        """Return the one kind of step that is given."""
        if self.join is not None:
            return self.join.parameters
        calls = (self.map, self.flat_map, self.filter, self.process)
        others = (self.source, self.split, self.aggregate, self.window, self.session, self.sink)
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
