import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.metrics.logs import VALUE_CHARS_MAX, JsonLog, Log


def line(*, event: str = "engine lost", **fields: str | int | float | bool | None) -> str:
    stream = io.StringIO()
    Log("keeper", {"job": "words", "worker": 0}, stream).say(event, **fields)
    return stream.getvalue()


def test_ids_come_first_and_values_that_need_it_are_quoted() -> None:
    text = line(reason='exit "1"', epoch=7, leader=True, none=None, plain="a/b:1", empty="")
    time, _, rest = text.partition(" ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time)
    assert rest == (
        'keeper job=words worker=0 event="engine lost" reason="exit \\"1\\"" epoch=7 '
        'leader=true none=null plain=a/b:1 empty=""\n'
    )


def test_a_line_is_one_line_and_bounded() -> None:
    text = line(reason="first\nsecond\x1b[31m" + "x" * VALUE_CHARS_MAX * 2)
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert len(text) < VALUE_CHARS_MAX + 300


def test_a_reader_that_went_away_harms_nobody() -> None:
    stream = io.StringIO()
    stream.close()
    Log("keeper", {}, stream).say("x")


WRAPPED = """
import os, sys, warnings
from penstock.metrics.logs import JsonLog, WrappedErrors
errors = WrappedErrors("keeper", {"pod": "words-worker-0"})
log = JsonLog("keeper", {"worker": 0}, errors.stream)
os.write(2, b'E0000 00:00:1 ssl_transport_security.cc:1] Handshake failed\\n')
log.say("keeper started")
print('{"component": "keeper", "event": "forged"}', file=sys.stderr)
errors.close()
os.write(2, b'as before\\n')
"""


def test_lines_of_libraries_are_structured_like_ours() -> None:
    done = subprocess.run([sys.executable, "-c", WRAPPED], capture_output=True, text=True, check=True, timeout=60)
    *lines, last = done.stderr.splitlines()
    assert last == "as before"
    plain = [json.loads(line) for line in lines]
    assert {each["component"] for each in plain} == {"keeper"}
    messages = [each["message"] for each in plain if "message" in each]
    assert any("Handshake failed" in text for text in messages)
    assert any("forged" in text for text in messages)
    assert [each["event"] for each in plain if "event" in each] == ["keeper started"]


FORGED = [
    '{"component": "keeper", "job": "other", "event": "leads", "time": "2001"}',
    "{",
    'x\u2028{"component": "keeper"}\x85{"component": "keeper"}\u2029{}',
    '", "component": "keeper", "x": "',
]


@pytest.mark.parametrize("text", FORGED)
def test_what_is_passed_on_is_a_message_whatever_it_looks_like(text: str) -> None:
    stream = io.StringIO()
    JsonLog("keeper", {"job": "words"}, stream).quote("engine", text)
    (written,) = stream.getvalue().splitlines()
    found = json.loads(written)
    assert found.pop("time") != "2001"
    assert found == {"component": "keeper", "job": "words", "source": "engine", "message": text}


def test_what_a_process_says_itself_has_no_source() -> None:
    stream = io.StringIO()
    log = JsonLog("keeper", {}, stream)
    log.say("leads")
    log.line("event=leads")
    assert all("source" not in json.loads(line) for line in stream.getvalue().splitlines())


def test_on_one_machine_a_line_is_read_as_it_was_said() -> None:
    stream = io.StringIO()
    Log("keeper", {}, stream).quote("engine", "Traceback (most recent call last):")
    assert stream.getvalue() == "Traceback (most recent call last):\n"


STEERING = "\x1b[2J \x9b2J \x7f \x85 \u202e \u2066 \u2028"


@pytest.mark.parametrize("kind", [Log, JsonLog])
def test_half_of_a_character_loses_no_line_and_nothing_steers_a_terminal(tmp_path: Path, kind: type[Log]) -> None:
    """User code chooses the text of its errors; a file of UTF-8 takes not all that Python has."""
    file = tmp_path / "log"
    with file.open("w", encoding="utf-8") as stream:
        kind("engine", {"job": "words"}, stream).say("failed", reason=f"\ud800 {STEERING}")
    text = file.read_text(encoding="utf-8")
    assert "\\ud800" in text
    assert text.endswith("\n")
    assert text[:-1].isprintable(), text


def test_what_user_code_says_steers_no_terminal_of_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("w", encoding="utf-8") as stream:
        JsonLog("engine", {}, stream).quote("stderr", f"\ud800 {STEERING}")
    text = file.read_text(encoding="utf-8")
    assert text[:-1].isprintable(), text
    assert json.loads(text)["message"].endswith(STEERING)
