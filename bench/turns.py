"""Computes a comparison: rates from the marks of an engine, and ratios from paired turns."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from bench.samples import Series
from bench.timeline import rate_of_counter, until_last_change
from bench.variants import verdict

PENSTOCK = "penstock"
OTHERS_SHARE_MAX = 0.1  # a turn in which other programs used a larger share of the processors does not count
WARM_UP_SHARE = 1 / 3  # of the time between the first counted rows and the last
MEASURED_MIN_S = 1.0  # a shorter window does not count
RATES = ("rows_per_s", "best_rows_per_s")


def window(marks: Series) -> Series:
    """Return the marks of the window: from the first mark after a third of the time to the last rows.

    The window begins at a mark. So if an engine counts a batch when it ends, the first and slow batch
    is not in the window. Empty if fewer than two marks are left: the rate without the warm-up is then
    not known.
    """
    marks = until_last_change(marks)
    if len(marks) < 2:
        return []
    (begun, _), (ended, _) = marks[0], marks[-1]
    warm = begun + (ended - begun) * WARM_UP_SHARE
    inside = [mark for mark in marks if mark[0] >= warm]
    return inside if inside[-1][0] - inside[0][0] > MEASURED_MIN_S else []


def rates(marks: Series) -> dict[str, float]:
    """Return the figures of a run. Rates are 0 if there is no window.

    ``rows_per_s`` is the rate over the window, with its pauses. ``best_rows_per_s`` is the rate over the
    fastest part of at least a third of all the time, so without a slow start and without pauses.
    ``longest_step_s`` is the longest time in the window from one mark to the next, and
    ``longest_step_share`` its share of the window.
    """
    inside = window(marks)
    if not inside:
        return {"rows_per_s": 0.0, "best_rows_per_s": 0.0}
    longest = max(b - a for (a, _), (b, _) in pairwise(inside))
    return {
        "rows_per_s": round(rate_of_counter(inside), 1),
        "best_rows_per_s": round(_best(until_last_change(marks)), 1),
        "longest_step_s": round(longest, 2),
        "longest_step_share": round(longest / (inside[-1][0] - inside[0][0]), 3),
    }


def _best(marks: Series) -> float:
    """Return the highest rate between two marks that are a third of all the time apart."""
    least = (marks[-1][0] - marks[0][0]) * WARM_UP_SHARE
    best, stop = 0.0, 0
    for at, rows in marks:
        while stop < len(marks) and marks[stop][0] - at < least:
            stop += 1
        if stop == len(marks):
            break
        best = max(best, (marks[stop][1] - rows) / (marks[stop][0] - at))
    return best


def ratios(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare Penstock with each engine over the turns in which both were exact and undisturbed.

    Both rates are compared. A turn without a window is left out.
    """
    sound = {
        (run["name"], run["turn"]): run["results"]
        for run in runs
        if run["exact"] and run["results"].get("others_share", 0.0) <= OTHERS_SHARE_MAX
    }
    found = []
    for name in sorted({n for n, _ in sound} - {PENSTOCK}):
        for rate in RATES:
            both = [
                (theirs, ours)
                for turn in sorted(t for n, t in sound if n == name and (PENSTOCK, t) in sound)
                if (theirs := sound[name, turn].get(rate)) and (ours := sound[PENSTOCK, turn].get(rate))
            ]
            if both:
                pairs = [a for a, _ in both], [b for _, b in both]
                found.append(verdict((name, PENSTOCK), rate, *pairs))
    return found
