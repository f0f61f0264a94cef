"""A job from Delta Lake to Delta Lake on a real local cluster: exact when engines are killed, and when rescaled."""

from pathlib import Path

import pyarrow as pa

from tests.integration.command_job import running
from tests.integration.table_jobs import check_exact_through_kills
from tests.integration.word_files import Words, counting
from tests.support.delta import Table

JOB = counting({"delta": {"table": "in", "follow": 0.2}}, {"output": {"delta": {"table": "table"}}})


def test_counts_are_exact_while_engines_are_killed_and_each_epoch_is_one_commit(tmp_path: Path) -> None:
    table = Table.in_folder(tmp_path / "table").create({"word": "string", "times": "long"})
    given = Table.in_folder(tmp_path / "in").create({"word": "string"})
    check_exact_through_kills(tmp_path, JOB, given.add_rows, table)


def test_a_table_that_is_away_for_a_moment_is_waited_for_and_its_absence_is_named(tmp_path: Path) -> None:
    table = Table.in_folder(tmp_path / "table").create({"word": "string", "times": "long"})
    given, words = Table.in_folder(tmp_path / "in").create({"word": "string"}), Words()
    gone = "there is no table: correct `table`, or make the table first"

    def add() -> None:
        given.add_rows(pa.table({"word": words.some()}))

    add()
    with running(tmp_path, "words", JOB) as job:
        job.until(lambda: len(table.rows()) >= words.rows)
        (tmp_path / "in").rename(tmp_path / "away")
        job.until(lambda: gone in log(tmp_path))  # by a lane that looks for new versions
        job.kill(1)
        job.until(lambda: f"a source or sink has failed, and it is started again): delta: in: {gone}" in log(tmp_path))
        (tmp_path / "away").rename(tmp_path / "in")
        add()
        job.until(lambda: len(table.rows()) >= words.rows)
        job.stop()
    due = [(word, n) for word, most in words.counts().items() for n in range(1, most + 1)]
    assert sorted((str(row["word"]), row["times"]) for row in table.rows()) == sorted(due)
    with running(tmp_path, "words", JOB.replace('"attempts": 100', '"attempts": 1')) as job:
        add()
        job.until(lambda: len(table.rows()) >= words.rows)
        (tmp_path / "in").rename(tmp_path / "away")
        assert gone in job.failed()


def log(folder: Path) -> str:
    """Return what the command has written."""
    return (folder / "log").read_text()
