"""Generates numbers for the examples ``pipeline`` and ``producer_consumer``: each column has the number of its row."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock_spark import folders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pa.schema([*(pa.field(name, pa.int64()) for name in ("a", "b", "c")), pa.field("n", pa.int32())])


@dataclass(frozen=True, slots=True)
class PipelineRequest:
    """The numbers of rows and files. Rows are counted from 0 in each file."""

    rows: int = 1_000_000
    files: int = 2


def describe(request: PipelineRequest) -> dict[str, Any]:
    """Return what identifies the dataset: two equal descriptions mean equal files."""
    return {"kind": "pipeline", "format": 1, **asdict(request)}


def write(spark: "SparkSession", request: PipelineRequest, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    """Write the dataset into ``folder`` and return its marker."""
    return folders.write_parts(spark, folder, describe(request), partial(rows_of, request), replace=replace)


def rows_of(request: PipelineRequest, number: int) -> pa.Table:
    """Make the rows of file ``number``. They depend only on the request and this number."""
    rows = np.arange(folders.part_rows(request.rows, request.files, number))
    return pa.Table.from_arrays([pa.array(rows, field.type) for field in SCHEMA], schema=SCHEMA)
