"""The plan as text and as Mermaid; ``draw_svg`` is in a file of its own and named here too."""

from penstock.contract.graph import (
    LATE,
    MAIN,
    Aggregate,
    Compute,
    Filter,
    FlatMap,
    Map,
    Parameters,
    Process,
    Sink,
    Source,
    Split,
    Window,
)
from penstock.contract.plan import Partitioning
from penstock.graph.compiled import CompiledEdge, CompiledJob, CompiledStage, Node
from penstock.graph.svg import draw_svg

_US = ((3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"), (1_000, "ms"), (1, "us"))


def duration_text(us: int) -> str:
    """Spell microseconds with the largest unit that fits: 90 s, not 1.5 m."""
    return next((f"{us // size}{unit}" for size, unit in _US if us and us % size == 0), "0s")


def describe(parameters: Parameters) -> str:
    """Say in a few words what a step does."""
    match parameters:
        case Source(connector, event_time=time):
            options = _options(connector.options)
            return f"{connector.kind}{options}" + (f", event time {time.column}" if time else "")
        case Sink(connector):
            return f"{connector.kind}{_options(connector.options)}"
        case Split(column, into):
            return f"{column} at spaces into {into}"
        case Map(call) | FlatMap(call) | Filter(call) | Process(call):
            return f"{call.function.replace('<locals>.', '')} per {call.per}"
        case Aggregate(compute):
            return _computes(compute)
        case Window(size_us, compute, allowed_lateness_us=late):
            lateness = f" + {duration_text(late)}" if late else ""
            return f"{duration_text(size_us)}{lateness}: {_computes(compute)}"


def _options(options: dict[str, str | int | float | bool | None]) -> str:
    said = {n: v for n, v in options.items() if v}  # nothing, no and 0 mean: not wanted
    return "".join(f" {v}" if n == "path" else f" {n}={v}" for n, v in said.items())


def _computes(compute: tuple[Compute, ...]) -> str:
    return ", ".join(
        f"{c.name}={c.function}({c.column or ''})"
        if c.name != str(c.function) or c.column
        else c.name
        for c in compute
    )


def edge_text(edge: CompiledEdge) -> str:
    """Say how rows of an edge are dealt out: ``key(word)``, ``forward``."""
    how = str(edge.plan.partitioning)
    keys = f"({', '.join(edge.keys)})" if edge.keys else ""
    side = "" if edge.output == MAIN else f" {edge.output}"
    return f"{how}{keys}{side}"


def stage_text(stage: CompiledStage) -> str:
    """Name a stage and how parallel it is."""
    parallel = stage.plan.parallelism
    tasks = "one task a worker" if parallel is None else f"{parallel} task{'s' * (parallel != 1)}"
    return f"stage {stage.plan.index}: {tasks}" + (", keyed" if stage.plan.keyed else "")


def order_notes(job: CompiledJob) -> list[str]:
    """Say where the order of rows per key is not kept: behind a round-robin hop."""
    names = {s.plan.index: s.plan.name for s in job.stages}
    return [
        f"order per key is not kept behind {names[e.plan.sender]} -> "
        f"{names[e.plan.receiver]} (round-robin)"
        for e in job.edges
        if e.plan.partitioning is Partitioning.ROUND_ROBIN
    ]


def draw_text(job: CompiledJob) -> str:
    """Draw the plan as a tree of lines."""
    lines = [
        f"{job.name}: {job.plan.max_key_groups} key groups, fingerprint {job.plan.fingerprint}"
    ]
    for stage in job.stages:
        lines += ["", stage_text(stage)]
        for edge in job.edges:
            if edge.plan.receiver == stage.plan.index:
                lines.append(f"  <- stage {edge.plan.sender} {edge_text(edge)}")
        width = max(len(n.name) for n in stage.nodes)
        for number, node in enumerate(stage.nodes):
            kind = _kind(job, node.name)
            what = describe(node.parameters) + _from(stage, number)
            lines.append(f"  {node.name:<{width}}  {kind:<9}  {what}")
    notes = order_notes(job)
    return "\n".join([*lines, *([""] if notes else []), *notes])


def _from(stage: CompiledStage, number: int) -> str:
    """Name what a chained step reads, where that is not the step above it."""
    node = stage.nodes[number]
    origins = [(stage.nodes[i.node].name, i.output, i.node) for i in node.inputs if i.node >= 0]
    if not origins or (len(origins) == 1 and origins[0][2] == number - 1 and origins[0][1] == MAIN):
        return ""
    return "  <- " + ", ".join(n if o == MAIN else f"{n}.{o}" for n, o, _ in origins)


def _kind(job: CompiledJob, name: str) -> str:
    return job.graph.step(name).kind


def draw_mermaid(job: CompiledJob) -> str:
    """Draw the plan as a Mermaid flow chart, one box per stage."""
    lines = ["flowchart LR"]
    for stage in job.stages:
        lines.append(f'  subgraph s{stage.plan.index}["{stage_text(stage)}"]')
        lines += [f"    {_box(job, node)}" for node in stage.nodes]
        lines.append("  end")
    for step in job.graph.steps:
        for entry in step.inputs:
            label = "" if entry.output == MAIN else entry.output
            edge = next((e for e in job.edges if _joins(job, e, entry.step, step.name)), None)
            if edge is not None:
                label = edge_text(edge)
            arrow = f'-- "{label}" -->' if label else "-->"
            lines.append(f"  {_id(entry.step)} {arrow} {_id(step.name)}")
    return "\n".join(lines)


def _joins(job: CompiledJob, edge: CompiledEdge, sender: str, receiver: str) -> bool:
    into = job.stages[edge.plan.receiver].plan.name == receiver
    return into and any(n.name == sender for n in job.stages[edge.plan.sender].nodes)


def _id(name: str) -> str:
    return "n_" + name.replace("-", "_")


def _box(job: CompiledJob, node: Node) -> str:
    text = f"<b>{node.name}</b><br/>{_kind(job, node.name)}"
    opening, closing = ("([", "])") if isinstance(node.parameters, Source | Sink) else ("[", "]")
    return f'{_id(node.name)}{opening}"{text}"{closing}'


__all__ = ["LATE", "describe", "draw_mermaid", "draw_svg", "draw_text", "edge_text", "stage_text"]
