"""A file of output is full with ``rollBytes`` of rows in memory, in every format."""

from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.connectors.open_connectors import open_sink
from penstock.contract.graph import Connector
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId

ROWS = pa.record_batch({"word": ["w" * 1000] * 200})


@pytest.mark.parametrize("make", [ps.parquet, ps.json, ps.csv])
@pytest.mark.parametrize(("roll_bytes", "files"), [(64 * 1024, 3), (None, 1)])
def test_a_file_is_full_with_so_many_bytes_of_rows(
    tmp_path: Path, make: type[Connector], roll_bytes: int | None, files: int
) -> None:
    connector = make(tmp_path / "out", roll_bytes=roll_bytes)  # type: ignore[call-arg, arg-type]
    sink = open_sink("out", connector, ROWS.schema, staging=tmp_path)
    sink.claim("job", fresh=True)
    writer = sink.writer(TaskId(StageIndex(1), Ordinal(0), 0), Attempt(1))
    for piece in range(0, 200, 10):
        writer.write(ROWS.slice(piece, 10))
    handle = writer.seal(Epoch(1), "cut").finish()
    assert handle is not None
    sink.publisher.publish(handle, Epoch(1))
    sink.close()
    assert len([path for path in (tmp_path / "out").iterdir() if path.is_file()]) == files
