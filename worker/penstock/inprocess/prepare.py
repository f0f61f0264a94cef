"""From what a user hands over (a job, or the function that builds it) to a compiled job."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.connectors.open_connectors import ConnectorInspector
from penstock.contract.call_types import CompileChoice
from penstock.contract.connectors import Role
from penstock.contract.graph import (
    LEFT,
    PYTHON_CONNECTOR,
    RIGHT,
    Connect,
    Connector,
    Filter,
    FlatMap,
    Map,
    Process,
    Sink,
    Source,
    Step,
)
from penstock.contract.job_reader import read_stream_job
from penstock.contract.schema import Plain
from penstock.graph import JobFile
from penstock.graph.builder import Job
from penstock.graph.compiled import CompiledJob
from penstock.graph.connect import check_user_connector
from penstock.graph.draft import CONNECTOR, GraphDraft, label
from penstock.graph.load import compile_draft, run_function
from penstock.graph.parameters import Parameters
from penstock.inprocess.collect import CollectSink
from penstock.inprocess.list_source import Item, ListSource

JobLike = Job | Callable[[Parameters], Job]
Inputs = Mapping[str, Iterable[Item] | object]
_PUSHED = "ingest"
_PLAIN: dict[str, Plain] = {
    "apiVersion": "penstock.dev/v1alpha1",
    "kind": "StreamJob",
    "metadata": {"name": "job"},
    "spec": {"job": {"entrypoint": "ps.run:job"}},
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A compiled job, and those of its sources and sinks that the run has to know, by step."""

    job: CompiledJob
    lists: Mapping[str, ListSource]
    sinks: Mapping[str, CollectSink]


def prepare(
    job: JobLike,
    params: Mapping[str, object] | None,
    inputs: Inputs | None,
    collect: Collection[str] | bool,
    *,
    pushed: bool = False,
    compiled: CompileChoice | None = None,
) -> Prepared:
    """Build, change and check a job. Raises ConfigError as ``penstock validate`` does.

    ``inputs`` are read in the place of the sources of these names. ``collect`` names the sinks whose
    rows are collected instead of written; True: all. With ``pushed``, a list without end is read in the
    place of every other source, unless this is an object of Python. ``compiled`` replaces what steps say.
    """
    draft = _draft(job, params or {})
    if compiled is not None:
        draft.steps[:] = [_choosing(step, compiled) for step in draft.steps]
    _replace_sources(draft, {**(_pushed_lists(draft) if pushed else {}), **(inputs or {})})
    _replace_sinks(draft, collect)
    made = compile_draft(JobFile(read_stream_job(_PLAIN), _PLAIN), draft, ConnectorInspector())
    connectors = {name: own for (name, role), own in draft.functions.items() if role == CONNECTOR}
    sinks = {name: own for name, own in connectors.items() if isinstance(own, CollectSink)}
    for name, sink in sinks.items():
        sink.step = name
    lists = {name: own for name, own in connectors.items() if isinstance(own, ListSource)}
    return Prepared(made, lists, sinks)


def _draft(job: JobLike, params: Mapping[str, object]) -> GraphDraft:
    if isinstance(job, Job):
        if params:
            raise ConfigError("parameters are for the function that builds the job: give that")
        draft = job.draft
    elif callable(job):
        given = Parameters({name: str(value) for name, value in params.items()})
        draft = run_function(job, given, label(job))
    else:
        raise ConfigError(f"{job!r} is no ps.Job, and no function that builds one")
    functions, types, sides = dict(draft.functions), dict(draft.types), dict(draft.side_types)
    return GraphDraft(list(draft.steps), functions, types, sides, dict(draft.earlier), dict(draft.places))


def _choosing(step: Step, compiled: CompileChoice) -> Step:
    """Return a step whose functions with types, if it has any, are compiled as ``compiled`` says."""
    if isinstance(step.parameters, Connect):
        calls = {side: replace(getattr(step.parameters, side), compiled=compiled) for side in (LEFT, RIGHT)}
        return replace(step, parameters=replace(step.parameters, **calls))
    if not isinstance(step.parameters, Map | Filter | FlatMap | Process):
        return step
    call = replace(step.parameters.call, compiled=compiled)
    return replace(step, parameters=replace(step.parameters, call=call))


def _replace_sources(draft: GraphDraft, inputs: Inputs) -> None:
    sources = {s.name: s for s in draft.steps if isinstance(s.parameters, Source)}
    for name, given in inputs.items():
        if name not in sources:
            raise ConfigError(f"inputs: {unknown('source', name, sources)}")
        _connect(draft, sources[name], _as_source(sources[name], given))
    for name, step in sources.items():
        assert isinstance(step.parameters, Source)
        if step.parameters.connector.kind == _PUSHED and name not in inputs:
            raise ConfigError(
                f"{draft.place(name)}: step {name!r}: nobody can push rows to a job in one process: "
                f"give them, inputs={{{name!r}: [...]}}"
            )


def _pushed_lists(draft: GraphDraft) -> dict[str, ListSource]:
    """Return a list without end for each source that is no object of Python and declares its columns."""
    found = {step.name: step.parameters for step in draft.steps if isinstance(step.parameters, Source)}
    return {
        name: ListSource(columns=source.columns, ends=False)
        for name, source in found.items()
        if source.connector.kind != PYTHON_CONNECTOR and source.columns
    }


def _as_source(step: Step, given: Any) -> object:
    """Return a source that follows ``ps.Source``: the one given, or one of a list's rows."""
    if hasattr(given, "splits"):
        check_user_connector(f"inputs: source {step.name!r}", given, Role.SOURCE)
        return given
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        raise ConfigError(f"inputs: source {step.name!r}: {given!r} is no list of rows")
    assert isinstance(step.parameters, Source)
    try:
        return ListSource(given, columns=step.parameters.columns or None)
    except ConfigError as error:
        raise ConfigError(f"inputs: source {step.name!r}: {error}") from error


def _replace_sinks(draft: GraphDraft, collect: Collection[str] | bool) -> None:
    sinks = {s.name: s for s in draft.steps if isinstance(s.parameters, Sink)}
    names = (sinks if collect else ()) if isinstance(collect, bool) else collect
    for name in names:
        if name not in sinks:
            raise ConfigError(f"collect: {unknown('sink', name, sinks)}")
        if not isinstance(draft.functions.get((name, CONNECTOR)), CollectSink):
            _connect(draft, sinks[name], CollectSink())


def _connect(draft: GraphDraft, step: Step, own: object) -> None:
    """Let a step read or write through an object of Python."""
    assert isinstance(step.parameters, Source | Sink)
    connector = Connector(PYTHON_CONNECTOR, {"class": label(type(own))})
    changed = replace(step, parameters=replace(step.parameters, connector=connector))
    draft.steps[draft.steps.index(step)] = changed
    draft.functions[step.name, CONNECTOR] = own
