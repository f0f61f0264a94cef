"""Checks the shape of a graph before its columns: references, order, keys and connectors."""

from penstock.base import limits
from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.connectors import ConnectorKind, Role, connector_kinds, option_row
from penstock.contract.graph import (
    DEAD_LETTER,
    LATE,
    LATE_RIGHT,
    LEFT,
    MAIN,
    ONLY,
    RIGHT,
    SHED,
    STATEFUL,
    Connector,
    LogicalGraph,
    Lookup,
    Sink,
    Source,
    Step,
)
from penstock.contract.plan import Partitioning
from penstock.contract.reader import Origin, Reader
from penstock.contract.schema import Plain
from penstock.contract.side_inputs import SideTable
from penstock.graph.draft import CONNECTOR, GraphDraft
from penstock.graph.problems import Problems
from penstock.graph.side_input import is_side

FOLDERS = {"parquet": "path", "json": "path", "csv": "path", "s3": "url"}  # sinks of files: what names their folder
PARTITIONED = (ONLY, LEFT, RIGHT)  # the sides whose rows go to one task each; those of other sides go to all


def check_shape(draft: GraphDraft, job: str) -> LogicalGraph:
    """Return the graph, with each step after its inputs. Raises ConfigError with all problems."""
    problems = Problems(draft)
    if not draft.steps:
        problems.in_graph("the job has no steps")
    if len(draft.steps) > limits.STEPS_MAX:
        problems.in_graph(f"the job has {len(draft.steps)} steps; at most {limits.STEPS_MAX} are allowed")
    problems.raise_if_any()
    given = [_keyed_by_target(step, problems) for step in draft.steps]
    steps = {s.name: s for s in given}
    for step in given:
        _check_inputs(step, steps, problems)
        _check_keys(step, problems)
        _check_connector(step, draft, problems)
    _check_choices(given, problems)
    _check_folders(given, problems)
    problems.raise_if_any()
    graph = LogicalGraph(job, _sorted(given, problems))
    for step in graph.steps:
        _check_outputs(step, graph, problems)
    problems.raise_if_any()
    return graph


def _keyed_by_target(step: Step, problems: Problems) -> Step:
    """Return a sink that overwrites rows with its inputs keyed by the target's key: two tasks have no order."""
    connector = step.parameters.connector if isinstance(step.parameters, Sink) else None
    kind = connector_kinds(Role.SINK).get(connector.kind) if connector is not None else None
    names = connector.options.get(kind.keyed_by) if connector is not None and kind is not None else None
    if not isinstance(names, str):
        return step
    keys = tuple(name.strip() for name in names.split(","))
    if any(i.partitioning is not None and i.keys != keys for i in step.inputs):
        problems.at(step, f"its rows go to tasks by the target's key ({', '.join(keys)}): take keyBy or partition away")
    inputs = (replace(i, partitioning=Partitioning.KEY, keys=keys, function=None) for i in step.inputs)
    return replace(step, inputs=tuple(inputs))


def _check_inputs(step: Step, steps: dict[str, Step], problems: Problems) -> None:
    if isinstance(step.parameters, Source) == bool(step.inputs):
        problems.at(step, "a source must not read a step" if step.inputs else "reads nothing")
    for entry in step.inputs:
        if entry.step not in steps:
            problems.at(step, unknown("step", entry.step, steps))
            continue
        outputs = steps[entry.step].outputs
        if entry.output not in outputs:
            problems.at(step, _no_output(entry.step, entry.output, outputs))
        if is_side(entry) and not isinstance(steps[entry.step].parameters, SideTable):
            problems.at(step, f"side input {entry.step!r} is no side table: it must be a step with side")
        if entry.partitioning is Partitioning.CUSTOM and entry.function is None and entry.schemes is ABSENT:
            problems.at(step, "a custom partitioning needs a function")


def _check_choices(steps: list[Step], problems: Problems) -> None:
    with_schemes = [step for step in steps if any(i.schemes is not ABSENT for i in step.inputs)]
    if len(with_schemes) > limits.SCHEMES_MAX:
        problems.in_graph(f"{len(with_schemes)} steps have schemes; at most {limits.SCHEMES_MAX} may")


def _no_output(step: str, output: str, outputs: tuple[str, ...]) -> str:
    if not outputs:
        return f"step {step!r} is a sink: nothing can be read from it"
    if output == DEAD_LETTER:
        return f"step {step!r} has no output 'dead-letter': set onError: dead-letter at this step"
    if output == SHED:
        return f"step {step!r} has no output 'shed': only a ps.SeqNode that calls send_next_if has one"
    return f"{unknown('output', output, outputs)} (of step {step!r})"


def _check_keys(step: Step, problems: Problems) -> None:
    keyed = [i.partitioning is Partitioning.KEY for i in step.inputs if i.side in PARTITIONED]
    if any(keyed) and not all(keyed):
        problems.at(step, "some inputs are keyed and some are not")
    if isinstance(step.parameters, STATEFUL) and not any(keyed):
        problems.at(step, "keeps state for each key: its input must be keyed (key_by, keyBy)")
    if len({len(i.keys) for i in step.inputs if i.side in PARTITIONED}) > 1:
        problems.at(step, "its inputs are keyed by different numbers of columns")
    for side in () if isinstance(step.parameters, Sink) else step.sides:
        keys = [(i.step, i.keys) for i in step.inputs if i.side == side]
        if any(columns != keys[0][1] for _, columns in keys):
            told = "; ".join(f"{name}: {', '.join(columns)}" for name, columns in keys if columns)
            problems.at(step, f"its inputs are keyed by different columns ({told}): call key_by behind the union")
    for entry in step.inputs:
        if len(set(entry.keys)) != len(entry.keys):
            problems.at(step, f"a key column is named twice: {', '.join(entry.keys)}")


def _check_connector(step: Step, draft: GraphDraft, problems: Problems) -> None:
    match step.parameters:
        case Source(connector):
            role = Role.SOURCE
        case Sink(connector):
            role = Role.SINK
        case Lookup(connector):
            role = Role.LOOKUP
        case _:
            return
    if (step.name, CONNECTOR) in draft.functions:
        return
    kinds = connector_kinds(role)
    if connector.kind not in kinds:
        problems.at(step, unknown(str(role), connector.kind, kinds))
        return
    for text in _option_problems(connector, kinds[connector.kind]):
        problems.at(step, text)


def _check_folders(steps: list[Step], problems: Problems) -> None:
    """Refuse two sinks that would give their files equal names: those have ``_`` in the place of ``-``."""
    known: dict[tuple[str, str, str], str] = {}
    for step in steps:
        connector = step.parameters.connector if isinstance(step.parameters, Sink) else None
        if connector is None or connector.kind not in FOLDERS:
            continue
        place = str(connector.options.get(FOLDERS[connector.kind])).rstrip("/")
        other = known.setdefault((connector.kind, place, step.name.replace("-", "_")), step.name)
        if other != step.name:
            problems.at(
                step,
                f"its files would have the names of those of sink {other!r}, in the same folder: name another folder,"
                " or give the sink another name",
            )


def _option_problems(connector: Connector, kind: ConnectorKind) -> list[str]:
    """Check the options by the same rules as a job file's, and return what is wrong."""
    given: dict[str, Plain] = {n: v for n, v in connector.options.items() if v is not None}
    row = option_row(kind)
    reader = Reader(Origin(kind.name))
    reader.read(replace(row, fields=tuple(replace(f, name=f.target) for f in row.fields)), given, "")
    path = given.get("path")
    if isinstance(path, str) and "://" in path:
        reader.problems.append(
            f"{path!r} is an address, and {kind.name} reads and writes folders: ps.s3(url) writes to S3"
        )
    return reader.problems


def _sorted(steps: list[Step], problems: Problems) -> tuple[Step, ...]:
    """Order the steps so that each comes after its inputs. Otherwise the given order is kept."""
    done: dict[str, Step] = {}
    waiting = list(steps)
    while waiting:
        ready = next((s for s in waiting if all(i.step in done for i in s.inputs)), None)
        if ready is None:
            _report_cycle(waiting, problems)
            problems.raise_if_any()
            raise AssertionError("a cycle raises")
        done[ready.name] = ready
        waiting.remove(ready)
    return tuple(done.values())


def _report_cycle(waiting: list[Step], problems: Problems) -> None:
    """Follow inputs backwards from a step until one repeats, and report this cycle."""
    by_name = {s.name: s for s in waiting}
    path = [waiting[0].name]
    while path.count(path[-1]) == 1:
        step = by_name[path[-1]]
        path.append(next(i.step for i in step.inputs if i.step in by_name))
    cycle = path[path.index(path[-1]) :]
    problems.at(by_name[cycle[0]], f"reads its own output: {' <- '.join(cycle)}")


def _check_outputs(step: Step, graph: LogicalGraph, problems: Problems) -> None:
    """Report outputs that nothing reads, because their rows would be lost.

    The outputs of late rows and of rows that are shed are an exception: their rows are counted and dropped.
    """
    for output in step.outputs:
        if output not in (LATE, LATE_RIGHT, SHED) and not graph.readers_of(step.name, output):
            what = "nothing reads it" if output == MAIN else f"nothing reads its output {output!r}"
            problems.at(step, f"{what}; end every branch with a sink")
