"""JSON lines and CSV through a real cluster: exact when engines are killed and the job is rescaled."""

import csv
import gzip
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from penstock.cli.exits import Exit
from tests.integration.command_job import WITHIN_S, running
from tests.support.long_tests import long_only

FILES, LINES, RATE = 4, 3000, 80
JOB = """\
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: text}}
spec:
  replicas: 2
  checkpoint: {{interval: 300ms}}
  job:
    graph:
      steps:
        - name: words
          source:
            {source}: {{path: in, rate: {rate}}}
            columns: [{{name: word, type: string}}, {{name: number, type: int64}}]
        - name: counts
          keyBy: [word]
          aggregate:
            compute: [{{name: count, function: count}}]
        - name: output
          sink: {{{sink}: {{path: out}}}}
"""


def make_input(root: Path, kind: str) -> Counter[str]:
    (root / "in").mkdir()
    draw, counted = random.Random(5), Counter[str]()
    for file in range(FILES):
        words = draw.choices([f'word {n}, "q" é' for n in range(50)], k=LINES)
        counted.update(words)
        if kind == "json":
            text = "".join(json.dumps({"word": w, "number": n, "more": [n]}) + "\n" for n, w in enumerate(words))
            (root / "in" / f"{file}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
        else:
            with (root / "in" / f"{file}.csv").open("w", newline="") as out:
                csv.writer(out).writerows([("number", "word"), *((n, w) for n, w in enumerate(words))])
    return counted


def rows_of(output: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    for file in sorted(output.iterdir()):
        if file.suffix == ".jsonl":
            found += [json.loads(line) for line in file.read_text().splitlines()]
        elif file.suffix == ".csv":
            with file.open(newline="") as text:
                found += list(csv.DictReader(text))
    return found


def check_exact(output: Path, expected: Counter[str]) -> None:
    """Every row is there once, and the counts of each word rise one by one in the order of the files."""
    seen = Counter[str]()
    for row in rows_of(output):
        seen[row["word"]] += 1
        assert int(row["count"]) == seen[row["word"]], row
    assert seen == expected


def command(root: Path, *words: str) -> "subprocess.CompletedProcess[bytes]":
    given = [sys.executable, "-m", "penstock.cli", *words]
    return subprocess.run(given, cwd=root, capture_output=True, timeout=WITHIN_S, check=False)


@pytest.mark.parametrize(("source", "sink"), [("json", "csv"), pytest.param("csv", "json", marks=long_only)])
def test_text_is_exact_when_an_engine_is_killed_and_the_job_is_rescaled(tmp_path: Path, source: str, sink: str) -> None:
    expected = make_input(tmp_path, source)
    with running(tmp_path, "text", JOB.format(source=source, sink=sink, rate=RATE)) as job:
        job.until(lambda: any((tmp_path / "out").glob("0*")))
        job.rescale(3)
        job.kill(1)
        job.commit()
        job.finish_at_full_rate(JOB.format(source=source, sink=sink, rate=0))
    check_exact(tmp_path / "out", expected)


def test_a_folder_that_is_followed_is_exact_when_an_engine_is_killed_and_the_job_is_rescaled(tmp_path: Path) -> None:
    expected = make_input(tmp_path, "csv")
    later = tmp_path / "later"
    later.mkdir()
    for name in ("1.csv", "3.csv"):
        (tmp_path / "in" / name).rename(later / name)

    def has(rows: int) -> bool:
        return (tmp_path / "out").is_dir() and len(rows_of(tmp_path / "out")) >= rows

    followed = JOB.format(source="csv", sink="json", rate=0).replace("rate: 0", "follow: 0.3")
    with running(tmp_path, "text", followed) as job:
        job.until(lambda: has(2 * LINES))
        (later / "1.csv").rename(tmp_path / "in" / "1.csv")
        job.rescale(3)
        job.until(lambda: has(3 * LINES))
        job.kill(1)
        (later / "3.csv").rename(tmp_path / "in" / "3.csv")
        job.until(lambda: has(4 * LINES))
        job.stop()
    check_exact(tmp_path / "out", expected)


def test_a_bad_line_fails_the_job_by_file_and_line_and_no_output_is_lost(tmp_path: Path) -> None:
    make_input(tmp_path, "csv")
    bad = tmp_path / "in" / "2.csv"
    lines = bad.read_text().splitlines()
    lines[1234] = "no number,word"
    bad.write_text("\n".join(lines) + "\n")
    (tmp_path / "job.yaml").write_text(JOB.format(source="csv", sink="json", rate=0))
    ended = command(tmp_path, "run", "job.yaml")
    assert ended.returncode == Exit.FAILED, ended.stderr.decode()
    assert b"in/2.csv, line 1235: In CSV column #0" in ended.stderr + ended.stdout
    assert b"Traceback" not in ended.stderr + ended.stdout


def test_text_without_declared_columns_is_refused_with_the_line_of_the_file(tmp_path: Path) -> None:
    make_input(tmp_path, "csv")
    text = JOB.format(source="csv", sink="json", rate=0)
    (tmp_path / "job.yaml").write_text(
        text.replace("            columns: [{name: word, type: string}, {name: number, type: int64}]\n", "")
    )
    ended = command(tmp_path, "run", "job.yaml")
    assert ended.returncode == Exit.USAGE, ended.stderr.decode()
    assert b"text has no types: declare its columns" in ended.stderr + ended.stdout
