"""Turns ``job.graph`` into a draft. A step without ``inputs`` reads the step before it in the file."""

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.contract.call_types import WholeCall
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.declared_graph import DeclaredGraph, DeclaredStep, RightSide, Strategy
from penstock.contract.graph import (
    LEFT,
    MAIN,
    RIGHT,
    Call,
    Connect,
    Enrich,
    Filter,
    FlatMap,
    Input,
    Join,
    Map,
    Process,
    Session,
    Source,
    Step,
    Window,
    WindowAll,
)
from penstock.contract.plan import Partitioning
from penstock.contract.reader import Origin
from penstock.contract.schemes import Schemes
from penstock.graph.draft import CALL, GraphDraft, partition_role
from penstock.graph.enriched import check_enrich, check_named_errors
from penstock.graph.entrypoint import resolve
from penstock.graph.migrations import add_migration
from penstock.graph.scheme_functions import ONLY_FUNCTION, schemes_of
from penstock.graph.side_input import side_edge
from penstock.graph.timer_handlers import check_handlers, timer_role
from penstock.graph.typed_calls import connected_types, typed_parameters
from penstock.graph.window_steps import check_whole
from penstock.graph.window_tops import all_step, led_to_parts, led_to_top, parts_name, top_name, top_step

STEPS_PATH = "spec.job.graph.steps"
_PARTITIONING = {
    Strategy.FORWARD: Partitioning.FORWARD,
    Strategy.BROADCAST: Partitioning.BROADCAST,
    Strategy.ROUND_ROBIN: Partitioning.ROUND_ROBIN,
    Strategy.CUSTOM: Partitioning.CUSTOM,
}


def declare(graph: DeclaredGraph, origin: Origin, with_functions: bool = True) -> GraphDraft:
    """Build the draft of a declarative graph. Imports the user's functions if ``with_functions``.

    Raises ConfigError, with the place, for a reference to a step or function that does not exist.
    """
    draft = GraphDraft()
    previous: DeclaredStep | None = None
    names = [name for s in graph.steps for name in (s.name, *([top_name(s.name)] if s.window_top else []))]
    tops = {s.name for s in graph.steps if s.window_top}
    alls = {s.name for s in graph.steps if s.window_all}
    for index, entry in enumerate(graph.steps):
        place = origin.at(f"{STEPS_PATH}[{index}]")
        draft.places[entry.name] = place
        draft.steps.append(
            Step(
                entry.name,
                entry.parameters,
                _inputs(entry, previous, names, place),
                1 if entry.side is not None else entry.parallelism,
            )
        )
        if with_functions:
            _import_functions(draft, entry, place)
        if entry.window_all is not None:
            _add_parts(draft, entry.window_all, place)
        if entry.window_top is not None:
            _add_top(draft, entry, names, place)
        previous = entry
    draft.steps = [led_to_parts(led_to_top(step, tops), alls) for step in draft.steps]
    return draft


def _add_parts(draft: GraphDraft, windows: WindowAll, place: str) -> None:
    """Put the step that computes the parts before the newest step of the draft, which puts them together."""
    whole = draft.steps.pop()
    parts = parts_name(whole.name)
    draft.places[parts] = place
    draft.steps.append(replace(whole, name=parts, parameters=windows.parts))
    draft.steps.append(all_step(whole.name, windows, whole.parallelism))


def _add_top(draft: GraphDraft, entry: DeclaredStep, names: list[str], place: str) -> None:
    step = top_name(entry.name)
    if names.count(step) > 1:
        raise ConfigError(f"{place}: step {step!r} is there twice: top of step {entry.name!r} has this name")
    assert entry.window_top is not None, "an entry with top"
    draft.places[step] = place
    draft.steps.append(top_step(entry.name, entry.window_top, entry.parallelism))


def _inputs(entry: DeclaredStep, previous: DeclaredStep | None, names: list[str], place: str) -> tuple[Input, ...]:
    if isinstance(entry.parameters, Source):
        if entry.inputs or entry.key_by or entry.partition:
            raise ConfigError(f"{place}: step {entry.name!r} is a source and reads no other step")
        return ()
    references = entry.inputs or ((previous.name,) if previous is not None else ())
    if not references:
        raise ConfigError(f"{place}: step {entry.name!r} reads nothing: the first step must be a source")
    if entry.two_sided is not None:
        return _of_two_sides(entry, entry.two_sided, references, (names, place))
    partitioning = Partitioning.KEY if entry.key_by else None
    if entry.partition is not None:
        partitioning = _PARTITIONING[entry.partition]
    tables = (_reference(r, entry.name, names, place).step for r in entry.side_inputs)
    own = (
        replace(
            _reference(r, entry.name, names, place),
            partitioning=partitioning,
            keys=entry.key_by,
            function=entry.partition_function,
            schemes=_schemes(entry, place),
        )
        for r in references
    )
    return (*own, *(side_edge(table.replace("-", "_"), table) for table in tables))


def _schemes(entry: DeclaredStep, place: str) -> Schemes | Absent:
    if entry.use is None:
        return ABSENT
    return schemes_of(f"{place}: step {entry.name!r}", entry.partition_schemes.items(), entry.use)


def _of_two_sides(
    entry: DeclaredStep, right: RightSide, left: tuple[str, ...], known: tuple[list[str], str]
) -> tuple[Input, ...]:
    """Return the inputs of a step with two. ``known`` has the names of all steps, and the place of the entry."""
    right_keys = right.right_key_by or entry.key_by
    if len(right_keys) != len(entry.key_by):
        raise ConfigError(
            f"{known[1]}: step {entry.name!r}: keyBy has {len(entry.key_by)} columns and rightKeyBy "
            f"{len(right_keys)}: each key column of the left side needs one of the right side"
        )
    sides = ((LEFT, left, entry.key_by), (RIGHT, right.right, right_keys))
    return tuple(
        replace(_reference(r, entry.name, *known), partitioning=Partitioning.KEY, keys=keys, side=side)
        for side, references, keys in sides
        for r in references
    )


def _reference(reference: str, reader: str, names: list[str], place: str) -> Input:
    step, _, output = reference.partition(".")
    if step not in names:
        raise ConfigError(f"{place}: step {reader!r}: {unknown('step', step, names)}")
    return Input(step, output or MAIN)


def _import_functions(draft: GraphDraft, entry: DeclaredStep, place: str) -> None:
    """Import the functions of an entry, which is the newest step of the draft."""
    match entry.parameters:
        case Map(call) | FlatMap(call) | Filter(call) | Process(call) | Enrich(call):
            function = draft.functions[entry.name, CALL] = resolve(call.function, place)
            about, sided = f"{place}: step {entry.name!r}", bool(entry.side_inputs)
            parameters, types = typed_parameters(entry.parameters, function, about, {}, sided=sided)
            draft.steps[-1] = replace(draft.steps[-1], parameters=parameters)
            if types is not None:
                draft.types[entry.name] = types
            if isinstance(entry.parameters, Enrich):
                check_enrich(entry.parameters, function, types, f"{place}: step {entry.name!r}")
                check_named_errors(entry.parameters, f"{place}: step {entry.name!r}")
            if isinstance(entry.parameters, Process):
                _import_handlers(draft, entry.name, entry.parameters, place)
        case Connect() as connect:
            _import_both(draft, entry.name, connect, place)
        case Window(whole=WholeCall() as whole) | Session(whole=WholeCall() as whole):
            function = draft.functions[entry.name, CALL] = resolve(whole.function, place)
            check_whole(function, f"{place}: step {entry.name!r}")
        case Join(call=Call() as call):
            draft.functions[entry.name, CALL] = resolve(call.function, place)
    references = {ONLY_FUNCTION: entry.partition_function, **entry.partition_schemes}
    partitioners = {name: resolve(each, place) for name, each in references.items() if each is not None}
    for index in range(max(1, len(entry.inputs))):
        draft.functions |= {(entry.name, partition_role(index, name)): f for name, f in partitioners.items()}


def _import_both(draft: GraphDraft, step: str, connect: Connect, place: str) -> None:
    """Import the functions of both inputs of a step."""
    functions = {side: resolve(getattr(connect, side).function, place) for side in (LEFT, RIGHT)}
    typed, types, both = connected_types(connect, functions, f"{place}: step {step!r}", {})
    draft.steps[-1] = replace(draft.steps[-1], parameters=typed)
    draft.connect(step, functions, types, both)
    _import_handlers(draft, step, connect, place)


def _import_handlers(draft: GraphDraft, step: str, process: Process | Connect, place: str) -> None:
    """Import the functions that are called when timers of a step fire."""
    handlers = {handler.timer: resolve(handler.function, place) for handler in process.on_timer}
    check_handlers(draft.types.get(step), handlers, f"{place}: step {step!r}", {})
    draft.functions |= {(step, timer_role(timer)): function for timer, function in handlers.items()}
    if process.migrate is not ABSENT:
        add_migration(draft, step, resolve(process.migrate, place), place, {})
