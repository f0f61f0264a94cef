"""What an engine works on outlives it: written by the engine, read by its keeper."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.base.limits import IN_FLIGHT_SLOTS_MAX
from penstock.cluster.in_flight import (
    HEADER,
    ROWS_AT,
    SLOT_BYTES,
    InFlight,
    InFlightPage,
    read_in_flight,
)
from penstock.contract.ids import Incarnation

LIFE = Incarnation("0b5f7a52-0000-4000-8000-000000000001")
DIES = """
import os, signal, sys
from pathlib import Path
from penstock.cluster.in_flight import InFlightPage
page = InFlightPage(Path(sys.argv[1]), sys.argv[2])
page.slot("idle")
page.slot("parse").enter(("lines", "part-3.parquet", 8192), 8192)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_page_outlives_a_process_that_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "in-flight"
    done = subprocess.run([sys.executable, "-c", DIES, str(path), LIFE], check=False)
    assert done.returncode < 0
    assert read_in_flight(path, LIFE) == [InFlight("parse", "lines", "part-3.parquet", 8192, 8192)]
    assert os.listdir(path.parent) == ["in-flight"]


def test_only_what_is_in_a_function_is_in_flight(tmp_path: Path) -> None:
    page = InFlightPage(tmp_path / "p", LIFE)
    first, second = page.slot("a"), page.slot("b")
    assert first is not None
    assert second is not None
    first.enter(("s", "x", 0), 10)
    second.enter(None, 7)
    first.leave()
    assert read_in_flight(tmp_path / "p", LIFE) == [InFlight("b", "", "", -1, 7)]
    first.enter(("s", "y", 10), 5)
    second.free()
    assert read_in_flight(tmp_path / "p", LIFE) == [InFlight("a", "s", "y", 10, 5)]


def test_a_slot_is_used_again_and_more_tasks_than_slots_say_nothing(tmp_path: Path) -> None:
    page = InFlightPage(tmp_path / "p", LIFE)
    slots = [page.slot(f"step {n}") for n in range(IN_FLIGHT_SLOTS_MAX)]
    assert page.slot("one too many") is None
    assert slots[-1] is not None
    slots[-1].free()
    again = page.slot("again")
    assert again is not None
    again.enter(None, 1)
    assert read_in_flight(tmp_path / "p", LIFE) == [InFlight("again", "", "", -1, 1)]


def test_names_of_any_length_fit(tmp_path: Path) -> None:
    slot = InFlightPage(tmp_path / "p", LIFE).slot("é" * 500)
    assert slot is not None
    slot.enter(("ß" * 500, "日" * 500, 2**62), 2**62)
    (found,) = read_in_flight(tmp_path / "p", LIFE) or []
    assert (found.first, found.rows) == (2**62, 2**62)
    assert found.steps.strip("é") == found.source.strip("ß") == found.split.strip("日") == ""
    assert min(map(len, (found.steps, found.source, found.split))) > 50


def test_the_page_of_another_life_and_none_say_nothing(tmp_path: Path) -> None:
    assert read_in_flight(tmp_path / "p", LIFE) is None
    InFlightPage(tmp_path / "p", Incarnation("another"))
    assert read_in_flight(tmp_path / "p", LIFE) is None
    (tmp_path / "p").write_bytes(b"short")
    assert read_in_flight(tmp_path / "p", LIFE) is None


@pytest.mark.parametrize("at", [ROWS_AT + 7, ROWS_AT + 15, ROWS_AT + 17])
def test_what_makes_no_sense_is_left_out(tmp_path: Path, at: int) -> None:
    slot = InFlightPage(tmp_path / "p", LIFE).slot("a")
    assert slot is not None
    slot.enter(("s", "x", 0), 10)
    data = bytearray((tmp_path / "p").read_bytes())
    busy = next(p for p in range(HEADER.size, len(data), SLOT_BYTES) if data[p])
    data[busy + at] = 0xFF
    (tmp_path / "p").write_bytes(bytes(data))
    assert read_in_flight(tmp_path / "p", LIFE) == []


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            InFlight("parse", "lines", "part-3", 8192, 100),
            "step 'parse', source 'lines', partition 'part-3', offsets 8192 to 8291",
        ),
        (InFlight("count", "", "", -1, 5), "step 'count', 5 rows from other tasks"),
        (InFlight("close", "", "", -1, 0), "step 'close', as event time passed"),
    ],
)
def test_a_place_is_spelt_as_in_errors(entry: InFlight, text: str) -> None:
    assert str(entry) == text


@pytest.mark.parametrize("kind", ["pipe", "link", "endless", "large"])
def test_a_file_that_is_no_page_holds_no_keeper_up(tmp_path: Path, kind: str) -> None:
    """User code can put anything there: a pipe that nobody writes, memory without an end."""
    path, page = tmp_path / "in-flight", tmp_path / "page"
    InFlightPage(page, LIFE).slot("parse")
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to(page)
        case "endless":
            path.symlink_to("/dev/zero")
        case "large":
            with page.open("ab") as file:
                file.truncate(1 << 40)
            page.rename(path)
    assert read_in_flight(path, LIFE) == ([] if kind == "large" else None)
