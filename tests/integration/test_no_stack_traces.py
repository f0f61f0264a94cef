"""Mistakes of a new user give one message and an exit code, never a stack trace of Penstock."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.test_full_disk import needs_own_disk, small_disk

WITHIN_S = 120.0
GRAPH = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: plain}
spec:
  replicas: 1
  job:
    graph:
      steps:
        - name: lines
          source: {parquet: {path: input}}
        - name: output
          sink: {parquet: {path: output}}
"""
CODE = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: coded}
spec: {replicas: 1, job: {entrypoint: 'coded:job'}}
"""
# Root can read everything. Without these rights it is like any other user.
AS_ANYBODY = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "input").mkdir()
    pq.write_table(pa.table({"line": ["a b", "c"]}), tmp_path / "input" / "part-0.parquet")
    (tmp_path / "job.yaml").write_text(GRAPH)
    return tmp_path


def penstock(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock.cli", *arguments]


def run(folder: Path, *command: str, before: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run a command; return its code and what it wrote, in which no stack trace may be."""
    done = subprocess.run(
        [*before, *(command or penstock("run", "job.yaml"))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    text = done.stdout + done.stderr
    assert "Traceback (most recent call last)" not in text, text
    assert 'File "' not in text or "of your code" in text, text
    return done.returncode, text


def as_anybody() -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    if shutil.which(AS_ANYBODY[0]) is None:
        pytest.skip("root reads everything, and setpriv is not there")
    return AS_ANYBODY


def test_input_that_may_not_be_read(job: Path) -> None:
    (job / "input" / "part-0.parquet").chmod(0)
    code, text = run(job, before=as_anybody())
    assert code == 2
    assert "step 'lines': parquet source: file input/part-0.parquet: Permission denied" in text
    (job / "input").chmod(0)
    code, text = run(job, before=as_anybody())
    (job / "input").chmod(0o700)
    assert code == 2
    assert "Permission denied" in text


def test_a_folder_for_state_or_output_that_may_not_be_written(job: Path) -> None:
    (job / "closed").mkdir(mode=0o500)
    where = penstock("run", "job.yaml", "--dir", "closed/state")
    code, text = run(job, *where, before=as_anybody())
    assert (code, "Permission denied" in text) == (2, True), text
    (job / "job.yaml").write_text(GRAPH.replace("path: output", "path: closed/output"))
    code, text = run(job, before=as_anybody())
    assert (code, "read-only for you" in text) == (2, True), text


@pytest.mark.parametrize("content", [b"\xff\xfe\x00bad", b"a: [1,\n", b"- 1\n", b""])
def test_a_file_that_is_no_job(job: Path, content: bytes) -> None:
    (job / "job.yaml").write_bytes(content)
    code, text = run(job)
    assert (code, text.startswith("error: job.yaml")) == (2, True), text


def test_a_folder_as_the_file_and_junk_as_the_input(job: Path) -> None:
    code, text = run(job, *penstock("run", "input"))
    assert (code, "Is a directory" in text) == (2, True), text
    (job / "input" / "part-0.parquet").write_text("hello")
    code, text = run(job)
    assert (code, "truncated or is not Parquet" in text) == (2, True), text
    shutil.rmtree(job / "input")
    code, text = run(job)
    assert (code, "there is no file or folder input" in text) == (2, True), text


MODULES = [
    ("def late():\n    return {}['x']\nlate()\n", "KeyError: 'x'", ["<module>", "late"]),
    ("import sys\nsys.exit(5)\n", "SystemExit: 5", ["<module>"]),
    ("raise KeyboardInterrupt\n", "KeyboardInterrupt", ["<module>"]),
    ("def job(params):\n    return params['input']\n", "parameter 'input'", []),
    ("def job(params):\n    return 1 / 0\n", "ZeroDivisionError", ["job"]),
]


@pytest.mark.parametrize(("module", "message", "frames"), MODULES)
def test_a_module_that_fails_shows_its_own_frames(job: Path, module: str, message: str, frames: list[str]) -> None:
    (job / "coded.py").write_text(module)
    (job / "job.yaml").write_text(CODE)
    code, text = run(job)
    assert code == 2, text
    assert message in text
    shown = [line.split(", in ")[1] for line in text.splitlines() if 'File "' in line]
    assert shown == frames
    assert text.count(str(job / "coded.py")) == len(frames)


def test_what_a_module_prints_is_not_mixed_with_what_run_shows(job: Path) -> None:
    (job / "coded.py").write_text("print('loaded')\nraise ValueError('late')\n")
    (job / "job.yaml").write_text(CODE)
    command = penstock("run", "job.yaml", "--json")
    done = subprocess.run(command, cwd=job, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.stdout == ""
    assert "loaded" in done.stderr


def test_a_run_stops_when_nobody_reads_its_output(job: Path) -> None:
    """As ``penstock run job.yaml | head -n 1``: it stops with all its output, and says why."""
    process = subprocess.Popen(penstock("run", "job.yaml"), cwd=job, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=WITHIN_S)
    said = errors.decode()
    assert process.returncode == 1, said
    assert said.startswith("error: standard output: Broken pipe: "), said
    assert len(said.splitlines()) == 1
    code, text = run(job)
    assert code == 0, text
    rows = [r for f in (job / "output").glob("*.parquet") for r in pq.read_table(f).to_pylist()]
    assert [r["line"] for r in rows] == ["a b", "c"]


ENDED_AT_ONCE = """\
import sys
from types import SimpleNamespace
from penstock.cli.run_watch import Interrupts, watch
from penstock.cli.screen import PlainLines, Watched
from penstock.contract.status import JobState, JobStatus
ended = JobStatus("words", "u", JobState.{state}, 1, 1, failure={failure!r})
cluster = SimpleNamespace(wait=lambda _within_s: ended)
sys.exit(watch(cluster, Watched(PlainLines(sys.stdout)), Interrupts()))
"""


@pytest.mark.parametrize(("state", "failure"), [("FINISHED", ""), ("FAILED", "step 'x' fails")])
def test_a_job_that_ends_before_anything_was_shown(tmp_path: Path, state: str, failure: str) -> None:
    script = ENDED_AT_ONCE.format(state=state, failure=failure)
    code, text = run(tmp_path, "sh", "-c", '"$0" -c "$1" >/dev/full', sys.executable, script)
    assert code == 1
    lines = [f"error: standard output: No space left on device: the job is {state.capitalize()}"]
    assert text.splitlines() == lines + ([f"error: {failure}"] if failure else [])


@pytest.mark.parametrize("where", [">&-", ">/dev/full", "</dev/null >&- 2>&-"])
@pytest.mark.parametrize("command", ["run", "validate"])
def test_standard_output_that_is_closed_or_full(job: Path, command: str, where: str) -> None:
    shell = f'"$0" -m penstock.cli {command} job.yaml {where}'
    code, text = run(job, "sh", "-c", shell, sys.executable)
    full = "full" in where
    assert code == (1 if full else 0), text
    assert ("standard output: No space left on device" in text) == full
    if command == "run" and not full:
        assert list((job / "output").glob("*.parquet"))


def test_a_disk_that_is_full_before_the_start(job: Path) -> None:
    state = job / "state"
    state.mkdir()
    needs_own_disk(state)
    script = 'head -c 32m /dev/zero >"$0"/filler 2>&-; exec "$@" --dir "$0"'
    code, text = run(job, *small_disk(state), "sh", "-c", script, str(state), *penstock("run", "job.yaml"))
    assert code in {1, 2}, text
    assert "No space left on device" in text or "disk is full" in text


@pytest.mark.usefixtures("fresh_processes")
@pytest.mark.parametrize("after_s", [0.2, 0.5, 1.0])
def test_ctrl_c_while_everything_loads(job: Path, after_s: float) -> None:
    process = subprocess.Popen(
        penstock("run", "job.yaml"),
        cwd=job,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=WITHIN_S)
    assert process.returncode in {0, 130}, text
    assert "Traceback" not in text


HUGE = """\
import penstock as ps

def job(params):
    job = ps.Job()
    lines = job.source("lines", ps.parquet("input"), columns={"line": "string"})
    lines.key_by("line").process(
        "look", lambda batch, state: batch, state={"n": "int64"}, columns={"line": "string"}
    ).sink("output", ps.discard())
    return job
"""


def test_a_text_that_is_no_utf8_is_named_and_not_tried_for_ever(job: Path) -> None:
    """Workers refuse such rows from each other. Before, the job restarted again and again."""
    words = [b"gr\xfcn" if n == 700 else b"word%d" % n for n in range(2000)]
    values = pa.array(words, pa.binary())
    lines = pa.Array.from_buffers(pa.string(), len(values), values.buffers())
    pq.write_table(pa.table({"line": lines}), job / "input" / "part-0.parquet")
    counted = "keyBy: [line]\n          aggregate: {compute: [{name: count, function: count}]}"
    graph = GRAPH.replace("replicas: 1", "replicas: 2").replace(
        "        - name: output",
        f"        - name: counts\n          {counted}\n        - name: output",
    )
    (job / "job.yaml").write_text(graph)
    code, text = run(job, *penstock("run", "job.yaml", "--set", "restart.attempts=0"))
    assert code == 1, text
    assert "source 'lines', partition 'part-0.parquet', offset " in text
    assert "invalid batch, column 'line': " in text
    assert "record: {'line': b'gr\\xfcn'}" in text


def test_a_row_that_is_too_large_is_named(job: Path) -> None:
    rows = ["a", "b" * (65 << 20), "c"]
    pq.write_table(pa.table({"line": rows}), job / "input" / "part-0.parquet")
    (job / "coded.py").write_text(HUGE)
    (job / "job.yaml").write_text(CODE)
    code, text = run(job, *penstock("run", "job.yaml", "--set", "restart.attempts=0"))
    assert code == 1, text
    assert "source 'lines', partition 'part-0.parquet', offset " in text
    assert "bytes is larger than an element may be" in text
    assert "split it in the job, or leave out column 'line', which has " in text
    assert "record: {'line': 'bbb" in text
