"""Writes the input of word count: real text as a Parquet dataset of many files.

One Spark task writes one file: column ``line`` (string), rows in the order of the text. The same text
and the same arguments give the same files, byte for byte, with any number of threads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock_spark import folders, texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([pa.field("line", pa.string())])
ROW_GROUP_BYTES = 4 * 1024 * 1024  # bytes of text: a reader that seeks an offset reads at most one row group


@dataclass(frozen=True, slots=True)
class TextRequest:
    """What to write: which text, how many files, and how often the text is repeated."""

    sources: tuple[str, ...] = ()
    patterns: tuple[str, ...] = texts.PATTERNS
    size_max: int | None = 40_000_000
    files: int = 16
    repeat: int = 1


def find(request: TextRequest) -> tuple[texts.TextFile, ...]:
    """List the files of text of a request. Without sources, the text of the installed packages."""
    roots = tuple(Path(s).resolve() for s in request.sources) or texts.installed_roots()
    return texts.find_text(roots, request.patterns, request.size_max)


def describe(request: TextRequest, found: Sequence[texts.TextFile]) -> dict[str, Any]:
    """Return the description of the dataset. Equal descriptions mean equal files."""
    return {
        "kind": "text",
        "fingerprint": texts.fingerprint(found),
        "files": request.files,
        "repeat": request.repeat,
        "format": 1,
    }


def write(spark: "SparkSession", request: TextRequest, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    """Write the dataset into ``folder`` and return its marker (rows, bytes of text, files)."""
    found = find(request)
    description = describe(request, found)
    unfinished = folders.begin(folder, description, replace=replace)
    parts = _parts(texts.cut(found, request.files), request.repeat)
    written = (
        spark.sparkContext.parallelize(parts, len(parts))
        .mapPartitions(partial(_write_parts, str(unfinished)))
        .collect()
    )
    summary = {"rows": sum(w[0] for w in written), "text_bytes": sum(w[1] for w in written)}
    return folders.finish(folder, description, {**summary, "text_files": len(found)})


def _parts(pieces: Sequence[tuple[texts.TextFile, ...]], repeat: int) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (f"part-{turn:05d}-{index:05d}{folders.SUFFIX}", tuple(f.path for f in piece))
        for turn in range(repeat)
        for index, piece in enumerate(pieces)
    ]


def _write_parts(folder: str, parts: Iterator[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[int, int]]:
    for name, paths in parts:
        yield _write_part(Path(folder, name), paths)


def _write_part(target: Path, paths: Sequence[str]) -> tuple[int, int]:
    rows = size = 0
    with pq.ParquetWriter(target, SCHEMA, compression="snappy") as writer:
        for batch in _batches(paths):
            writer.write_batch(batch, row_group_size=batch.num_rows)
            rows += batch.num_rows
            size += pc.sum(pc.binary_length(batch.column(0))).as_py() or 0
    return rows, size


def _batches(paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield lists of lines of several files, each as large as a row group."""
    lines: list[str] = []
    size = 0
    for path in paths:
        fresh = texts.lines_of(path)
        lines += fresh
        size += sum(map(len, fresh))
        if size >= ROW_GROUP_BYTES:
            yield pa.record_batch([pa.array(lines, pa.string())], schema=SCHEMA)
            lines, size = [], 0
    if lines:
        yield pa.record_batch([pa.array(lines, pa.string())], schema=SCHEMA)
