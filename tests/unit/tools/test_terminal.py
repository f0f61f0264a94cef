"""The small terminal shows what programs write, and its pictures show that at its time."""

from xml.etree import ElementTree

from tools.terminal import Frame, Screen, svg


def test_a_screen_is_drawn_over() -> None:
    screen = Screen()
    screen.feed("one\r\n\x1b[1mtwo\x1b[0m and\r\x1b[2K\x1b[1A\x1b[2Kthree\r\n\x1b[32mfour\x1b[0m")
    assert screen.text() == "three\nfour"
    assert screen.lines() == [(("three", ""),), (("four", "g"),)]


def test_a_sequence_may_come_in_two_parts() -> None:
    screen = Screen()
    for part in ("a\x1b", "[1", "mb"):
        screen.feed(part)
    assert screen.lines() == [(("a", ""), ("b", "b"))]


def test_a_picture_has_each_line_once_and_ends_with_the_last_frame() -> None:
    first, second = (("a<b", ""),), (("c", "b"),)
    text = svg([Frame(0.0, (first,)), Frame(1.0, (first, second)), Frame(3.0, (second,))], 4.0, 80)
    groups = ElementTree.fromstring(text).findall("{*}g")
    assert [group.attrib["display"] for group in groups] == ["none", "none", "inline"]
    moves = [group[0].attrib for group in groups]
    assert [m["values"] for m in moves] == ["inline;none", "none;inline;none", "none;inline"]
    assert [m["keyTimes"] for m in moves] == ["0;0.7500", "0;0.2500;0.7500", "0;0.7500"]
