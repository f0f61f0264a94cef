"""The distribution of latency: every percentile, as HDR histograms are shown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

from bench.draw.style import COLOURS, figure, legend, logarithmic, save, tidy, title

TICKS = (0.5, 0.9, 0.99, 0.999, 0.9999)


def draw(runs: Sequence[Mapping[str, Any]], heading: str, target: Path) -> Path:
    """Draw latency by percentile, one line for each run."""
    made = figure(4.2)
    axes = made.subplots()
    for run, colour in zip(runs, COLOURS * len(runs), strict=False):
        x, y = curve(HdrHistogram.decode(run["hdr"]))
        found = run["results"]
        label = f"{run['name']}: p50 {found['p50_ms']:.2f}, p99 {found['p99_ms']:.2f} ms"
        axes.plot(x, y, color=colour, lw=1.6, label=label)
    axes.set_xscale("log")
    logarithmic(axes)
    axes.set_xticks([1 / (1 - t) for t in TICKS], [f"{100 * t:g} %" for t in TICKS])
    axes.set_xlabel("share of the markers")
    tidy(axes, "age at most, ms", zero=False)
    legend(axes, loc="upper left")
    title(axes, heading, "markers are stamped with the time at which their rows were due")
    return save(made, target)


def curve(histogram: Any) -> tuple[list[float], list[float]]:
    """Return 1/(1 - share) and milliseconds of every recorded value but the last."""
    x, y = [], []
    total, passed = histogram.get_total_count(), 0
    for item in histogram.get_recorded_iterator():
        passed += item.count_at_value_iterated_to
        if passed < total:
            x.append(total / (total - passed))
            y.append(item.value_iterated_to / 1000)
    return x, y
