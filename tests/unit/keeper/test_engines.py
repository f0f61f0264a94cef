"""The engines of a worker: one at a time, each by its own name, and none outlives its end."""

import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.base.limits import MESSAGE_QUEUE_MAX
from penstock.cluster import link
from penstock.cluster.launch import KeeperLaunch
from penstock.contract import control_messages as c
from penstock.contract.control_messages import EngineLaunch, EnginePlace
from penstock.contract.ids import Attempt, Incarnation, JobUid, Ordinal, Term
from penstock.keeper import engine_process
from penstock.keeper.engine_process import Engines
from penstock.keeper.keeper_messages import ForMember, KeeperInbox
from penstock.protocol.core_context import ControlSettings
from penstock.protocol.keeper_core_messages import EngineGone

WITHIN_S = 60.0
START = c.Start(Attempt(1))
ORDERS_IN_A_SOCKET = 20_000  # more than its buffer holds


class Child:
    """An engine that does nothing but live; the test reads what it is sent at ``link``."""

    memory = ""

    def __init__(self, launch: EngineLaunch, link: socket.socket) -> None:
        self.launch = launch
        self.link = link.dup()
        self.link.settimeout(WITHIN_S)
        self.pid = 1
        self.status = 0
        self.ended = threading.Event()

    def kill(self) -> None:
        self.status = -signal.SIGKILL
        self.die()

    def die(self) -> None:
        self.ended.set()
        self.link.close()

    def wait(self, timeout: float | None = None) -> int:
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired("engine", timeout or 0.0)
        return self.status

    def lines(self) -> Iterator[str]:
        return iter(())


class Worker:
    """Engines over such children."""

    def __init__(self, folder: Path) -> None:
        self.children: list[Child] = []
        self.inbox = KeeperInbox()
        names = {name: str(folder / name) for name in ("job_file", "storage", "savepoints", "scratch")}
        launch = KeeperLaunch(JobUid("uid"), "job", "ns", Ordinal(0), "", "token", control=ControlSettings(), **names)
        self.engines = Engines(
            launch,
            self.inbox,
            lambda: None,
            spawn=self._spawn,
            place=EnginePlace(),
            pass_on=lambda _: None,
        )

    def _spawn(self, launch: EngineLaunch, link: socket.socket) -> Any:
        self.children.append(Child(launch, link))
        return self.children[-1]

    def start(self) -> Child:
        self.engines.start()
        child = self.children[-1]
        Path(child.launch.scratch).mkdir(parents=True)
        return child

    def gone(self) -> EngineGone:
        item = self.inbox.take(WITHIN_S)
        assert isinstance(item, ForMember)
        assert isinstance(item.event, EngineGone)
        return item.event


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    made = Worker(tmp_path)
    yield made
    for child in made.children:
        child.kill()


def heard(child: Child) -> bytes:
    """Return what comes at an engine, empty when its link is closed."""
    return child.link.recv(1 << 16)


def test_an_order_reaches_the_engine_that_it_names_and_no_other(worker: Worker) -> None:
    old = worker.start()
    new = worker.start()
    worker.engines.send(old.launch.incarnation, Term(1), START)
    worker.engines.send(new.launch.incarnation, Term(1), c.Start(Attempt(2)))
    said = heard(new)
    while b"\n" not in said and b"Start" not in said:
        said += heard(new)
    assert b'"attempt":2' in said.replace(b" ", b"")
    assert b'"attempt":1' not in said.replace(b" ", b"")


def test_of_two_engines_only_the_newest_lives(worker: Worker) -> None:
    old = worker.start()
    new = worker.start()
    assert old.ended.is_set()
    assert not new.ended.is_set()


def test_the_end_of_an_engine_before_is_no_news_of_this_one(worker: Worker) -> None:
    old = worker.start()
    new = worker.start()
    gone = worker.gone()
    assert gone.incarnation == old.launch.incarnation
    worker.engines.forget(gone.incarnation, gone.reason)
    worker.engines.end(old.launch.incarnation)
    worker.engines.ready(old.launch.incarnation)
    worker.engines.send(new.launch.incarnation, Term(1), START)
    assert heard(new), "its link is open"
    assert worker.engines.running
    assert worker.engines.view.incarnation == new.launch.incarnation
    assert worker.engines.view.pid == new.pid
    worker.engines.end(Incarnation(""))
    assert heard(new) == b"", "the name of one that has not said hello"


def test_an_engine_that_does_not_hear_its_end_is_killed_and_leaves_no_files(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_process, "ENGINE_EXIT_GRACE_S", 0.01)
    child = worker.start()
    worker.engines.end(child.launch.incarnation)
    assert worker.gone().incarnation == child.launch.incarnation
    assert child.status == -signal.SIGKILL
    assert not Path(child.launch.scratch).exists()


def test_an_engine_that_hangs_up_is_ended(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_process, "ENGINE_EXIT_GRACE_S", 0.01)
    child = worker.start()
    child.link.shutdown(socket.SHUT_RDWR)
    assert worker.gone().incarnation == child.launch.incarnation
    assert child.status == -signal.SIGKILL


def test_an_engine_that_never_speaks_is_killed(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_process, "ENGINE_FIRST_WORD_S", 0.01)
    child = worker.start()
    assert "said nothing" in worker.gone().reason
    assert child.status == -signal.SIGKILL


def test_an_engine_that_leaves_its_orders_unread_is_ended(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each order is given once, so one that is dropped would never come."""
    monkeypatch.setattr(engine_process, "ENGINE_EXIT_GRACE_S", 0.01)
    child = worker.start()
    for number in range(MESSAGE_QUEUE_MAX + ORDERS_IN_A_SOCKET):
        worker.engines.send(child.launch.incarnation, Term(1), c.Start(Attempt(number + 1)))
    gone = worker.gone()
    assert "1000 commands unread" in gone.reason
    assert child.status == -signal.SIGKILL


def test_an_engine_is_ended_whose_order_is_too_long(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else would end its wait for the order, and the next orders would wait behind it."""
    monkeypatch.setattr(engine_process, "ENGINE_EXIT_GRACE_S", 0.01)
    monkeypatch.setattr(link, "CONTROL_MESSAGE_BYTES_MAX", 10)
    child = worker.start()
    worker.engines.send(child.launch.incarnation, Term(1), START)
    reason = worker.gone().reason.splitlines()[0]
    assert reason.startswith("an order was too long for the engine (Start): TermedCommand has ")
    assert reason.endswith("fewer splits (input files), steps or workers make it smaller")
