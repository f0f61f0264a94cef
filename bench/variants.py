"""Runs of a scenario with two settings, taken in turn: what the second does to the first."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from bench.stats import paired, spread, tukey

COMPARED = ("rows_per_s", "cpu_ns_per_row", "p50_ms", "p99_ms", "wire_bytes_per_row")


def figures_of(runs: Sequence[dict[str, Any]], variant: str, name: str) -> list[float]:
    """Return one figure of all runs of a variant, in the order in which they ran."""
    found = [r["results"].get(name) for r in runs if r["name"].rpartition("/")[2] == variant]
    return [value for value in found if value]


def compare(
    runs: Sequence[dict[str, Any]], variants: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Compare every variant with the first, figure by figure, over the pairs of runs.

    Where a scenario has several cells, each for itself: its verdicts name it.
    """
    by_cell: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        by_cell.setdefault(run["name"].rpartition("/")[0], []).append(run)
    names = [str(v["name"]) for v in variants]
    return [
        {"cell": cell, **found} if len(by_cell) > 1 else found
        for cell, some in by_cell.items()
        for found in _compare_cell(some, names)
    ]


def _compare_cell(runs: Sequence[dict[str, Any]], variants: list[str]) -> list[dict[str, Any]]:
    found = []
    for variant in variants[1:]:
        for name in COMPARED:
            a, b = figures_of(runs, variants[0], name), figures_of(runs, variant, name)
            pairs = min(len(a), len(b))
            if pairs:
                found.append(verdict((variants[0], variant), name, a[:pairs], b[:pairs]))
    return found


def judge(
    runs: Sequence[dict[str, Any]], variants: Sequence[dict[str, Any]], judged: str
) -> list[dict[str, Any]]:
    """Compare the variant ``judged`` with the better one of the others, cell by cell, by rate.

    Beside each verdict are the p-values of Tukey's test between any two variants.
    """
    names = [str(v["name"]) for v in variants]
    found = []
    for cell in dict.fromkeys(run["name"].rpartition("/")[0] for run in runs):
        some = [run for run in runs if run["name"].rpartition("/")[0] == cell]
        rates = {name: figures_of(some, name, "rows_per_s") for name in names}
        best = max((n for n in names if n != judged), key=lambda n: fmean(map(math.log, rates[n])))
        told = verdict((best, judged), "rows_per_s", rates[best], rates[judged])
        found.append({"cell": cell, **told, "tukey": tukey(rates)})
    return found


def verdict(
    names: tuple[str, str], figure: str, base: Sequence[float], other: Sequence[float]
) -> dict[str, Any]:
    """Return what may be said of one figure of two things that were measured in pairs."""
    ratio = paired(base, other)
    return {
        "figure": figure,
        "base": names[0],
        "other": names[1],
        "base_spread": spread(base),
        "other_spread": spread(other),
        "ratio": ratio.mean,
        "interval": [ratio.low, ratio.high],
        "extremes": [ratio.least, ratio.most],
        "pairs": ratio.pairs,
        "verdict": ratio.verdict(),
    }


def show_verdicts(verdicts: Sequence[dict[str, Any]]) -> None:
    """Print one line for each figure that was compared."""
    for v in verdicts:
        low, high = v["interval"]
        print(
            f"   {v.get('cell', '')} {v['other']} / {v['base']}, {v['figure']}: {v['ratio']:.3f}"
            f" [{low:.3f}, {high:.3f}] over {v['pairs']} pairs: {v['verdict']}"
        )
        for one, other, p in v.get("tukey", ()):
            print(f"      Tukey's HSD, {one} and {other}: p = {p:.3g}")
