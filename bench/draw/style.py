"""The common style of all plots."""

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

BLUE, ORANGE, GREEN, RED, GREY = "#2f6db3", "#d9822b", "#3b8f5a", "#c23b3b", "#9aa3ad"
COLOURS = (BLUE, ORANGE, GREEN, "#7a5aa6", RED, "#5d6670", "#b08a2e", "#2b9aa8")
GRID = "#e6e8eb"
DPI = 120


def figure(height: float, width: float = 9.0) -> Figure:
    """Return an empty figure."""
    return Figure(figsize=(width, height), layout="constrained")


def tidy(axes: Axes, ylabel: str, *, zero: bool = True) -> None:
    """Remove the frame lines that carry no information, and label the y axis."""
    axes.set_ylabel(ylabel)
    if zero:
        axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def logarithmic(axes: Axes) -> None:
    """Make the y axis logarithmic, with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(_two_or_five))


def _two_or_five(value: float, _: int) -> str:
    text = f"{value:,g}"
    return text if text.lstrip("0.")[:1] in {"2", "5"} else ""


def title(axes: Axes, text: str, under: str = "") -> None:
    """Put a title at the left, with a line below it."""
    axes.set_title("\n".join(filter(None, (text, under))), fontsize=10, loc="left")


def save(made: Figure, target: Path) -> Path:
    """Write a PNG."""
    made.savefig(target, dpi=DPI)
    return target


def legend(axes: Axes, **how: Any) -> None:
    """Show the legend, if lines have names."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, **how)
