"""From raw samples to figures: rate after warm-up, latency percentiles, memory, checkpoints."""

from typing import Any

from bench.runner import Samples
from bench.scenario import Scenario
from penstock.connectors.discard_sink import LATENCY_PREFIX

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
MIB = 2**20
Series = list[tuple[float, int]]


def figures(scenario: Scenario, samples: Samples) -> dict[str, Any]:
    """Return all results of a run that has ended, by name."""
    counted = samples.step("counts", "rows_in")
    begun = next((at for at, rows in counted if rows), 0.0)
    steady = [(at, rows) for at, rows in counted if at >= begun + scenario.warmup_s]
    results: dict[str, Any] = {
        "seconds": round(samples.seconds, 1),
        "first_rows_s": round(begun, 2),
        "rows_per_s": _rate(_until_last_change(steady)),
        "cpu_ns_per_row": _cpu_ns_per_row(samples, _until_last_change(steady)),
        "epochs": len(samples.epochs()),
        "checkpoint_s": _highest(samples, "duration_s"),
        "checkpoint_mib": round((_highest(samples, "bytes") or 0) / MIB, 2),
        **latencies(samples.totals),
    }
    if scenario.stall_for:
        results |= stalled(scenario, samples, counted, begun)
    return results


def latencies(totals: dict[str, int]) -> dict[str, float]:
    """Return percentiles of the markers' age in milliseconds; empty without markers."""
    prefix = len(LATENCY_PREFIX)
    buckets = sorted(
        (int(k[prefix:]), n) for k, n in totals.items() if k.startswith(LATENCY_PREFIX)
    )
    count = sum(n for _, n in buckets)
    if not count:
        return {}
    found: dict[str, float] = {"markers": count, "max_ms": buckets[-1][0] / 1000}
    for percent in PERCENTILES:
        rank, passed = percent / 100 * count, 0
        for micros, n in buckets:
            passed += n
            if passed >= rank:
                found[f"p{percent:g}_ms"] = micros / 1000
                break
    return found


def stalled(
    scenario: Scenario, samples: Samples, counted: Series, begun: float
) -> dict[str, float]:
    """Return what happened while the sink took nothing: the middle of the stall, and memory."""
    start = begun + scenario.stall_after
    end = start + scenario.stall_for
    settle = (end - start) / 6
    still = [(at, n) for at, n in counted if start + settle <= at <= end - settle]
    sent = samples.step("words", "rows_out")
    source = [(at, n) for at, n in sent if start + settle <= at <= end - settle]
    before = [size for at, size in samples.memory if begun + scenario.warmup_s <= at <= start]
    during = [size for at, size in samples.memory if start <= at <= end]
    growth = (max(during, default=0) - max(before, default=0)) / MIB
    return {
        "stalled_rows_per_s": _rate(still),
        "stalled_source_rows_per_s": _rate(source),
        "memory_growth_mib": round(growth, 1),
        "memory_max_mib": round(max((s for _, s in samples.memory), default=0) / MIB, 1),
    }


def _rate(series: Series) -> float:
    if len(series) < 2:
        return 0.0
    (first, low), (last, high) = series[0], series[-1]
    return round((high - low) / (last - first), 1) if last > first else 0.0


def _until_last_change(series: Series) -> Series:
    """Drop the tail in which nothing more came: the last checkpoint, and the end."""
    last = max((i for i in range(1, len(series)) if series[i][1] > series[i - 1][1]), default=0)
    return series[: last + 1]


def _cpu_ns_per_row(samples: Samples, counted: Series) -> float:
    """Return CPU time of all engines per counted row: hardly changed by other load."""
    if len(counted) < 2 or counted[-1][1] <= counted[0][1]:
        return 0.0
    used = [cpu for at, cpu in samples.cpu if counted[0][0] <= at <= counted[-1][0]]
    return round((max(used) - min(used)) * 1e9 / (counted[-1][1] - counted[0][1]), 1)


def _highest(samples: Samples, what: str) -> float:
    return max((epoch[what] for epoch in samples.epochs()), default=0)
