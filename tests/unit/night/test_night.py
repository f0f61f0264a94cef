"""The night runs each piece once, goes on where it was, and says what falls short."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.night.__main__ import open_pieces, report, run_piece
from tests.night.ledger import Entry, Ledger
from tests.night.real_faults import recoveries_in
from tests.night.stages import EVERY_EFFECT, STAGES, Stage

ROOT = Path(__file__).parents[3]
SHORT = Stage("short", "things", goal=4, each=2, command="-c print({first},{last})", done_by_piece=2, expected_s=1)
FAILING = Stage("failing", "things", goal=1, each=1, command="-c exit(3)", done_by_piece=1, expected_s=1)


def entry(stage: str, piece: int, *, ok: bool = True, revision: str = "abc") -> Entry:
    return Entry(revision, stage, piece, ok, 1.0, "")


def test_a_piece_has_its_own_numbers() -> None:
    assert SHORT.pieces() == 2
    assert SHORT.words(1) == ["-c", "print(2,3)"]


def test_an_interrupted_night_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first = Ledger(path, "abc")
    run_piece(SHORT, 0, first, "abc")
    with path.open("a") as file:
        file.write('{"revision": "abc", "sta')
    again = Ledger(path, "abc")
    assert list(open_pieces([SHORT, FAILING], again)) == [(FAILING, 0), (SHORT, 1)]
    assert again.of("short")[0].said == "0 1\n"


def test_entries_of_another_revision_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path, "old").add(entry("short", 0, revision="old"))
    assert not Ledger(path, "new").has("short", 0)


def test_what_falls_short_and_what_failed_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl", "abc")
    ledger.add(entry("short", 0))
    run_piece(FAILING, 0, ledger, "abc")
    assert not report([SHORT, FAILING], ledger)
    said = capsys.readouterr().out
    assert "short                                 2 of        4       0" in said
    assert "things  <- falls short" in said
    assert "FAILED failing, repeat: python -c exit(3)" in said


def test_recoveries_of_all_pieces_are_counted_together() -> None:
    outputs = ['noise\nrecoveries {"leader killed": [3.0], "rescaled": [1.0, 2.0]}\n', 'recoveries {"rescaled": [9.0]}']
    assert recoveries_in(outputs) == [
        "leader killed: 1 times, p50 3.0 s, p95 3.0 s, most 3.0 s",
        "rescaled: 3 times, p50 2.0 s, p95 9.0 s, most 9.0 s",
    ]


def test_the_goals_are_those_of_the_design() -> None:
    goals = {stage.name: stage.goal for stage in STAGES}
    assert goals["simulation"] == 100_000
    assert goals["messages"] == 1_000_000
    assert len(EVERY_EFFECT) == 12


def test_an_unknown_stage_is_refused_by_name() -> None:
    command = [sys.executable, "-m", "tests.night", "nothing"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "unknown stage 'nothing'; there are: simulation, " in run.stderr
