"""The Python API: a user builds a job by calling methods of streams. Building runs no step.

    def job(params):
        job = ps.Job()
        lines = job.source("lines", ps.parquet(params["input"]), columns={"line": "string"})
        words = lines.split("words", "line")
        counts = words.key_by("word").aggregate("counts", count=ps.count())
        counts.sink("output", ps.parquet(params["output"]))
        return job

Every step has a name, and checkpoints find the state of a step by this name. The builder only
records the steps and the place of each call. ``validate`` and ``flow`` check them later.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn, overload

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place, users_frame
from penstock.base.values import replace
from penstock.contract.asynchronous import Cache, Retries
from penstock.contract.codec import ABSENT
from penstock.contract.connectors import Role
from penstock.contract.graph import (
    DEAD_LETTER,
    LATE,
    LATE_RIGHT,
    LEFT,
    MAIN,
    ONLY,
    RIGHT,
    AsOf,
    Connector,
    Filter,
    Input,
    Join,
    Lookup,
    Map,
    OnError,
    Parameters,
    Sink,
    Source,
    Split,
    Step,
)
from penstock.contract.join_times import check_interval, check_loading, check_table_join
from penstock.contract.plan import Partitioning
from penstock.contract.side_inputs import SideTable
from penstock.graph.aggregations import Aggregation
from penstock.graph.arguments import (
    AsOfLike,
    ColumnsLike,
    CompiledLike,
    HowLike,
    LookupHowLike,
    OnErrorLike,
    OnLike,
    PerLike,
    TimeUnitLike,
    UserFunction,
    call_of,
    columns_of,
    computed_of,
    connector_of,
    event_time_of,
    flat_map_of,
    how_of,
    no_step,
    on_of,
    pairs_call_of,
    tasks_of,
)
from penstock.graph.connect import check_user_connector
from penstock.graph.draft import CALL, CONNECTOR, GraphDraft, label, partition_role, side_inputs
from penstock.graph.enriched import OnFailureLike, ResultOrderLike, check_enrich, enrich_of, lookup_of
from penstock.graph.scheme_functions import NO_FUNCTIONS, Functions, partition_functions, schemes_of
from penstock.graph.side_input import SideInput
from penstock.graph.typed_calls import typed_parameters
from penstock.graph.window_shapes import Duration, WindowForm, microseconds, signed_microseconds
from penstock.graph.window_steps import window_all_parameters
from penstock.graph.window_tops import all_step, parts_name, step_of

if TYPE_CHECKING:
    from datetime import datetime

    from penstock.graph.keyed_stream import KeyedStream
    from penstock.inprocess.prepare import Inputs
    from penstock.inprocess.run import Result


class Job:
    """A job under construction. :meth:`source` begins a stream."""

    def __init__(self) -> None:
        self.draft = GraphDraft()
        self.place = caller_place()  # names it where a file has several

    def source(
        self,
        name: str,
        connector: object,
        *,
        columns: ColumnsLike = None,
        event_time: str | None = None,
        time_unit: TimeUnitLike | None = None,
        out_of_orderness: Duration = "0s",
        idle_after: Duration | None = None,
        batch_rows: int = limits.SOURCE_BATCH_ROWS_DEFAULT,
        parallelism: int | None = None,
    ) -> "Stream":
        """Begin a stream with the rows of an input.

        ``connector`` is ``ps.parquet(...)``, ``ps.generator(...)``, ``ps.ingest(...)``, or an object of your own that
        follows ``ps.Source``. ``columns`` selects columns and says their types; without it all columns are read.
        ``event_time`` names the column of event time, of type timestamp[us]; windows use it. With ``time_unit`` it has
        whole numbers, counted from 1970 on, and the stream has it as timestamp[us]. Rows may be out of order by at most
        ``out_of_orderness``. Raises ConfigError.
        """
        time = event_time_of(name, event_time, time_unit, out_of_orderness, idle_after)
        place = self._connect(name, connector, Role.SOURCE)
        parameters = Source(connector_of(connector), columns_of(columns), time, batch_rows)
        tasks = None if parallelism is None else tasks_of(f"step {name!r}: parallelism=", parallelism)
        return self._add(Step(name, parameters, (), tasks), place)

    def run(
        self,
        *,
        inputs: "Inputs | None" = None,
        collect: Collection[str] | bool = False,
        workers: int = 1,
        rows: int | None = None,
        timeout: Duration | None = None,
    ) -> "Result":
        """Run the job in this thread until its input has ended: see :func:`penstock.run`."""
        import penstock  # noqa: PLC0415  the public API, above all layers

        return penstock.run(self, inputs=inputs, collect=collect, workers=workers, rows=rows, timeout=timeout)

    def _connect(self, name: str, connector: object, role: Role) -> str:
        place = caller_place()
        if not isinstance(connector, Connector):
            check_user_connector(f"{place}: step {name!r}", connector, role)
            self.draft.functions[name, CONNECTOR] = connector
        return place

    def _add(self, step: Step, place: str) -> "Stream":
        if any(s.name == step.name for s in self.draft.steps):
            raise ConfigError(
                f"{place}: a step named {step.name!r} exists already "
                f"(at {self.draft.place(step.name)}); names must differ, "
                "because state is found by the name of its step"
            )
        self.draft.steps.append(step)
        self.draft.places[step.name] = place
        return Stream(self, (Input(step.name),))


class Stream:
    """The rows of one output of a step. After ``union``: of several steps."""

    def __init__(
        self,
        job: Job,
        inputs: tuple[Input, ...],
        partitioners: Functions = NO_FUNCTIONS,
        parallelism: int | None = None,
    ) -> None:
        self.job = job
        self.inputs = inputs
        self.partitioners = partitioners
        self.parallelism = parallelism

    def __getattr__(self, name: str) -> NoReturn:
        """Say what a step needs that a stream does not have. Raises AttributeError."""
        from penstock.graph.keyed_stream import KeyedStream  # noqa: PLC0415  it is a Stream itself

        raise AttributeError(no_step(name, isinstance(self, KeyedStream), dir(KeyedStream)))

    # --- How the next step gets the rows ------------------------------------------------------

    def key_by(self, *columns: str) -> "KeyedStream":
        """Send all rows with equal key columns to the task that owns the state of the key."""
        if not columns:
            raise ConfigError(f"{caller_place()}: key_by needs at least one column")
        from penstock.graph.keyed_stream import KeyedStream  # noqa: PLC0415  it is a Stream itself

        keyed = self._partitioned(Partitioning.KEY, keys=tuple(columns))
        return KeyedStream(keyed.job, keyed.inputs, parallelism=self.parallelism)

    def forward(self) -> "Stream":
        """Send rows to the task with the same number. Both steps must have as many tasks."""
        return self._partitioned(Partitioning.FORWARD)

    def broadcast(self) -> "Stream":
        """Send every row to every task of the next step."""
        return self._partitioned(Partitioning.BROADCAST)

    def round_robin(self) -> "Stream":
        """Send batches to the tasks of the next step in turn. The order per key is lost."""
        return self._partitioned(Partitioning.ROUND_ROBIN)

    @overload
    def partition(self, function: UserFunction) -> "Stream": ...

    @overload
    def partition(self, *, schemes: Mapping[str, UserFunction], use: str) -> "Stream": ...

    def partition(
        self,
        function: UserFunction | None = None,
        *,
        schemes: Mapping[str, UserFunction] | None = None,
        use: str | None = None,
    ) -> "Stream":
        """Send row i to task ``function(batch, tasks)[i]``.

        ``function`` returns an array of int, one for each row, with 0 <= value < tasks. With ``schemes`` there are
        several functions by name. The one that ``use`` names holds at first, and another one may be chosen while the
        job runs: ``penstock partition JOB STEP=SCHEME``, or ``spec.partition``. Raises ConfigError.
        """
        about = f"{caller_place()}: partition"
        functions = partition_functions(about, function, schemes, use)
        named = [(name, label(each)) for name, each in functions.items()]
        found = ABSENT if use is None else schemes_of(about, named, use)
        only = None if function is None else label(function)
        custom = Partitioning.CUSTOM
        inputs = (replace(i, partitioning=custom, keys=(), function=only, schemes=found) for i in self.inputs)
        return Stream(self.job, tuple(inputs), functions, self.parallelism)

    def parallel(self, tasks: int) -> "Stream":
        """Run the next step with ``tasks`` tasks in total instead of one per worker. Raises ConfigError for none."""
        return type(self)(self.job, self.inputs, self.partitioners, tasks_of("parallel: tasks=", tasks))

    def union(self, *others: "Stream") -> "Stream":
        """Join streams with equal columns. Rows of different streams come in any order."""
        if any(stream.partitioners for stream in (self, *others)):
            raise ConfigError(f"{caller_place()}: union: call partition behind it, for the rows of all streams")
        return Stream(self.job, sum((o.inputs for o in others), self.inputs), parallelism=self.parallelism)

    def output(self, name: str) -> "Stream":
        """Return another output of the same step by its name: ``late``, ``dead-letter`` or ``shed``.

        Of a union: these outputs of all its steps.
        """
        steps = dict.fromkeys(step_of(self.job.draft.steps, entry.step, name) for entry in self.inputs)
        return Stream(self.job, tuple(Input(step, name) for step in steps))

    @property
    def late(self) -> "Stream":
        """The rows that arrived too late for their window; of a join, those of its left side."""
        return self.output(LATE)

    @property
    def late_right(self) -> "Stream":
        """The rows of the right side of a join that arrived too late for their window."""
        return self.output(LATE_RIGHT)

    @property
    def dead_letter(self) -> "Stream":
        """The rows for which the step's function raised, with columns that describe the error."""
        return self.output(DEAD_LETTER)

    def map(
        self,
        name: str,
        function: UserFunction,
        *,
        columns: ColumnsLike = None,
        per: PerLike | None = None,
        batch_rows: int | None = None,
        on_error: OnErrorLike = "fail",
        compiled: CompiledLike = "auto",
    ) -> "Stream":
        """Turn each row into one row.

        A function with types, ``f(r: A) -> B``, takes a ``ps.record`` and returns one. Without types,
        ``function`` takes a RecordBatch and returns one; with ``per="record"`` it takes a dict and
        returns one. ``columns`` are the columns that it returns. They are required with
        ``per="record"``. Without them, a function per batch is called once with an empty batch to
        find them. Raises ConfigError.
        """
        call = call_of(function, per, batch_rows, columns, on_error, compiled=compiled)
        return self._step(name, Map(call), function, per)

    def flat_map(
        self,
        name: str,
        function: UserFunction,
        *,
        columns: ColumnsLike = None,
        per: PerLike | None = None,
        batch_rows: int | None = None,
        on_error: OnErrorLike = "fail",
        compiled: CompiledLike = "auto",
    ) -> "Stream":
        """Turn each row into any number of rows, in order.

        A function with types, ``f(r: A, out: ps.Out[B])``, emits records: ``out.emit(B(...))``. With
        ``per="record"`` the function returns an iterable of dicts. Other parameters are those of
        :meth:`map`.
        """
        call = call_of(function, per, batch_rows, columns, on_error, compiled=compiled)
        return self._step(name, flat_map_of(call, function), function, per)

    def filter(
        self,
        name: str,
        function: UserFunction,
        *,
        per: PerLike | None = None,
        batch_rows: int | None = None,
        on_error: OnErrorLike = "fail",
        compiled: CompiledLike = "auto",
    ) -> "Stream":
        """Keep the rows for which ``function`` returns true.

        It returns a boolean array with one value per row; with ``per="record"`` and with types,
        ``f(r: A) -> bool``, it returns a bool.
        """
        call = call_of(function, per, batch_rows, None, on_error, compiled=compiled)
        return self._step(name, Filter(call), function, per)

    def split(self, name: str, column: str, *, into: str = "word") -> "Stream":
        """Split text at every single space into one row per word.

        One empty word at the end is dropped. A null gives no word. ``into`` names the new column.
        """
        return self._step(name, Split(column, into))

    def join(
        self,
        name: str,
        other: "Stream",
        function: UserFunction | None = None,
        /,
        *,
        on: OnLike,
        within: Duration,
        how: HowLike = "inner",
        offset: Duration = "0s",
        allowed_lateness: Duration = "0s",
        event_time: str | None = None,
        columns: ColumnsLike = None,
        per: PerLike = "batch",
        batch_rows: int | None = None,
    ) -> "Stream":
        """Emit one row for each pair of rows that have equal keys and lie in the same tumbling window of event time.

        ``on`` names the key columns, which both streams have: ``"id"`` or ``["id", "day"]``. A mapping names those of
        this stream and of the other one: ``{"id": "order"}``. ``within`` is the length of the windows. Key columns
        have equal types in both streams. A null key matches no row.

        A window emits when the watermark of both streams reaches its end plus ``allowed_lateness``. The columns are
        those of this stream, then those of the other one without its keys. ``how="left"``, ``"right"`` and
        ``"full"`` also emit rows without a partner; the columns of the other side are then null. Rows that arrive
        later go to the outputs ``late`` and ``late-right``. ``event_time`` names a last column of the result, which
        is its event time: the last microsecond of the window. Without it the result has no event time.

        With ``function`` the result is what ``function(left, right)`` returns, which has ``columns``. It gets two
        RecordBatches of n rows each and returns one of n rows. Row i of both is a pair; all columns of a missing
        row are null. With ``per="record"`` it gets two dicts, None for a missing row, and returns a dict. Raises
        ConfigError.
        """
        kind = how_of(name, how)
        size = microseconds("within", within)
        if size <= 0:
            raise ConfigError(f"{caller_place()}: step {name!r}: within={within!r}: a window cannot be empty")
        late, shift = microseconds("allowed_lateness", allowed_lateness), microseconds("offset", offset)
        call = pairs_call_of(name, function, per, batch_rows, columns)
        return self._joined(name, (other, on), Join(size, kind, shift, late, call, event_time=event_time), function)

    def join_interval(
        self,
        name: str,
        other: "Stream",
        function: UserFunction | None = None,
        /,
        *,
        on: OnLike,
        lower: Duration,
        upper: Duration,
        how: HowLike = "inner",
        allowed_lateness: Duration = "0s",
        event_time: str | None = None,
        columns: ColumnsLike = None,
        per: PerLike = "batch",
        batch_rows: int | None = None,
    ) -> "Stream":
        """Emit one row for each pair of rows with equal keys whose event times are at most an interval apart.

        A pair has ``lower <= time of the other stream's row - time of this stream's row <= upper``. ``lower="-5m"``
        and ``upper="10m"`` pair an order with payments from 5 minutes before to 10 minutes after it.

        A pair is emitted when the watermark of both streams, less ``allowed_lateness``, has passed its later row. A row
        without a partner is emitted when no partner can come any more. ``event_time`` names a last column of the
        result, which is its event time: that of the later row. Other parameters and the columns of the result are
        those of :meth:`join`. Raises ConfigError.
        """
        kind = how_of(name, how)
        ends = signed_microseconds("lower", lower), signed_microseconds("upper", upper)
        try:
            check_interval(*ends)
        except ConfigError as error:
            raise ConfigError(f"{caller_place()}: step {name!r}: {error}") from None
        late = microseconds("allowed_lateness", allowed_lateness)
        call = pairs_call_of(name, function, per, batch_rows, columns)
        return self._joined(name, (other, on), Join(None, kind, 0, late, call, *ends, event_time), function)

    def join_table(
        self,
        name: str,
        table: "Stream",
        function: UserFunction | None = None,
        /,
        *,
        on: OnLike,
        as_of: AsOfLike = "event",
        load_until: "str | datetime | None" = None,
        how: HowLike = "inner",
        allowed_lateness: Duration = "0s",
        columns: ColumnsLike = None,
        per: PerLike = "batch",
        batch_rows: int | None = None,
    ) -> "Stream":
        """Emit one row for each row of this stream, with the newest row of its key of ``table`` at its event time.

        Each row of ``table`` is a version of its key from its event time on. A row waits until the watermark of both
        streams, less ``allowed_lateness``, has passed its time. ``how="left"`` also emits rows whose key has no version
        yet. The event time of the result is that of the row. Other parameters and the columns of the result are
        those of :meth:`join`. Raises ConfigError.

        With ``as_of="now"`` each row is joined when it comes, with the row of its key that came last from ``table``.
        Neither stream needs event time. First the table is loaded: to its end, or up to the time ``load_until`` of its
        event time. Meanwhile rows wait in keyed state.
        """
        kind, place = how_of(name, how), caller_place()
        late = microseconds("allowed_lateness", allowed_lateness)
        until = ABSENT if load_until is None else str(load_until)
        if as_of not in set(AsOf):
            raise ConfigError(f"{place}: step {name!r}: as_of={as_of!r} is not one of {', '.join(AsOf)}")
        try:
            check_table_join(True, kind, False)
            check_loading(as_of, until, late)
        except ConfigError as error:
            raise ConfigError(f"{place}: step {name!r}: {error}") from None
        call = pairs_call_of(name, function, per, batch_rows, columns)
        join = Join(None, kind, 0, late, call, as_of=AsOf(as_of), load_until=until)
        return self._joined(name, (table, on), join, function)

    def _joined(self, name: str, other: tuple["Stream", OnLike], join: Join, function: UserFunction | None) -> "Stream":
        place = caller_place()
        stream, on = other
        pairs = on_of(place, name, on)
        if not isinstance(stream, Stream) or stream.job is not self.job:
            raise ConfigError(f"{place}: step {name!r}: the second argument must be another stream of the same job")
        left, right = tuple(pairs), tuple(pairs.values())
        inputs = (*side_inputs(self.inputs, LEFT, left), *side_inputs(stream.inputs, RIGHT, right))
        joined = self.job._add(Step(name, join, inputs, self.parallelism), place)
        if function is not None:
            self.job.draft.functions[name, CALL] = function
        return joined

    def enrich(
        self,
        name: str,
        fetch: UserFunction,
        *,
        columns: ColumnsLike = None,
        order: ResultOrderLike = "input",
        capacity: int = 100,
        timeout: Duration = "10s",
        batch: int = 1,
        retries: Retries | None = None,
        on_error: OnFailureLike = "fail",
        cache: Cache | None = None,
    ) -> "Stream":
        """Add to each row the columns of what the asynchronous function ``fetch`` returns for it.

        The stream is keyed. Rows that wait are part of checkpoints. With ``order="input"`` rows of one key leave in
        their order. A task makes ``capacity`` calls at once, each for ``batch`` rows. ``retries`` is
        ``ps.retries(3, "100ms")``, ``cache`` is ``ps.cache(100_000, ttl="5m")``. Raises ConfigError.
        """
        about = f"{caller_place()}: step {name!r}"
        called = {"order": order, "capacity": capacity, "timeout": timeout, "batch": batch}
        options = {**called, "retries": retries, "on_error": on_error, "cache": cache}
        declared = enrich_of(about, call_of(fetch, "record", None, columns, OnError.FAIL), options)
        stream = self._step(name, declared, fetch)
        check_enrich(declared, fetch, self.job.draft.types.get(name), about)
        return stream

    def lookup(
        self,
        name: str,
        table: object,
        *,
        on: OnLike,
        columns: ColumnsLike,
        how: LookupHowLike = "inner",
        cache: Cache | None = None,
        capacity: int = 2,
        batch: int = 1000,
    ) -> "Stream":
        """Add to each row columns of a table of another system: of the row with the same values in ``on``.

        ``table`` is ``ps.postgres(...)``, or an object of your own that follows ``ps.Lookup``. Rows go to tasks by
        ``on``, so one task asks for a key, and rows of a key leave in their order. ``columns`` are those that are
        added, with their types. ``how="left"`` also emits rows without a row of the table, with nulls. ``cache`` is
        ``ps.cache(100_000, ttl="30s")``: answers are as old as ``ttl``, that there is no row among them. A task makes
        ``capacity`` queries at once, each for the different keys of ``batch`` rows. Raises ConfigError.
        """
        place = caller_place()
        pairs = on_of(place, name, on)
        options = {"how": how, "cache": cache, "capacity": capacity, "batch": batch}
        given = Lookup(connector_of(table), columns_of(columns), tuple(pairs.values()))
        declared = lookup_of(f"{place}: step {name!r}", given, options)
        self.job._connect(name, table, Role.LOOKUP)
        inputs = side_inputs(self.inputs, ONLY, tuple(pairs))
        return self.job._add(Step(name, declared, inputs, self.parallelism), place)

    def side(
        self,
        name: str,
        *,
        on: str | Iterable[str],
        load_first: bool = False,
        load_until: "str | datetime | None" = None,
    ) -> "SideInput":
        """Make a table of the rows that each task of a step has a copy of: ``process(..., side={"rules": table})``.

        A row replaces the one with the same values in the columns ``on``. All rows pass through one task, so all tasks
        have the same rows at a checkpoint. A table may have 100,000 rows. With ``load_first`` rows of its readers wait
        until the table has come to its end, with ``load_until`` up to an event time of it. Raises ConfigError.
        """
        keys = tuple(on_of(caller_place(), name, [on] if isinstance(on, str) else list(on)))
        until = None if load_until is None else str(load_until)
        step = Step(name, SideTable(keys, load_first, until), self.inputs, 1)
        self._keep_partitioners(name)
        self.job._add(step, caller_place())
        return SideInput(self.job, name)

    def sink(self, name: str, connector: object) -> None:
        """Write the rows. ``connector`` is ``ps.parquet(folder)`` or an object of your own.

        An object of your own follows ``ps.Sink``. Raises ConfigError.
        """
        place = self.job._connect(name, connector, Role.SINK)
        step = Step(name, Sink(connector_of(connector)), self.inputs, self.parallelism)
        self._keep_partitioners(name)
        self.job._add(step, place)

    def window_all(
        self, name: str, shape: WindowForm | Duration, /, *, allowed_lateness: Duration = "0s", **compute: Aggregation
    ) -> "Stream":
        """Emit one row for each window of all rows, which is tumbling or sliding: see :meth:`KeyedStream.window`."""
        windows = window_all_parameters(name, shape, allowed_lateness, computed_of(name, compute))
        inputs = tuple(replace(i, partitioning=None, keys=()) if i.keys else i for i in self.inputs)
        Stream(self.job, inputs, self.partitioners, self.parallelism)._step(parts_name(name), windows.parts)
        return self.job._add(all_step(name, windows, self.parallelism), caller_place())

    def _partitioned(self, how: Partitioning, keys: tuple[str, ...] = ()) -> "Stream":
        inputs = tuple(replace(i, partitioning=how, keys=keys, function=None, schemes=ABSENT) for i in self.inputs)
        return Stream(self.job, inputs, parallelism=self.parallelism)

    def _step(
        self,
        name: str,
        parameters: Parameters,
        function: UserFunction | None = None,
        per: PerLike | None = None,
        side: tuple[Input, ...] = (),
    ) -> "Stream":
        place, types = caller_place(), None
        if function is not None:
            about = f"{place}: step {name!r}"
            scope = users_frame().f_locals
            parameters, types = typed_parameters(parameters, function, about, scope, sided=bool(side))
            if types is not None and per == "batch":
                raise ConfigError(f'{about}: per="batch": its function takes records of {types.record.name}')
        stream = self.job._add(Step(name, parameters, (*self.inputs, *side), self.parallelism), place)
        if function is not None:
            self.job.draft.functions[name, CALL] = function
        if types is not None:
            self.job.draft.types[name] = types
        self._keep_partitioners(name)
        return stream

    def _keep_partitioners(self, name: str) -> None:
        for index in range(len(self.inputs)):
            for scheme, function in self.partitioners.items():
                self.job.draft.functions[name, partition_role(index, scheme)] = function


__all__ = ["MAIN", "Job", "Stream"]
