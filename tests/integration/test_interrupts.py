"""Ctrl-C during a checkpoint: one waits for it, a second one does not, and nothing is lost."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.local_job import REPOSITORY, wait_until
from tests.integration.test_own_connectors import counted_in, make_texts

WITHIN_S = 120.0
HELD = """\
import time
from pathlib import Path
from text_to_json import JsonCut, JsonFolder, JsonWriter, TextFolder, TextReader
import penstock as ps

class SlowReader(TextReader):
    def read(self, max_rows):
        if Path("hurry").exists():
            return super().read(max_rows)
        time.sleep(0.1)
        return super().read(20)

class SlowFolder(TextFolder):
    def open(self, state):
        return SlowReader(state)

class HeldCut(JsonCut):
    def finish(self):
        while Path("hold").exists():
            Path("held").touch()
            time.sleep(0.02)
        return super().finish()

class HeldWriter(JsonWriter):
    def seal(self, epoch, name):
        cut = super().seal(epoch, name)
        return HeldCut(self, cut._cut, cut._rows)

class HeldFolder(JsonFolder):
    def writer(self, task, attempt):
        return HeldWriter((self._step, task), self.folder / "_staging")

def job(params):
    job = ps.Job()
    words = job.source("lines", SlowFolder("texts")).split("words", "line")
    counts = words.key_by("word").aggregate("counts", count=ps.count())
    counts.sink("output", HeldFolder("output", "counts"))
    return job
"""
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: held}
spec:
  replicas: 2
  checkpoint: {interval: 300ms}
  job: {entrypoint: 'held_job:job'}
"""


@contextmanager
def run(root: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "penstock.cli", "run", "job.yaml"]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def hold_a_checkpoint(root: Path) -> None:
    """Let output become visible, then keep the next checkpoint from being finished."""
    (root / "held").unlink(missing_ok=True)
    before = len(list((root / "counts").glob("*.jsonl")))
    wait_until(lambda: len(list((root / "counts").glob("*.jsonl"))) > before, WITHIN_S)
    (root / "hold").touch()
    wait_until((root / "held").exists, WITHIN_S)


def wait_for_word(process: "subprocess.Popen[str]") -> None:
    """Wait until it has said that it stops."""
    assert process.stdout is not None
    said = ""
    while "stopping after a last checkpoint" not in said:
        said = process.stdout.readline()
        assert said, "it ended without a word"


def test_ctrl_c_during_a_checkpoint(tmp_path: Path) -> None:
    expected = make_texts(tmp_path)
    shutil.copy(REPOSITORY / "examples" / "text_to_json.py", tmp_path)
    (tmp_path / "held_job.py").write_text(HELD)
    (tmp_path / "job.yaml").write_text(JOB)

    with run(tmp_path) as process:
        hold_a_checkpoint(tmp_path)
        process.send_signal(signal.SIGINT)
        wait_for_word(process)
        assert process.poll() is None, "it waits for the checkpoint"
        seen = sum(counted_in(tmp_path / "counts").values())
        (tmp_path / "hold").unlink()
        words, _ = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 130, words
    assert "held: Stopped after" in words
    assert sum(counted_in(tmp_path / "counts").values()) > seen

    with run(tmp_path) as process:
        hold_a_checkpoint(tmp_path)
        since = time.monotonic()
        process.send_signal(signal.SIGINT)
        wait_for_word(process)  # two signals at once may arrive as one
        process.send_signal(signal.SIGINT)
        words, _ = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 130, words
        assert "stopped at once; run it again to go on" in words
        assert time.monotonic() - since < 30, "the held checkpoint would last for ever"
    (tmp_path / "hold").unlink()
    (tmp_path / "hurry").touch()

    with run(tmp_path) as process:
        words, _ = process.communicate(timeout=WITHIN_S)
        assert process.returncode == 0, words
    assert counted_in(tmp_path / "counts") == expected


LATE = """
import os, signal, sys

class Late:
    def __del__(self, say=os.write, send=os.kill, me=os.getpid(), number=signal.SIGINT):
        say(1, b"cleaning up")
        send(me, number)

sys.late = Late()  # it lives until Python takes its modules down
sys.argv = ["penstock", "--version"]
from penstock.cli import main
main()
"""


def test_ctrl_c_while_python_cleans_up_leaves_the_exit_code_as_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.stdout.splitlines()[1:] == ["cleaning up"], done.stderr
    assert done.returncode == 0, done.stderr
