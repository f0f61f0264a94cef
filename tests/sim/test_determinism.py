"""The same seed gives the same trace, whatever Python's hash seed is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parents[2] / "worker"


def trace(scenario: str, seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(WORKER)}
    command = [sys.executable, "-m", "penstock.testing", "--scenario", scenario, "--trace"]
    run = subprocess.run(
        [*command, "--width", "2000", "--seed", str(seed)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


@pytest.mark.parametrize(
    ("scenario", "seed"), [("chaos", 3), ("storm-window", 5), ("rescale-up", 1)]
)
def test_two_hash_seeds_give_one_trace(scenario: str, seed: int) -> None:
    first, second = trace(scenario, seed, "1"), trace(scenario, seed, "4242")
    assert len(first.splitlines()) > 500
    assert first == second


def test_two_seeds_give_two_traces() -> None:
    assert trace("chaos", 1, "1") != trace("chaos", 2, "1")
