"""The two containers of a pod over a real Unix socket; the engine is played by hand."""

import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.cluster.host import Began, Begin, Ended, Kill, ToHost
from penstock.cluster.link import DescriptorLink, LinkClosed
from penstock.contract.control_messages import EngineLaunch
from penstock.contract.ids import Incarnation, JobUid, Ordinal
from penstock.keeper import engine_launcher
from penstock.keeper.engine_launcher import STATUS_GONE, EngineLauncher, ForkedChild, HostedChild, spawn_by
from penstock.keeper.engine_process import LINE_CHARS_MAX
from penstock.keeper.final_report import STATUS_NEVER_BEGAN, how_it_ended

WITHIN_S = 20.0
DOTS = 3 * LINE_CHARS_MAX


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.sock"


@pytest.fixture
def launcher(path: Path) -> Iterator[EngineLauncher]:
    made = EngineLauncher(path)
    yield made
    made.close()


@pytest.fixture
def hosts(path: Path) -> Iterator["Hosts"]:
    made = Hosts(path)
    yield made
    for link in made.links:
        link.close()


class Hosts:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.links: list[DescriptorLink] = []

    def come(self) -> DescriptorLink:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(self.path))
        self.links.append(DescriptorLink(connection, ToHost))
        return self.links[-1]


def launch(life: str = "life-1") -> EngineLaunch:
    return EngineLaunch(JobUid("uid"), "words", "default", Ordinal(0), Incarnation(life), "", "job", "s", "x", 0.1)


def begin(launcher: EngineLauncher, life: str = "life-1") -> tuple[HostedChild, socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        return launcher.spawn(launch(life), theirs), ours


def test_a_life_begins_with_a_link_of_its_own(launcher: EngineLauncher, hosts: Hosts) -> None:
    host = hosts.come()
    child, ours = begin(launcher)
    message, (link,) = host.receive()
    assert message == Begin(launch())
    os.write(link, b"hello")
    assert ours.recv(5) == b"hello"
    os.close(link)
    assert ours.recv(1) == b"", "the keeper keeps no copy: an engine's death is seen at once"
    ours.close()
    host.send(Began(Incarnation("life-1"), 42))
    host.send(Ended(Incarnation("life-1"), 3, ("no module named x",)))
    assert child.wait(WITHIN_S) == 3
    assert child.pid == 42
    assert list(child.lines()) == ["no module named x\n"]


def test_a_life_waits_for_its_host(launcher: EngineLauncher, hosts: Hosts) -> None:
    child, ours = begin(launcher)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.0)
    message, (link,) = hosts.come().receive()
    assert message == Begin(launch())
    os.close(link)
    ours.close()


def test_a_life_that_never_began_can_be_ended(launcher: EngineLauncher) -> None:
    child, ours = begin(launcher)
    child.kill()
    assert child.wait(WITHIN_S) == STATUS_GONE
    ours.close()


def test_the_keeper_has_a_life_ended(launcher: EngineLauncher, hosts: Hosts) -> None:
    host = hosts.come()
    child, ours = begin(launcher)
    _, (link,) = host.receive()
    child.kill()
    assert host.receive() == (Kill(Incarnation("life-1")), [])
    os.close(link)
    ours.close()


def test_a_container_that_ends_takes_its_engine_with_it(launcher: EngineLauncher, hosts: Hosts) -> None:
    first = hosts.come()
    child, ours = begin(launcher)
    _, (link,) = first.receive()
    first.close()
    assert child.wait(WITHIN_S) == STATUS_GONE
    assert list(child.lines()) == ["the engine's container ended\n"]
    os.close(link)
    ours.close()


def test_the_end_of_an_old_container_is_not_that_of_a_new_life(launcher: EngineLauncher, hosts: Hosts) -> None:
    first, second = hosts.come(), hosts.come()
    with pytest.raises(LinkClosed):
        first.receive()  # the launcher closes the connection to the host before
    child, ours = begin(launcher)
    message, (link,) = second.receive()
    assert message == Begin(launch())
    second.send(Ended(Incarnation("life-1"), 0))
    assert child.wait(WITHIN_S) == 0
    os.close(link)
    ours.close()


def test_words_about_another_life_are_not_heard(launcher: EngineLauncher, hosts: Hosts) -> None:
    host = hosts.come()
    child, ours = begin(launcher, "life-2")
    _, (link,) = host.receive()
    host.send(Ended(Incarnation("life-1"), 1))
    host.send(Ended(Incarnation("life-2"), 0))
    assert child.wait(WITHIN_S) == 0
    os.close(link)
    ours.close()


def test_files_that_come_with_a_word_are_closed(launcher: EngineLauncher, hosts: Hosts) -> None:
    """Whoever reaches the socket could else use up what its keeper may have open."""
    host = hosts.come()
    child, ours = begin(launcher)
    _, (link,) = host.receive()
    reads, writes = os.pipe()
    host.send(Began(Incarnation("life-1"), 42), writes)
    os.close(writes)
    host.send(Ended(Incarnation("life-1"), 0))
    assert child.wait(WITHIN_S) == 0
    assert os.read(reads, 1) == b"", "nobody has the other end open any more"
    for descriptor in (reads, link):
        os.close(descriptor)
    ours.close()


def test_a_container_that_has_gone_is_noticed_as_absent(launcher: EngineLauncher, hosts: Hosts) -> None:
    host = hosts.come()
    child, ours = begin(launcher)
    _, (link,) = host.receive()
    assert launcher.absent_s(time.monotonic() + 100) == 0
    host.close()
    assert child.wait(WITHIN_S) == STATUS_GONE
    assert launcher.absent_s(time.monotonic() + 100) > 99
    os.close(link)
    ours.close()


def never() -> None:
    raise AssertionError("the server was not silent")


class ForkServer:
    """Answers as the test says, when it says so."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[tuple[object, list[int]]] = queue.SimpleQueue()

    def send(self, *_: object) -> None:
        """Begin nothing."""

    def receive(self, _until: float | None) -> tuple[object, list[int]]:
        return self.answers.get(timeout=WITHIN_S)

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system has no handles of processes")
def test_an_engine_that_was_given_up_before_it_began_is_killed_as_it_begins() -> None:
    server, (ours, theirs) = ForkServer(), socket.socketpair()
    child = ForkedChild(launch(), theirs, cast(Any, server), never)
    child.kill()
    engine = subprocess.Popen(["sleep", "600"])
    try:
        server.answers.put((Began(Incarnation("life-1"), engine.pid), [os.pidfd_open(engine.pid)]))
        assert engine.wait(WITHIN_S) == -signal.SIGKILL
        server.answers.put((Ended(Incarnation("life-1"), -signal.SIGKILL), []))
        assert child.wait(WITHIN_S) == -signal.SIGKILL
        assert list(child.lines()) == []
    finally:
        engine.kill()
        ours.close()
        theirs.close()


class Printing(ForkServer):
    """Gives the engine's standard error to the test."""

    def send(self, *given: object) -> None:
        self.errors = os.dup(cast(int, given[-1]))


def test_a_line_without_an_end_comes_in_pieces() -> None:
    server, (ours, theirs) = Printing(), socket.socketpair()
    child = ForkedChild(launch(), theirs, cast(Any, server), never)
    writer = threading.Thread(target=_print_dots, args=(server.errors,))
    writer.start()
    lines = child.lines()
    first = next(lines)
    assert 0 < len(first) <= LINE_CHARS_MAX
    assert len(first) + sum(map(len, lines)) == DOTS
    writer.join()
    server.answers.put((Ended(Incarnation("life-1"), 0), []))
    assert child.wait(WITHIN_S) == 0
    ours.close()
    theirs.close()


def _print_dots(errors: int) -> None:
    with os.fdopen(errors, "w") as stream:
        stream.write("." * DOTS)


def test_an_engine_that_a_stopped_server_does_not_begin_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system lets a keeper connect to a process that is stopped, and takes what it sends."""
    monkeypatch.setattr(engine_launcher, "FORK_BEGIN_TIMEOUT_S", 0.01)
    monkeypatch.setattr(engine_launcher, "LocalChild", Mine)
    address, (ours, theirs) = str(tmp_path / "engines"), socket.socketpair()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, ours, theirs:
        listener.bind(address)
        listener.listen()
        spawn = spawn_by(address)
        child = spawn(launch(), theirs)
        child.kill()
        assert child.wait(WITHIN_S) == STATUS_NEVER_BEGAN
        assert "the fork server did not begin the engine within" in how_it_ended(child.wait(0.0))
        assert isinstance(spawn(launch(), theirs), Mine), "the keeper waits for that server only once"
    assert list(child.lines()) == []


class Mine:
    """An engine that is this process's own child."""

    def __init__(self, *_: object) -> None:
        """Start nothing."""
