"""Measures the highest rate of the source of a benchmark. It is printed with every result."""

import sys
import time

from bench import texts
from bench.oracle import words_spec
from bench.own import OwnReader
from bench.rows import Rows
from bench.scenario import Scenario
from penstock.base.values import replace
from penstock.connectors.generator import WordSource
from penstock.engine.source_reader import ReadBatcher
from penstock.ports import GatheringReader, SplitReader

MEASURE_S = 0.3


def generator_rows_per_s(scenario: Scenario) -> float:
    """Return the rows/s that one thread reads from the generator alone, in the scenario's batches.

    It reads as a source task does. The source slices a block that was generated before, which costs
    Python code for each batch. The generator has a compiled loop that joins batches of few rows; a
    user's own source (kind ``own``) does not.
    """
    if scenario.text:
        return texts.read_words_per_s(scenario, MEASURE_S)
    if scenario.kind == "rows":
        rows = Rows(scenario.data, scenario.payload, sys.maxsize)
        return _read_rows_per_s(scenario, rows.open(rows.splits()[0]))
    spec = replace(words_spec(scenario), rows=None, rate=None)
    words = WordSource(spec)
    reader = words.open(words.splits()[0])
    if scenario.kind == "own":
        reader.read(1)  # generates the block
        return _read_rows_per_s(scenario, OwnReader(reader, reader.committed))
    reader.gather(scenario.batch_rows, 1)  # generates the block and loads the kernel
    return _read_rows_per_s(scenario, reader, reader)


def _read_rows_per_s(scenario: Scenario, reader: SplitReader, gathering: GatheringReader | None = None) -> float:
    reads = ReadBatcher(scenario.batch_rows)
    rows, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < MEASURE_S:
        read = reads.next(reader, gathering)
        rows += 0 if read is None else read.batch.num_rows
    return rows / spent
