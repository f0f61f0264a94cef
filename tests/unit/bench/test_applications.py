"""The figures of a run of an application come from its statuses."""

import json
import os
from collections.abc import Mapping

from bench.applications import Mark, Run, marks_of

MARKS = [Mark(0.0, 1, 0, 9.0), Mark(1.0, 20, 2, 10.0), Mark(3.0, 60, 6, 13.0), Mark(4.0, 100, 10, 15.0)]


def test_rates_are_those_between_a_fifth_and_the_last_status_before_the_end() -> None:
    run = Run(100, 10, 10, MARKS)
    found = run.figures()
    assert (found["rows_per_s"], found["sink_rows_per_s"]) == (20, 2)
    assert (found["cpu_ns_per_row"], found["ns_per_row"]) == (75e6, 50e6)
    assert (found["rows_per_core_s"], found["sink_rows_per_core_s"]) == (13, 1)
    assert run.wrong() == []


def test_a_run_says_what_is_wrong() -> None:
    assert Run(100, 10, 9, MARKS, exit_code=3).wrong() == ["exit status 3", "9 rows at the sink, not 10"]
    assert Run(100, 10, 10, MARKS[2:]).wrong() == ["100 rows are too few: they were read between two statuses"]


def test_a_status_counts_if_all_engines_live_and_more_rows_were_read() -> None:
    lives, ended = {"engine_pid": os.getpid()}, {"engine_pid": None}

    def status(read: int, *workers: Mapping[str, int | None]) -> str:
        steps = [{"name": "in", "rows_in": read}, {"name": "out", "rows_in": read // 2}]
        return json.dumps({"steps": steps, "workers": workers})

    lines = [json.dumps({"note": "begins"}), status(2, lives), status(2, lives), status(4, lives, ended)]
    marks, sunk = marks_of([*lines, status(6, lives, lives)], "out")
    assert [(mark.read, mark.sunk) for mark in marks] == [(2, 1), (6, 3)]
    assert sunk == 3
