"""The last lines of a run: what is committed, what is not, and which rows were dropped."""

import re
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.local_job import WITHIN_S, wait_until

COUNTED = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: counted}
spec:
  replicas: 1
  checkpoint: {interval: 1s}
  job:
    graph:
      steps:
        - name: numbers
          source: {parquet: {path: in, rate: RATE}}
        - name: output
          sink: {parquet: {path: out}}
"""
CHECKS = """\
def check(record):
    if record["n"] == 12_000:
        raise ValueError("no twelve thousand")
    return record
"""
CHECKED = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: checked}
spec:
  replicas: 1
  checkpoint: {interval: 500ms}
  job:
    graph:
      steps:
        - name: numbers
          source:
            parquet: {path: in, rate: 4000}
            columns: [{name: "n", type: int64}]
        - name: check
          map: {function: "checks:check", per: record, columns: [{name: "n", type: int64}]}
        - name: output
          sink: {parquet: {path: out}}
"""
TIMED = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: timed}
spec:
  replicas: 1
  job:
    graph:
      steps:
        - name: readings
          source:
            parquet: {path: in}
            columns: [{name: key, type: string}, {name: ts, type: "timestamp[us]"}]
            eventTime: {column: ts}
        - name: minutes
          keyBy: [key]
          window: {size: 1m, compute: [{name: rows, function: count}]}
        - name: output
          sink: {parquet: {path: out}}
"""


def command(*more: str) -> list[str]:
    return [sys.executable, "-m", "penstock.cli", "run", "job.yaml", *more]


def rows_of(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


@pytest.mark.usefixtures("fresh_processes")
def test_rows_without_event_time_are_told_apart_from_late_ones(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    noon = datetime(2026, 1, 1, 12)  # noqa: DTZ001  as Arrow gives times without a zone
    early = datetime(2026, 1, 1, 11)  # noqa: DTZ001
    times = [noon, None, noon, early, None, None, noon]
    table = pa.table({"key": ["a"] * len(times), "ts": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    (tmp_path / "job.yaml").write_text(TIMED)
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 late row, 3 rows without event time" in done.stdout, done.stdout


def read_and_written(said: str) -> tuple[int, int]:
    found = re.search(r"numbers read ([\d,]+) rows, output wrote ([\d,]+) rows$", said, re.M)
    assert found is not None, said
    read, wrote = (int(text.replace(",", "")) for text in found.groups())
    return read, wrote


def run(folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(), cwd=folder, capture_output=True, text=True, timeout=WITHIN_S, check=False)


def test_the_summary_of_a_run_that_fails_tells_what_is_committed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"n": range(20_000)}), tmp_path / "in" / "a.parquet")
    (tmp_path / "checks.py").write_text(CHECKS)
    (tmp_path / "job.yaml").write_text(CHECKED)
    done = run(tmp_path)
    assert done.returncode == 1, done.stdout
    committed = rows_of(tmp_path / "out")
    assert 0 < committed < 12_000
    assert read_and_written(done.stdout) == (committed, committed)
    epoch = re.search(r"committed through epoch (\d+)", done.stdout)
    assert epoch is not None
    assert f"epoch {epoch[1]} is the last that is committed: " in done.stdout, done.stdout


def test_a_run_that_is_stopped_at_once_has_a_summary_and_the_next_one_begins_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    rows = 60_000
    pq.write_table(pa.table({"n": range(rows)}), tmp_path / "in" / "a.parquet")
    (tmp_path / "job.yaml").write_text(COUNTED.replace("RATE", "5000"))
    with subprocess.Popen(command(), cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            wait_until(lambda: any((tmp_path / "out").glob("*.parquet")))
            process.send_signal(signal.SIGINT)
            next(text for text in process.stdout if "stopping" in text)
            process.send_signal(signal.SIGINT)
            said = process.stdout.read()
        finally:
            process.kill()
    committed, written = read_and_written(said)
    assert 0 < committed == written < rows
    assert rows_of(tmp_path / "out") <= committed, "the newest epoch may not be visible yet"

    (tmp_path / "job.yaml").write_text(COUNTED.replace("RATE", "0"))
    again = run(tmp_path)
    assert again.returncode == 0, again.stderr
    left = f"{rows - committed:,} rows ({rows:,} in all)"
    assert f"numbers read {left}, output wrote {left}" in again.stdout, again.stdout
    assert rows_of(tmp_path / "out") == rows
