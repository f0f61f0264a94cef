"""``penstock run job.py``: a Python file is run, checked and drawn as a job file is."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

WITHIN_S = 120.0
JOB = """\
import penstock as ps


def shout(record):
    return {"word": record["word"].upper()}


def job(params):
    job = ps.Job()
    lines = job.source("lines", ps.parquet(params["input"]), columns={"line": "string"})
    words = lines.split("words", "line")
    loud = words.map("shout", shout, columns={"word": "string"}, per="record")
    counts = loud.key_by("word").aggregate("counts", count=ps.count())
    counts.sink("output", ps.parquet(params["output"]))
    return job


if __name__ == "__main__":
    raise SystemExit("a job file is not run as a program here")
"""
PARAMETERS = ("--set", "job.parameters.input=in", "--set", "job.parameters.output=out")


def penstock(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )


def prepare(folder: Path) -> None:
    (folder / "in").mkdir()
    lines = [{"line": "a b a"}, {"line": "b c"}]
    pq.write_table(pa.Table.from_pylist(lines), folder / "in" / "lines.parquet")
    (folder / "loud_words.py").write_text(JOB)


def written(folder: Path) -> Counter[tuple[str, int]]:
    rows = pq.read_table(folder / "out").to_pylist()
    return Counter((row["word"], row["count"]) for row in rows)


def test_a_python_file_runs_with_workers_folder_and_parameters(tmp_path: Path) -> None:
    prepare(tmp_path)
    state = ("--dir", "state")
    done = penstock(tmp_path, "run", "loud_words.py", "--workers", "2", *state, *PARAMETERS)
    assert done.returncode == 0, done.stderr
    assert written(tmp_path) == Counter([("A", 1), ("A", 2), ("B", 1), ("B", 2), ("C", 1)])
    assert (tmp_path / "state" / "loud-words").is_dir()
    again = penstock(tmp_path, "run", "loud_words.py", *state, *PARAMETERS)
    assert again.returncode == 0, again.stderr
    assert "nothing runs" in again.stdout
    (tmp_path / "loud_words.py").write_text(JOB.replace("upper", "title"))
    changed = penstock(tmp_path, "run", "loud_words.py", *state, *PARAMETERS)
    assert changed.returncode == 1
    assert "--fresh" in changed.stderr


def test_a_python_file_is_checked_and_drawn(tmp_path: Path) -> None:
    prepare(tmp_path)
    checked = penstock(tmp_path, "validate", "loud_words.py", *PARAMETERS)
    assert checked.returncode == 0, checked.stderr
    assert "loud_words.py: loud-words: 5 steps" in checked.stdout
    drawn = penstock(tmp_path, "graph", "loud_words.py", *PARAMETERS)
    assert drawn.returncode == 0, drawn.stderr
    assert "shout" in drawn.stdout


def test_what_is_wrong_with_a_python_file_is_said_in_one_place(tmp_path: Path) -> None:
    prepare(tmp_path)
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "raises.py").write_text("\n1 / 0\n")
    for command in ("run", "validate", "graph"):
        none = penstock(tmp_path, command, "none.py")
        assert none.returncode == 2
        assert none.stderr.startswith("error: none.py:1: the file defines no job")
        raises = penstock(tmp_path, command, "raises.py")
        assert raises.returncode == 2
        assert raises.stderr.startswith("error: raises.py:2: ZeroDivisionError")
    missing = penstock(tmp_path, "run", "loud_words.py")
    assert missing.returncode == 2
    assert "loud_words.py:10: unknown parameter 'input'" in missing.stderr
    assert not (tmp_path / ".penstock" / "loud-words").exists()
