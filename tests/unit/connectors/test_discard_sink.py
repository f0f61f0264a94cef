from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError
from penstock.connectors.discard_sink import DiscardSink, read_reports
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId

SCHEMA = pa.schema([("word", pa.string()), ("count", pa.int64()), ("__bound", pa.int64())])
TASK = TaskId(StageIndex(1), Ordinal(0), 0)


def batch(*counts: int) -> pa.RecordBatch:
    columns = [["w"] * len(counts), list(counts), list(counts)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def test_totals_are_published_once_however_often(tmp_path: Path) -> None:
    sink = DiscardSink("end", SCHEMA, str(tmp_path))
    sink.claim("job", fresh=True)
    writer = sink.writer(TASK, Attempt(1))
    writer.write(batch(1, 2, 3))
    first = writer.seal(Epoch(1), "a").finish()
    writer.write(batch(4))
    second = writer.seal(Epoch(2), "b").finish()
    assert first is not None
    assert second is not None
    assert read_reports(tmp_path) == {}
    for handle in (first, second, first):
        sink.publisher.publish(handle, Epoch(2))
    assert read_reports(tmp_path) == {"rows": 4, "count": 10}


def test_an_epoch_without_rows_has_no_handle() -> None:
    writer = DiscardSink("end", SCHEMA).writer(TASK, Attempt(1))
    assert writer.room()
    assert writer.seal(Epoch(1), "a").finish() is None


def test_old_reports_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds another run's reports"):
        DiscardSink("end", SCHEMA, str(tmp_path)).claim("job", fresh=True)
