"""The logical graph of a job: steps, what they read, how rows are dealt out. Versioned JSON.

The Python API and the declarative ``job.graph`` make the same value. User functions appear by
name only (``package.module:function``, or a label when they live inside a function); the live
callables stay in the process that compiled the job.

    Step ── inputs ──> Input(step, output, partitioning, keys)     parameters say the kind

``contract.declared_graph`` has ``job.graph`` as it is written in a file.
"""

from enum import StrEnum
from typing import Annotated

import msgspec

from penstock.base import limits
from penstock.base.errors import ConfigError, PeerError
from penstock.contract import codec
from penstock.contract.asynchronous import Cache, OnFailure, ResultOrder, Retries
from penstock.contract.call_types import CallTypes, CompileChoice, MigrateFunction, Reference, TimerHandlers, WholeCall
from penstock.contract.chosen_rows import Distinct, LatestRow, Top, WindowTop
from penstock.contract.codec import ABSENT, Absent, Message
from penstock.contract.columns import ColumnName, DeclaredColumns
from penstock.contract.event_time import EventTime
from penstock.contract.plan import Partitioning
from penstock.contract.schema import DurationUs, Field, Rule, SignedDurationUs
from penstock.contract.schemes import Schemes
from penstock.contract.side_inputs import SideTable

GRAPH_FORMAT = 1
MAIN = "main"
LATE, SHED = "late", "shed"  # rows that came too late, and rows that a node did not send: too many were outstanding
LATE_RIGHT = "late-right"  # late rows of the right input of a join: its columns are its own
DEAD_LETTER = "dead-letter"
DEAD_LETTER_RIGHT = "dead-letter-right"  # dead letters of the right input: their columns are its own
OP = "op"  # the column that says whether a row is to be written or deleted
ONLY, LEFT, RIGHT = "", "left", "right"  # sides: the input of a step that has one, and of a step that has two
PYTHON_CONNECTOR = "python"  # a source or sink object of the user's own

Option = str | int | float | bool | None
NAME_RULE = "a lower-case letter, then letters, digits, - and _"
StepName = Annotated[str, Field(pattern=r"[a-z]([-a-z0-9_]*[a-z0-9])?", rule=NAME_RULE, length_max=63)]
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


class AsOf(StrEnum):
    """Which row of a table a row is joined with: the newest one at its event time, or the one that is there now."""

    EVENT = "event"
    NOW = "now"


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
    """Any number of rows out for each row in, in order. With ``sheds``, its node calls ``send_next_if``."""

    call: Call
    sheds: bool | Absent = ABSENT


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


WhichTime = Annotated[TimeKind, Field("time", "which time counts: that of the rows, or that of the clock")]


class Trigger(Message, tag="Trigger"):
    """When a window emits before its last row: its panes. Each has the totals so far; the last one comes as ever.

    Panes that are early come after ``early_us`` of new rows by the clock, or at each ``early_us`` of event time from
    the start of the window on. With ``on_late`` there is one at the end of the window, and one after late rows.
    """

    early_us: Annotated[
        DurationUs | None, Field("early", "how long a window waits before it emits what it has", minimum="1us")
    ] = None
    time: Annotated[TimeKind, Field("time", "by which time early panes come")] = TimeKind.EVENT
    on_late: Annotated[
        bool, Field("onLate", "emit at the end of the window already, and again after late rows in allowedLateness")
    ] = False


WindowSize = Annotated[DurationUs, Field("size", "length of a window", minimum="1us")]
WindowOffset = Annotated[DurationUs, Field("offset", "shift of all windows from 1970-01-01")]
WindowLateness = Annotated[DurationUs, Field("allowedLateness", "how long a window waits for late rows")]
WindowSlide = Annotated[
    DurationUs | None,
    Field(
        "slide",
        "the time from the begin of a window to the begin of the next one, which divides size; size when left out",
        minimum="1us",
    ),
]


COMPUTE_OR_WHOLE = Rule(
    "(has(self.compute) && size(self.compute) > 0) != has(self.whole)",
    "a window has either compute or whole: computed columns, or a function that sees all its rows",
)
WholeFunction = Annotated[
    WholeCall | Absent, Field("whole", "a function that sees all rows of a window, instead of computed columns")
]


class Window(Message, tag="Window"):
    """Windows of a time; one row per key and window, at its end + lateness. Without a slide they are tumbling.

    With ``whole`` there is a row for each row that its function emits.
    """

    RULES = (COMPUTE_OR_WHOLE,)

    size_us: WindowSize
    compute: Computes = ()
    offset_us: WindowOffset = 0
    allowed_lateness_us: WindowLateness = 0
    slide_us: WindowSlide = None
    trigger: Annotated[
        Trigger | None, Field("trigger", "when a window emits before its last row; adds the columns pane and final")
    ] = None
    time: WhichTime = TimeKind.EVENT
    whole: WholeFunction = ABSENT

    @property
    def step_us(self) -> int:
        """Return the time from one window to the next."""
        return self.size_us if self.slide_us is None else self.slide_us

    @property
    def held_us(self) -> int:
        """Return how far the time of a result can lie behind the time that the step has reached."""
        return self.allowed_lateness_us


class Session(Message, tag="Session"):
    """Windows of rows that are less than a gap apart; one row per key and session, at its end + lateness."""

    RULES = (COMPUTE_OR_WHOLE,)

    gap_us: Annotated[DurationUs, Field("gap", "the time without a row that ends a session", minimum="1us")]
    compute: Computes = ()
    allowed_lateness_us: Annotated[DurationUs, Field("allowedLateness", "how long a session waits for late rows")] = 0
    time: WhichTime = TimeKind.EVENT
    whole: WholeFunction = ABSENT

    @property
    def held_us(self) -> int:
        """Return how far the time of a result can lie behind the time that the step has reached."""
        return self.allowed_lateness_us


class WindowParts(Message, tag="WindowParts"):
    """What a batch of rows adds to windows of all rows; one row for each batch and window."""

    size_us: int
    compute: tuple[Compute, ...]
    offset_us: int
    allowed_lateness_us: int
    step_us: int


class WindowAll(Message, tag="WindowAll"):
    """Windows of event time of all rows, whatever their key; one row per window, at its end + lateness.

    It takes the parts that the step before it makes: :class:`WindowParts`.
    """

    size_us: WindowSize
    compute: Computes
    offset_us: WindowOffset = 0
    allowed_lateness_us: WindowLateness = 0
    slide_us: WindowSlide = None

    @property
    def held_us(self) -> int:
        """Return how far the time of a result can lie behind the time that the step has reached."""
        return self.allowed_lateness_us

    @property
    def parts(self) -> WindowParts:
        """Return the step that makes the parts."""
        step_us = self.size_us if self.slide_us is None else self.slide_us
        return WindowParts(self.size_us, self.compute, self.offset_us, self.allowed_lateness_us, step_us)


class CountWindow(Message, tag="CountWindow"):
    """Windows of a number of rows of a key; one row each time that so many have come, and at the end of the input."""

    rows: Annotated[
        int, Field("rows", "how many rows of a key a window has", minimum=1, maximum=limits.WINDOW_ROWS_MAX)
    ]
    compute: Computes


class Join(Message, tag="Join"):
    """Pairs of a left and a right row with equal keys in the same tumbling window; at its end + lateness.

    With ``as_of`` the right side is a table: a left row and the newest right row at its time are a pair. Without
    windows: of rows whose times differ by ``lower_us`` to ``upper_us`` (right minus left). With ``call`` a
    function of both rows gives the row that is emitted; without it that has the columns of both. ``event_time``
    names a column that is added for the event time of the result: that of the later row, or the last microsecond
    of the window.
    """

    within_us: Annotated[DurationUs | None, Field("within", "length of windows that join rows", minimum="1us")] = None
    how: Annotated[How, Field("how", "which rows without a partner are emitted")] = How.INNER
    offset_us: WindowOffset = 0
    allowed_lateness_us: WindowLateness = 0
    call: Call | None = None
    lower_us: Annotated[SignedDurationUs | None, Field("lower", "the least of right time less left time")] = None
    upper_us: Annotated[SignedDurationUs | None, Field("upper", "the most of right time less left time")] = None
    event_time: Annotated[
        ColumnName | None,
        Field("eventTime", "a column that is added: the event time of the result; without it the result has none"),
    ] = None
    as_of: Annotated[
        AsOf | None, Field("asOf", "the right side is a table: its newest row at the left row's time, or the last one")
    ] = None
    load_until: Annotated[
        str | Absent,
        Field("loadUntil", "with asOf: now, the event time up to which the table is loaded; or to its end"),
    ] = ABSENT

    @property
    def held_us(self) -> int:
        """Return how far the time of a result can lie behind the time that the step has reached.

        A row without a partner is emitted when no partner can come any more, and keeps its own time.
        """
        if self.event_time is None and self.as_of is None:
            return 0
        missed = [0]
        if self.how in (How.LEFT, How.FULL):
            missed.append(self.upper_us or 0)
        if self.how in (How.RIGHT, How.FULL):
            missed.append(-(self.lower_us or 0))
        return self.allowed_lateness_us + max(missed)


class KeyTtl(Message, tag="KeyTtl"):
    """When the keys of a step are forgotten."""

    after_us: Annotated[DurationUs, Field("after", "how long a key lives after the last write", minimum="1us")]
    time: WhichTime = TimeKind.EVENT


LIVES = Field("ttl", "when keys are forgotten, in place of what the class of the state says")


class Process(Message, tag="Process"):
    """A user function over keyed batches, with one value per key and ``state`` column."""

    call: Call
    state: Annotated[DeclaredColumns, Field("state", "state columns; each key has one value in each column")] = ()
    on_timer: TimerHandlers = ()
    migrate: MigrateFunction = ABSENT
    ttl: Annotated[KeyTtl | Absent, LIVES] = ABSENT


class Connect(Message, tag="Connect"):
    """Two keyed inputs with one state: ``left`` is called for rows of the first one, ``right`` for those of the second.

    Both functions have types, with the same state and the same main output.
    """

    left: Call
    right: Call
    on_timer: TimerHandlers = ()
    migrate: MigrateFunction = ABSENT
    ttl: Annotated[KeyTtl | Absent, LIVES] = ABSENT


class Enrich(Message, tag="Enrich"):
    """Adds the columns of an answer to each row. ``call`` is an asynchronous function; its ``on_error`` is not used."""

    call: Call
    order: Annotated[
        ResultOrder, Field("order", "rows of a key leave as they came, or each when its answer has come")
    ] = ResultOrder.INPUT
    capacity: Annotated[
        int, Field("capacity", "calls that a task makes at once", minimum=1, maximum=limits.CALLS_MAX)
    ] = 100
    timeout_us: Annotated[DurationUs, Field("timeout", "how long one attempt may last", minimum="1ms")] = 10_000_000
    batch: Annotated[
        int, Field("batch", "rows that one call asks for, as a list", minimum=1, maximum=limits.CALL_ROWS_MAX)
    ] = 1
    retries: Annotated[Retries | None, Field("retries", "a call that has failed is made again")] = None
    on_error: Annotated[
        OnFailure,
        Field("onError", "what happens when all attempts have failed: the job fails, dead letter, or columns of nulls"),
    ] = OnFailure.FAIL
    cache: Annotated[Cache | None, Field("cache", "answers that are remembered by what was asked")] = None


class LookupHow(StrEnum):
    """Which rows leave a lookup: those with a row of the table, or all."""

    INNER = "inner"
    LEFT = "left"


class Lookup(Message, tag="Lookup"):
    """Adds columns of a row of another system's table to each row: of the one whose columns ``on`` equal its keys."""

    connector: Connector
    columns: Annotated[DeclaredColumns, Field("columns", "the columns of the table that are added, with their types")]
    on: Annotated[
        tuple[ColumnName, ...],
        Field("keys", "columns of the table that equal those of keyBy, in their order; those of keyBy when left out"),
    ] = ()
    how: Annotated[LookupHow, Field("how", "rows without a row of the table are left out, or leave with nulls")] = (
        LookupHow.INNER
    )
    capacity: Annotated[
        int, Field("capacity", "queries that a task makes at once", minimum=1, maximum=limits.LOOKUP_CALLS_MAX)
    ] = 2
    batch: Annotated[int, Field("batch", "rows that one query asks for", minimum=1, maximum=limits.CALL_ROWS_MAX)] = (
        1000
    )
    cache: Annotated[
        Cache | None, Field("cache", "rows of the table that are remembered; without it each query asks anew")
    ] = None


class Sink(Message, tag="Sink"):
    """Writes to an output."""

    connector: Connector


Parameters = (
    Source | Map | FlatMap | Filter | Split
    | Aggregate | Window | Session | WindowParts | WindowAll | CountWindow
    | Join | Distinct | LatestRow | Top | WindowTop | Process | Connect
    | Enrich | Lookup | SideTable | Sink
)  # fmt: skip
Holding = Window | Session | WindowAll | Join
STATEFUL = (
    Aggregate, Window, Session, WindowAll, CountWindow,
    Join, Distinct, LatestRow, Top, WindowTop, Process, Connect, Enrich, Lookup,
)  # fmt: skip
KINDS: dict[type, str] = {
    Source: "source", Map: "map", FlatMap: "flatMap", Filter: "filter", Split: "split", Aggregate: "aggregate",
    Window: "window", Session: "session", CountWindow: "countWindow", WindowParts: "windowParts",
    WindowAll: "windowAll", Join: "join", Distinct: "distinct", LatestRow: "latest", Top: "top",
    WindowTop: "windowTop", Process: "process", Connect: "connect", Enrich: "enrich", SideTable: "side",
    Lookup: "lookup", Sink: "sink",
}  # fmt: skip


class Input(Message, tag="Input"):
    """Rows of another step's named output, and how they are dealt out to parallel tasks.

    ``keys`` belong to KEY, ``function`` or ``schemes`` to CUSTOM. None: forward where that can be, else
    round-robin. ``side`` names the input of a step that has several. The inputs of one side have
    equal columns; those of two sides may differ.
    """

    step: str
    output: str = MAIN
    partitioning: Partitioning | None = None
    keys: tuple[str, ...] = ()
    function: str | None = None
    side: str = ONLY
    schemes: Schemes | Absent = ABSENT


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
        case Window(time=TimeKind.CLOCK) | Session(time=TimeKind.CLOCK):
            return (MAIN,)
        case Window() | Session() | WindowTop() | WindowParts() | WindowAll() | Distinct():
            return (MAIN, LATE)
        case Join(as_of=AsOf.NOW):
            return (MAIN,)
        case Join():
            return (MAIN, LATE, LATE_RIGHT)
        case Map(call) | FlatMap(call) | Filter(call) | Process(call):
            shed = (SHED,) if isinstance(parameters, FlatMap) and parameters.sheds is True else ()
            dead = (DEAD_LETTER,) if call.on_error is OnError.DEAD_LETTER else ()
            return (MAIN, *_named_outputs(call), *shed, *dead)
        case Enrich(on_error=on_error):
            return (MAIN, DEAD_LETTER) if on_error is OnFailure.DEAD_LETTER else (MAIN,)
        case Connect(left, right):
            letters = (DEAD_LETTER, DEAD_LETTER_RIGHT) if left.on_error is OnError.DEAD_LETTER else ()
            return (MAIN, *dict.fromkeys((*_named_outputs(left), *_named_outputs(right))), *letters)
        case Source(connector) if connector.options.get("on_error") == OnError.DEAD_LETTER:
            return (MAIN, DEAD_LETTER)
        case Source() | Split() | SideTable() | Aggregate() | CountWindow() | LatestRow() | Top() | Lookup():
            return (MAIN,)


def _named_outputs(call: Call) -> tuple[str, ...]:
    return () if call.types is None else tuple(side.output for side in call.types.sides)


def encode_graph(graph: LogicalGraph) -> bytes:
    """Return the canonical JSON of a graph; :func:`decode_graph` reads exactly this value back."""
    return codec.encode(graph)


def decode_graph(data: bytes) -> LogicalGraph:
    """Read a descriptor. Raises PeerError on unknown fields, kinds, types or another format."""
    graph = codec.decode(LogicalGraph, data)
    if graph.format != GRAPH_FORMAT:
        raise PeerError(f"graph format {graph.format}: this version reads {GRAPH_FORMAT}")
    return graph
