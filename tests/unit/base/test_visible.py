"""Nothing that a user's data says steers the terminal of whoever reads it."""

import io

import pytest

from penstock.base.user_code import named
from penstock.base.visible import visible
from penstock.cli.exits import print_error
from penstock.cli.screen import PlainLines

STEERS = "\x1b[2Jgone\x07\r\x9b31m\u202eabc"
SHOWN = r"\x1b[2Jgone\x07\r\x9b31m\u202eabc"


def test_characters_that_steer_a_terminal_are_spelt() -> None:
    assert visible(STEERS) == SHOWN
    assert visible("Grüße,\tzwei\nZeilen 数") == "Grüße,\tzwei\nZeilen 数"


def test_messages_of_users_are_shown_as_they_are_spelt(capsys: pytest.CaptureFixture[str]) -> None:
    assert named(ValueError(STEERS)) == f"ValueError: {SHOWN}"
    print_error(f"one {STEERS}\ntwo")
    assert capsys.readouterr().err == f"error: one {SHOWN}\nerror: two\n"
    out = io.StringIO()
    PlainLines(out).note(STEERS)
    assert out.getvalue() == f"[   0.0 s] {SHOWN}\n"
