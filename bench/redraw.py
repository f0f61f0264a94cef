"""Draws the picture of an experiment again, from one record or from several parts of it.

    python -m bench.redraw bench/out/rates-*.json [--out bench/results]

All FILEs are records of one scenario. The picture has the name ``paper-SCENARIO.png``.
"""

import argparse
import sys
from pathlib import Path

from bench import records
from bench.draw import pictures
from bench.records import Record


def main(arguments: list[str] | None = None) -> int:
    """Draw; the exit code is 1 if the records are of different scenarios."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.redraw")
    parser.add_argument("file", nargs="+", type=Path, help="a record, compressed or not")
    parser.add_argument("--out", type=Path, default=records.PUBLISHED, help="folder of the picture")
    options = parser.parse_args(arguments)
    try:
        record = joined([records.read(file) for file in options.file])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for path in pictures.draw(record, options.out / f"paper-{record['scenario']}"):
        print(f"   drawn: {path}")
    return 0


def joined(parts: list[Record]) -> Record:
    """Return the first record with the runs and the verdicts of all. Raises ValueError."""
    names = {part["scenario"] for part in parts}
    if len(names) > 1:
        raise ValueError(f"records of {' and '.join(sorted(names))}: they have no picture together")
    runs = [run for part in parts for run in part["runs"]]
    return {**parts[0], "runs": runs, "verdicts": [v for part in parts for v in part.get("verdicts", ())]}


if __name__ == "__main__":
    sys.exit(main())
