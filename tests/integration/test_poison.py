"""A record that kills its process, with real processes: each restart is reported, up to the limit."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.cli.exits import Exit

ROWS = 40_000
POISON = 23_456  # the row of the second file that kills
ATTEMPTS = 2
# The kernel's answer to a process that takes more than there is (memory cgroup or machine) is
# SIGKILL in the middle of an allocation; what a test may do to the machine is to send it.
DEADLY = {
    "exit": "os._exit(7)",
    "segfault": "ctypes.string_at(0)",
    "memory": "os.kill(os.getpid(), signal.SIGKILL)",
}
MODULE = """
import ctypes, os, signal, sys
import penstock as ps

COLUMNS = {{"number": "int64"}}

def check(batch):
    if {poison} in batch.column("number").to_pylist():
        print("about to do it", file=sys.stderr, flush=True)
        {deadly}
    return batch

def job(parameters):
    made = ps.Job()
    rows = made.source("rows", ps.parquet({input!r}), columns=COLUMNS, batch_rows=1000)
    rows.map("check", check, columns=COLUMNS).sink("out", ps.parquet({output!r}))
    return made
"""
FILE = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: poison}
spec: {job: {entrypoint: "poisoned:job"}}
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run ended, and what it said on both outputs."""

    code: int
    said: str
    errors: str


def run(folder: Path, deadly: str, *settings: str) -> Ran:
    source = folder / "in"
    source.mkdir()
    for part, first in (("a", 1_000_000), ("b", 0)):
        numbers = pa.table({"number": pa.array(range(first, first + ROWS), pa.int64())})
        pq.write_table(numbers, source / f"part-{part}.parquet")
    output = str(folder / "out")
    code = MODULE.format(poison=POISON, deadly=deadly, input=str(source), output=output)
    (folder / "poisoned.py").write_text(code)
    job = folder / "job.yaml"
    job.write_text(FILE)
    chosen = [f"restart.attempts={ATTEMPTS}", "restart.backoff.max=300ms", *settings]
    command = [sys.executable, "-m", "penstock.cli", "run", str(job), "--workers", "2"]
    done = subprocess.run(
        [*command, *(p for s in chosen for p in ("--set", s)), "--dir", str(folder / "state")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("deadly", DEADLY)
def test_a_record_that_kills_the_process_ends_in_failure(tmp_path: Path, deadly: str) -> None:
    ran = run(tmp_path, DEADLY[deadly])
    how = {
        "exit": "the engine ended by itself (exit status 7)",
        "segfault": "the engine was killed by SIGSEGV (signal 11)",
        "memory": "the engine was killed by SIGKILL (signal 9: by hand, or by the kernel because memory ran out)",
    }[deadly]
    assert ran.code == Exit.FAILED, ran
    for number in range(1, ATTEMPTS + 1):
        assert f"{how}: restart {number} of {ATTEMPTS} within 10m" in ran.said, ran
    place = re.search(
        r"in flight: step 'check', source 'rows', partition 'part-b.parquet', "
        r"offsets (\d+) to (\d+)",
        ran.errors,
    )
    assert place is not None, ran
    assert int(place[1]) <= POISON <= int(place[2])
    assert f"{how}: 3 failures within 10m, and restart.attempts allows 2 restarts" in ran.errors
    assert "about to do it" in ran.errors, "the last lines"
    assert "penstock/engine" not in ran.errors, "no frames of our own"
    if deadly == "segfault":
        assert "in check" in ran.errors, "the line of the user's function"
