"""The night runs each piece once, goes on where it was, and says what falls short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.stats import percentile
from tests.night.__main__ import next_piece, open_pieces, run_piece
from tests.night.ledger import Entry, Ledger
from tests.night.recoveries import added_up, in_words, marked, recoveries_in
from tests.night.report import report
from tests.night.stages import EVERY_EFFECT, STAGES, Revisions, Stage
from tests.support.long_tests import VARIABLE, files

ROOT = Path(__file__).parents[3]
SHORT = Stage("short", "things", goal=4, each=2, command="-c print({first},{last})", done_by_piece=2, expected_s=1)
TIMED = Stage("timed", "things", goal=1, each=1, command="-c 1", done_by_piece=1, expected_s=1, timed=True)
IN_CLUSTER = Stage("cluster", "things", goal=1, each=1, command="-c 1", done_by_piece=1, expected_s=1, in_cluster=True)
FAILING = Stage("failing", "things", goal=1, each=1, command="-c exit(3)", done_by_piece=1, expected_s=1)


def entry(stage: str, piece: int, *, ok: bool = True, revision: str = "abc") -> Entry:
    return Entry(revision, stage, piece, ok, 1.0, "")


def test_a_piece_has_its_own_numbers() -> None:
    assert SHORT.pieces() == 2
    assert SHORT.words(1, Path("out"), 2) == ["-c", "print(2,3)"]


def test_an_interrupted_night_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first = Ledger(path)
    run_piece(SHORT, 0, first, "abc")
    with path.open("a") as file:
        file.write('{"revision": "abc", "sta')
    again = Ledger(path)
    assert list(open_pieces([SHORT, FAILING], again, Revisions("abc"))) == [(FAILING, 0), (SHORT, 1)]
    assert again.of("short")[0].said == "0 1\n"


def test_entries_of_another_revision_do_not_count(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add(entry("short", 0, revision="old"))
    assert not ledger.is_done("short", 0, "new")
    assert ledger.revisions() == ["old"]


def test_across_revisions_only_failures_run_again(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add(entry("short", 0, revision="old"))
    ledger.add(entry("short", 1, ok=False, revision="old"))
    assert list(open_pieces([SHORT], ledger, Revisions("new"), across=True)) == [(SHORT, 1)]
    ledger.add(entry("short", 1, ok=False, revision="new"))
    assert not list(open_pieces([SHORT], ledger, Revisions("new"), across=True))


def test_a_stage_in_the_cluster_tests_its_images(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    assert not list(open_pieces([IN_CLUSTER], ledger, Revisions("tree")))
    assert list(open_pieces([IN_CLUSTER], ledger, Revisions("tree", "images"))) == [(IN_CLUSTER, 0)]
    ledger.add(entry("cluster", 0, revision="images"))
    assert not list(open_pieces([IN_CLUSTER], ledger, Revisions("newer tree", "images")))


def test_each_piece_in_the_cluster_is_a_test() -> None:
    stages = [stage for stage in STAGES if stage.in_cluster]
    wanted = {stage.words(piece, Path("out"), 2)[-1] for stage in stages for piece in range(stage.pieces())}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "e2e/night.py"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert wanted <= set(found.stdout.splitlines()), found.stdout


def test_a_timed_piece_waits_for_a_quiet_machine() -> None:
    assert next_piece([(TIMED, 0), (SHORT, 0)], load_max=0.0) == (SHORT, 0)
    assert next_piece([(TIMED, 0)], load_max=0.0) is None
    assert next_piece([(TIMED, 0), (SHORT, 0)], load_max=float("inf")) == (TIMED, 0)


def test_what_falls_short_and_what_failed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add(entry("short", 0))
    run_piece(FAILING, 0, ledger, "abc")
    assert not report([SHORT, FAILING], ledger, Revisions("abc"))
    said = capsys.readouterr().out
    assert "short           2 of        4         2       0" in said
    assert "things  <- falls short" in said
    assert "FAILED: failing at abc, repeat: python -c exit(3)" in said


def test_work_at_another_revision_stands_beside_the_goal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.add(entry("short", 0, revision="old"))
    ledger.add(entry("short", 1, ok=False, revision="old"))
    ledger.add(entry("short", 1, revision="new"))
    assert report([SHORT], ledger, Revisions("new"))
    said = capsys.readouterr().out
    assert "short         2 of        4         6       1" in said
    assert "revisions: old (2 pieces), new (1 pieces)" in said
    assert "failed once, and went well later: short at old" in said


def test_a_piece_writes_what_it_measured(tmp_path: Path) -> None:
    script = tmp_path / "piece.py"
    script.write_text("""print('recoveries {"leader killed": [3.0]}')\nprint("9 runs, 0.25 virtual hours, 1 s")""")
    stage = Stage("s", "things", goal=1, each=1, command=str(script), done_by_piece=1, expected_s=1)
    written = run_piece(stage, 0, Ledger(tmp_path / "ledger.jsonl"), "abc")
    assert (written.recoveries, written.hours) == ({"leader killed": [3.0]}, 0.25)
    assert Ledger(tmp_path / "ledger.jsonl").entries == [written]


def test_recoveries_of_all_pieces_are_counted_together() -> None:
    outputs = [f"noise\n{marked({'killed': [3.0], 'rescaled': [1.0, 2.0]})}\n", marked({"rescaled": [9.0]})]
    assert in_words(added_up(map(recoveries_in, outputs))) == [
        "killed: 1 times, p50 3.0 s, p95 3.0 s, most 3.0 s",
        "rescaled: 3 times, p50 2.0 s, p95 9.0 s, most 9.0 s",
    ]


def test_a_quantile_is_a_value_that_was_seen() -> None:
    assert [percentile(range(1, 21), percent) for percent in (0, 50, 95, 100)] == [1, 10, 19, 20]


def test_the_goals_are_those_of_the_design() -> None:
    goals = {stage.name: stage.goal for stage in STAGES}
    assert goals["simulation"] == 100_000
    assert goals["messages"] == 1_000_000
    assert len(EVERY_EFFECT) == 12


def test_the_long_tests_are_the_files_that_have_two_counts() -> None:
    (stage,) = (stage for stage in STAGES if stage.name == "long-tests")
    assert "tests/integration/connectors/test_sink_kit.py" in files()
    assert stage.goal == len(files()) > 5
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", files()[0]]
    run = subprocess.run(
        command, cwd=ROOT, env={**os.environ, VARIABLE: "1"}, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout


def test_an_unknown_stage_is_refused_by_name() -> None:
    command = [sys.executable, "-m", "tests.night", "nothing"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "unknown stage 'nothing'; there are: simulation, " in run.stderr
