"""Files that appear in an input folder after the first checkpoint are reported and not read."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.supervisor import connect
from tests.integration.local_job import WITHIN_S, wait_until

JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: live}
spec:
  replicas: 2
  checkpoint: {interval: 500ms}
  job:
    graph:
      steps:
        - name: rows
          source: {parquet: {path: in, rate: RATE}}
        - name: output
          sink: {parquet: {path: out}}
"""
UNREAD = "input of rows: 1 file is not in the checkpoint and not read: late.parquet (in in; "


def put(folder: Path, name: str, rows: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"n": list(range(rows))}), folder / name)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock.cli", *arguments]


def penstock(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


@contextmanager
def running(folder: Path, *more: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(command("run", "job.yaml", *more), cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "in", "first.parquet", 3000)
    (tmp_path / "job.yaml").write_text(JOB.replace("RATE", "100"))
    return tmp_path


def test_a_file_that_comes_late_is_said_while_running_after_a_stop_and_at_the_end(
    folder: Path,
) -> None:
    state = folder / ".penstock"
    with running(folder) as process:
        wait_until(lambda: any((folder / "out").glob("*.parquet")))
        put(folder / "in", "late.parquet", 10)
        client = connect(state, "live")
        wait_until(lambda: any(seen.unread for seen in client.status().inputs))
        assert [seen.unread_names for seen in client.status().inputs] == [("late.parquet",)]
        client.close()
        shown = penstock(folder, "status", "live")
        assert "1 file is not in the checkpoint" in " ".join(shown.stdout.split()), shown.stdout
        assert penstock(folder, "stop", "live").returncode == 0
        words, _ = process.communicate(timeout=WITHIN_S)
    lines = [line for line in words.splitlines() if UNREAD in line]
    assert len(lines) == 2, words  # when it came, and in the summary
    assert "to read them, " in lines[0]
    log = (state / "live" / "workers" / "0" / "log").read_text()
    assert log.count("event=input_not_read") == 1, log

    (folder / "job.yaml").write_text(JOB.replace("RATE", "0"))
    again = penstock(folder, "run", "job.yaml")
    assert again.returncode == 0, again.stderr
    assert UNREAD in again.stdout, again.stdout
    assert sum(pq.read_metadata(f).num_rows for f in (folder / "out").glob("*.parquet")) == 3000


def test_validate_says_that_the_set_is_fixed_and_names_what_is_passed_over(folder: Path) -> None:
    put(folder / "in" / "day=1", "x.parquet", 3)
    (folder / "in" / "b.parq").touch()
    (folder / "in" / "_SUCCESS").touch()
    done = penstock(folder, "validate", "job.yaml")
    assert done.returncode == 0, done.stderr
    assert (
        "input of rows: 1 file in in; the set of files is fixed when the job first starts: files"
        " that come later are not read"
    ) in done.stdout
    passed = "passed over: _SUCCESS (hidden), b.parq (not *.parquet), day=1 (sub-folder)"
    assert passed in done.stdout
    (folder / "job.yaml").write_text(JOB.replace("RATE", "0"))
    done = penstock(folder, "run", "job.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(passed) == 1, done.stdout


def test_a_folder_without_input_is_refused_with_what_is_in_it(folder: Path) -> None:
    shutil.rmtree(folder / "in")
    put(folder / "in", "a.parq", 1)
    put(folder / "in" / "x", "a.parquet", 1)
    for what in ("validate", "run"):
        done = penstock(folder, what, "job.yaml")
        assert done.returncode == 2
        assert ("in has no *.parquet file; passed over: a.parq (not *.parquet), x (sub-folder)") in done.stderr
