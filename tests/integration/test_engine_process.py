"""An engine as its keeper sees it: it starts and ends, and its death is reported once."""

import queue
import signal
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.contract.control_messages import (
    DOES_NOT_LOAD,
    EngineHello,
    EngineLaunch,
    EngineReport,
    EngineStatus,
)
from penstock.contract.ids import Incarnation, JobUid, Ordinal
from penstock.keeper.engine_process import EngineProcess, LocalChild, Spawn
from penstock.keeper.final_report import how_it_ended
from penstock.protocol.keeper_core_messages import EngineGone
from tests.integration.local_job import cluster_settings, make_lines

pytestmark = pytest.mark.usefixtures("fresh_processes")
WITHIN_S = 60


class Ears:
    """Hears what an engine says and how it ends."""

    def __init__(self) -> None:
        self.reports: queue.Queue[EngineReport] = queue.Queue()
        self.ends: queue.Queue[EngineGone] = queue.Queue()
        self.lines: list[str] = []

    def hello(self) -> EngineHello:
        """Wait for the hello; an engine that loads its code is alive before it."""
        while not isinstance(report := self.reports.get(timeout=WITHIN_S), EngineHello):
            assert isinstance(report, EngineStatus)
        return report

    def start(self, root: Path, job_file: Path, spawn: Spawn = LocalChild) -> EngineProcess:
        launch = EngineLaunch(
            job_uid=JobUid("uid"),
            job="wordcount",
            namespace="default",
            ordinal=Ordinal(0),
            incarnation=Incarnation(str(uuid.uuid4())),
            socket="",
            job_file=str(job_file),
            storage=str(root / "storage"),
            scratch=str(root / "scratch"),
            heartbeat_interval_s=0.1,
        )
        return EngineProcess(
            launch,
            lambda _life, report: self.reports.put(report),
            lambda _progress: None,
            self.ends.put,
            spawn=spawn,
            pass_on=self.lines.append,
        )


def test_a_job_that_does_not_load_is_fatal_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"kind": "Nonsense"}')
    ears = Ears()
    engine = ears.start(tmp_path, tmp_path / "job.json")
    gone = ears.ends.get(timeout=WITHIN_S)
    assert (gone.incarnation, gone.fatal) == (engine.incarnation, True)
    assert gone.reason.startswith(DOES_NOT_LOAD)
    assert "apiVersion" in gone.reason
    assert ears.reports.empty()


def test_an_engine_says_hello_and_ends_when_told(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=1, lines=10)
    ears = Ears()
    engine = ears.start(tmp_path, cluster_settings(folders, rate=0).job_file)
    hello = ears.hello()
    assert hello.incarnation == engine.incarnation
    engine.end()
    gone = ears.ends.get(timeout=WITHIN_S)
    assert (gone.incarnation, gone.fatal) == (engine.incarnation, False)
    assert ears.ends.empty(), "its end is reported once"
    assert gone.reason == "the engine ended, as it was told to"
    assert not (tmp_path / "scratch").exists()


def test_the_death_of_a_killed_engine_is_reported_after_its_last_message(tmp_path: Path) -> None:
    folders = make_lines(tmp_path, files=1, lines=10)
    ears = Ears()
    engine = ears.start(tmp_path, cluster_settings(folders, rate=0).job_file)
    ears.hello()
    engine.kill()
    gone = ears.ends.get(timeout=WITHIN_S)
    assert (gone.fatal, gone.known) == (False, True)
    assert gone.reason == how_it_ended(-signal.SIGKILL)


class Hung:
    """An engine that sends nothing and ends only when it is killed. A wait with a timeout fails at once."""

    pid = 1
    memory = ""

    def __init__(self, _launch: EngineLaunch, link: socket.socket) -> None:
        self._link = link.dup()  # open, as long as it lives
        self._killed = threading.Event()

    def kill(self) -> None:
        self._link.close()
        self._killed.set()

    def wait(self, timeout: float | None = None) -> int:
        if timeout is not None and not self._killed.is_set():
            raise subprocess.TimeoutExpired("engine", timeout)
        self._killed.wait()
        return -signal.SIGKILL

    def lines(self) -> Iterator[str]:
        return iter(())


def test_an_engine_that_sends_nothing_is_ended_and_the_reason_is_reported(tmp_path: Path) -> None:
    ears = Ears()
    ears.start(tmp_path, tmp_path / "job.json", Hung)
    gone = ears.ends.get(timeout=WITHIN_S)
    assert gone.reason == "the engine said nothing for 600 s after its start"
    assert (gone.fatal, gone.known) == (False, True)
