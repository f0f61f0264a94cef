"""The command line on real jobs: savepoints and restores, user code that raises, exit codes."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.values import replace
from penstock.contract.codec import decode
from penstock.contract.status import JobState, JobStatus
from tests.integration.local_job import (
    EXAMPLE,
    Folders,
    check_exact,
    expected,
    make_lines,
    penstock_run,
    settings_of,
    wait_for_output,
    wait_until,
)

WITHIN_S = 120.0
JOB = """\
import penstock as ps

def parse(record):
    if record["line"].startswith("poison"):
        raise ValueError("cannot swallow " + record["line"])
    return {"line": record["line"].upper()}

def job(params):
    job = ps.Job()
    lines = job.source("lines", ps.parquet(params["input"]), columns={"line": "string"})
    parsed = lines.map(
        "parse", parse, per="record", columns={"line": "string"}, on_error=params["mode"]
    )
    if params["mode"] == "dead-letter":
        parsed.dead_letter.sink("dead", ps.parquet(params["dead"]))
    parsed.sink("output", ps.parquet(params["output"]))
    return job
"""
HEAD = "apiVersion: penstock.dev/v1alpha1\nkind: StreamJob\nmetadata: {name: poisoned}\nspec:\n"


def penstock(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "penstock.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)


def run_again(folders: Folders, *more: str) -> "subprocess.CompletedProcess[str]":
    sets = [part for text in settings_of(folders, rate=0) for part in ("--set", text)]
    return penstock("run", str(EXAMPLE), *sets, "--dir", str(folders.state), *more)


def words_in_order(*outputs: Path) -> Counter[str]:
    """Count the rows per word over outputs one after the other; each count must rise by one."""
    seen: Counter[str] = Counter()
    for output in outputs:
        for file in sorted(output.glob("*.parquet")):
            for row in pq.read_table(file).to_pylist():
                seen[row["word"]] += 1
                assert row["count"] == seen[row["word"]], (file.name, row)
    return seen


def test_savepoint_stop_and_go_on_here_and_elsewhere(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=3, lines=40_000)
    where = ("--dir", str(folders.state))
    with penstock_run(folders, rate=400) as process:
        wait_for_output(folders)
        first = penstock("savepoint", "wordcount", "early", *where)
        assert first.returncode == 0, first.stderr
        assert Path(first.stdout.strip()).is_dir()
        now = penstock("status", "wordcount", "--json", *where)
        assert decode(JobStatus, now.stdout.encode()).state is JobState.RUNNING
        stopped = penstock("stop", "wordcount", "--savepoint", "late", *where)
        assert stopped.returncode == 0, stopped.stderr
        assert process.wait(WITHIN_S) == 0
    late = folders.state / "wordcount" / "savepoints" / "late"
    assert late.is_dir()
    check_exact(folders, complete=False)

    elsewhere = Folders(folders.input, tmp_path / "output-2", tmp_path / "state-2")
    done = run_again(elsewhere, "--restore", str(late), "--workers", "3")
    assert done.returncode == 0, done.stderr + done.stdout
    assert words_in_order(folders.output, elsewhere.output) == expected(folders)

    done = run_again(folders, "--restore", "latest", "--workers", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    check_exact(folders)


def stopped_with_savepoint(folders: Folders, *more: str) -> Path:
    """Run a job of its own until it has written two epochs more; return its savepoint."""
    before = len(list(folders.output.glob("*.parquet")))
    with penstock_run(folders, "--workers", "1", *more, rate=150) as process:
        wait_until(lambda: len(list(folders.output.glob("*.parquet"))) >= before + 2)
        stop = penstock("stop", "wordcount", "--savepoint", "s", "--dir", str(folders.state))
        assert stop.returncode == 0, stop.stderr
        assert process.wait(WITHIN_S) == 0
    return folders.state / "wordcount" / "savepoints" / "s"


def test_a_child_job_writes_behind_its_parent(tmp_path: Path) -> None:
    """Three jobs, each from the last one's savepoint, write one folder; it is read by name."""
    first = make_lines(tmp_path, files=2, lines=3_000)
    second, third, fourth = (replace(first, state=tmp_path / f"state-{n}") for n in (2, 3, 4))
    oldest = stopped_with_savepoint(first)
    newest = stopped_with_savepoint(second, "--restore", str(oldest))
    check_exact(first, complete=False)
    done = run_again(third, "--restore", str(newest), "--workers", "1")
    assert done.returncode == 0, done.stderr + done.stdout
    assert words_in_order(first.output) == expected(first)

    refused = run_again(fourth, "--restore", str(oldest), "--workers", "1")
    assert refused.returncode == 1, refused.stdout
    assert "name an empty folder" in refused.stderr
    assert words_in_order(first.output) == expected(first)


def test_a_restore_of_what_is_not_there_starts_nothing(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=1, lines=10)
    done = run_again(folders, "--restore", str(tmp_path / "nowhere"))
    assert done.returncode == 2
    assert "there is no such folder" in done.stderr
    assert not folders.output.exists()


def poisoned(tmp_path: Path, mode: str) -> "subprocess.CompletedProcess[str]":
    lines = [f"line {i}" for i in range(500)]
    lines[321] = "poison pill"
    (tmp_path / "input").mkdir()
    pq.write_table(pa.table({"line": lines}), tmp_path / "input" / "part-0.parquet")
    (tmp_path / "poisoned_jobs.py").write_text(JOB)
    parameters = {"mode": mode, **{n: str(tmp_path / n) for n in ("input", "output", "dead")}}
    job = {"entrypoint": "poisoned_jobs:job", "parameters": parameters}
    (tmp_path / "job.yaml").write_text(HEAD + f"  replicas: 1\n  job: {json.dumps(job)}\n")
    return penstock("run", str(tmp_path / "job.yaml"), "--dir", str(tmp_path / "state"))


def test_a_function_that_raises_fails_the_job_and_names_the_row(tmp_path: Path) -> None:
    done = poisoned(tmp_path, "fail")
    assert done.returncode == 1, done.stdout
    assert (
        "error: step 'parse', source 'lines', partition 'part-0.parquet', offset 321: "
        "ValueError: cannot swallow poison pill"
    ) in done.stderr
    said = done.stderr.splitlines()
    assert "error: record: {'line': 'poison pill'}" in said
    frames = [line for line in said if line.startswith('error:   File "')]
    assert frames == [f'error:   File "{tmp_path / "poisoned_jobs.py"}", line 5, in parse']
    assert 'error:     raise ValueError("cannot swallow " + record["line"])' in said
    logged = penstock("logs", "poisoned", "--dir", str(tmp_path / "state")).stdout
    assert f'worker-0   File "{tmp_path / "poisoned_jobs.py"}", line 5, in parse' in logged
    again = penstock("status", "poisoned", "--dir", str(tmp_path / "state"))
    assert again.returncode == 3
    assert again.stderr.splitlines()[0].endswith(": it has failed")
    assert set(frames) < set(again.stderr.splitlines()), "the status tells it as well"
    assert not list((tmp_path / "output").glob("*.parquet"))


def test_a_poison_record_is_once_in_the_dead_letters_and_the_rest_in_order(tmp_path: Path) -> None:
    done = poisoned(tmp_path, "dead-letter")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [r for f in sorted((tmp_path / "output").glob("*.parquet")) for r in pq.read_table(f)["line"].to_pylist()]
    assert rows == [f"LINE {i}" for i in range(500) if i != 321]
    dead = [r for f in (tmp_path / "dead").glob("*.parquet") for r in pq.read_table(f).to_pylist()]
    assert len(dead) == 1
    assert dead[0]["line"] == "poison pill"
    assert (dead[0]["error_step"], dead[0]["error"]) == (
        "parse",
        "ValueError: cannot swallow poison pill",
    )
    place = (dead[0]["error_source"], dead[0]["error_partition"], dead[0]["error_offset"])
    assert place == ("lines", "part-0.parquet", 321)


def test_a_job_that_cannot_be_built_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(HEAD + "  job: {entrypoint: 'no_such_module_here:job'}\n")
    done = penstock("run", str(tmp_path / "job.yaml"), "--dir", str(tmp_path / "state"))
    assert done.returncode == 2
    assert f"error: {tmp_path}/job.yaml:5: 'no_such_module_here:job': there is no module" in done.stderr
    assert not (tmp_path / "state").exists()
