"""How the life of an engine ended, in words."""

import os
from pathlib import Path

import pytest

import penstock
from penstock.base.limits import ENGINE_LAST_LINES_MAX
from penstock.cluster.in_flight import InFlight
from penstock.keeper.final_report import (
    STATUS_UNKNOWN,
    LastLines,
    Printed,
    how_it_ended,
    story,
)

OURS = f'  File "{Path(penstock.__file__).parent}/engine/performer.py", line 77 in _process'


def heard(*lines: str) -> list[str]:
    words = LastLines()
    for line in lines:
        words.hear(line + "\n")
    return words.lines()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "the engine ended by itself (exit status 0)"),
        (7, "the engine ended by itself (exit status 7)"),
        (
            70,
            "the engine ended by itself (exit status 70: a task did not end in time, and only the"
            " end of the process ends it)",
        ),
        (-11, "the engine was killed by SIGSEGV (signal 11)"),
        (
            -9,
            "the engine was killed by SIGKILL (signal 9: by hand, or by the kernel because memory ran out)",
        ),
        (-250, "the engine was killed by signal 250"),
        (STATUS_UNKNOWN, "the engine ended, and nobody saw how"),
    ],
)
def test_an_exit_is_spelt(status: int, text: str) -> None:
    assert how_it_ended(status) == text


def test_an_end_by_memory_is_named_in_the_first_line() -> None:
    told = story(-9, ["last"], None, "limit 64 MiB").splitlines()
    assert told[0] == (
        "the engine was killed by SIGKILL (signal 9): the kernel ended it because memory ran out (limit 64 MiB)"
    )
    assert told[1:] == ["last lines:", "  last"]


def test_a_story_says_how_then_where_then_its_last_lines() -> None:
    place = InFlight("parse", "lines", "part-0", 0, 10)
    assert story(-11, ["Fatal", "more"], [place]).splitlines() == [
        "the engine was killed by SIGSEGV (signal 11)",
        "in flight: step 'parse', source 'lines', partition 'part-0', offsets 0 to 9",
        "last lines:",
        "  Fatal",
        "  more",
    ]
    assert story(7, [], []).splitlines()[1] == "in flight: no row was in a function of the job"
    assert story(1, ["in load", "KeyError: 'x'"], None).splitlines()[0] == (
        "the engine ended by itself (exit status 1): KeyError: 'x'"
    )
    assert story(6, ["there is no table"], None).splitlines()[0] == (
        "the engine ended by itself (exit status 6: a source or sink has failed, and it is started again):"
        " there is no table"
    )
    assert story(7, [], None) == "the engine ended by itself (exit status 7)"


def test_code_that_does_not_load_is_told_as_such() -> None:
    told = story(3, ["job.yaml:5: there is no module 'jobs'"], None)
    assert told == "the job does not load: job.yaml:5: there is no module 'jobs'"


def test_many_tasks_and_long_words_are_shortened() -> None:
    many = [InFlight("parse", "lines", f"part-{n}", 0, 1) for n in range(30)]
    told = story(-9, ["x" * 10_000], many)
    assert "in flight: 22 more tasks" in told
    assert len(told) < 4_000


def test_the_newest_lines_are_kept_without_the_noise_of_a_healthy_engine() -> None:
    noise = "2026-01-01 worker=0 part=engine level=INFO event=reset attempt=1"
    lines = [f"line {n}" for n in range(50)]
    assert heard(*lines, noise, OURS) == lines[-ENGINE_LAST_LINES_MAX:]


def test_of_a_fatal_error_the_first_lines_are_kept_and_no_frames_of_ours() -> None:
    frames = [f'  File "/home/me/job.py", line {n} in deep' for n in range(40)]
    before, fatal = [f"line {n}" for n in range(9)], "Fatal Python error: Segmentation fault"
    kept = heard(*before, fatal, "", OURS, *frames)
    assert kept == [*before[-3:], fatal, *frames[: ENGINE_LAST_LINES_MAX - 4]]


def test_what_was_printed_is_among_the_last_lines(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(1, b"of the life before\n")
    printed = Printed()
    os.write(1, b"row 7\n2026-11-23T19:00:00.000Z keeper job=words worker=0 event=x\nrow 8\n")
    assert printed.last_lines() == ["row 7", "row 8"]
    assert "row 8" in capfd.readouterr().out
