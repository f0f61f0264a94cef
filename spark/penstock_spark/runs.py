"""Runs: a lossless compression of the sequence of counts of a word.

A run is a longest sequence of rows of one word, in the order of a file, in which each count is one
more than the count before. A correct file has one run per word. Every lost, repeated, swapped or
changed row begins another run. So it is enough to check that the runs of a word join from 1 to n: this
checks every row, and needs few runs instead of all rows.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import StateError

SCHEMA = pa.schema(
    [
        pa.field("word", pa.string()),
        pa.field("file", pa.string()),
        pa.field("row", pa.int64()),
        pa.field("first", pa.int64()),
        pa.field("last", pa.int64()),
    ]
)
OUTPUT = {"word": pa.string(), "count": pa.int64()}
BATCH_ROWS = 1 << 20
NO_COUNT = np.iinfo(np.int64).min  # stands for a null count, which continues no run


def runs_of(words: pa.Array, counts: pa.Array, file: str, row: int) -> pa.RecordBatch:
    """Compress rows (both arrays of equal length) that begin at ``row`` of ``file``."""
    coded = words.dictionary_encode(null_encoding="encode")
    ids = coded.indices.to_numpy(zero_copy_only=False)
    numbers = counts.fill_null(NO_COUNT).to_numpy(zero_copy_only=False)
    order = np.argsort(ids, kind="stable")
    ids, numbers = ids[order], numbers[order]
    joins = np.empty(len(ids), dtype=bool)
    joins[:1] = False
    joins[1:] = (ids[1:] == ids[:-1]) & (numbers[1:] == numbers[:-1] + 1)
    starts = np.flatnonzero(~joins)
    ends = np.append(starts[1:], len(ids)) - 1 if len(ids) else starts
    columns = [
        coded.dictionary.take(pa.array(ids[starts])),
        pa.array([file] * len(starts), pa.string()),
        pa.array(order[starts] + row, pa.int64()),
        pa.array(numbers[starts], pa.int64()),
        pa.array(numbers[ends], pa.int64()),
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def runs_in_file(path: Path) -> Iterator[pa.RecordBatch]:
    """Compress an output file in parts, so that memory is bounded.

    Raises StateError if it is not a readable Parquet file with columns ``word`` and ``count``.
    """
    try:
        with pq.ParquetFile(path) as file:
            _check(path, file.schema_arrow)
            row = 0
            for batch in file.iter_batches(BATCH_ROWS, columns=list(OUTPUT)):
                words = batch.column("word").cast(pa.string())
                yield runs_of(words, batch.column("count"), path.name, row)
                row += batch.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        raise StateError(f"output file {path} cannot be read: {error}") from error


def _check(path: Path, schema: pa.Schema) -> None:
    for name, wanted in OUTPUT.items():
        index = schema.get_field_index(name)
        found = schema.field(index).type if index >= 0 else None
        if found != wanted:
            raise StateError(f"output file {path}: column {name!r} is {found}, not {wanted}")
