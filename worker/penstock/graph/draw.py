"""Draws the plan as text and as Mermaid. ``draw_svg`` has a file of its own and is exported here."""

from penstock.contract.graph import (
    LATE,
    MAIN,
    Input,
    Sink,
    Source,
)
from penstock.contract.plan import Partitioning
from penstock.graph.compiled import CompiledEdge, CompiledJob, CompiledStage, CompiledStep
from penstock.graph.describe import describe, edge_text, stage_text
from penstock.graph.svg import draw_svg


def order_notes(job: CompiledJob) -> list[str]:
    """List the round-robin edges. Behind each of them the order of rows per key is not kept."""
    names = {s.plan.index: s.plan.name for s in job.stages}
    return [
        f"order per key is not kept behind {names[e.plan.sender]} -> {names[e.plan.receiver]} (round-robin)"
        for e in job.edges
        if e.plan.partitioning is Partitioning.ROUND_ROBIN
    ]


def draw_text(job: CompiledJob) -> str:
    """Draw the plan as lines of text: each stage, the edges into it, and its steps."""
    lines = [f"{job.name}: {job.plan.max_key_groups} key groups, fingerprint {job.plan.fingerprint}"]
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
    """Name the steps that a chained step reads, unless it reads only the step above it."""
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
            edge = next((e for e in job.edges if _joins(job, e, entry, step.name)), None)
            if edge is not None:
                label = edge_text(edge)
            arrow = f'-- "{label}" -->' if label else "-->"
            lines.append(f"  {_id(entry.step)} {arrow} {_id(step.name)}")
    return "\n".join(lines)


def _joins(job: CompiledJob, edge: CompiledEdge, entry: Input, receiver: str) -> bool:
    into = job.stages[edge.plan.receiver].plan.name == receiver and edge.side == entry.side
    return into and any(n.name == entry.step for n in job.stages[edge.plan.sender].nodes)


def _id(name: str) -> str:
    return "n_" + name.replace("-", "_")


def _box(job: CompiledJob, node: CompiledStep) -> str:
    text = f"<b>{node.name}</b><br/>{_kind(job, node.name)}"
    opening, closing = ("([", "])") if isinstance(node.parameters, Source | Sink) else ("[", "]")
    return f'{_id(node.name)}{opening}"{text}"{closing}'


__all__ = ["LATE", "describe", "draw_mermaid", "draw_svg", "draw_text", "edge_text", "stage_text"]
