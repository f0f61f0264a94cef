"""Compares variants of a scenario that ran alternately."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from bench.stats import paired, spread, tukey

COMPARED = ("rows_per_s", "cpu_ns_per_row", "p50_ms", "p99_ms", "wire_bytes_per_row")


Turns = list[float | None]


def figures_of(runs: Sequence[dict[str, Any]], variant: str, name: str) -> Turns:
    """Return one figure of all runs of a variant, turn by turn; None where there was none."""
    found = [r["results"].get(name) for r in runs if r["name"].rpartition("/")[2] == variant]
    return [value or None for value in found]


def in_pairs(base: Turns, other: Turns) -> tuple[list[float], list[float]]:
    """Return the pairs of figures of the turns in which both variants have one."""
    both = [(a, b) for a, b in zip(base, other, strict=False) if a and b]
    return [a for a, _ in both], [b for _, b in both]


def cells_of(runs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the runs of each cell, by its name."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        found.setdefault(run["name"].rpartition("/")[0], []).append(run)
    return found


def compare(runs: Sequence[dict[str, Any]], variants: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare every variant with the first, figure by figure, over the pairs of runs.

    If a scenario has several cells, each is compared separately, and the verdict names the cell.
    """
    cells = cells_of(runs)
    names = [str(v["name"]) for v in variants]
    return [
        {"cell": cell, **found} if len(cells) > 1 else found
        for cell, some in cells.items()
        for found in _compare_cell(some, names)
    ]


def _compare_cell(runs: Sequence[dict[str, Any]], variants: list[str]) -> list[dict[str, Any]]:
    found = []
    for variant in variants[1:]:
        for name in COMPARED:
            pairs = in_pairs(figures_of(runs, variants[0], name), figures_of(runs, variant, name))
            if pairs[0]:
                found.append(verdict((variants[0], variant), name, *pairs))
    return found


def judge(runs: Sequence[dict[str, Any]], variants: Sequence[dict[str, Any]], judged: str) -> list[dict[str, Any]]:
    """Compare the variant ``judged`` with the better one of the others, cell by cell, by rate.

    Each verdict also has the p-values of Tukey's test for every two variants. A cell in which a
    variant has no rate is left out.
    """
    names = [str(v["name"]) for v in variants]
    found = []
    for cell, some in cells_of(runs).items():
        turns = {name: figures_of(some, name, "rows_per_s") for name in names}
        rates = {name: [rate for rate in of if rate] for name, of in turns.items()}
        if not all(rates.values()):
            continue
        best = max((n for n in names if n != judged), key=lambda n: fmean(map(math.log, rates[n])))
        pairs = in_pairs(turns[best], turns[judged])
        if pairs[0]:
            told = verdict((best, judged), "rows_per_s", *pairs)
            found.append({"cell": cell, **told, "tukey": tukey(rates)})
    return found


def verdict(names: tuple[str, str], figure: str, base: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    """Return the verdict on one figure of two variants that were measured in pairs."""
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
