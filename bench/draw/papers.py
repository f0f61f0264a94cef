"""The experiments of the papers, drawn as they drew them, with their figures beside ours where they are known.

Their machines differ from ours in the number of processors, so only the shape of a curve compares.
"""

from collections.abc import Callable, Mapping, Sequence
from math import nan
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from matplotlib.axes import Axes

from bench.draw import bars
from bench.draw.style import BLUE, COLOURS, GREY, ORANGE, RED, figure, legend, logarithmic, save, tidy, title
from bench.draw.sweep import fields_of
from bench.records import series
from bench.stages import sleep_ms
from bench.timeline import rates as rates_of

Run = Mapping[str, Any]
Record = Mapping[str, Any]
Points = dict[float, list[float]]
MIB = 2**20

# What the papers say. The actor paper: 48 threads, figure 17, with so many replicas of a step.
ACTORS = {"wordcount": (12, 8.1), "fraud": (16, 0.56), "spike": (12, 9.7), "routing": (5, 2.1)}
SINK_IS_COUNTED = {"wordcount"}  # in words at the sink; the others in rows at the source
NEPTUNE_SWITCHES = {"1": 89_952, "8192": 4_085}
NEPTUNE_JOBS = (32, 15.0)  # M messages/s on 50 machines
NEPTUNE_MACHINES = 50
NEPTUNE_RELAY = 2.0  # M small packets/s over 1 Gbit/s
VOLGA_RATE, VOLGA_P99_MS = 1.03, 30.0


def points(runs: Sequence[Run], field: str, what: str, scale: float = 1.0, **only: str) -> Points:
    """Return the values of a figure by a changed field, of exact runs whose other fields are those of ``only``."""
    found: Points = {}
    for run in runs:
        fields = fields_of(run)
        if run["exact"] and field in fields and only.items() <= fields.items() and what in run["results"]:
            found.setdefault(float(fields[field]), []).append(run["results"][what] * scale)
    return dict(sorted(found.items()))


def _line(axes: Axes, found: Points, colour: str, label: str) -> None:
    """Draw means with their standard deviations, if there are several values."""
    spread = [stdev(v) for v in found.values()] if min(map(len, found.values()), default=0) > 1 else None
    axes.errorbar(
        list(found), [fmean(v) for v in found.values()], spread, fmt="o-", color=colour, lw=1.5, capsize=3, label=label
    )


def _spread(axes: Axes, found: Points, colour: str, label: str, line: str = "o-") -> None:
    """Draw medians; bars go from the least value to the largest one."""
    middle = [median(v) for v in found.values()]
    low = [m - min(v) for m, v in zip(middle, found.values(), strict=True)]
    high = [max(v) - m for m, v in zip(middle, found.values(), strict=True)]
    axes.errorbar(list(found), middle, [low, high], fmt=line, color=colour, lw=1.5, capsize=3, label=label)


def _ticks(axes: Axes, values: Sequence[float], label: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)


def rates(record: Record, target: Path) -> Path:
    """Draw the rate that arrives and the latency, by the rate that is offered."""
    runs = record["runs"]
    offered = [{**run, "name": _in_millions(run)} for run in runs]
    made = figure(4.0)
    left, right = made.subplots(1, 2)
    arrived = points(offered, "rate", "rows_per_s", 1e-6)
    _line(left, arrived, BLUE, "arrives (mean, standard deviation)")
    left.plot(list(arrived), list(arrived), ":", color=GREY, lw=1, label="all that is offered")
    for name, colour in (("p50_ms", BLUE), ("p99_ms", ORANGE)):
        _spread(right, points(offered, "rate", name), colour, f"{name[:3]} (median, least and largest)")
    right.plot(VOLGA_RATE, VOLGA_P99_MS, "D", color=RED, label="p99 in the paper, 16 machines")
    for axes in (left, right):
        _ticks(axes, list(arrived), "M rows/s offered")
    tidy(left, "M rows/s at the sink")
    logarithmic(right)
    tidy(right, "ms", zero=False)
    for axes in (left, right):
        legend(axes)
    count = max(map(len, arrived.values()))
    title(left, record["title"], under=f"{count} runs at each rate")
    return save(made, target)


def _in_millions(run: Run) -> str:
    return f"rates rate={float(fields_of(run)['rate']) / 1e6:g}"


def switches(record: Record, target: Path) -> Path:
    """Draw context switches in 5 s by the rows of a batch, beside those of the paper."""
    runs = record["runs"]
    made = figure(3.6)
    left, right = made.subplots(1, 2)
    ours, speed = points(runs, "batch_rows", "switches_per_5s"), points(runs, "batch_rows", "rows_per_s", 1e-6)
    places = range(len(ours))
    names = [f"{size:g}" for size in ours]
    theirs = [NEPTUNE_SWITCHES[name] for name in names]
    for shift, values, colour, label in (
        (-0.2, [median(v) for v in ours.values()], BLUE, "two engines here, all threads"),
        (0.2, theirs, GREY, "the paper"),
    ):
        bars = left.bar([p + shift for p in places], values, 0.38, color=colour, label=label)
        left.bar_label(bars, [f"{value:,.0f}" for value in values], fontsize=8)
    logarithmic(left)
    tidy(left, "context switches in 5 s", zero=False)
    left.set_ylim(1_000, 400_000)
    shown = right.bar(list(places), [median(v) for v in speed.values()], 0.5, color=BLUE)
    right.bar_label(shown, [f"{median(v):.3g}" for v in speed.values()], fontsize=8)
    tidy(right, "M rows/s in these runs")
    for axes in (left, right):
        axes.set_xticks(list(places), names)
        axes.set_xlabel("rows of a batch of the source")
    legend(left)
    title(left, record["title"])
    return save(made, target)


def replicas(record: Record, target: Path) -> Path:
    """Draw rates by the number of replicas of each step, and the best ones of the paper."""
    runs = record["runs"]
    made = figure(4.4)
    axes = made.subplots()
    names = list(dict.fromkeys(fields_of(run)["name"] for run in runs))
    counts = sorted({float(fields_of(run)["replicas"]) for run in runs})
    for name, colour in zip(names, COLOURS, strict=False):
        figure_name = "sink_rows_per_s" if name in SINK_IS_COUNTED else "rows_per_s"
        _line(axes, points(runs, "replicas", figure_name, 1e-6, name=name), colour, name)
        if name in ACTORS:
            axes.plot(*ACTORS[name], "D", color=colour, mfc="none", label=f"{name} in the paper, 48 threads")
    _ticks(axes, counts, "replicas of each step")
    logarithmic(axes)
    tidy(axes, "M rows/s (word count: words at the sink)", zero=False)
    legend(axes, ncols=2, loc="lower left")
    title(axes, record["title"], under="two processors here: a replica beyond the second brings no processor")
    return save(made, target)


def jobs(record: Record, target: Path) -> Path:
    """Draw the rate of all jobs together by their number, and what a job at rest takes."""
    runs = record["runs"]
    made = figure(4.0)
    left, middle, right = made.subplots(1, 3, width_ratios=(2, 1, 1))
    together = points(runs, "jobs", "rows_per_s", 1e-6)
    _line(left, together, BLUE, "all jobs together, 2 processors")
    left.plot(*NEPTUNE_JOBS, "D", color=RED, mfc="none", label=f"the paper, {NEPTUNE_MACHINES} machines")
    axis = NEPTUNE_JOBS[1] / NEPTUNE_MACHINES
    left.axhline(axis, color=RED, lw=1, ls=":", label="one of its machines, if all are alike")
    tidy(left, "M readings/s at the source")
    _line(middle, points(runs, "jobs", "rest_cpu_share", 100.0), BLUE, "")
    tidy(middle, "% of a processor, a job at rest")
    _line(right, points(runs, "jobs", "rest_mib"), BLUE, "")
    tidy(right, "MiB, a job at rest")
    for axes in (left, middle, right):
        _ticks(axes, list(together), "jobs at once")
        axes.set_ylim(top=1.3 * axes.dataLim.ymax)
    legend(left, loc="upper left")
    title(left, record["title"])
    return save(made, target)


def sends(record: Record, target: Path) -> Path:
    """Draw rate, latency and memory by the rate that is offered, of a node that waits and of one that sheds."""
    runs = record["runs"]
    made = figure(4.0, 12.0)
    left, middle, right = made.subplots(1, 3)
    offered: list[float] = []
    for variant, colour, label in (("waits", BLUE, "send_next waits"), ("sheds", ORANGE, "send_next_if, 1,000")):
        own = [run for run in runs if run["name"].endswith(f"/{variant}")]
        arrived = points(own, "rate", "rows_per_s", 1e-3)
        offered = [rate / 1e3 for rate in arrived]
        _spread(left, _in_thousands(arrived), colour, label)
        for name, line in (("p50_ms", "o:"), ("p99_ms", "o-")):
            _spread(middle, _in_thousands(points(own, "rate", name)), colour, f"{label}: {name[:3]}", line)
        _spread(right, _in_thousands(points(own, "rate", "memory_max_mib")), colour, label)
    left.plot(offered, offered, ":", color=GREY, lw=1, label="all that is offered")
    tidy(left, "thousand rows/s at the sink")
    logarithmic(middle)
    tidy(middle, "age of a row at the sink, ms", zero=False)
    tidy(right, "MiB, most of both engines")
    for axes in (left, middle, right):
        axes.set_xlabel("thousand rows/s offered")
        legend(axes)
    title(left, record["title"], under="median of the runs; bars from the least to the largest")
    return save(made, target)


def _in_thousands(found: Points) -> Points:
    return {at / 1e3: values for at, values in found.items()}


def backpressure(record: Record, target: Path) -> Path:
    """Draw how fast the source is while a stage behind it sleeps for each packet, in a cycle."""
    run = record["runs"][0]
    made = figure(4.4)
    above, below = made.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    told = rates_of(series(run, "source"))
    begun = next((at for at, rows in series(run, "counted") if rows), 0.0)
    end = max((at for at, _ in told), default=begun)
    times = [begun + tenth / 10 for tenth in range(round(10 * (end - begun)))]
    slept = [sleep_ms(at - begun) for at in times]
    most = [1000 / ms if ms else nan for ms in slept]
    above.step(
        times, most, where="post", color=GREY, lw=4, alpha=0.6, label="what a stage that sleeps so long can take"
    )
    above.plot([at for at, _ in told], [rate for _, rate in told], color=BLUE, lw=1.3, label="the source")
    below.step(times, slept, where="post", color=ORANGE, lw=1.4)
    logarithmic(above)
    tidy(above, "packets/s", zero=False)
    tidy(below, "ms of sleep")
    below.set_xlabel("seconds since the command")
    legend(above)
    title(above, record["title"])
    return save(made, target)


def relay(record: Record, target: Path) -> Path:
    """Draw the rate and the bytes of packets by the size of the output buffers."""
    runs = record["runs"]
    plain = [{**run, "name": _in_kib(run)} for run in runs]
    sizes = sorted({int(fields_of(run)["payload"]) for run in plain})
    made = figure(4.0)
    left, right = made.subplots(1, 2)
    for size, colour in zip(sizes, COLOURS, strict=False):
        found = points(plain, "buffer", "rows_per_s", 1e-6, payload=str(size))
        _line(left, found, colour, "")
        _line(right, {at: [v * size / 1000 for v in values] for at, values in found.items()}, colour, f"{size:,} B")
        _ticks(left, list(found), "KiB of an output buffer")
        _ticks(right, list(found), "KiB of an output buffer")
    left.axhline(NEPTUNE_RELAY, color=GREY, lw=1, ls=":", label="the paper, small packets, 1 Gbit/s")
    logarithmic(left)
    tidy(left, "M packets/s", zero=False)
    tidy(right, "GB/s of packets (loopback)")
    legend(left)
    legend(right, loc="lower right", title="size of a packet", title_fontsize=8)
    title(left, record["title"])
    return save(made, target)


def _in_kib(run: Run) -> str:
    fields = fields_of(run)
    size = fields["buffer"].replace("Mi", "024").replace("Ki", "")
    return f"relay payload={fields['payload']},buffer={size}"


def garbage(record: Record, target: Path) -> Path:
    """Draw the share of the collector for each kind of step, with and without the memory pool, and the rates."""
    runs = record["runs"]
    kinds = {
        "batches of 8,192": {"batch_rows": "8192"},
        "batches of 1": {"batch_rows": "1"},
        "a function for each record": {"batch_rows": "8192", "step": "record"},
    }
    made = figure(3.8)
    left, right = made.subplots(1, 2)
    for axes, name, scale in ((left, "gc_share", 100.0), (right, "rows_per_s", 1e-6)):
        for shift, variant, colour in ((-0.2, "pool", BLUE), (0.2, "no-pool", ORANGE)):
            values = [_median(runs, fields, variant, name) * scale for fields in kinds.values()]
            label = "Arrow's pool" if variant == "pool" else "malloc and free"
            bars = axes.bar([n + shift for n in range(len(kinds))], values, 0.38, color=colour, label=label)
            axes.bar_label(bars, [f"{value:.2g}" for value in values], fontsize=8)
        axes.set_xticks(range(len(kinds)), list(kinds), fontsize=8)
    tidy(left, "% of CPU time in the garbage collector")
    tidy(right, "M rows/s")
    legend(left)
    title(left, record["title"])
    return save(made, target)


def _median(runs: Sequence[Run], fields: Mapping[str, str], variant: str, name: str) -> float:
    found = [
        run["results"].get(name, 0.0)
        for run in runs
        if run["exact"] and fields_of(run) == fields and run["name"].endswith(f"/{variant}")
    ]
    return median(found) if found else 0.0


def compression(record: Record, target: Path) -> Path:
    """Draw the rates of the variants of each cell, with the p-value of Tukey's test for `auto` and the better other."""
    notes = {}
    for verdict in record.get("verdicts", ()):
        for one, other, p in verdict.get("tukey", ()):
            if {one, other} == {verdict["base"], verdict["other"]}:
                notes[verdict["cell"]] = f"p = {p:.2f}"
    drawn = bars.draw(record["runs"], f"{record['title']} (p: Tukey's test, auto and the better other)", target, notes)
    assert drawn is not None, "its runs are variants"
    return drawn


PICTURES: dict[str, Callable[[Record, Path], Path]] = {
    "compression": compression,
    "rates": rates,
    "context-switches": switches,
    "replicas": replicas,
    "jobs": jobs,
    "relay": relay,
    "send-next-if": sends,
    "backpressure": backpressure,
    "garbage": garbage,
}
