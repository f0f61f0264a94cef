"""``penstock run --debug`` on a terminal: a prompt that works, prints, logging, one process."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

WITHIN_S = 120.0
JOB = """\
import logging

import penstock as ps

LOG = logging.getLogger("mine")


def look(record):
    if record["n"] == 3:
        breakpoint()
    print("seen", record["n"])
    LOG.info("logged %s", record["n"])
    return record


def job(params):
    job = ps.Job()
    numbers = job.source("numbers", ps.parquet("input"), columns={"n": "int64"})
    looked = numbers.map("look", look, per="record", columns={"n": "int64"})
    looked.sink("output", ps.parquet("output"))
    return job
"""
FILE = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: looked}
spec:
  replicas: 2
  job: {entrypoint: 'looked:job'}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "input").mkdir()
    pq.write_table(pa.table({"n": range(6)}), tmp_path / "input" / "part-0.parquet")
    (tmp_path / "looked.py").write_text(JOB)
    (tmp_path / "job.yaml").write_text(FILE)
    return tmp_path


class Terminal:
    """A terminal in whose foreground one command runs."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "run", "job.yaml", *arguments],
            cwd=folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  no threads
        )
        os.close(theirs)
        self.said = ""

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, text: str) -> str:
        """Read until ``text`` was said; return what was said with it since the last time."""
        self._read(lambda: text in self.said)
        assert text in self.said, self.said
        before, self.said = self.said.split(text, 1)
        return before + text

    def end(self) -> tuple[int, str]:
        """Read to the end; return the exit code and the rest."""
        self._read(lambda: False)
        return self.process.wait(WITHIN_S), self.said

    def _read(self, enough: Callable[[], bool]) -> None:
        until = time.monotonic() + WITHIN_S
        while not enough() and time.monotonic() < until:
            if not select.select([self._ours], [], [], 0.2)[0]:
                if self.process.poll() is not None:
                    return
                continue
            try:
                data = os.read(self._ours, 65_536)
            except OSError:  # of a terminal that nobody has open any more
                return
            self.said += data.decode(errors="replace").replace("\r\n", "\n")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)


@contextmanager
def terminal(folder: Path, *arguments: str) -> Iterator[Terminal]:
    made = Terminal(folder, *arguments)
    try:
        yield made
    finally:
        made.close()


def children(pid: int) -> list[str]:
    return [child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def numbers(folder: Path) -> list[int]:
    files = sorted((folder / "output").glob("*.parquet"))
    return [n for f in files for n in pq.read_table(f)["n"].to_pylist()]


def test_a_breakpoint_gives_a_prompt_and_the_job_goes_on(folder: Path) -> None:
    with terminal(folder, "--workers", "1", "--debug") as screen:
        before = screen.wait_for("(Pdb) ")
        assert [f"seen {n}" in before for n in range(4)] == [True, True, True, False]
        assert "INFO:mine:logged 2" in before
        assert "looked.py(11)look()" in before.replace("->", "") or "looked.py(1" in before
        beside = [Path(f"/proc/{n}/cmdline").read_text() for n in children(screen.process.pid)]
        assert all("penstock.cli.crash_reporter" in c for c in beside), "all else is in this process"
        assert len(beside) == 1
        screen.type("p record['n'] * 14\n")
        assert "42" in screen.wait_for("(Pdb) ")
        screen.type("up\n")
        screen.wait_for("(Pdb) ")
        screen.type("c\n")
        code, rest = screen.end()
    assert code == 0, rest
    assert all(f"seen {n}" in rest for n in range(3, 6))
    assert "event=" not in rest, "lines of the engine are in its log"
    assert "looked: Finished" in rest
    assert numbers(folder) == list(range(6))
    log = (folder / ".penstock" / "looked" / "workers" / "0" / "log").read_text()
    assert "event=reset" in log
    assert "keeper started" in log


def test_leaving_the_debugger_ends_the_job_at_that_row(folder: Path) -> None:
    with terminal(folder, "--debug") as screen:
        screen.wait_for("(Pdb) ")
        screen.type("q\n")
        code, rest = screen.end()
    assert code == 1, rest
    assert "error: step 'look', source 'numbers', partition 'part-0.parquet', offset 3: " in rest
    assert "BdbQuit" in rest
    assert "penstock/steps" not in rest
    assert numbers(folder) == []


def test_ctrl_c_at_the_prompt_twice_ends_at_once_and_nothing_is_lost(folder: Path) -> None:
    with terminal(folder, "--debug") as screen:
        screen.wait_for("(Pdb) ")
        screen.process.send_signal(signal.SIGINT)
        screen.wait_for("Ctrl-C again stops at once")
        screen.process.send_signal(signal.SIGINT)
        code, rest = screen.end()
    assert code == 130, rest
    assert "Traceback" not in rest
    with terminal(folder, "--debug") as screen:
        screen.wait_for("(Pdb) ")
        screen.type("c\n")
        code, rest = screen.end()
    assert code == 0, rest
    assert numbers(folder) == list(range(6))


def test_more_than_one_worker_cannot_be_debugged(folder: Path) -> None:
    with terminal(folder, "--debug", "--workers", "2") as screen:
        code, rest = screen.end()
    assert (code, "one worker in one process" in rest) == (2, True), rest


def test_without_debug_what_functions_print_is_in_the_log_that_is_named(folder: Path) -> None:
    (folder / "looked.py").write_text(JOB.replace("breakpoint()", "pass"))
    command = [sys.executable, "-m", "penstock.cli"]
    run = subprocess.run(
        [*command, "run", "job.yaml", "--workers", "1"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "penstock logs looked" in run.stdout
    logs = subprocess.run([*command, "logs", "looked"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert all(f"worker-0 seen {n}\n" in logs for n in range(6))
    assert all(f"logger=mine logged {n}\n" in logs for n in range(6))


def test_a_breakpoint_without_a_terminal_says_what_helps(folder: Path) -> None:
    command = [sys.executable, "-m", "penstock.cli", "run", "job.yaml", "--workers", "1"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 1
    assert "offset 3: BdbQuit" in done.stderr
    assert "penstock run --debug" in done.stderr


@pytest.mark.parametrize("how", ["os._exit(3)", "ctypes.string_at(0)"])
def test_a_record_that_kills_the_process_is_named(folder: Path, how: str) -> None:
    (folder / "looked.py").write_text("import ctypes, os\n" + JOB.replace("breakpoint()", how))
    with terminal(folder, "--debug") as screen:
        screen.wait_for("died in the middle of the job")
        said = screen.wait_for("run it again to go on from the last checkpoint")
        assert "in flight: step 'look', source 'numbers', partition 'part-0.parquet'" in said
        assert "offsets 0 to 5" in said
        screen.process.wait(WITHIN_S)


def test_a_run_that_ends_well_says_nothing_of_a_death(folder: Path) -> None:
    (folder / "looked.py").write_text(JOB.replace("breakpoint()", "pass"))
    with terminal(folder, "--debug") as screen:
        code, rest = screen.end()
    assert code == 0, rest
    assert "died" not in rest
