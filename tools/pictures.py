"""Draws the graphs of the published applications: ``python -m tools.pictures`` writes docs/applications/*.svg.

The papers draw operators from left to right, each as one shape, and write on an arrow how tuples are routed. So these
pictures show the steps of a job, not its stages: ``penstock graph -f svg`` draws those. A step is one column to the
right of the last step that it reads. In a column, steps and the lanes of longer arrows stand at the mean height of
what they read.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path

from penstock.base.values import replace
from penstock.contract.graph import MAIN, Filter, FlatMap, Input, LogicalGraph, Map, Sink, Source, Step
from penstock.graph import load_job

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "applications"
APPLICATIONS = (
    "wordcount",
    "fraud",
    "spike",
    "equipment",
    "linear_road",
    "linear_road_routing",
    "pipeline",
    "producer_consumer",
)
CONTRACTED = ("linear_road",)  # too many functions for one picture
WIDTH, HEIGHT = 118, 34
COLUMN_GAP, ROW_GAP, MARGIN = 96, 22, 16
FONT = "font-family=\"'Segoe UI',Helvetica,Arial,sans-serif\""
LABEL_SIZE = 9
HALO = 'stroke="#ffffff" stroke-width="3" paint-order="stroke"'
COLOURS = {"source": "#d6e8fa", "sink": "#d8f0dc", "keyed": "#fdebc8", "plain": "#ffffff"}
Places = dict[str, tuple[float, float]]
FUNCTIONS = (Map, Filter, FlatMap)


@dataclass(frozen=True, slots=True)
class Arrow:
    """A way of rows, and what is written on it. ``lanes`` are its places in the columns between."""

    sender: str
    receiver: str
    label: str
    lanes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """The steps that are drawn, and the arrows between them."""

    steps: tuple[Step, ...]
    arrows: tuple[Arrow, ...]


def picture(graph: LogicalGraph, *, contracted: bool) -> Picture:
    """Return what is drawn. ``contracted``: functions without state belong to the steps that they read."""
    by_name = {step.name: step for step in graph.steps}

    def origins(entry: Input) -> list[Input]:
        step = by_name[entry.step]
        if not contracted or not isinstance(step.parameters, FUNCTIONS):
            return [entry]
        return [replace(e, keys=entry.keys) for inner in step.inputs for e in origins(inner)]

    drawn = [s for s in graph.steps if not contracted or not isinstance(s.parameters, FUNCTIONS)]
    found = [Arrow(e.step, s.name, _label(e)) for s in drawn for entry in s.inputs for e in origins(entry)]
    column: dict[str, int] = {}
    for step in drawn:  # a step comes behind those that it reads
        column[step.name] = max((column[a.sender] + 1 for a in found if a.receiver == step.name), default=0)
    arrows = [
        Arrow(a.sender, a.receiver, a.label, tuple(f"{n} {a.sender} {a.receiver}" for n in between))
        for a in dict.fromkeys(found)
        for between in [range(column[a.sender] + 1, column[a.receiver])]
    ]
    return Picture(tuple(drawn), tuple(arrows))


def _label(entry: Input) -> str:
    way = _short(entry.keys) if entry.keys else entry.partitioning.value.replace("_", " ") if entry.partitioning else ""
    return f"{way} {entry.output if entry.output != MAIN else ''}".strip()


def draw(shown: Picture) -> str:
    """Draw a picture as SVG, without a script, a font file or a link."""
    places = place(shown)
    width = max(x for x, _ in places.values()) + WIDTH + MARGIN
    height = max(y for _, y in places.values()) + HEIGHT + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#47566a"/></marker></defs>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            *(_arrow(places, arrow) for arrow in shown.arrows),
            *(_box(step, *places[step.name]) for step in shown.steps),
            "</svg>",
        ]
    )


def place(shown: Picture) -> Places:
    """Return the upper left corner of each step, and of each lane of an arrow."""
    reads: dict[str, list[str]] = {step.name: [] for step in shown.steps}
    for arrow in shown.arrows:
        way = [arrow.sender, *arrow.lanes, arrow.receiver]
        for sender, receiver in pairwise(way):
            if sender not in reads.setdefault(receiver, []):
                reads[receiver].append(sender)
    column: dict[str, int] = {}
    for name in [s.name for s in shown.steps]:
        column[name] = max((_column(reads, column, sender) + 1 for sender in reads[name]), default=0)
    row: dict[str, float] = {}
    for number in range(max(column.values()) + 1):
        own = [name for name, c in column.items() if c == number]
        wished = {n: sum(row[e] for e in reads[n]) / max(1, len(reads[n])) for n in own}
        first = sum(wished.values()) / len(own) - (len(own) - 1) / 2
        for place_, name in enumerate(sorted(own, key=lambda n: wished[n])):
            row[name] = first + place_
    top = min(row.values())
    pitch = HEIGHT + ROW_GAP
    return {n: (MARGIN + c * (WIDTH + COLUMN_GAP), MARGIN + (row[n] - top) * pitch) for n, c in column.items()}


def _column(reads: dict[str, list[str]], column: dict[str, int], name: str) -> int:
    if name not in column:  # a lane
        column[name] = _column(reads, column, reads[name][0]) + 1
    return column[name]


def _arrow(places: Places, arrow: Arrow) -> str:
    """Draw an arrow from the right end of a step, along its lanes, to the left end of another one."""
    x, y = places[arrow.sender]
    x, y = x + WIDTH, y + HEIGHT / 2
    first, path = (x, y), f"M{x:.0f},{y:.0f}"
    for name in (*arrow.lanes, arrow.receiver):
        to_x, to_y = places[name][0], places[name][1] + HEIGHT / 2
        bend = (to_x - x) / 2
        path += f" C{x + bend:.0f},{y:.0f} {to_x - bend:.0f},{to_y:.0f} {to_x:.0f},{to_y:.0f}"
        x, y = to_x, to_y
        if name != arrow.receiver:
            x += WIDTH
            path += f" H{x:.0f}"
    line = f'<path d="{path}" fill="none" stroke="#47566a" stroke-width="1.3" marker-end="url(#tip)"/>'
    next_y = places[(*arrow.lanes, arrow.receiver)[0]][1] + HEIGHT / 2
    at = first[0] + COLUMN_GAP / 2, next_y - 5 if next_y >= first[1] else next_y + 11
    return line + _text(*at, arrow.label, LABEL_SIZE, "#5a6876") if arrow.label else line


def _short(keys: Sequence[str]) -> str:
    return keys[0] if len(keys) == 1 else f"{keys[0]} +{len(keys) - 1}"


def _box(step: Step, x: float, y: float) -> str:
    kind = "keyed" if step.keys else "plain"
    match step.parameters:
        case Source():
            kind = "source"
        case Sink():
            kind = "sink"
    box = f'<rect x="{x:.0f}" y="{y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="16" fill="{COLOURS[kind]}" '
    box += 'stroke="#7d8b99"/>'
    return box + _text(x + WIDTH / 2, y + HEIGHT / 2 + 4, step.name.replace("_", " "), 12, "#1c2733")


def _text(x: float, y: float, text: str, size: int, colour: str) -> str:
    halo = HALO + " " if size == LABEL_SIZE else ""  # a line may pass behind a label
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="middle" font-size="{size}" fill="{colour}" {halo}{FONT}>'
        f"{escape(text.strip())}</text>"
    )


def main() -> int:
    """Draw all applications."""
    FOLDER.mkdir(exist_ok=True)
    for name in APPLICATIONS:
        job = load_job(ROOT / "examples" / f"{name}.yaml", None)
        shown = picture(job.graph, contracted=name in CONTRACTED)
        (FOLDER / f"{name}.svg").write_text(draw(shown) + "\n", encoding="utf-8")
        print(FOLDER / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
