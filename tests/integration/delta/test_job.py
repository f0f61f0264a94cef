"""A job that writes to Delta Lake on a real local cluster: exact when engines are killed, and when it is rescaled."""

from collections import Counter
from pathlib import Path

import pytest

from tests.integration.command_job import running
from tests.integration.word_files import WordFiles, counting
from tests.support.delta import Table

pytestmark = pytest.mark.timeout(600)
JOB = counting({"json": {"path": "in", "follow": 0.2}}, {"output": {"delta": {"table": "table"}}})


def test_counts_are_exact_while_engines_are_killed_and_each_epoch_is_one_commit(tmp_path: Path) -> None:
    table = Table.in_folder(tmp_path / "table").create({"word": "string", "times": "long"})
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
    assert epochs == sorted(set(epochs)), "one commit for each epoch, and none goes back"
