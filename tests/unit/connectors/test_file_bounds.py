"""Files for tables have the bounds of those columns in which readers may go by them."""

import math
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.file_output import HashingFile, write_parquet
from penstock.file_system import OS_FILES

NAN = math.nan


def bounds(folder: Path, columns: dict[str, pa.Array]) -> dict[str, tuple[object, object] | None]:
    """Write two batches of a file, and return the least and the largest value of each column."""
    batch = pa.record_batch(columns)
    file = os.open(folder / "file", os.O_CREAT | os.O_WRONLY)
    write_parquet(HashingFile(OS_FILES, file), batch.schema, [batch.slice(0, 1), batch.slice(1)], statistics=True)
    os.close(file)
    group = pq.read_metadata(folder / "file").row_group(0)
    found = {group.column(n).path_in_schema: group.column(n).statistics for n in range(group.num_columns)}
    return {name: each and (each.min, each.max) for name, each in found.items()}


def test_a_column_with_nan_has_no_bounds(tmp_path: Path) -> None:
    columns = {
        "number": pa.array([1, 2, None]),
        "plain": pa.array([1.5, None, 0.5]),
        "odd": pa.array([1.5, 0.5, NAN]),
        "half": pa.array([NAN, None, 1.0], pa.float32()),
        "none": pa.nulls(3, pa.float64()),
    }
    found = bounds(tmp_path, columns)
    assert (found["number"], found["plain"]) == ((1, 2), (0.5, 1.5))
    assert (found["odd"], found["half"]) == (None, None)
