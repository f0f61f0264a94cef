"""A job from Delta Lake to Delta Lake on a real local cluster: exact when engines are killed, and when rescaled."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from tests.integration.command_job import running
from tests.integration.word_files import Words, counting
from tests.support.delta import Table

pytestmark = pytest.mark.timeout(600)
JOB = counting({"delta": {"table": "in", "follow": 0.2}}, {"output": {"delta": {"table": "table"}}})


def test_counts_are_exact_while_engines_are_killed_and_each_epoch_is_one_commit(tmp_path: Path) -> None:
    table = Table.in_folder(tmp_path / "table").create({"word": "string", "times": "long"})
    given, words = Table.in_folder(tmp_path / "in").create({"word": "string"}), Words()

    def add() -> None:
        """Add two versions, as other writers do while the job reads."""
        for _ in range(2):
            given.add_rows(pa.table({"word": words.some()}))

    def written() -> bool:
        return len(table.rows()) >= words.rows

    add()
    with running(tmp_path, "words", JOB) as job:
        job.until(written)
        for workers, victim in ((3, 0), (2, 1)):  # worker 0 makes the commits
            add()
            job.kill(victim)
            job.rescale(workers)
        job.until(written)
        (sink,) = job.status().sinks
        assert sink.guarantee == "exactly-once"
        job.stop()
    found = Counter((row["word"], row["times"]) for row in table.rows())
    assert found == Counter((word, n) for word, most in words.counts().items() for n in range(1, most + 1))
    epochs = table.epochs()
    assert epochs == sorted(set(epochs)), "one commit for each epoch, and none goes back"
