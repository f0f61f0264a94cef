"""The range of a figure over all kept files: ``python -m bench.ranges FIGURE [SCENARIO ...]``.

A figure that is published is one of several; this lists the least and the most of every kind of
run that was exact, with the file of each. Runs in which others had more than a tenth of the
processors are counted, not used.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench import records, table
from bench.turns import OTHERS_SHARE_MAX

Found = dict[str, list[tuple[float, str]]]


def main(arguments: list[str] | None = None) -> int:
    """Print the ranges; exit 1 when no file has the figure."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.ranges")
    parser.add_argument("figure", help="a name in the files, like checkpoint_cost_share")
    parser.add_argument("scenario", nargs="*", help="only of these scenarios (all)")
    parser.add_argument("--folder", type=Path, default=records.OUT, help="folder of the results")
    options = parser.parse_args(arguments)
    found, busy = ranges(records.read_all(options.folder), options.figure, options.scenario)
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


def ranges(
    all_records: Mapping[str, Mapping[str, Any]], figure: str, scenarios: list[str]
) -> tuple[Found, int]:
    """Return by name of a run its values, rising, each with its file; and how many are left out."""
    found: Found = {}
    busy = 0
    for stem, run in _runs(all_records, scenarios):
        value = run["results"].get(figure)
        if value is None:
            continue
        if run["results"].get("others_share", 0.0) > OTHERS_SHARE_MAX:
            busy += 1
        else:
            found.setdefault(run["name"], []).append((value, stem))
    return {name: sorted(values) for name, values in found.items()}, busy


def _runs(
    all_records: Mapping[str, Mapping[str, Any]], scenarios: list[str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for stem, record in all_records.items():
        if not scenarios or record.get("scenario", record["kind"]) in scenarios:
            yield from ((stem, run) for run in record["runs"] if run["exact"])


if __name__ == "__main__":
    sys.exit(main())
