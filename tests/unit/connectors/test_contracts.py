"""The real sources and sinks keep the contracts that the fakes keep."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.discard_sink import DiscardSink, DiscardSpec, read_reports
from penstock.connectors.file_sink import ParquetSink
from penstock.connectors.generator import WordSource
from penstock.connectors.parquet_source import ParquetSource
from penstock.contract.columns import Column
from penstock.contract.connectors import WordsSpec
from penstock.contract.ids import Attempt, Ordinal, StageIndex, TaskId
from penstock.ports import SinkPublisher, SinkWriter
from tests.support import contracts

TASK = TaskId(StageIndex(1), Ordinal(0), 0)
ROWS = pa.record_batch({"a": pa.array([7, 7, 7], pa.int64())})


def test_parquet_source(tmp_path: Path) -> None:
    for file in range(3):
        lines = [f"{file} {row}" for row in range(250 * file)]  # the first one has no rows
        table = pa.table({"line": pa.array(lines, pa.string())})
        pq.write_table(table, tmp_path / f"{file}.parquet", row_group_size=100)
    contracts.check_source(ParquetSource(str(tmp_path), (Column("line", "string"),)))


def test_generator() -> None:
    contracts.check_source(WordSource(WordsSpec(rows=500, splits=2, payload=8, keys=20)))


def test_parquet_sink(tmp_path: Path) -> None:
    sink = ParquetSink("out", str(tmp_path), ROWS.schema)
    sink.claim("job", fresh=True)

    def visible() -> list[object]:
        files = sorted(tmp_path.glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def make() -> tuple[SinkWriter, SinkPublisher]:
        return sink.writer(TASK, Attempt(1)), sink.publisher

    contracts.check_sink(make, ROWS, visible)
    contracts.check_staging(make, ROWS)
    sink.close()


def test_discard_sink(tmp_path: Path) -> None:
    """Its rows are seen as totals; it has nothing staged, so a discard has nothing to remove."""
    sink = DiscardSink("out", ROWS.schema, DiscardSpec(report=str(tmp_path)))
    sink.claim("job", fresh=True)

    def visible() -> list[object]:
        totals = read_reports(tmp_path)
        assert totals.get("a", 0) == 7 * totals.get("rows", 0)
        return [{"a": 7}] * totals.get("rows", 0)

    contracts.check_sink(lambda: (sink.writer(TASK, Attempt(1)), sink.publisher), ROWS, visible)
