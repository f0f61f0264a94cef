"""What must have come out, computed from the generator alone."""

import numpy as np

from bench.scenario import Scenario
from penstock.connectors.generator import WordBlock, WordsSpec


def expected(scenario: Scenario) -> dict[str, int]:
    """Return the rows and the sum of all running counts, modulo 2^64 as the sink adds them.

    A word that occurs n times has the counts 1..n, whose sum is n(n+1)/2: a lost, repeated or
    misrouted word changes it.
    """
    spec = WordsSpec(
        splits=scenario.workers,
        rows=scenario.rows_per_split,
        payload=scenario.payload,
        keys=scenario.keys,
        distribution=scenario.distribution,
    )
    block = WordBlock(spec)
    counts = np.zeros(scenario.keys, np.int64)
    for split in range(scenario.workers):
        counts += block.counts(split, scenario.rows_per_split)
    numbers = [int(n) for n in counts]
    return {"rows": sum(numbers), "count": sum(n * (n + 1) // 2 for n in numbers)}


def differences(wanted: dict[str, int], got: dict[str, int]) -> list[str]:
    """List what is not as expected; empty when the run was exact."""
    return [
        f"{name}: {got.get(name, 0)} instead of {value}"
        for name, value in wanted.items()
        if (got.get(name, 0) - value) % 2**64
    ]
