import io
import re

from penstock.metrics.logs import VALUE_CHARS_MAX, Log


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
