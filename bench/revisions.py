"""Compares two revisions of Penstock in alternating runs of a scenario: do they differ beyond noise?

    python -m bench.revisions BASE OTHER [--scenario NAME] [--turns N] [--set NAME=VALUE ...]

Each revision is checked out of Git into its own folder, and runs with the packages that are installed
here. ``.`` is the working tree. Each runs once before, so that nothing is compiled during a
measurement.
"""

import argparse
import io
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from bench import machine, records
from bench.draw import pictures
from bench.endings import end_with_children
from bench.records import Record
from bench.run import one_run
from bench.runner import ROOT
from bench.scenario import Scenario, load
from bench.variants import compare, show_verdicts
from penstock.base.values import replace

WORKING_TREE = "."
TAKEN_OUT = ("worker", "bench")


def main(arguments: list[str] | None = None) -> int:
    """Compare the two revisions named on the command line."""
    options = _parser().parse_args(arguments)
    end_with_children()
    changes = {k: tomllib.loads(f"x = {v}")["x"] for k, v in (s.split("=", 1) for s in options.set)}
    scenario = replace(load(options.scenario), **changes)
    with tempfile.TemporaryDirectory(prefix="penstock-revisions-") as folder:
        roots = {name: take_out(name, Path(folder)) for name in (options.base, options.other)}
        for name, root in roots.items():
            print(f"\n== {name} runs once to warm up", flush=True)
            one_run(scenario.shorter(), source=root)
        runs = alternate(scenario, roots, options.turns)
    verdicts = compare(runs, [{"name": name} for name in roots])
    show_verdicts(verdicts)
    keep(scenario, (options.base, options.other), runs, verdicts)
    return 0 if all(run["exact"] for run in runs) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.revisions")
    parser.add_argument("base", help="a revision, as Git names it")
    parser.add_argument("other", help="another one, or . for the working tree")
    parser.add_argument("--scenario", default="1-words-32", help="what is run (1-words-32)")
    parser.add_argument("--turns", type=int, default=5, help="times that both run (5)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    return parser


def take_out(revision: str, folder: Path) -> Path:
    """Return a folder with the sources of a revision."""
    if revision == WORKING_TREE:
        return ROOT
    command = ["git", "archive", revision, *TAKEN_OUT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{revision}: {done.stderr.decode().strip()}")
    target = folder / revision.replace("/", "_")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(target, filter="data")
    return target


def alternate(scenario: Scenario, roots: dict[str, Path], turns: int) -> list[Record]:
    """Run every revision once in each turn. The order is reversed each time."""
    found = []
    for turn in range(turns):
        names: Sequence[str] = list(roots) if turn % 2 == 0 else list(roots)[::-1]
        for name in names:
            one = replace(scenario, name=f"{scenario.name}/{name}", bare=False)
            found.append(one_run(one, first=False, source=roots[name]))
    return found


def keep(scenario: Scenario, names: tuple[str, str], runs: list[Record], verdicts: list[Record]) -> None:
    """Write and draw the result."""
    made_on = machine.describe()
    record = {
        "kind": "revisions",
        "title": f"{scenario.title}: {names[0]} and {names[1]}, in turn",
        "command": records.command_line("bench.revisions", sys.argv[1:]),
        "machine": made_on,
        "verdicts": verdicts,
        "runs": runs,
    }
    stem = f"revisions-{made_on['revision']}-{time.strftime('%Y%m%dT%H%M%S')}"
    path = records.write(stem, record)
    pictures.draw(record, records.OUT / stem)
    print(f"   kept in {path}")


if __name__ == "__main__":
    sys.exit(main())
