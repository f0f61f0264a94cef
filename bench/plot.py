"""Draws a run: rows per second, memory, and where the checkpoints fell."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from bench.results import MIB, Series
from bench.runner import Samples
from bench.scenario import Scenario

BLUE, ORANGE, GREY = "#2f6db3", "#d9822b", "#9aa3ad"


def draw(scenario: Scenario, samples: Samples, results: dict[str, Any], target: Path) -> None:
    """Write a PNG of rate and memory over time."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    rate, memory = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
    rate.plot(*_rates(samples.step("words", "rows_out")), color=ORANGE, label="source", lw=1.2)
    rate.plot(*_rates(samples.step("counts", "rows_in")), color=BLUE, label="counted", lw=1.6)
    rate.set_ylabel("M rows/s")
    rate.set_ylim(bottom=0)
    rate.legend(loc="lower right", frameon=False)
    rate.set_title(f"{scenario.title}\n{_subtitle(results)}", fontsize=10, loc="left")
    times = [at for at, _ in samples.memory]
    memory.plot(times, [size / MIB for _, size in samples.memory], color=BLUE, lw=1.4)
    memory.set_ylabel("engines, MiB")
    memory.set_ylim(bottom=0)
    memory.set_xlabel("seconds since the command")
    for axes in (rate, memory):
        for at in _commits(samples):
            axes.axvline(at, color=GREY, lw=0.6, ls=":")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e8eb", lw=0.6)
    figure.savefig(target, dpi=120)


def _rates(series: Series) -> tuple[list[float], list[float]]:
    changes = _changes(series)
    times = [at for at, _ in changes[1:]]
    rates = [
        max(high - low, 0) / (at - before) / 1e6 for (before, low), (at, high) in pairwise(changes)
    ]
    return times, rates


def _changes(series: Series) -> Series:
    """Keep one sample a second at most: counters are told once a second."""
    kept: Series = []
    for at, value in series:
        if not kept or at - kept[-1][0] >= 1.0:
            kept.append((at, value))
    return kept


def _commits(samples: Samples) -> list[float]:
    seen: dict[int, float] = {}
    for status in samples.statuses:
        if status["checkpoint"]:
            seen.setdefault(status["checkpoint"]["epoch"], status["at"])
    return list(seen.values())


def _subtitle(results: dict[str, Any]) -> str:
    parts = [f"{results['rows_per_s'] / 1e6:.2f} M rows/s", f"{results['epochs']} checkpoints"]
    if "p99_ms" in results:
        parts.append(f"p50 {results['p50_ms']:.1f} ms, p99 {results['p99_ms']:.1f} ms")
    if "memory_growth_mib" in results:
        parts.append(f"memory +{results['memory_growth_mib']:.0f} MiB while stalled")
    return ", ".join(parts)
