"""Which rows of a dataset a replay pushes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_spark.push import PartitionRows


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two files, of rows 0..5 and 6..9."""
    found = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    for file, numbers in zip(found, (range(6), range(6, 10)), strict=True):
        pq.write_table(pa.table({"n": list(numbers)}), file)
    return found


@pytest.mark.parametrize("offset", range(12))
@pytest.mark.parametrize("rows", [None, 0, 4, 6, 8, 10, 99])
def test_rows_from_any_offset_to_the_last_one(files: list[str], rows: int | None, offset: int) -> None:
    wanted = PartitionRows(files, rows)
    last = min(10, 10 if rows is None else rows)
    assert wanted.rows == last
    got = [n for batch in wanted.batches(offset, 3) for n in batch["n"].to_pylist()]
    assert got == list(range(offset, last))
