"""Computes rates, pauses and recoveries from series over time. No I/O.

A series is (seconds, value), in order. Of ``ticks`` the value is the rows of the tenth of a second
that begins there; of a counter it is cumulative.
"""

from bisect import bisect_left
from itertools import pairwise

from bench.samples import Series

TICK_S = 0.1
FULL_SHARE = 0.95  # share of the target rate: no source sends exactly a million rows in every second


def rate_of_ticks(ticks: Series, start: float, end: float) -> float:
    """Return the rows per second of the ticks that lie within ``start`` and ``end``."""
    inside = [rows for at, rows in ticks if at >= start and at + TICK_S <= end + TICK_S / 2]
    return sum(inside) / (len(inside) * TICK_S) if inside else 0.0


def rate_of_counter(series: Series) -> float:
    """Return the rise per second of a counter, from its first sample to its last change."""
    kept = until_last_change(series)
    if len(kept) < 2 or kept[-1][0] <= kept[0][0]:
        return 0.0
    return (kept[-1][1] - kept[0][1]) / (kept[-1][0] - kept[0][0])


def until_last_change(series: Series) -> Series:
    """Drop the end of a series in which no more rows came: the last checkpoint, and the shutdown."""
    last = max((i for i in range(1, len(series)) if series[i][1] > series[i - 1][1]), default=0)
    return series[: last + 1]


def back_after_s(ticks: Series, at: float, rate: float, over_s: float = 1.0) -> float | None:
    """Return how long after ``at`` a span of ``over_s`` begins that has the full rate; or None."""
    ticks_of_span = round(over_s / TICK_S)
    wanted = FULL_SHARE * rate * over_s
    first = bisect_left(ticks, (at, -1.0))
    for begin in range(first, len(ticks) - ticks_of_span + 1):
        span = ticks[begin : begin + ticks_of_span]
        if sum(rows for _, rows in span) >= wanted and span[0][1] > 0:
            return max(0.0, span[0][0] - at)
    return None


def longest_pause_s(ticks: Series, start: float, end: float) -> float:
    """Return the longest time without rows within ``start`` and ``end``; in tenths of a second."""
    longest = still = 0
    for at, rows in ticks:
        if start <= at <= end:
            still = 0 if rows else still + 1
            longest = max(longest, still)
    return round(longest * TICK_S, 1)


def between(series: Series, start: float, end: float) -> Series:
    """Return the samples within ``start`` and ``end``."""
    return [(at, value) for at, value in series if start <= at <= end]


def value_at(series: Series, at: float) -> float:
    """Return the value of a cumulative series at a time, on the line between its neighbours."""
    if not series:
        return 0.0
    place = bisect_left(series, (at, float("-inf")))
    if place == 0:
        return series[0][1]
    if place == len(series):
        return series[-1][1]
    (t0, v0), (t1, v1) = series[place - 1], series[place]
    return v0 + (v1 - v0) * (at - t0) / (t1 - t0) if t1 > t0 else v1


def rise(series: Series, start: float, end: float) -> float:
    """Return by how much a cumulative series rises; a process that ended makes it fall: then 0."""
    return max(0.0, value_at(series, end) - value_at(series, start))


def rates(series: Series, every_s: float = 1.0) -> Series:
    """Return the rise per second of a counter, sampled at most once every ``every_s``."""
    kept: Series = []
    for at, value in series:
        if not kept or at - kept[-1][0] >= every_s:
            kept.append((at, value))
    return [(at, max(high - low, 0.0) / (at - t0)) for (t0, low), (at, high) in pairwise(kept)]


def summed(ticks: Series, ticks_each: int) -> Series:
    """Return rates of groups of ticks, for plots."""
    groups = [ticks[i : i + ticks_each] for i in range(0, len(ticks), ticks_each)]
    return [(g[0][0], sum(rows for _, rows in g) / (len(g) * TICK_S)) for g in groups]
