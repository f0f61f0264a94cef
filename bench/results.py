"""Computes figures from raw samples: rate, latency, memory, checkpoints, disturbances."""

import re
from statistics import median

from bench import garbage, histogram, stats
from bench.samples import Samples, Series
from bench.scenario import Scenario
from bench.timeline import (
    back_after_s,
    between,
    longest_pause_s,
    rate_of_counter,
    rate_of_ticks,
    rise,
    until_last_change,
)

MIB = 2**20
# A checkpoint is seen up to a second after its end. One second later it no longer has an effect.
SEEN_LATE_S, CHECKPOINT_AFTER_S = 1.5, 1.0
QUIET_SHARE = 0.01  # a second in which the host took a larger share of the processors is not quiet
_SETTLED = re.compile(r"\((\d+\.\d+) s from request to settled\)")
Figures = dict[str, float]


def figures(scenario: Scenario, samples: Samples) -> Figures:
    """Return all results of a run that has ended, by name."""
    ticks = samples.ticks()
    start, end = _measured(scenario, samples, ticks)
    rate = _rate(samples, ticks, start, end)
    rows = rate * (end - start)
    results: Figures = {
        "rows_per_s": round(rate, 1),
        "measured_s": round(end - start, 1),
        "cpu_ns_per_row": round(rise(samples.cpu, start, end) / rows * 1e9, 1) if rows else 0.0,
        "wire_bytes_per_row": round(rise(samples.wire, start, end) / rows, 1) if rows else 0.0,
        **_checkpoints(samples),
        **_checkpoint_cost(scenario, samples, between(ticks, start, end)),
        "memory_max_mib": round(max((s for _, s in samples.memory), default=0) / MIB, 1),
        **histogram.figures(histogram.in_totals(samples.totals)),
        **_starts(samples),
        **garbage.figures(samples.collections),
    }
    if samples.stolen and end > start:
        results["stolen_share"] = round(rise(samples.stolen, start, end) / (end - start), 4)
    if samples.switches and end > start:
        results["switches_per_5s"] = round(5 * rise(samples.switches, start, end) / (end - start))
    if scenario.rate is not None and not scenario.disturb:
        results |= _quiet(samples)
    if scenario.stall_for:
        results |= _stalled(scenario, samples)
    if scenario.changing_keys:
        results |= _late_checkpoints(samples)
    if scenario.kind == "sends":
        results["shed_share"] = round(samples.shed / (scenario.rows_per_split * scenario.splits), 4)
    if scenario.kind == "slow":
        results |= _waits(samples)
    if scenario.disturb:
        results |= disturbed(scenario, samples)
    return results


def _measured(scenario: Scenario, samples: Samples, ticks: Series) -> tuple[float, float]:
    """Return the measured time: from the end of the warm-up to the last rows."""
    counted = until_last_change(samples.step("counts", "rows_in"))
    begun = ticks[0][0] if ticks else next((at for at, rows in counted if rows), 0.0)
    last = ticks[-1][0] if ticks else (counted[-1][0] if counted else 0.0)
    return min(begun + scenario.warmup_s, last), last


def _rate(samples: Samples, ticks: Series, start: float, end: float) -> float:
    if ticks:
        return rate_of_ticks(ticks, start, end)
    return rate_of_counter(between(samples.step("counts", "rows_in"), start, end))


def _checkpoints(samples: Samples) -> Figures:
    epochs = samples.epochs()
    return {
        "epochs": len(epochs),
        "checkpoint_s": max((epoch["duration_s"] for epoch in epochs), default=0.0),
        "checkpoint_mib": round(max((epoch["bytes"] for epoch in epochs), default=0) / MIB, 2),
    }


def _waits(samples: Samples) -> Figures:
    """Return the times from barrier to commit of all epochs, and from request to end of rescales."""
    epochs = [epoch["duration_s"] for epoch in samples.epochs()]
    rescales_s = [float(s) for e in samples.events for s in _SETTLED.findall(e.detail)]
    found: Figures = {}
    if epochs:
        found["epoch_p50_s"] = stats.percentile(epochs, 50)
        found["epoch_p99_s"] = stats.percentile(epochs, 99)
    if rescales_s:
        found["rescale_max_s"] = max(rescales_s)
    return found


def _checkpoint_cost(scenario: Scenario, samples: Samples, ticks: Series) -> Figures:
    """Return how much slower a run at full rate is than its own seconds without a checkpoint.

    It is measured from the end of the first checkpoint that was seen to the end of the last. None if
    there is no second without a checkpoint.
    """
    spans = [
        (e["at"] - e["duration_s"] - SEEN_LATE_S, e["at"] + CHECKPOINT_AFTER_S)
        for e in samples.epochs()
        if ticks and ticks[0][0] <= e["at"] <= ticks[-1][0] - CHECKPOINT_AFTER_S
    ]
    if scenario.rate is not None or scenario.disturb or len(spans) < 2:
        return {}
    inside = between(ticks, spans[0][1], spans[-1][1])
    calm = [rows for at, rows in inside if not any(start <= at < end for start, end in spans)]
    if not any(calm):
        return {}
    rate = sum(rows for _, rows in inside) / len(inside)
    return {"checkpoint_cost_share": round(1 - rate / (sum(calm) / len(calm)), 4)}


def _quiet(samples: Samples) -> Figures:
    """Return the latency of the quiet seconds, their number, and the latency of all seconds.

    In a quiet second and in the second before it, the host took almost no time from the machine. A
    mark counts in the second in which it arrived, so pauses that the job itself causes are included.
    """
    ages = samples.ages()
    if not (ages and samples.stolen):
        return {}
    before = samples.begun % 1  # marks count by seconds of the clock, not of the run

    def left_alone(second: float) -> bool:
        return rise(samples.stolen, second, second + 1) <= QUIET_SHARE

    quiet = [
        buckets for second, buckets in ages.items() if left_alone(second - before - 1) and left_alone(second - before)
    ]
    found = histogram.figures(histogram.merged(quiet))
    told = {f"quiet_{name}": value for name, value in found.items() if name.startswith("p")}
    return {"quiet_s": float(len(quiet)), **told}


def _late_checkpoints(samples: Samples) -> Figures:
    """Return the median duration and size of the three checkpoints before the last one."""
    last = samples.epochs()[-4:-1]
    if not last:
        return {}
    return {
        "late_checkpoint_s": median(epoch["duration_s"] for epoch in last),
        "late_checkpoint_mib": round(median(epoch["bytes"] for epoch in last) / MIB, 2),
    }


def _starts(samples: Samples) -> Figures:
    found: Figures = {"seconds": round(samples.seconds, 1)}
    if samples.first_file_s is not None:
        found["first_file_s"] = round(samples.first_file_s, 2)
    return found


def _stalled(scenario: Scenario, samples: Samples) -> Figures:
    """Return the rate in the middle of the time in which the sink took nothing, and the memory."""
    counted = samples.step("counts", "rows_in")
    begun = next((at for at, rows in counted if rows), 0.0)
    start = begun + scenario.stall_after
    end = start + scenario.stall_for
    settle = scenario.stall_for / 6
    middle = (start + settle, end - settle)
    sent = between(samples.step("words", "rows_out"), *middle)
    before = between(samples.memory, begun + scenario.warmup_s, start)
    during = between(samples.memory, start, end)
    growth = max((m for _, m in during), default=0) - max((m for _, m in before), default=0)
    return {
        "stalled_rows_per_s": rate_of_counter(between(counted, *middle)),
        "stalled_source_rows_per_s": rate_of_counter(sent),
        "memory_growth_mib": round(growth / MIB, 1),
    }


def disturbed(scenario: Scenario, samples: Samples) -> Figures:
    """Return the time until the full rate was back after each kill, and the pauses of rescales."""
    found: Figures = {}
    kills = recoveries(scenario, samples)
    if kills:
        back = [s for s in kills if s is not None]
        found |= {"kills": len(kills), "not_back": len(kills) - len(back)}
        if back:
            found["recovery_p50_s"] = round(stats.percentile(back, 50), 1)
            found["recovery_p95_s"] = round(stats.percentile(back, 95), 1)
            found["recovery_max_s"] = round(max(back), 1)
    return found | rescales(scenario, samples)


def recoveries(scenario: Scenario, samples: Samples) -> list[float | None]:
    """Return for each kill the seconds until a second at the full rate began, in order."""
    ticks, rate = samples.ticks(), float(scenario.rate or 0)
    kills = [e.at for e in samples.events if e.what.startswith("kill")]
    ends = [*kills, float("inf")][1:]
    return [back_after_s(between(ticks, at, end), at, rate) for at, end in zip(kills, ends, strict=True)]


def rescales(scenario: Scenario, samples: Samples) -> Figures:
    """Return the longest pauses that tasks logged, and the longest time without rows at the sink."""
    moved = [p["moved"] for p in samples.pauses if p["moved"] is not None]
    stayed = [p["aligned"] for p in samples.pauses if p["aligned"] is not None]
    done = [e.at for e in samples.events if e.what.startswith("rescale")]
    if not done:
        return {}
    ticks = samples.ticks()
    silence = max(longest_pause_s(ticks, at, at + 10.0) for at in done)
    found: Figures = {"rescales": len(done), "silence_at_rescale_s": silence}
    if moved:
        found["pause_moved_p99_ms"] = stats.percentile(moved, 99)
    if stayed:
        found["pause_unmoved_p99_ms"] = stats.percentile(stayed, 99)
    return found
