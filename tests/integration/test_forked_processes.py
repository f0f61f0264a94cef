"""A process of Penstock that tests fork is to its parent what one that loads everything is."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.local_job import WITHIN_S, wait_until
from tests.support.forked_processes import ROOT, fresh

COMMAND = [sys.executable, "-m", "penstock.cli"]
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: said}
spec:
  job:
    script: |
      import os, sys
      print(os.environ["SAID"], sys.path[0], os.environ.get("PYTHONOPTIMIZE"), os.isatty(0), file=sys.stderr)
      raise ValueError("no job")
"""


BESIDE_ONE_THAT_STANDS_STILL = """\
import os, signal, subprocess, sys
from tests.support.forked_processes import forking

signal.signal(signal.SIGHUP, lambda *_: print("hung up"))
with forking():
    still = os.fork()
    if not still:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(still, os.WUNTRACED)
    print(subprocess.run([sys.executable, "-m", "penstock.cli", "--version"], stdout=subprocess.DEVNULL).returncode)
    os.kill(still, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(still, 0)[1]))
"""


def said(folder: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    environment = {**os.environ, "SAID": "so", **variables}
    done = subprocess.run([*COMMAND, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", [("--version",), ("status", "none"), ("validate", "job.yaml"), ("nothing",)])
def test_it_says_and_returns_the_same(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    forked = said(tmp_path, *words)
    with fresh():
        assert forked == said(tmp_path, *words)


def test_a_variable_that_is_read_while_python_starts_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    _, _, text = said(tmp_path, "validate", "job.yaml", PYTHONOPTIMIZE="2")
    assert f"so {tmp_path} 2 False" in text


def test_it_is_a_child_with_signals_and_a_group(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB.replace("raise", "open('here', 'w')\n      while True: pass\n      raise"))
    process = subprocess.Popen(
        [*COMMAND, "validate", "job.yaml"], cwd=tmp_path, env={**os.environ, "SAID": ""}, process_group=0
    )
    try:
        assert os.getpgid(process.pid) == process.pid
        assert Path(f"/proc/{process.pid}/cmdline").read_bytes().count(b"forked_processes") == 1
        wait_until((tmp_path / "here").exists)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait(WITHIN_S) == -signal.SIGKILL
    finally:
        process.kill()


def test_a_process_that_stands_still_is_not_continued_and_nobody_is_hung_up() -> None:
    words = [sys.executable, "-c", BESIDE_ONE_THAT_STANDS_STILL]
    done = subprocess.run(words, start_new_session=True, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.split(), done.stderr) == (["0", str(-signal.SIGKILL)], "")


def test_its_helper_ends_with_it(tmp_path: Path) -> None:
    read, write = os.pipe()
    process = subprocess.Popen([*COMMAND, "--version"], cwd=tmp_path, pass_fds=[write], stdout=subprocess.DEVNULL)
    os.close(write)
    assert process.wait(WITHIN_S) == 0
    assert os.read(read, 1) == b"", "nobody holds what was passed to it"
    os.close(read)
