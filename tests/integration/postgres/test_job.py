"""Jobs that write to PostgreSQL on a real local cluster: exact when engines and the server are killed."""

import re
from collections import Counter
from pathlib import Path

from tests.integration.command_job import running
from tests.integration.word_files import WordFiles, counting
from tests.support.postgres import PASSWORD, PASSWORD_VARIABLE, Postgres

FOLLOWED = {"json": {"path": "in", "follow": 0.2}}


def counts_in(postgres: Postgres, every: str, newest: str) -> str:
    """Return a job that appends every count to one table, and keeps the newest of each word in another."""
    target = {"uri": postgres.server.uri, "password": f"env:{PASSWORD_VARIABLE}"}
    sinks = {"all": {"table": every}, "newest": {"table": newest, "keyColumns": "word"}}
    return counting(FOLLOWED, {name: {"postgres": {**target, **sink}} for name, sink in sinks.items()})


def check_exact(postgres: Postgres, every: str, newest: str, due: Counter[str]) -> None:
    """Every row is counted once, and of each word the newest count is there."""
    found = Counter((row["word"], row["times"]) for row in postgres.rows(every))
    assert found == Counter((word, n) for word, most in due.items() for n in range(1, most + 1))
    assert {row["word"]: row["times"] for row in postgres.rows(newest)} == due


def test_counts_are_written_exactly_once_while_engines_and_the_server_are_killed(
    postgres: Postgres, tmp_path: Path
) -> None:
    every, newest = postgres.table("word text, times bigint"), postgres.table("word text PRIMARY KEY, times bigint")
    lines = WordFiles(tmp_path / "in")
    lines.add()
    with running(tmp_path, "words", counts_in(postgres, every, newest)) as job:

        def written() -> bool:
            return len(postgres.rows(every)) >= lines.rows

        job.until(written)
        for workers, victim in ((3, 0), (2, 1)):
            lines.add()
            postgres.server.kill()
            lines.add()
            if workers == 3:  # later tasks are new, and have to ask for their marker before they stage anything
                job.until(lambda: any("no connection to" in sink.because for sink in job.status().sinks))
            postgres.server.start()
            job.rescale(workers)
            lines.add()
            job.kill(victim)
        job.until(written)
        job.until(lambda: all(sink.since_us is None for sink in job.status().sinks))
        job.stop()
    check_exact(postgres, every, newest, lines.counts())
    left = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert left == [], "the password is in what the job has left"


def test_output_without_its_marker_is_restored_for_each_sink_as_asked(postgres: Postgres, tmp_path: Path) -> None:
    every, newest = postgres.table("word text, times bigint"), postgres.table("word text PRIMARY KEY, times bigint")
    lines = WordFiles(tmp_path / "in")
    lines.add()
    job_file = counts_in(postgres, every, newest)

    def is_counted() -> bool:
        return sum(int(str(row["times"])) for row in postgres.rows(newest)) == lines.rows

    with running(tmp_path, "words", job_file) as job:
        job.until(is_counted)
        postgres.server.kill()
        lines.add()
        job.until(lambda: any("no connection to" in sink.because for sink in job.status().sinks))
    postgres.server.start()
    for table in (every, newest):
        postgres.run("DELETE FROM penstock_epochs WHERE target = $1", f"public.{table}")
    with running(tmp_path, "words", job_file) as job:
        assert re.search(
            r"now it is gone: .* give --unpublished \w+=Publish .* or --unpublished \w+=Drop", job.failed()
        )
    with running(tmp_path, "words", job_file, "--unpublished", "all=Drop", "--unpublished", "newest=Publish") as job:
        job.until(is_counted)
        lines.add()
        job.until(is_counted)
        job.stop()
    due = Counter[object]((word, n) for word, most in lines.counts().items() for n in range(1, most + 1))
    found = Counter[object]((row["word"], row["times"]) for row in postgres.rows(every))
    given_up = {int(n) for text in logs(tmp_path) for n in re.findall(r"event=output-given-up.* all=(\d+)", text)}
    assert found <= due, "no row is there twice"
    assert 0 < (due - found).total() <= min(given_up) < lines.rows


def logs(folder: Path) -> list[str]:
    """Return what the processes of the job have logged."""
    return [path.read_text(errors="replace") for path in folder.rglob("*log*") if path.is_file()]
