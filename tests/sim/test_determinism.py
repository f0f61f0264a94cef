"""The same seed gives the same trace, whatever Python's hash seed is."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = os.pathsep.join((str(ROOT), str(ROOT / "worker")))
CASES = [("chaos", 3), ("storm-window", 5), ("rescale-up", 1), ("chaos", 1)]
SCRIPT = f"""
import json
from sim.running import Case, run_case
traces = [run_case(Case(*case), keep_trace=True).lines for case in {CASES!r}]
print(json.dumps(traces))
"""


@cache
def traces(hash_seed: str) -> list[list[str]]:
    """Return every event of each case, as one process with that hash seed sees them."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": SOURCES}
    run = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    found: list[list[str]] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("number", range(3))
def test_two_hash_seeds_give_one_trace(number: int) -> None:
    first, second = traces("1")[number], traces("4242")[number]
    assert len(first) > 500
    assert first == second


def test_two_seeds_give_two_traces() -> None:
    one, other = CASES.index(("chaos", 1)), CASES.index(("chaos", 3))
    assert traces("1")[one] != traces("1")[other]
