"""Times of recovery: how a piece prints them, their percentiles, and a plot of all in a ledger.

python -m tests.night.recoveries build/night/ledger.jsonl docs/recoveries.png
"""

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.stats import percentile
from tests.night.ledger import Entry, Ledger

MARK = "recoveries "
Recoveries = dict[str, list[float]]


def marked(took: Mapping[str, Sequence[float]]) -> str:
    """Return the line by which a piece tells how long its recoveries took, in seconds by kind of fault."""
    return MARK + json.dumps({kind: [round(each, 2) for each in seconds] for kind, seconds in took.items()})


def recoveries_in(output: str) -> Recoveries:
    """Return what the marked lines of an output tell."""
    return added_up(json.loads(line.removeprefix(MARK)) for line in output.splitlines() if line.startswith(MARK))


def added_up(parts: Iterable[Mapping[str, Sequence[float]]]) -> Recoveries:
    """Return all seconds by kind of fault, in the order of the parts."""
    found: Recoveries = {}
    for part in parts:
        for kind, seconds in part.items():
            found.setdefault(kind, []).extend(seconds)
    return found


def in_words(took: Mapping[str, Sequence[float]]) -> list[str]:
    """Return a line for each kind of fault: how many, and the time that it took."""
    return [
        f"{kind}: {len(seconds)} times, p50 {percentile(seconds, 50):.1f} s,"
        f" p95 {percentile(seconds, 95):.1f} s, most {max(seconds):.1f} s"
        for kind, seconds in sorted(took.items())
    ]


def draw(entries: Sequence[Entry], target: Path) -> None:
    """Draw every recovery as a dot, a line for each kind of fault, with p50, p95 and the most."""
    from bench.draw.style import BLUE, DPI, ORANGE, RED, figure, title  # the night itself runs without it

    took = dict(sorted(added_up(entry.recoveries for entry in entries).items(), reverse=True))
    made = figure(1.4 + 0.55 * len(took))
    axes = made.subplots()
    for row, seconds in enumerate(took.values()):
        axes.plot(seconds, [row] * len(seconds), "o", color=BLUE, alpha=0.35, ms=5, mew=0)
        marks = ((percentile(seconds, 50), "|", BLUE), (percentile(seconds, 95), "|", ORANGE), (max(seconds), "|", RED))
        for at, mark, colour in marks:
            axes.plot([at], [row], mark, color=colour, ms=18, mew=2)
    axes.set_yticks(range(len(took)), [f"{kind} ({len(seconds)})" for kind, seconds in took.items()])
    axes.set_ylim(-0.6, len(took) - 0.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    axes.grid(axis="x", color="#e6e8eb", lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    title(axes, "Time to recovery by kind of fault (number of faults)", "marks: p50 blue, p95 orange, most red")
    made.savefig(target, dpi=DPI)


def main() -> None:
    """Print and draw the recoveries of a ledger."""
    parser = argparse.ArgumentParser(prog="python -m tests.night.recoveries", description=__doc__)
    parser.add_argument("ledger", type=Path)
    parser.add_argument("target", type=Path, help="a PNG")
    options = parser.parse_args()
    entries = Ledger(options.ledger).entries
    print("\n".join(in_words(added_up(entry.recoveries for entry in entries))))
    draw(entries, options.target)


if __name__ == "__main__":
    main()
