"""Compiles a job file: builds the draft, checks it, makes the plan, and connects the steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from penstock.base.errors import ConfigError, ConnectorError, PenstockError, StorageError
from penstock.contract.codec import ABSENT
from penstock.contract.columns import Column, Columns
from penstock.contract.connectors import Role, connector_kinds
from penstock.contract.graph import (
    MAIN,
    RIGHT,
    AsOf,
    Connect,
    Connector,
    Join,
    LogicalGraph,
    Process,
    Source,
    Step,
    TimeKind,
)
from penstock.contract.schemes import chosen, given
from penstock.contract.side_inputs import SideTable
from penstock.graph import entrypoint
from penstock.graph.arguments import columns_of
from penstock.graph.builder import Job
from penstock.graph.compiled import (
    ENTRY,
    CompiledEdge,
    CompiledJob,
    CompiledSide,
    CompiledStage,
    CompiledStep,
    Link,
)
from penstock.graph.declare import declare
from penstock.graph.draft import CALL, CALL_RIGHT, CONNECTOR, MIGRATE, GraphDraft, partition_role
from penstock.graph.flow import Flows, input_flow, trace
from penstock.graph.job_file import JobFile, read_job_file
from penstock.graph.migrations import Migration
from penstock.graph.parameters import Parameters
from penstock.graph.planner import Edge, Layout, lay_out, to_plan
from penstock.graph.plugins import open_plugins
from penstock.graph.problems import Problems
from penstock.graph.python_file import is_python, job_of
from penstock.graph.scheme_functions import ONLY_FUNCTION
from penstock.graph.shape_checks import PARTITIONED, check_shape
from penstock.graph.side_input import is_side
from penstock.graph.timer_handlers import event_timers, timer_role

if TYPE_CHECKING:
    import pyarrow as pa

ENTRYPOINT_PATH = "spec.job.entrypoint"
SCRIPT_PATH = "spec.job.script"


class Inspector(Protocol):
    """Looks at the inputs of a job. Its methods block, and raise PenstockError."""

    def source_schema(self, connector: Connector, columns: Columns) -> "pa.Schema":
        """Return the schema of an input. ``columns`` are the declared columns; () means all."""
        ...


def load_job(file: Path | str | JobFile, inspector: Inspector | None, settings: Sequence[str] = ()) -> CompiledJob:
    """Compile a job file (YAML, JSON, Python, or a kept copy). Imports and runs user code.

    Without an inspector, no input is looked at: columns that are not declared stay unknown and are
    not checked. Raises ConfigError with all that is wrong with the file, the code, the graph or its
    columns, each with its place, and StorageError when an input does not answer or is not there.
    """
    source = file if isinstance(file, JobFile) else read_job_file(Path(file), settings)
    return compile_draft(source, draft_of(source), inspector)


def draft_of(file: JobFile, with_functions: bool = True) -> GraphDraft:
    """Build the draft from the declared steps, or by a call of the user's function."""
    entrypoint.add_folders(file.folders)
    job = file.job.spec.job
    if job.graph is not None:
        return declare(job.graph, file.origin, with_functions)
    if job.entrypoint is not None:
        place = file.origin.at(ENTRYPOINT_PATH)
        function = entrypoint.resolve(job.entrypoint, place)
    else:
        assert job.script is not None, "the reader accepts exactly one of graph, entrypoint, script"
        place = file.origin.at(SCRIPT_PATH)
        function = _function_of(job.script, place, file.folders)
    return run_function(function, Parameters(job.parameters, job.args), place)


def _function_of(source: str, place: str, folders: Sequence[Path]) -> Callable[..., object]:
    """Run a script of a job file, or a Python file, and return what builds its job."""
    written = place.rpartition(":")[0]
    if not is_python(written):
        return entrypoint.function_of(entrypoint.run_script(source, place), place)
    path = folders[0] / Path(written).name if folders else Path(written)
    return job_of(entrypoint.run_script(source, place, str(path)), place)


def run_function(function: Callable[..., object], parameters: Parameters, place: str) -> GraphDraft:
    """Call the user's function and return the draft of the job that it builds.

    Raises ConfigError with the user's line when it fails, or returns something else.
    """
    try:
        job = function(parameters)
    except PenstockError:
        raise
    except BaseException as error:  # sys.exit() as well
        raise ConfigError(f"{place}: building the job failed: {entrypoint.error_with_traceback(error)}") from error
    if not isinstance(job, Job):
        raise ConfigError(f"{place}: the function returned {type(job).__name__}; it must return the ps.Job")
    job.draft.asked = parameters.asked
    return job.draft


def compile_draft(file: JobFile, draft: GraphDraft, inspector: Inspector | None) -> CompiledJob:
    """Check a draft, make the plan, and compile the stages and edges. Raises ConfigError."""
    open_plugins(draft)
    graph = check_shape(draft, file.job.name)
    problems = Problems(draft)
    flows = trace(graph, _DraftColumnFinder(draft, inspector, problems), problems)
    _check_times(graph, flows, draft, problems)
    bounded = {s.name: _is_bounded(s, draft) for s in graph.steps if isinstance(s.parameters, Source)}
    _check_tables(graph, bounded, problems)
    layout = lay_out(graph, problems)
    problems.raise_if_any()
    plan = to_plan(graph, layout, flows, bounded, file.job.spec.max_key_groups)
    holding = {c.step: c.use for c in given(chosen(plan.schemes, file.job.spec.choices, ()))}
    wiring = _Wiring(graph, layout, flows, draft, holding)
    return CompiledJob(
        name=file.job.name,
        namespace=file.job.namespace,
        spec=file.job.spec,
        graph=graph,
        plan=plan,
        stages=tuple(CompiledStage(p, wiring.nodes(s.steps)) for p, s in zip(plan.stages, layout.stages, strict=True)),
        edges=tuple(wiring.edge(e) for e in layout.edges),
        places=dict(draft.places),
        asked=draft.asked,
    )


def _is_bounded(step: Step, draft: GraphDraft) -> bool:
    assert isinstance(step.parameters, Source)
    connector = step.parameters.connector
    own = draft.functions.get((step.name, CONNECTOR))
    if own is not None:
        return bool(getattr(own, "bounded", False))
    return connector_kinds(Role.SOURCE)[connector.kind].bounded.ends(connector.options)


@dataclass(frozen=True, slots=True)
class _DraftColumnFinder:
    """Finds columns by the inspector and by the functions of the draft. Errors become problems."""

    draft: GraphDraft
    inspector: Inspector | None
    problems: Problems

    def source_columns(self, step: Step) -> Columns | None:
        if self.inspector is None:
            return None
        assert isinstance(step.parameters, Source)
        own = self.draft.functions.get((step.name, CONNECTOR))
        try:
            schema = (
                getattr(own, "schema", None)
                if own is not None
                else self.inspector.source_schema(step.parameters.connector, ())
            )
        except StorageError as error:  # an engine that starts again may find it
            kind = ConnectorError if isinstance(error, ConnectorError) else StorageError
            raise kind(self.problems.placed(step, str(error))) from error
        except PenstockError as error:
            self.problems.at(step, str(error))
            return None
        return None if schema is None else self._usable(step, schema)

    def type_problem(self, column: Column) -> str | None:
        if self.inspector is None:
            return None
        from penstock.graph.arrow import arrow_type, check_views  # noqa: PLC0415  Arrow stays out of the CLI

        try:
            check_views(arrow_type(column.type))
        except ConfigError as error:
            return str(error)
        return None

    def _usable(self, step: Step, schema: "pa.Schema") -> Columns | None:
        from penstock.graph.arrow import check_type  # noqa: PLC0415  Arrow stays out of the CLI

        usable = True
        for field in schema:
            try:
                check_type(field.type)
            except ConfigError as error:
                self.problems.at(step, f"column {field.name!r}: {error}")
                usable = False
        return columns_of(schema) if usable else None

    def record_problem(self, step: Step, columns: Columns, side: str) -> str | None:
        types = self.draft.side_types.get((step.name, side)) or self.draft.types.get(step.name)
        if self.inspector is None or types is None:
            return None
        from penstock.graph.inspect_arrow import record_problem  # noqa: PLC0415  imports Arrow

        return record_problem(types, columns)

    def call_columns(self, step: Step, columns: Columns) -> Columns | None:
        function = self.draft.functions.get((step.name, CALL))
        if self.inspector is None or not callable(function):
            return None
        from penstock.graph.inspect_arrow import empty_call_columns  # noqa: PLC0415  imports Arrow

        try:
            return empty_call_columns(function, columns)
        except PenstockError as error:
            self.problems.at(step, str(error))
            return None


@dataclass(frozen=True, slots=True)
class _Wiring:
    """Turns the steps and edges of a layout into compiled steps and compiled edges.

    ``schemes`` has the scheme with which the job begins, of each step that has several.
    """

    graph: LogicalGraph
    layout: Layout
    flows: Flows
    draft: GraphDraft
    schemes: Mapping[str, str]

    def nodes(self, steps: list[Step]) -> tuple[CompiledStep, ...]:
        number = {s.name: i for i, s in enumerate(steps)}
        return tuple(self._node(s, number) for s in steps)

    def _node(self, step: Step, number: dict[str, int]) -> CompiledStep:
        inside = tuple(Link(number[i.step], i.output) for i in step.inputs if i.step in number)
        flow = self.flows[step.name, MAIN] if not step.inputs else input_flow(step, self.flows)
        function = self.draft.functions.get((step.name, CALL))
        return CompiledStep(
            name=step.name,
            parameters=step.parameters,
            inputs=inside or (() if not step.inputs else (Link(ENTRY, MAIN),)),
            edges=tuple((e.input.output, e.plan.index) for e in self.layout.edges if e.input.step == step.name),
            columns=flow.columns or (),
            outputs={o: self.flows[step.name, o].columns or () for o in step.outputs},
            time=flow.time,
            keys=step.keys,
            function=function if callable(function) else None,
            connector=self.draft.functions.get((step.name, CONNECTOR)),
            sides=tuple(self._side(step, side) for side in step.sides) if step.has_sides else (),
            types=self.draft.types.get(step.name),
            handlers=self._handlers(step),
            migration=self._migration(step.name),
            timed=is_timed(self.graph, step),
        )

    def _handlers(self, step: Step) -> "dict[str, Callable[..., object]]":
        named = step.parameters.on_timer if isinstance(step.parameters, Process | Connect) else ()
        found = {handler.timer: self.draft.functions.get((step.name, timer_role(handler.timer))) for handler in named}
        return {timer: function for timer, function in found.items() if callable(function)}

    def _migration(self, step: str) -> Migration | None:
        function = self.draft.functions.get((step, MIGRATE))
        return (self.draft.earlier[step], function) if callable(function) else None

    def _side(self, step: Step, side: str) -> CompiledSide:
        flow = input_flow(step, self.flows, side)
        edges = (e for e in self.layout.edges if e.receiver is step and e.input.side == side)
        function = self.draft.functions.get((step.name, CALL_RIGHT if side == RIGHT else CALL))
        entry = next(i for i in step.inputs if i.side == side)
        table = self.graph.step(entry.step).parameters if is_side(entry) else None
        return CompiledSide(
            side,
            flow.columns or (),
            flow.time,
            table.on if isinstance(table, SideTable) else step.keys_of(side),
            tuple(e.plan.index for e in edges),
            function if callable(function) else None,
            self.draft.side_types.get((step.name, side)),
            _side_is_timed(self.graph, step, side),
            entry.step if is_side(entry) else "",
            isinstance(table, SideTable) and table.loads_first,
            table.load_until if isinstance(table, SideTable) else None,
        )

    def edge(self, edge: Edge) -> CompiledEdge:
        flow = self.flows[edge.input.step, edge.input.output]
        schemes = (ONLY_FUNCTION,) if edge.input.schemes is ABSENT else edge.input.schemes.names
        roles = {scheme: (edge.receiver.name, partition_role(edge.port, scheme)) for scheme in schemes}
        found = {scheme: self.draft.functions.get(role) for scheme, role in roles.items()}
        return CompiledEdge(
            edge.plan,
            edge.input.output,
            flow.columns or (),
            edge.input.keys,
            is_timed(self.graph, self.graph.step(edge.input.step)),
            {scheme: function for scheme, function in found.items() if callable(function)},
            edge.input.side,
            self.schemes.get(edge.receiver.name, ""),
        )


def is_timed(graph: LogicalGraph, step: Step) -> bool:
    """Return whether the rows of a step come from a source with event time."""
    if isinstance(step.parameters, Source):
        return step.parameters.event_time is not None
    return any(is_timed(graph, graph.step(i.step)) for i in step.inputs if not is_side(i))


def _check_times(graph: LogicalGraph, flows: Flows, draft: GraphDraft, problems: Problems) -> None:
    """Refuse states that need an event time which their rows have not."""
    for step in graph.steps:
        types = draft.types.get(step.name)
        handlers = step.parameters.on_timer if isinstance(step.parameters, Process | Connect) else ()
        state, timers = None if types is None else types.state, event_timers(types, [h.timer for h in handlers])
        lives = state is not None and state.ttl_us is not None and state.time is TimeKind.EVENT
        sides = [side for side in step.sides if side in PARTITIONED]
        timeless = any(input_flow(step, flows, side).time is None for side in sides)
        if state is not None and lives and timeless:
            problems.at(
                step,
                f"the ttl of {state.name} ({state.place}) goes by event time, and the rows have none: name the column "
                'at the source (event_time, eventTime), keep it in all steps up to here, or write time="clock"',
            )
        if timers and not all(_side_is_timed(graph, step, side) for side in sides):
            problems.at(
                step,
                f"{', '.join(timers)}: a ps.Timer needs event time, and no source has it: give one event_time, "
                "eventTime (a ps.ClockTimer needs none)",
            )


def _check_tables(graph: LogicalGraph, bounded: dict[str, bool], problems: Problems) -> None:
    """Refuse a table that would never be loaded."""
    for step in graph.steps:
        match step.parameters:
            case Join(as_of=AsOf.NOW, load_until=loaded):
                sources = _sources_of(graph, step, RIGHT)
            case SideTable(load_until=loaded) as table if table.loads_first:
                sources = _sources_of(graph, step)
            case _:
                continue
        endless = [name for name in sources if not bounded[name]]
        if endless and loaded in (ABSENT, None):
            problems.at(
                step,
                f"the table is loaded to its end first, and source {endless[0]!r} has no end: say up to which event "
                "time it is loaded (load_until, loadUntil)",
            )


def _sources_of(graph: LogicalGraph, step: Step, side: str | None = None) -> list[str]:
    """List the sources from which the rows of a side come; None: of all sides."""
    if isinstance(step.parameters, Source):
        return [step.name]
    read = (i.step for i in step.inputs if side in (None, i.side))
    return list(dict.fromkeys(name for each in read for name in _sources_of(graph, graph.step(each))))


def _side_is_timed(graph: LogicalGraph, step: Step, side: str) -> bool:
    return any(is_timed(graph, graph.step(i.step)) for i in step.inputs if i.side == side)
