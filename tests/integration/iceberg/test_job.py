"""A job that writes to Iceberg on a real local cluster: exact when engines are killed, and when it is rescaled."""

from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.types import LongType, StringType

from tests.integration.command_job import running
from tests.integration.word_files import WordFiles, counting
from tests.support.iceberg import NAME, IcebergTable, local_catalog

pytestmark = pytest.mark.timeout(600)
SINK = {"iceberg": {"catalog": "sqlite:///catalog.db", "table": NAME}}
JOB = counting({"json": {"path": "in", "follow": 0.2}}, {"output": SINK})


def test_counts_are_exact_while_engines_are_killed_and_each_epoch_is_one_snapshot(tmp_path: Path) -> None:
    columns = {"word": StringType(), "times": LongType()}
    table = IcebergTable(lambda: local_catalog(tmp_path)).create(columns, {"word": "bucket[2]"})
    lines = WordFiles(tmp_path / "in")
    lines.add()

    def written() -> bool:
        return len(table.rows()) >= lines.rows

    with running(tmp_path, "words", JOB) as job:
        job.until(written)
        for workers, victim in ((3, 0), (2, 1)):  # worker 0 makes the commits
            lines.add()
            job.kill(victim)
            job.rescale(workers)
        job.until(written)
        (sink,) = job.status().sinks
        assert sink.guarantee == "exactly-once"
        job.stop()
    found = Counter((row["word"], row["times"]) for row in table.rows())
    assert found == Counter((word, n) for word, most in lines.counts().items() for n in range(1, most + 1))
    epochs = table.epochs()
    assert epochs == sorted(set(epochs)), "one snapshot for each epoch, and none goes back"
