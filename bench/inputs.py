"""Writes the input of a comparison to disk, the same words for every engine: the block, lines, Parquet."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.oracle import words_spec
from bench.scenario import Scenario
from penstock.connectors.generator import WordBlock

PARQUET_ROWS = 2_000_000  # of one file
LINES_PER_FILE = 200_000  # an engine may take a file as a whole


def prepare(scenario: Scenario, folder: Path, inputs: tuple[str, ...], checkpoint_s: float) -> None:
    """Write the task of an engine: the block of words, and the rows in the forms it reads."""
    block = WordBlock(words_spec(scenario))
    (folder / "words.txt").write_text("\n".join(block.words.to_pylist()))
    (folder / "indices.i32").write_bytes(block.indices.astype("<i4").tobytes())
    rows = scenario.rows_per_split * scenario.splits
    task = {"rows": rows, "splits": scenario.splits, "checkpoint_s": checkpoint_s}
    (folder / "task.json").write_text(json.dumps(task))
    if "lines" in inputs:
        _write_lines(scenario, block, folder / "lines")
    if "parquet" in inputs:
        _write_parquet(scenario, block, folder / "parquet")


def rows_of(scenario: Scenario, block: WordBlock, split: int) -> Iterator[pa.Array]:
    """Yield the rows of a split as the generator gives them, in arrays of at most a block."""
    left, place = scenario.rows_per_split, block.start_of(split)
    column = block.batch.column("word")
    while left:
        rows = column.slice(place, left)
        yield rows
        left -= len(rows)
        place = (place + len(rows)) % len(column)


def _write_lines(scenario: Scenario, block: WordBlock, folder: Path) -> None:
    folder.mkdir()
    for split in range(scenario.splits):
        column = pa.chunked_array(list(rows_of(scenario, block, split)), pa.string())
        for number, start in enumerate(range(0, len(column), LINES_PER_FILE)):
            lines = column.slice(start, LINES_PER_FILE).to_pylist()
            (folder / f"{split}-{number:04d}.txt").write_text("\n".join(lines) + "\n")


def _write_parquet(scenario: Scenario, block: WordBlock, folder: Path) -> None:
    folder.mkdir()
    for split in range(scenario.splits):
        column = pa.chunked_array(list(rows_of(scenario, block, split)), pa.string())
        for number, start in enumerate(range(0, len(column), PARQUET_ROWS)):
            table = pa.table({"word": column.slice(start, PARQUET_ROWS)})
            pq.write_table(table, folder / f"{split}-{number:04d}.parquet")


def expected_counts(scenario: Scenario) -> dict[str, int]:
    """Return how often each word occurs, computed from the generator alone."""
    block = WordBlock(words_spec(scenario))
    counts = np.zeros(scenario.keys, np.int64)
    for split in range(scenario.splits):
        counts += block.counts(split, scenario.rows_per_split)
    return {w: int(n) for w, n in zip(block.words.to_pylist(), counts, strict=True) if n}


def differences(wanted: dict[str, int], got: dict[str, int]) -> list[str]:
    """Say how many words have another count, and show one; empty when all are equal."""
    wrong = [w for w in {*wanted, *got} if wanted.get(w, 0) != got.get(w, 0)]
    if not wrong:
        return []
    word = min(wrong)
    shown = f"{word!r}: {got.get(word, 0)} instead of {wanted.get(word, 0)}"
    return [f"{len(wrong)} of {len(wanted)} words have another count, {shown}"]
