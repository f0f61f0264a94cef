"""The tests that ``make test`` leaves out, because it has ten minutes: ``make test-all`` runs them, too.

A line of ``slow_tests.csv`` names a test, or all tests of a function, and what it takes. Something like each of them
is in ``make test``: another kind of kill, another format, another server. A test that pytest is asked for by its file
is run, slow or not.
"""

import csv
from collections.abc import Iterable
from functools import cache
from pathlib import Path

TABLE = Path(__file__).with_suffix(".csv")


@cache
def slow_tests() -> dict[str, float]:
    """Return the seconds of CPU of each slow test, by what pytest calls it, or by its function."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["test"]: float(row["cpu_s"]) for row in csv.DictReader(file)}


def is_slow(name: str, slow: Iterable[str]) -> bool:
    """Return whether a test is slow, or its function is."""
    return name in slow or name.partition("[")[0] in slow


def missing(slow: Iterable[str], collected: Iterable[str]) -> list[str]:
    """Return the slow tests whose function was collected, but not with their parameter values."""
    names = set(collected)
    functions = {name.partition("[")[0] for name in names}
    return [name for name in slow if name not in names and "[" in name and name.partition("[")[0] in functions]
