"""What the source of a benchmark could give at most: printed beside every result."""

import time
from dataclasses import replace

from bench.oracle import words_spec
from bench.scenario import Scenario
from penstock.connectors.generator import WordSource

MEASURE_S = 0.3


def generator_rows_per_s(scenario: Scenario) -> float:
    """Return the rows/s that one thread reads from the generator alone, in the scenario's batches.

    The source slices a block that was drawn before: what is left of its cost is Python per batch.
    """
    spec = replace(words_spec(scenario), rows=None, rate=None)
    source = WordSource(spec)
    reader = source.open(source.splits()[0])
    reader.read(scenario.batch_rows)  # draws the block
    rows, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < MEASURE_S:
        read = reader.read(scenario.batch_rows)
        rows += 0 if read is None else read.batch.num_rows
    return rows / spent
