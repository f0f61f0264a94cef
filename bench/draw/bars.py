"""Bar plots of the variants of one scenario, by cell: their rates, and bytes on the wire."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from bench.draw.style import COLOURS, figure, legend, save, tidy, title
from bench.draw.sweep import fields_of

Run = Mapping[str, Any]
Cells = dict[str, dict[str, list[float]]]


def values_of(runs: Sequence[Run], figure_name: str, notes: Mapping[str, str]) -> Cells:
    """Return the values of a figure of every variant of every cell; zeros are left out."""
    found: Cells = {}
    for run in runs:
        cell, stroke, variant = run["name"].rpartition("/")
        value = run["results"].get(figure_name)
        if stroke and value:
            label = "\n".join((*fields_of(run).values(), *filter(None, [notes.get(cell)]))) or cell
            found.setdefault(label, {}).setdefault(variant, []).append(value)
    return found


def draw(runs: Sequence[Run], heading: str, target: Path, notes: Mapping[str, str] | None = None) -> Path | None:
    """Draw both figures as shares of the first variant's; None when there are no variants.

    ``notes`` are written below the bars of a cell, by its name.
    """
    rates, wire = (values_of(runs, name, notes or {}) for name in ("rows_per_s", "wire_bytes_per_row"))
    if not rates:
        return None
    made = figure(4.0)
    left, right = made.subplots(1, 2)
    _bars(left, rates, "rate, of that of the first")
    _bars(right, wire, "bytes a row on the wire, of those of the first")
    legend(left)
    title(left, heading)
    return save(made, target)


def _bars(axes: Axes, cells: Cells, label: str) -> None:
    variants = list(dict.fromkeys(name for of in cells.values() for name in of))
    width = 0.8 / max(len(variants), 1)
    for place, (variant, colour) in enumerate(zip(variants, COLOURS, strict=False)):
        at = [n + (place - (len(variants) - 1) / 2) * width for n in range(len(cells))]
        shares = [_share(of, variants[0], variant) for of in cells.values()]
        middle = [share[1] for share in shares]
        spread = [[m - low for low, m, _ in shares], [high - m for _, m, high in shares]]
        axes.bar(at, middle, width * 0.92, yerr=spread, color=colour, label=variant, capsize=2)
    axes.set_xticks(range(len(cells)), list(cells), fontsize=8)
    tidy(axes, label)


def _share(of: Mapping[str, list[float]], base: str, variant: str) -> tuple[float, float, float]:
    """Return least, median and most of a variant, as shares of the median of the base."""
    values, unit = of.get(variant), of.get(base)
    if not values or not unit:
        return 0.0, 0.0, 0.0
    middle = median(unit)
    return min(values) / middle, median(values) / middle, max(values) / middle
