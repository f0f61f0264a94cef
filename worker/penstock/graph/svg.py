"""Draws the plan as SVG. Stages are placed in columns by their depth; steps are boxes in a stage."""

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from penstock.contract.graph import MAIN, Sink, Source
from penstock.graph.describe import describe, edge_text, stage_text

if TYPE_CHECKING:
    from penstock.graph.compiled import CompiledJob, CompiledStage

STEP_WIDTH, STEP_HEIGHT = 250, 48
STEP_GAP, PADDING, HEAD = 26, 20, 30
DETOUR = 10  # how far to the right an edge goes to pass other steps of its stage
COLUMN_GAP, ROW_GAP, MARGIN = 140, 32, 20
LABEL_WIDTH = 100
CHAR_WIDTH = 6.6  # of the 11 px font; a text that is too wide is cut
_COLOURS = {"source": "#d6e8fa", "sink": "#d8f0dc", "keyed": "#fdebc8", "plain": "#ffffff"}
_STYLE = (
    "text{font:12px 'Segoe UI',Helvetica,Arial,sans-serif;fill:#1c2733}"
    ".small,.head{font-size:11px;fill:#5a6876}"
    ".stage{fill:#f5f7f9;stroke:#c4ccd4}.step{stroke:#7d8b99}"
    ".edge{fill:none;stroke:#47566a;stroke-width:1.5}"
)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels. ``x`` and ``y`` are its upper left corner."""

    x: float
    y: float
    width: float
    height: float


def draw_svg(job: "CompiledJob") -> str:
    """Draw the plan. Returns the text of an SVG file that has no script, font file or link."""
    stages = place_stages(job)
    steps = {node.name: _step_box(stages[s.plan.index], i) for s in job.stages for i, node in enumerate(s.nodes)}
    width = max(b.x + b.width for b in stages.values()) + MARGIN
    height = max(b.y + b.height for b in stages.values()) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(job.name)}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#47566a"/></marker>'
        "</defs>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
        *(_stage_svg(s, stages[s.plan.index]) for s in job.stages),
        *_edges_svg(job, stages, steps),
        *(_step_svg(job, name, box) for name, box in steps.items()),
        "</svg>",
    ]
    return "\n".join(parts)


def place_stages(job: "CompiledJob") -> dict[int, Box]:
    """Place each stage one column to the right of its deepest sender, below earlier stages there."""
    depth: dict[int, int] = {}
    for stage in job.stages:
        senders = [e.plan.sender for e in job.edges if e.plan.receiver == stage.plan.index]
        depth[stage.plan.index] = max((depth[s] + 1 for s in senders), default=0)
    boxes: dict[int, Box] = {}
    bottom: dict[int, float] = {}
    width = STEP_WIDTH + 2 * PADDING
    for stage in job.stages:
        column = depth[stage.plan.index]
        x = MARGIN + column * (width + COLUMN_GAP)
        y = bottom.get(column, float(MARGIN))
        rows = len(stage.nodes)
        height = HEAD + rows * STEP_HEIGHT + (rows - 1) * STEP_GAP + PADDING
        boxes[stage.plan.index] = Box(x, y, width, height)
        bottom[column] = y + height + ROW_GAP
    return boxes


def _step_box(stage: Box, row: int) -> Box:
    y = stage.y + HEAD + row * (STEP_HEIGHT + STEP_GAP)
    return Box(stage.x + PADDING, y, STEP_WIDTH, STEP_HEIGHT)


def _stage_svg(stage: "CompiledStage", box: Box) -> str:
    return _rect(box, 'class="stage"', 10) + _text(
        box.x + PADDING, box.y + 19, stage_text(stage), "head", box.width - 2 * PADDING
    )


def _step_svg(job: "CompiledJob", name: str, box: Box) -> str:
    step = job.graph.step(name)
    colour = _COLOURS["plain"]
    if isinstance(step.parameters, Source):
        colour = _COLOURS["source"]
    elif isinstance(step.parameters, Sink):
        colour = _COLOURS["sink"]
    elif step.keys:
        colour = _COLOURS["keyed"]
    room = box.width - 20
    return (
        _rect(box, f'class="step" style="fill:{colour}"', 6)
        + _text(box.x + 10, box.y + 20, f"{name} · {step.kind}", "", room)
        + _text(box.x + 10, box.y + 37, describe(step.parameters), "small", room)
    )


def _edges_svg(job: "CompiledJob", stages: dict[int, Box], steps: dict[str, Box]) -> list[str]:
    parts: list[str] = []
    for edge in job.edges:
        sender = next(
            n.name for n in job.stages[edge.plan.sender].nodes if any(index == edge.plan.index for _, index in n.edges)
        )
        receiver = job.stages[edge.plan.receiver].plan.name
        parts.append(_curve(steps[sender], steps[receiver], edge_text(edge)))
    for stage in job.stages:
        for number, node in enumerate(stage.nodes):
            for link in node.inputs:
                if link.node >= 0:
                    label = "" if link.output == MAIN else link.output
                    upper = steps[stage.nodes[link.node].name]
                    parts.append(_chain(upper, steps[node.name], number - link.node, label))
    return parts


def _curve(sender: Box, receiver: Box, label: str) -> str:
    """Draw an edge from the right side of a step to the left side of another, with its label."""
    x1, y1 = sender.x + sender.width, sender.y + sender.height / 2
    x2, y2 = receiver.x, receiver.y + receiver.height / 2
    bend = x2 - LABEL_WIDTH  # from here on the line is straight and has space for the label
    half = (x1 + bend) / 2
    path = f"M{x1:.0f},{y1:.0f} C{half:.0f},{y1:.0f} {half:.0f},{y2:.0f} {bend:.0f},{y2:.0f} H{x2:.0f}"
    y = y2 - 6 if y1 >= y2 else y2 + 14
    return (
        f'<path class="edge" d="{path}" marker-end="url(#tip)"/>'
        f'<text class="small" x="{x2 - PADDING - 6:.0f}" y="{y:.0f}" text-anchor="end">'
        f"{escape(label)}</text>"
    )


def _chain(upper: Box, lower: Box, distance: int, label: str) -> str:
    """Draw downwards inside a stage; past steps in between along the right side."""
    x = upper.x + upper.width / 2
    if distance == 1:
        path = f"M{x:.0f},{upper.y + upper.height:.0f} V{lower.y:.0f}"
        at = (x + 6, (upper.y + upper.height + lower.y) / 2 + 4)
    else:
        right = upper.x + upper.width
        y1, y2 = upper.y + 0.75 * upper.height, lower.y + 0.5 * lower.height
        path = f"M{right:.0f},{y1:.0f} h{DETOUR:.0f} V{y2:.0f} H{right:.0f}"
        at = (right - CHAR_WIDTH * (len(label) + 1), lower.y - 8)
    text = f'<text class="small" x="{at[0]:.0f}" y="{at[1]:.0f}">{escape(label)}</text>'
    return f'<path class="edge" d="{path}" marker-end="url(#tip)"/>' + (text if label else "")


def _rect(box: Box, style: str, radius: int) -> str:
    return (
        f'<rect {style} x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" '
        f'height="{box.height:.0f}" rx="{radius}"/>'
    )


def _text(x: float, y: float, text: str, css: str, room: float) -> str:
    most = int(room / CHAR_WIDTH)
    cut = text if len(text) <= most else text[: most - 1] + "…"
    title = f"<title>{escape(text)}</title>" if cut != text else ""
    return f'<text class="{css}" x="{x:.0f}" y="{y:.0f}">{escape(cut)}{title}</text>'
