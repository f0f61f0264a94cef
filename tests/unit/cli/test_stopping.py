"""A stop that cannot be noted: nobody sees a stack trace, and the run goes on until it ends."""

import io
import threading
from typing import Any

import pytest

from penstock.base.errors import StorageError
from penstock.cli.exits import Exit
from penstock.cli.run_watch import Interrupts, watch
from penstock.cli.screen import PlainLines, Watched
from penstock.contract.status import JobState, JobStatus


class FullDisk:
    """A cluster that ends once it was asked to stop, though the request cannot be written."""

    def __init__(self, refusal: Exception) -> None:
        self._refusal = refusal
        self._asked = threading.Event()
        self._asker: threading.Thread | None = None

    def wait(self, _within_s: float) -> JobStatus | None:
        if not self._asked.is_set():
            return None
        assert self._asker is not None
        self._asker.join()
        return JobStatus("words", "u", JobState.STOPPED, 1, 1)

    def status(self) -> JobStatus:
        return JobStatus("words", "u", JobState.RUNNING, 1, 1)

    def stop(self) -> None:
        self._asker = threading.current_thread()
        self._asked.set()
        raise self._refusal


def test_a_stop_that_cannot_be_noted_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fell: list[object] = []
    monkeypatch.setattr(threading, "excepthook", fell.append)
    interrupts = Interrupts()
    interrupts.count = 1
    cluster: Any = FullDisk(StorageError("metadata.sqlite: database or disk is full"))
    assert watch(cluster, Watched(PlainLines(io.StringIO())), interrupts) is Exit.INTERRUPTED
    told = "error: the stop is not noted yet: metadata.sqlite: database or disk is full: tried"
    assert capsys.readouterr().err.startswith(told)
    assert not fell
