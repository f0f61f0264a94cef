"""``job.graph`` as it is written: one entry for each step, in order.

``penstock.graph.declare`` turns it into a logical graph, and checks what a step reads and which
columns it sees.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract.call_types import MIGRATES, CompileChoice, Reference, TimerHandlers
from penstock.contract.chosen_rows import Distinct, LatestRow, Top, WindowTop
from penstock.contract.codec import ABSENT
from penstock.contract.connectors import PLUGIN, Plugin, Role, connector_kinds, option_row
from penstock.contract.graph import (
    COMPUTE_OR_WHOLE,
    LIVES,
    STATEFUL,
    Aggregate,
    BatchRows,
    Call,
    Connect,
    Connector,
    CountWindow,
    Enrich,
    Filter,
    FlatMap,
    Join,
    KeyTtl,
    Lookup,
    Map,
    OnError,
    Option,
    Parameters,
    Per,
    Process,
    Session,
    Sink,
    Source,
    Split,
    StepName,
    Window,
    WindowAll,
)
from penstock.contract.join_times import JOIN_TIMES, check_loading, check_table_join, declared_join_times
from penstock.contract.schema import Field, FieldRow, Fields, Kind, Rule, object_row, rows_of
from penstock.contract.side_inputs import SideTable
from penstock.contract.window_parts import check_all
from penstock.contract.window_sizes import check_times, check_top, check_windows


class Strategy(StrEnum):
    """How the rows of a step's inputs are distributed over its tasks, when they have no keys."""

    FORWARD = "forward"
    BROADCAST = "broadcast"
    ROUND_ROBIN = "round-robin"
    CUSTOM = "custom"


def _connected(role: Role, meaning: str, kind: type[object], make: Callable[..., object]) -> FieldRow:
    """Return the field row of a step with exactly one connector."""
    connectors = connector_kinds(role).values()
    installed = object_row(Plugin, PLUGIN, "a connector of an installed package")
    fields = (*(option_row(each) for each in connectors), installed, *rows_of(kind))
    names = (*(each.name for each in connectors), PLUGIN)
    return FieldRow(str(role), Kind.OBJECT, meaning, fields=fields, make=make, one_of=names)


def _split(values: dict[str, object], role: Role) -> tuple[Connector, dict[str, object]]:
    """Split the values of a step into its connector and the other values."""
    kinds = connector_kinds(role)
    plugin = values.pop(PLUGIN)
    if isinstance(plugin, Plugin):
        return Connector(plugin.kind, dict(plugin.options)), {n: v for n, v in values.items() if n not in kinds}
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
        given = {name: value for name, value in rest.items() if value is not None}
        return kind(Call(**values), **given)  # type: ignore[arg-type]

    return FieldRow(name, Kind.OBJECT, meaning, fields=(*calls, *own), make=make)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredWindow(Fields):
    """Windows as a file declares them: with ``top`` they are two steps."""

    top: Annotated[
        Top | None, Field("top", "only the best rows of each window, whatever their key; the step NAME-top keeps them")
    ] = None
    parameters: Window


def _windows() -> FieldRow:
    """Return the field row of windows. It has the fields of both classes."""

    def make(top: Top | None, **values: object) -> DeclaredWindow:
        window = Window(**_computing(values))  # type: ignore[arg-type]
        check_windows(window.size_us, window.slide_us)
        check_times(window)
        check_top(window, top is not None)
        return DeclaredWindow(parameters=window, top=top)

    fields = (*rows_of(Window), *rows_of(DeclaredWindow))
    meaning = "tumbling or sliding windows of time"
    return FieldRow("window", Kind.OBJECT, meaning, fields=fields, make=make, rules=Window.RULES)


def _computing(values: dict[str, object]) -> dict[str, object]:
    """Return the values of a window that are there. Raises ConfigError if it has two kinds of results."""
    COMPUTE_OR_WHOLE.refuse(bool(values["compute"]) == (values["whole"] is not None))
    return {name: value for name, value in values.items() if value is not None}


def declared_window_all(**values: object) -> WindowAll:
    """Build windows of all rows as a file declares them. Raises ConfigError for what they cannot be."""
    windows = WindowAll(**values)  # type: ignore[arg-type]
    check_windows(windows.size_us, windows.slide_us)
    check_all(windows.compute)
    return windows


def declared_session(**values: object) -> Session:
    """Build sessions as a file declares them. Raises ConfigError for a lateness by the clock."""
    session = Session(**_computing(values))  # type: ignore[arg-type]
    check_times(session)
    return session


WINDOW = _windows()
SOURCE = _connected(Role.SOURCE, "reads a replayable input", Source, _source)
SINK = _connected(Role.SINK, "writes to an output", Sink, _sink)
MAP = _calling(Map, "map", "one row out for each row in")
FLAT_MAP = _calling(FlatMap, "flatMap", "any number of rows for each row in")
FILTER = _calling(Filter, "filter", "keeps rows for which the function says true")


@dataclass(frozen=True, slots=True, kw_only=True)
class RightSide(Fields):
    """The right side of a step with two inputs: the entry's ``inputs`` and ``keyBy`` are those of the left side."""

    right: Annotated[tuple[str, ...], Field("right", "outputs that are the right side, as step or step.output")]
    right_key_by: Annotated[
        tuple[str, ...],
        Field("rightKeyBy", "key columns of the right side, in the order of keyBy; those of keyBy when left out"),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredJoin(RightSide):
    """A join as a file declares it."""

    parameters: Join


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredConnect(RightSide):
    """Two inputs with one state as a file declares them."""

    left_function: Annotated[Reference, Field("leftFunction", "the function of the rows of inputs; it has types")]
    right_function: Annotated[Reference, Field("rightFunction", "the function of the rows of right; it has types")]
    batch_rows: Annotated[BatchRows | None, Field("batchRows", "rows in one call, at most")] = None
    on_error: Annotated[
        OnError,
        Field(
            "onError",
            "what happens when a function raises for a row: the job fails, or the row goes to the output dead-letter "
            "or dead-letter-right",
        ),
    ] = OnError.FAIL
    compiled: Annotated[
        CompileChoice, Field("compiled", "whether the functions are compiled; auto: those that can be")
    ] = CompileChoice.AUTO
    on_timer: TimerHandlers = ()
    migrate: Annotated[Reference | None, MIGRATES] = None
    ttl: Annotated[KeyTtl | None, LIVES] = None

    @property
    def parameters(self) -> Connect:
        """Return the step."""
        left, right = (
            Call(function, batch_rows=self.batch_rows, on_error=self.on_error, compiled=self.compiled)
            for function in (self.left_function, self.right_function)
        )
        return Connect(left, right, self.on_timer, self.migrate or ABSENT, self.ttl or ABSENT)


def _join() -> FieldRow:
    """Return the field row of a join. It has the fields of both classes."""
    own, times = rows_of(RightSide), ("within_us", "lower_us", "upper_us", "offset_us", "as_of")
    calls = tuple(replace(row, required=False) for row in rows_of(Call) if row.target not in ("on_error", "compiled"))

    def make(**values: object) -> DeclaredJoin:
        sides = {row.target: values.pop(row.target) for row in own}
        call = {row.target: values.pop(row.target) for row in calls}
        values |= declared_join_times({name: values[name] for name in times})
        function = None if call["function"] is None else Call(**call)  # type: ignore[arg-type]
        check_table_join(values["as_of"] is not None, str(values["how"]), values["event_time"] is not None)
        join = Join(call=function, **(values | {"load_until": values["load_until"] or ABSENT}))  # type: ignore[arg-type]
        check_loading(join.as_of, join.load_until, join.allowed_lateness_us)
        return DeclaredJoin(parameters=join, **sides)  # type: ignore[arg-type]

    meaning = "pairs of rows of two inputs with equal keys, by window, interval, or newest row"
    fields = (*own, *rows_of(Join), *calls)
    return FieldRow("join", Kind.OBJECT, meaning, fields=fields, make=make, rules=(JOIN_TIMES,))


JOIN = _join()


def _enrich() -> FieldRow:
    """Return the field row of a step that calls an asynchronous function."""
    calls = tuple(row for row in rows_of(Call) if row.target in ("function", "columns"))
    own = rows_of(Enrich)

    def make(**values: object) -> Enrich:
        call = {row.target: values.pop(row.target) for row in calls}
        return Enrich(Call(per=Per.RECORD, **call), **values)  # type: ignore[arg-type]

    meaning = "adds the columns of the answer of an asynchronous function to each row"
    return FieldRow("enrich", Kind.OBJECT, meaning, fields=(*calls, *own), make=make)


ENRICH = _enrich()


def _lookup(**values: object) -> Lookup:
    connector, others = _split(values, Role.LOOKUP)
    return Lookup(connector, **others)  # type: ignore[arg-type]


LOOKUP = _connected(
    Role.LOOKUP, "adds columns of a table of another system to each row, by the columns of keyBy", Lookup, _lookup
)
PROCESS = _calling(Process, "process", "a user function over the rows of keys, with state")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredStep(Fields):
    """One entry."""

    ONE_OF = (
        "source", "map", "flatMap", "filter", "split", "aggregate", "window", "session", "windowAll", "countWindow",
        "join", "distinct", "latest", "top", "process", "connect", "enrich", "lookup", "side",
        "sink",
    )  # fmt: skip
    RULES = (
        Rule(
            "!(has(self.keyBy) && size(self.keyBy) > 0 && has(self.partition))",
            "keyBy and partition are both there: keyed rows go to the owner of their key",
            path=".partition",
        ),
        Rule(
            "[has(self.partitionFunction), has(self.partitionSchemes) && size(self.partitionSchemes) > 0,"
            " !(has(self.partition) && self.partition == 'custom')].filter(given, given).size() == 1",
            "partition: custom needs partitionFunction or partitionSchemes, and they need it",
            path=".partition",
        ),
        Rule(
            "has(self.partitionSchemes) && size(self.partitionSchemes) > 0"
            " ? has(self.use) && self.use in self.partitionSchemes : !has(self.use)",
            "use names the scheme of partitionSchemes that holds at first",
            path=".use",
        ),
        Rule(
            "has(self.keyBy) && size(self.keyBy) > 0"
            " || !has(self.aggregate) && !has(self.window) && !has(self.session) && !has(self.countWindow)"
            " && !has(self.join) && !has(self.distinct) && !has(self.latest) && !has(self.top) && !has(self.process)"
            " && !has(self.connect) && !has(self.enrich) && !has(self.lookup)",
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
    partition_schemes: Annotated[
        dict[str, Reference],
        Field(
            "partitionSchemes",
            "several such functions by name; spec.partition chooses another one while the job runs",
            length_max=limits.SCHEMES_MAX,
        ),
    ] = field(default_factory=dict)
    use: Annotated[StepName | None, Field("use", "the scheme that holds while spec.partition names no other one")] = (
        None
    )
    side_inputs: Annotated[
        tuple[str, ...],
        Field("sideInputs", "steps with side, whose tables a process step reads, each as side.NAME"),
    ] = ()
    parallelism: Annotated[
        int | None,
        Field(
            "parallelism",
            "number of tasks; one per worker when left out",
            minimum=1,
            maximum=limits.STAGE_TASKS_MAX,
        ),
    ] = None
    source: Annotated[Source | None, SOURCE] = None
    map: Annotated[Map | None, MAP] = None
    flat_map: Annotated[FlatMap | None, FLAT_MAP] = None
    filter: Annotated[Filter | None, FILTER] = None
    split: Annotated[Split | None, Field("split", "splits a text into words at every single space")] = None
    aggregate: Annotated[
        Aggregate | None, Field("aggregate", "running values of a key: one row out for each row in")
    ] = None
    window: Annotated[DeclaredWindow | None, WINDOW] = None
    session: Annotated[
        Session | None, Field("session", "windows of rows with no gap of time between them", make=declared_session)
    ] = None
    window_all: Annotated[
        WindowAll | None,
        Field(
            "windowAll",
            "windows of all rows, whatever their key; the step NAME-parts computes them in parts",
            make=declared_window_all,
        ),
    ] = None
    count_window: Annotated[
        CountWindow | None, Field("countWindow", "windows of a number of rows of a key, whatever their time")
    ] = None
    join: Annotated[DeclaredJoin | None, JOIN] = None
    distinct: Annotated[Distinct | None, Field("distinct", "the rows of keys that are no duplicates")] = None
    latest: Annotated[
        LatestRow | None, Field("latest", "the newest row of each key: one row out each time that it changes")
    ] = None
    top: Annotated[Top | None, Field("top", "the best rows of each key: rows that enter and leave them")] = None
    process: Annotated[Process | None, PROCESS] = None
    connect: Annotated[
        DeclaredConnect | None, Field("connect", "two inputs with one state: a function for the rows of each of them")
    ] = None
    enrich: Annotated[Enrich | None, ENRICH] = None
    lookup: Annotated[Lookup | None, LOOKUP] = None
    side: Annotated[
        SideTable | None, Field("side", "a table that each task of the steps that name it in sideInputs has a copy of")
    ] = None
    sink: Annotated[Sink | None, SINK] = None

    def __post_init__(self) -> None:
        """Refuse two ways to distribute rows, and state without keys."""
        both, function, use, _ = self.RULES
        both.refuse(bool(self.key_by) and self.partition is not None)
        given = [self.partition_function is not None, bool(self.partition_schemes)]
        function.refuse(sum(given) != (self.partition is Strategy.CUSTOM))
        use.refuse(self.use not in self.partition_schemes if self.partition_schemes else self.use is not None)
        if self.window_all is not None and (self.key_by or self.partition is not None):
            raise ConfigError(f"step {self.name!r}: windowAll takes all rows: it has no keyBy and no partition")
        if isinstance(self.parameters, STATEFUL) and not self.key_by and self.window_all is None:
            raise ConfigError(f"step {self.name!r} keeps state by key: keyBy is missing")
        if self.lookup is not None and self.lookup.on and len(self.lookup.on) != len(self.key_by):
            raise ConfigError(
                f"step {self.name!r}: keyBy has {len(self.key_by)} columns and keys {len(self.lookup.on)}: each key"
                " column needs one of the table"
            )

        if self.side_inputs and self.process is None:
            raise ConfigError(f"step {self.name!r}: sideInputs: only the function of a process step reads side tables")
        if self.side is not None and self.parallelism not in (None, 1):
            raise ConfigError(f"step {self.name!r}: parallelism: the rows of a side table pass through one task")

    @property
    def two_sided(self) -> DeclaredJoin | DeclaredConnect | None:
        """Return the step if it has two inputs."""
        return self.join or self.connect

    @property
    def parameters(self) -> Parameters:
        """Return the one kind of step that is given."""
        if self.two_sided is not None:
            return self.two_sided.parameters
        calls = (self.map, self.flat_map, self.filter, self.process, self.enrich)
        ranked = (self.distinct, self.latest, self.top)
        windows = (
            None if self.window is None else self.window.parameters,
            self.session,
            self.window_all,
            self.count_window,
        )
        lookup = None if self.lookup is None else replace(self.lookup, on=self.lookup.on or self.key_by)
        others = (self.source, self.split, self.aggregate, lookup, self.side, self.sink)
        return next(each for each in (*calls, *ranked, *windows, *others) if each is not None)

    @property
    def window_top(self) -> WindowTop | None:
        """Return which rows of each window are kept; None: all."""
        top = None if self.window is None else self.window.top
        return None if top is None else WindowTop(top.count, top.by)


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
