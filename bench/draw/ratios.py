"""Plot of several engines: every measurement is a dot, the median a line."""

from pathlib import Path
from statistics import median
from typing import Any

from bench.draw.style import BLUE, ORANGE, figure, save, tidy, title


def draw(record: dict[str, Any], target: Path) -> Path:
    """Draw the rates of a comparison on one logarithmic scale."""
    by_name: dict[str, list[float]] = {}
    for run in record["runs"]:
        if run["exact"] and run["results"]["rows_per_s"]:
            by_name.setdefault(run["name"], []).append(run["results"]["rows_per_s"] / 1e6)
    names = sorted(by_name, key=lambda name: median(by_name[name]))
    made = figure(1.2 + 0.45 * len(names))
    axes = made.subplots()
    for place, name in enumerate(names):
        colour = ORANGE if name.startswith("penstock") or "base" in name else BLUE
        values = by_name[name]
        axes.plot(values, [place] * len(values), "o", color=colour, ms=5, alpha=0.6, mew=0)
        middle = median(values)
        axes.plot([middle, middle], [place - 0.3, place + 0.3], color=colour, lw=2)
        axes.annotate(f" {middle:.3g}", (max(values), place), fontsize=8, va="center")
    axes.set_xscale("log")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("M rows/s (dots: each run; bar: median)")
    tidy(axes, "", zero=False)
    axes.grid(axis="x", color="#e6e8eb", lw=0.6)
    title(axes, record["title"])
    return save(made, target)
