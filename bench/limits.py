"""What the source of a benchmark could give at most: printed beside every result."""

import time
from dataclasses import replace

from bench.oracle import words_spec
from bench.scenario import Scenario
from penstock.connectors.generator import WordSource
from penstock.engine.coalesce import Coalescer

MEASURE_S = 0.3


def generator_rows_per_s(scenario: Scenario) -> float:
    """Return the rows/s that one thread reads from the generator alone, in the scenario's batches.

    As a source task reads them. The source slices a block that was drawn before, which costs Python
    per batch; batches of few rows are copied one behind the other by a compiled loop.
    """
    spec = replace(words_spec(scenario), rows=None, rate=None)
    source = WordSource(spec)
    reader = source.open(source.splits()[0])
    reads = Coalescer(scenario.batch_rows)
    reader.gather(scenario.batch_rows, 1)  # draws the block and loads the kernel
    rows, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < MEASURE_S:
        read = reads.next(reader, reader)
        rows += 0 if read is None else read.batch.num_rows
    return rows / spent
