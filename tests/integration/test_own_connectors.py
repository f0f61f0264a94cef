"""A source and a sink that a user wrote, on a real cluster: exact when an engine is killed."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli.exits import Exit
from penstock.contract.codec import decode
from penstock.contract.status import JobState, JobStatus
from tests.integration.local_job import REPOSITORY, wait_until

WITHIN_S = 120.0
SLOW = """\
import time
from pathlib import Path
from text_to_json import JsonCut, JsonFolder, JsonPublisher, JsonWriter, TextFolder, TextReader
import penstock as ps
from penstock.base.errors import StorageError

class SlowReader(TextReader):
    due = 0.0

    def read(self, max_rows):
        if Path("hurry").exists():
            return super().read(max_rows)
        now = time.monotonic()
        if now < self.due:
            return None
        self.due = now + 0.1
        return super().read(min(max_rows, 4))

class ShutWriter(JsonWriter):
    def write(self, batch):
        if Path("shut").exists():
            raise ValueError("the drain is shut")
        super().write(batch)

    def seal(self, epoch, name):
        with self._lock:
            rows, self._rows = self._rows, []
        return ShutCut(self, (epoch, name), rows)

class ShutCut(JsonCut):
    def finish(self):
        if Path("unstaged").exists():
            raise KeyError("no bucket")
        return super().finish()

class ShutPublisher(JsonPublisher):
    def publish(self, handle, epoch):
        if Path("unseen").exists():
            raise LookupError("no shelf")
        super().publish(handle, epoch)

    def forget(self, handle):
        if Path("kept").exists():
            raise RuntimeError("nobody may remove it")
        super().forget(handle)

class ShutFolder(JsonFolder):
    def __init__(self, step, folder):
        super().__init__(step, folder)
        self.publisher = ShutPublisher(self.folder)

    def writer(self, task, attempt):
        return ShutWriter((self._step, task), self.folder / "_staging")

class SlowFolder(TextFolder):
    def splits(self):
        if Path("lost").exists():
            raise LookupError("the index is lost")
        if Path("away").exists():
            raise StorageError("no index answers: start it")
        return super().splits()

    def prepare(self):
        if Path("unready").exists():
            raise RuntimeError("no catalogue yet")

    def open(self, state):
        return SlowReader(state)

def job(params):
    job = ps.Job()
    words = job.source("lines", SlowFolder(params["input"])).split("words", "line")
    counts = words.key_by("word").aggregate("counts", count=ps.count())
    counts.sink("output", ShutFolder("output", params["output"]))
    return job
"""
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: own}
spec:
  replicas: 2
  checkpoint: {interval: 300ms}
  job:
    entrypoint: slow_texts:job
    parameters: {input: texts, output: counts}
"""


def make_texts(root: Path) -> Counter[str]:
    (root / "texts").mkdir()
    draw = random.Random(3)
    words = [f"word-{n}" for n in range(200)]
    counted: Counter[str] = Counter()
    for file in range(3):
        lines = [" ".join(draw.choices(words, k=5)) for _ in range(4000)]
        (root / "texts" / f"{file}.txt").write_text("\n".join(lines) + "\n")
        counted.update(word for line in lines for word in line.split(" "))
    return counted


def counted_in(output: Path) -> Counter[str]:
    seen: Counter[str] = Counter()
    for file in sorted(output.glob("*.jsonl")):
        for line in file.read_text().splitlines():
            row = json.loads(line)
            seen[row["word"]] += 1
            assert row["count"] == seen[row["word"]], (file.name, row)
    return seen


def status(root: Path) -> JobStatus:
    command = [sys.executable, "-m", "penstock.cli", "status", "own", "--json"]
    done = subprocess.run(command, cwd=root, capture_output=True, timeout=WITHIN_S, check=True)
    return decode(JobStatus, done.stdout)


@contextmanager
def running(root: Path, *settings: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Run the job in ``root`` with ``settings``; what it says goes to ``log`` there."""
    shutil.copy(REPOSITORY / "examples" / "text_to_json.py", root)
    (root / "slow_texts.py").write_text(SLOW)
    (root / "job.yaml").write_text(JOB)
    chosen = [part for setting in settings for part in ("--set", setting)]
    command = [sys.executable, "-m", "penstock.cli", "run", "job.yaml", *chosen]
    with (root / "log").open("wb") as out:
        process = subprocess.Popen(command, cwd=root, stdout=out, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_own_connectors_are_exact_when_an_engine_is_killed(tmp_path: Path) -> None:
    expected, log = make_texts(tmp_path), tmp_path / "log"
    with running(tmp_path) as process:
        wait_until(lambda: any((tmp_path / "counts").glob("*.jsonl")), shown=log.read_text)
        wait_until(lambda: status(tmp_path).state is JobState.RUNNING, shown=log.read_text)
        now = status(tmp_path)
        assert [s.guarantee for s in now.sinks] == ["exactly-once"]
        victim = now.workers[1].engine_pid
        assert victim is not None
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "hurry").touch()
        assert process.wait(WITHIN_S) == 0, log.read_text()
    assert counted_in(tmp_path / "counts") == expected


def test_a_job_whose_source_is_not_ready_says_so_and_goes_on_when_it_is(tmp_path: Path) -> None:
    expected, log = make_texts(tmp_path), tmp_path / "log"
    for flag in ("unready", "away"):
        (tmp_path / flag).touch()
    with running(tmp_path) as process:
        wait_until(lambda: "does not get ready" in log.read_text(), shown=log.read_text)
        assert "RuntimeError: no catalogue yet" in log.read_text()
        (tmp_path / "unready").unlink()
        wait_until(lambda: "source 'lines' could not be listed" in log.read_text(), shown=log.read_text)
        assert "trouble is over" in log.read_text()
        waits = status(tmp_path)
        assert [(s.name, s.because) for s in waits.unlisted] == [("lines", "no index answers: start it")]
        assert (waits.state, waits.failure) == (JobState.STARTING, None)
        (tmp_path / "away").unlink()
        wait_until(lambda: "source 'lines' is listed" in log.read_text(), shown=log.read_text)
        (tmp_path / "hurry").touch()
        assert process.wait(WITHIN_S) == 0, log.read_text()
    assert counted_in(tmp_path / "counts") == expected


def test_a_sink_that_raises_is_told_while_the_job_tries_again(tmp_path: Path) -> None:
    expected, log = make_texts(tmp_path), tmp_path / "log"
    (tmp_path / "shut").touch()
    with running(tmp_path) as process:
        wait_until(lambda: "drain is shut" in log.read_text(), shown=log.read_text)
        (tmp_path / "shut").unlink()
        wait_until(lambda: "trouble is over" in log.read_text(), shown=log.read_text)
        (tmp_path / "hurry").touch()
        assert process.wait(WITHIN_S) == 0, log.read_text()
    said = log.read_text()
    assert "tries again: sink 'output': ValueError: the drain is shut" in said
    assert 'raise ValueError("the drain is shut")' in said
    assert counted_in(tmp_path / "counts") == expected


FEW = ("restart.attempts=2", "restart.backoff.max=300ms")


def test_a_sink_that_always_raises_fails_the_job_with_the_users_traceback(tmp_path: Path) -> None:
    make_texts(tmp_path)
    (tmp_path / "shut").touch()
    (tmp_path / "hurry").touch()
    with running(tmp_path, *FEW) as process:
        assert process.wait(WITHIN_S) == Exit.FAILED
    said = (tmp_path / "log").read_text()
    for number in (1, 2):
        assert f"sink 'output': ValueError: the drain is shut: restart {number} of 2 within 10m" in said
    _, _, error = said.partition("3 failures within 10m, and restart.attempts allows 2 restarts")
    assert 'raise ValueError("the drain is shut")' in error, said
    assert "penstock/connectors" not in error, said


UNSTAGED = ("unstaged", "sink 'output', finish(): KeyError: 'no bucket'", 'raise KeyError("no bucket")')
UNSEEN = ("unseen", "sink 'output', publish(): LookupError: no shelf", 'raise LookupError("no shelf")')


@pytest.mark.parametrize(("flag", "error", "line"), [UNSTAGED, UNSEEN], ids=["finish", "publish"])
def test_a_sink_that_never_stages_or_publishes_fails_the_job_with_the_users_traceback(
    tmp_path: Path, flag: str, error: str, line: str
) -> None:
    make_texts(tmp_path)
    (tmp_path / flag).touch()
    (tmp_path / "hurry").touch()
    with running(tmp_path, *FEW) as process:
        assert process.wait(WITHIN_S) == Exit.FAILED
    said = (tmp_path / "log").read_text()
    for number in (1, 2):
        assert f"{error}: restart {number} of 2 within 10m" in said
    _, _, end = said.partition(f"{error}: 3 failures within 10m, and restart.attempts allows 2 restarts")
    assert line in end, said
    assert "penstock/connectors" not in end, said
    assert not list((tmp_path / "counts").glob("*.jsonl"))


@pytest.mark.parametrize(("flag", "error", "line"), [UNSTAGED, UNSEEN], ids=["finish", "publish"])
def test_a_job_whose_sink_stages_and_publishes_again_is_exact(tmp_path: Path, flag: str, error: str, line: str) -> None:
    expected, log = make_texts(tmp_path), tmp_path / "log"
    (tmp_path / "kept").touch()  # published files that stay staged do no harm
    (tmp_path / flag).touch()
    with running(tmp_path) as process:
        wait_until(lambda: f"tries again: {error}" in log.read_text(), shown=log.read_text)
        assert line in log.read_text()
        (tmp_path / flag).unlink()
        wait_until(lambda: "trouble is over" in log.read_text(), shown=log.read_text)
        (tmp_path / "hurry").touch()
        assert process.wait(WITHIN_S) == 0, log.read_text()
    assert counted_in(tmp_path / "counts") == expected


def test_a_source_that_never_lists_its_splits_fails_the_job_with_the_users_traceback(tmp_path: Path) -> None:
    make_texts(tmp_path)
    (tmp_path / "lost").touch()
    with running(tmp_path, *FEW) as process:
        assert process.wait(WITHIN_S) == Exit.FAILED
    said = (tmp_path / "log").read_text()
    place = "source 'lines', splits(): LookupError: the index is lost"
    assert f"{place}: 3 failures within 10m, and restart.attempts allows 2 restarts" in said
    assert 'raise LookupError("the index is lost")' in said
