"""Spark reads the rows that the Delta Lake sink has written, with Delta Lake's own library."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.contract.ids import Epoch
from tests.integration.delta.test_sink import Target
from tests.support.staged_output import OTHER_TASK, ROWS, staged, staged_by_both
from tools.servers import delta_spark
from tools.servers.fetched import ServerMissing

pytestmark = pytest.mark.timeout(300)


def test_spark_reads_each_row_once_with_its_partition(tmp_path: Path) -> None:
    target = Target(tmp_path, partitions=["word"])
    sink = target.claimed()
    odd = pa.record_batch({"word": ["a/b=c d", None, "é%"], "number": pa.array([18, 19, 20], pa.int64())})
    epochs = [staged_by_both(sink, 1), [staged(sink, 2, odd, task=OTHER_TASK)]]
    for epoch, handles in enumerate(epochs, 1):
        for _ in range(2):  # as after a crash
            sink.publisher.publish_all(handles, Epoch(epoch))
    try:
        found = delta_spark.rows(Path(target.url))
    except ServerMissing as missing:
        pytest.skip(str(missing))
    due = [*ROWS.to_pylist(), *ROWS.to_pylist(), *odd.to_pylist()]
    assert sorted(found, key=str) == sorted(due, key=str)
