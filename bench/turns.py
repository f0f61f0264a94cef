"""The arithmetic of a comparison: a rate from what an engine told, ratios from paired turns."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.samples import Series
from bench.timeline import rate_of_counter, until_last_change, value_at
from bench.variants import verdict

PENSTOCK = "penstock"
OTHERS_SHARE_MAX = 0.1  # of the processors: a turn in which others had more says nothing
WARM_UP_SHARE = 1 / 3  # of the time between the first counted rows and the last


def rate_after_warm_up(marks: Series) -> float:
    """Return the rows/s of the last two thirds of the time in which rows were counted."""
    marks = until_last_change(marks)
    if len(marks) < 2:
        return 0.0
    (begun, _), (ended, _) = marks[0], marks[-1]
    start = begun + (ended - begun) * WARM_UP_SHARE
    inside = [(at, rows) for at, rows in marks if at > start]
    return rate_of_counter([(start, value_at(marks, start)), *inside])


def ratios(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Compare Penstock with each engine, over the turns in which both were exact and alone."""
    found = []
    exact = {
        (run["name"], run["turn"]): run["results"]["rows_per_s"]
        for run in runs
        if run["exact"] and run["results"].get("others_share", 0.0) <= OTHERS_SHARE_MAX
    }
    for name in sorted({n for n, _ in exact} - {PENSTOCK}):
        turns = sorted(t for n, t in exact if n == name and (PENSTOCK, t) in exact)
        if turns:
            base = [exact[name, t] for t in turns]
            ours = [exact[PENSTOCK, t] for t in turns]
            found.append(verdict((name, PENSTOCK), "rows_per_s", base, ours))
    return found
