"""Many runs of one scenario: a figure against the field that was changed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.draw.style import COLOURS, figure, legend, logarithmic, save, tidy, title

Run = Mapping[str, Any]
WIDE = 10  # values that differ by a larger factor get a logarithmic axis
Fields = dict[str, str]
LABELS = {
    "payload": "bytes of a word",
    "batch_rows": "rows of a batch of the source",
    "workers": "parallelism",
    "keys": "different words",
    "rate": "rows/s",
}


def fields_of(run: Run) -> Fields:
    """Read the changed fields out of a run's name: ``sweep payload=32,workers=1``."""
    told = run["name"].partition(" ")[2].partition("/")[0]
    return dict(pair.split("=", 1) for pair in told.split(",") if "=" in pair)


def x_axis(runs: Sequence[Run]) -> str | None:
    """Return the field of LABELS with the most different numbers; None when none was changed."""
    values: dict[str, set[str]] = {}
    for run in runs:
        for name, text in fields_of(run).items():
            if name in LABELS and text.replace(".", "", 1).isdigit():
                values.setdefault(name, set()).add(text)
    found = max(values, key=lambda name: len(values[name]), default=None)
    return found if found is not None and len(values[found]) > 1 else None


def lines(runs: Sequence[Run], x: str, figure_name: str) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each line: one line for every combination of the other fields.

    A field whose value depends only on the value of ``x`` makes no lines.
    """
    beside = _beside(runs, x)
    found: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        fields = fields_of(run)
        if x in fields and figure_name in run["results"]:
            rest = ", ".join(f"{k} {v}" for k, v in fields.items() if k in beside) or "all"
            point = (float(fields[x]), run["results"][figure_name])
            found.setdefault(rest, []).append(point)
    return {label: sorted(points) for label, points in found.items()}


def _beside(runs: Sequence[Run], x: str) -> set[str]:
    """Return the fields that were changed at one and the same value of ``x``."""
    seen: dict[tuple[str, str], set[str]] = {}
    for fields in map(fields_of, runs):
        for name, text in fields.items():
            if name != x and x in fields:
                seen.setdefault((name, fields[x]), set()).add(text)
    return {name for (name, _), values in seen.items() if len(values) > 1}


def _short(value: float) -> str:
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value:,.0f}"


def _wide(values: Sequence[float]) -> bool:
    return WIDE * min(values, default=0.0) < max(values, default=0.0) and min(values) > 0


def draw(runs: Sequence[Run], heading: str, target: Path) -> Path | None:
    """Draw rate and CPU per row against the field that was changed most."""
    x = x_axis(runs)
    if x is None:
        return None
    made = figure(4.0)
    rate, cpu = made.subplots(1, 2)
    for axes, name, scale, label in (
        (rate, "rows_per_s", 1e6, "M rows/s"),
        (cpu, "cpu_ns_per_row", 1.0, "CPU of the engines, ns a row"),
    ):
        drawn = lines(runs, x, name)
        for (text, points), colour in zip(drawn.items(), COLOURS, strict=False):
            values = [value / scale for _, value in points]
            axes.plot([at for at, _ in points], values, "o-", color=colour, lw=1.5, label=text)
        axes.set_xscale("log")
        seen = sorted({float(fields_of(run)[x]) for run in runs if x in fields_of(run)})
        axes.set_xticks(seen, [_short(value) for value in seen])
        axes.minorticks_off()
        axes.set_xlabel(LABELS.get(x, x))
        wide = _wide([value for points in drawn.values() for _, value in points])
        tidy(axes, label, zero=not wide)
        if wide:
            logarithmic(axes)
    legend(rate)
    title(rate, heading)
    return save(made, target)
