"""One run over time: rate, latency, memory, bytes on the wire; checkpoints and events marked."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from bench import histogram
from bench.draw.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    figure,
    legend,
    logarithmic,
    save,
    tidy,
    title,
)
from bench.records import series
from bench.timeline import rates, summed

MIB = 2**20
TICKS_SHOWN_TOGETHER = 5
Run = Mapping[str, Any]
Panel = Callable[[Axes, Run], None]


def draw(run: Run, heading: str, target: Path) -> Path:
    """Draw every panel that the run has samples for."""
    panels: list[tuple[Panel, float]] = [(_rate, 2.0)]
    if run["samples"]["latency_us"]:
        panels.append((_latency, 1.6))
    if any(value for _, value in series(run, "stolen_s")):
        panels.append((_stolen, 0.7))
    panels += [(_memory, 1.0), (_wire, 1.0)]
    made = figure(1.4 + 1.25 * sum(height for _, height in panels))
    ratios = [height for _, height in panels]
    axes = made.subplots(len(panels), 1, sharex=True, height_ratios=ratios)
    for (panel, _), place in zip(panels, axes, strict=True):
        panel(place, run)
        _marks(place, run)
    _label_events(axes[0], run)
    title(axes[0], heading, under=subtitle(run["results"]))
    axes[-1].set_xlabel("seconds since the command")
    return save(made, target)


def subtitle(found: Mapping[str, float]) -> str:
    """Return the most important figures as one line of text."""
    parts = [f"{found['rows_per_s'] / 1e6:.2f} M rows/s", f"{found['epochs']:.0f} checkpoints"]
    if "p99_ms" in found and "memory_growth_mib" not in found:
        parts.append(f"p50 {found['p50_ms']:.1f} ms, p99 {found['p99_ms']:.1f} ms")
    if "memory_growth_mib" in found:
        parts.append(f"memory +{found['memory_growth_mib']:.0f} MiB while stalled")
    if "recovery_p95_s" in found:
        parts.append(f"back at the full rate after {found['recovery_p95_s']:.1f} s (p95)")
    return ", ".join(parts)


def _rate(axes: Axes, run: Run) -> None:
    source = rates(series(run, "source"))
    sink = summed(series(run, "ticks"), TICKS_SHOWN_TOGETHER)
    slow = run["scenario"]["kind"] == "backpressure"  # its rate varies by a factor of a hundred
    unit = 1.0 if slow else 1e6
    told = "source, as it tells each second"
    axes.plot(*_columns(source, unit), color=ORANGE, lw=1.1, label=told)
    axes.step(*_columns(sink, unit), where="post", color=BLUE, lw=1.4, label="sink, committed rows")
    if slow:
        logarithmic(axes)
    tidy(axes, "rows/s" if slow else "M rows/s", zero=not slow)
    legend(axes, loc="upper center" if slow else "lower right")


def _latency(axes: Axes, run: Run) -> None:
    seconds = {int(s): {int(k): n for k, n in b.items()} for s, b in by_second(run).items()}
    found = {s: histogram.figures(b) for s, b in sorted(seconds.items())}
    styles = {"p50_ms": (BLUE, "p50"), "p99_ms": (ORANGE, "p99"), "max_ms": (RED, "max")}
    for name, (colour, label) in styles.items():
        values = [f[name] for f in found.values()]
        axes.step(list(found), values, where="post", color=colour, lw=1.2, label=label)
    logarithmic(axes)
    tidy(axes, "latency, ms", zero=False)
    legend(axes, loc="upper right", ncols=3)


def _stolen(axes: Axes, run: Run) -> None:
    found = rates(series(run, "stolen_s"))
    axes.fill_between(*_columns(found, 0.01), color=GREY, lw=0.0, step="pre")
    tidy(axes, "host took, %")


def by_second(run: Run) -> dict[str, dict[str, int]]:
    """Return the latency buckets of a run by second."""
    found: dict[str, dict[str, int]] = run["samples"]["latency_us"]
    return found


def _memory(axes: Axes, run: Run) -> None:
    axes.plot(*_columns(series(run, "memory"), MIB), color=GREEN, lw=1.3)
    tidy(axes, "engines, MiB")


def _wire(axes: Axes, run: Run) -> None:
    axes.plot(*_columns(rates(series(run, "wire_bytes")), MIB), color=GREY, lw=1.2)
    tidy(axes, "loopback, MiB/s")


def _marks(axes: Axes, run: Run) -> None:
    for epoch in run["samples"]["checkpoints"]:
        axes.axvline(epoch["at"], color=GREY, lw=0.6, ls=":")
    for event in run["samples"]["events"]:
        axes.axvline(event["at"], color=RED, lw=0.9, ls="--")


def _label_events(axes: Axes, run: Run) -> None:
    for event in run["samples"]["events"]:
        axes.text(
            event["at"], axes.get_ylim()[1], f" {event['what']}", color=RED, fontsize=6,
            rotation=90, va="top", ha="left",
        )  # fmt: skip


def _columns(found: list[tuple[float, float]], unit: float) -> tuple[list[float], list[float]]:
    return [at for at, _ in found], [value / unit for _, value in found]
