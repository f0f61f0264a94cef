"""How much a test does: enough for each change in ``make test``, and all of it in ``make long``.

A test that draws seeds, hits effects or kills processes finds more, the more of them it has. It has two counts.
``python -m tests.support.long_tests [FILE ...]`` runs the files of such tests with their long counts, and one
stage of ``make night`` runs each of them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VARIABLE = "LONG_TESTS"
LONG = bool(os.environ.get(VARIABLE))
long_only = pytest.mark.skipif(not LONG, reason="make long and make night run it")
"""Marks a test, or a parameter of one, whose like is in ``make test`` already."""
IMPORTED = re.compile(r"^from tests\.support\.long_tests import", re.MULTILINE)


def count(usual: int, long: int) -> int:
    """Return how often a test does something: ``usual`` in ``make test``, ``long`` in ``make long``."""
    return long if LONG else usual


def files() -> list[str]:
    """List the files of tests that have two counts."""
    found = (ROOT / "tests").rglob("test_*.py")
    return sorted(str(file.relative_to(ROOT)) for file in found if IMPORTED.search(file.read_text()))


def main(arguments: list[str]) -> int:
    """Run files, or the one of a number, with their long counts. Without arguments, run all of them."""
    match arguments:
        case ["--piece", number]:
            chosen = [files()[int(number)]]
        case []:
            chosen = files()
        case _:
            chosen = arguments
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
