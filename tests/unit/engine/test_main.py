"""What the engine process sets up for the code of the user."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

import pytest

from penstock.base.errors import ConfigError, ConnectorError, StorageError
from penstock.connectors.missing import NotThere
from penstock.contract.control_messages import Shutdown, Start
from penstock.contract.ids import ROOT_SUFFIX, Attempt, Incarnation, Term
from penstock.engine.main import EXIT_CONNECTOR, EXIT_JOB, EXIT_STORAGE, exit_status, obey, say_at_once


class Log(io.RawIOBase):
    """A log that several processes write to; keeps each write apart."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, text: bytes) -> int:  # type: ignore[override]
        self.writes.append(bytes(text))
        return len(text)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
@pytest.mark.parametrize("unbuffered", [False, True])
def test_a_printed_line_is_written_at_once_and_in_one_piece(
    monkeypatch: pytest.MonkeyPatch, name: str, *, unbuffered: bool
) -> None:
    log = Log()
    # As Python makes them, without and with PYTHONUNBUFFERED.
    under = cast("IO[bytes]", log if unbuffered else io.BufferedWriter(log))
    stream = io.TextIOWrapper(under, write_through=unbuffered)
    monkeypatch.setattr(sys, name, stream)
    say_at_once()
    print("seen", 3, file=stream)
    assert log.writes == [b"seen 3\n"]


def test_what_is_missing_fails_a_job_at_once_until_it_has_a_checkpoint(tmp_path: Path) -> None:
    table = NotThere("delta: words: there is no table")
    assert exit_status(table, tmp_path) == EXIT_JOB
    assert exit_status(ConnectorError("raised"), tmp_path) == EXIT_CONNECTOR
    assert exit_status(StorageError("away"), tmp_path) == EXIT_STORAGE
    assert exit_status(table, tmp_path / "not mounted") == EXIT_CONNECTOR
    (tmp_path / f"1-1-life-1{ROOT_SUFFIX}").touch()
    assert exit_status(table, tmp_path) == EXIT_CONNECTOR
    assert exit_status(ConfigError("wrong"), tmp_path) == EXIT_JOB


def test_only_an_order_to_end_this_engine_ends_it() -> None:
    launch = SimpleNamespace(incarnation="mine")
    told: list[object] = []
    ends: list[str] = []

    def ended() -> None:
        ends.append("closed")

    worker = SimpleNamespace(command=lambda _, command: told.append(command), close=ended)
    orders: list[object] = [
        Shutdown(Incarnation("other"), "old"),
        Start(Attempt(1)),
        Shutdown(Incarnation("mine"), "now"),
    ]
    link = SimpleNamespace(receive=lambda: SimpleNamespace(term=Term(1), command=orders.pop(0)))
    assert obey(cast(Any, worker), cast(Any, launch), cast(Any, link)) == 0
    assert told == [Start(Attempt(1))]
    assert ends == ["closed"]
