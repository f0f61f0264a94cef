"""Latencies as HDR histograms: from the buckets of the sinks to percentiles.

A sink reports the lower end of a bucket. Here every latency counts as the upper end, so a reported
value is never below the measured one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from hdrh.histogram import HdrHistogram

from penstock.connectors.discard_sink import LATENCY_AT_PREFIX, LATENCY_PREFIX, bucket

HIGHEST_US = 3_600_000_000
DIGITS = 3
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
Buckets = Mapping[int, int]


def upper_end(lower_us: int) -> int:
    """Return the largest whole microsecond of the bucket that begins at ``lower_us``."""
    step = 1
    while bucket((lower_us + step) * 1000) == lower_us:
        step *= 2
    return lower_us + step - 1


def of_buckets(buckets: Buckets) -> Any:
    """Return the histogram of latencies in microseconds, from counts by the lower end of a bucket."""
    histogram = HdrHistogram(1, HIGHEST_US, DIGITS)
    for lower, count in buckets.items():
        histogram.record_value(min(max(upper_end(lower), 1), HIGHEST_US), count)
    return histogram


def in_totals(totals: Mapping[str, int]) -> dict[int, int]:
    """Find the buckets of a whole run among the totals of its sinks."""
    start = len(LATENCY_PREFIX)
    return {int(k[start:]): n for k, n in totals.items() if k.startswith(LATENCY_PREFIX)}


def by_second(totals: Mapping[str, int]) -> dict[int, dict[int, int]]:
    """Find the buckets of each second of the monotonic clock among the totals."""
    found: dict[int, dict[int, int]] = {}
    for name, count in totals.items():
        if name.startswith(LATENCY_AT_PREFIX):
            second, _, lower = name[len(LATENCY_AT_PREFIX) :].partition(".")
            found.setdefault(int(second), {})[int(lower)] = count
    return found


def merged(many: Iterable[Buckets]) -> dict[int, int]:
    """Add up buckets."""
    total: dict[int, int] = {}
    for buckets in many:
        for lower, count in buckets.items():
            total[lower] = total.get(lower, 0) + count
    return total


def figures(buckets: Buckets) -> dict[str, float]:
    """Return number, percentiles and maximum in milliseconds; empty without markers."""
    if not buckets:
        return {}
    histogram = of_buckets(buckets)
    found = {"markers": float(histogram.get_total_count())}
    for percent in PERCENTILES:
        found[f"p{percent:g}_ms"] = histogram.get_value_at_percentile(percent) / 1000
    found["max_ms"] = histogram.get_max_value() / 1000
    return found
