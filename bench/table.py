"""Tables for readers: the figures of a run, its targets, and what was not exact."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.scenario import Target

UNITS = {
    "rows_per_s": "rows/s",
    "measured_s": "s",
    "cpu_ns_per_row": "ns",
    "wire_bytes_per_row": "B",
    "checkpoint_s": "s",
    "seconds": "s",
}
SUFFIXES = {"_ms": "ms", "_s": "s", "_mib": "MiB", "_rows_per_s": "rows/s"}


TITLES = {
    "rows_per_s": "rows/s",
    "cpu_ns_per_row": "CPU, ns a row",
    "wire_bytes_per_row": "on the wire, B a row",
    "memory_max_mib": "most memory, MiB",
    "memory_growth_mib": "growth of memory, MiB",
    "checkpoint_s": "checkpoint, s",
    "checkpoint_mib": "checkpoint, MiB",
    "checkpoint_cost_share": "rate taken by checkpoints, share",
    "first_file_s": "first output after, s",
    "measured_s": "measured for, s",
    "seconds": "whole run, s",
    "others_share": "share of others",
    "stolen_share": "taken by the host, share",
    "quiet_s": "quiet seconds",
    "p50_ms": "p50 of all seconds, ms",
    "p99_ms": "p99 of all seconds, ms",
    "p99.9_ms": "p99.9 of all seconds, ms",
    "quiet_p50_ms": "p50 of quiet seconds, ms",
    "quiet_p99_ms": "p99 of quiet seconds, ms",
    "quiet_p99.9_ms": "p99.9 of quiet seconds, ms",
    "generator_rows_per_s": "generator alone, rows/s",
    "stalled_rows_per_s": "rows/s into a stalled sink",
    "stalled_source_rows_per_s": "rows/s read while it stalls",
}


def title(name: str) -> str:
    """Return the title of a figure, with its unit."""
    told = name.removesuffix("_ms").replace("_", " ")
    return TITLES.get(name) or ", ".join(filter(None, (told, unit(name))))


def unit(name: str) -> str:
    """Return the unit of a figure by its name. Empty for counts."""
    ends = [u for suffix, u in sorted(SUFFIXES.items(), key=lambda i: -len(i[0])) if name.endswith(suffix)]
    return UNITS.get(name) or (ends[0] if ends else "")


def number(value: float) -> str:
    """Write a figure: a large one with separators, a small one with three digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def verdict(target: Target | None, found: Mapping[str, Any]) -> str:
    """Return whether a target was met, as text. Empty if there is no target."""
    if target is None:
        return ""
    return f"target {target}: {'met' if target.met(found) else 'MISSED'}"


def show(found: Mapping[str, Any], targets: Sequence[Target], wrong: Sequence[str]) -> None:
    """Print the results of one run."""
    by_name = {target.name: target for target in targets}
    for name, value in found.items():
        told = verdict(by_name.get(name), found)
        print(f"   {name:28s} {number(value):>16} {unit(name):7s} {told}".rstrip())
    print(f"   {'exact':28s} {'yes' if not wrong else 'NO':>16}")
    for line in wrong:
        print(f"      {line}")


def rows(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a table of texts as Markdown, which is also readable on a terminal."""
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *body]
    return "\n".join(
        "| " + " | ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)) + " |" for line in lines
    )
