"""The range of a figure over all kept runs: ``python -m bench.ranges FIGURE [SCENARIO ...]``.

A published figure is one of several measurements. This lists the smallest and the largest value of
every kind of exact run, with the file of each. Runs in which other programs used more than a tenth of
the processors are left out; their number is shown.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from bench import summary, table
from bench.summary import Line
from bench.turns import OTHERS_SHARE_MAX

Found = dict[str, list[tuple[float, str]]]


def main(arguments: list[str] | None = None) -> int:
    """Print the ranges; exit 1 when no file has the figure."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.ranges")
    parser.add_argument("figure", help="a name in the files, like checkpoint_cost_share")
    parser.add_argument("scenario", nargs="*", help="only of these scenarios (all)")
    parser.add_argument("--summary", type=Path, default=summary.FILE, help="lines of the runs")
    options = parser.parse_args(arguments)
    found, busy = ranges(summary.read(options.summary), options.figure, options.scenario)
    if not found:
        print(f"no file has {options.figure!r}", file=sys.stderr)
        return 1
    body = [
        [name, table.number(values[0][0]), table.number(values[-1][0]), str(len(values)), *files]
        for name, values in sorted(found.items())
        for files in [(values[0][1], values[-1][1])]
    ]
    print(table.rows(["run", "least", "most", "runs", "file of the least", "of the most"], body))
    print(f"{busy} runs are left out: others had over {OTHERS_SHARE_MAX:.0%} of the processors")
    return 0


def ranges(lines: Iterable[Line], figure: str, scenarios: list[str]) -> tuple[Found, int]:
    """Return the values by name of run, ascending, each with its file; and how many are left out."""
    found: Found = {}
    busy = 0
    for line in lines:
        value = line.get("figures", {}).get(figure)
        if value is None or not line["exact"]:
            continue
        if scenarios and line["run"].partition(" ")[0].partition("/")[0] not in scenarios:
            continue
        if line["figures"].get("others_share", 0.0) > OTHERS_SHARE_MAX:
            busy += 1
        else:
            found.setdefault(line["run"], []).append((value, line["file"]))
    return {name: sorted(values) for name, values in found.items()}, busy


if __name__ == "__main__":
    sys.exit(main())
