"""Engines from a fork server, as their keeper sees them, and what remains if either side dies."""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import indent

import pytest

from penstock.cluster.host import ForkServer, start_fork_server
from penstock.cluster.link import LENGTH, KeeperLink
from penstock.contract.control_messages import EngineHello, EngineLaunch
from penstock.contract.ids import Incarnation, JobUid, Ordinal
from penstock.keeper.engine_launcher import ForkedChild, spawn_by
from penstock.keeper.engine_process import EngineChild, LocalChild
from penstock.keeper.final_report import EXIT_CANNOT_START, STATUS_UNKNOWN
from tests.integration.local_job import cluster_settings, make_lines

WITHIN_S = 60
DRAWS = """
import sys
import numpy

print("drew", numpy.random.bytes(8).hex(), file=sys.stderr)
print("standard output", flush=True)
raise ValueError("no job")
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@contextmanager
def life(server: ForkServer, root: Path, job_file: Path) -> Iterator[tuple[EngineChild, KeeperLink]]:
    """Start one engine of worker 0. It ends when its link is closed, or earlier."""
    incarnation = Incarnation(str(uuid.uuid4()))
    launch = EngineLaunch(
        job_uid=JobUid("uid"),
        job="wordcount",
        namespace="default",
        ordinal=Ordinal(0),
        incarnation=incarnation,
        socket="",
        job_file=str(job_file),
        storage=str(root / "storage"),
        scratch=str(root / f"scratch-{incarnation}"),
        heartbeat_interval_s=0.1,
    )
    ours, theirs = socket.socketpair()
    ours.settimeout(WITHIN_S)
    with theirs:
        child, link = spawn_by(server.address)(launch, theirs), KeeperLink(ours)
    yield child, link
    link.close()
    child.wait(WITHIN_S)


def hello(link: KeeperLink) -> None:
    while not isinstance(link.receive(), EngineHello):
        """Wait: signs of life come before it."""


def a_job(root: Path) -> Path:
    return cluster_settings(make_lines(root, files=1, lines=10), rate=1000).job_file


def scripted(root: Path, text: str) -> Path:
    job = root / "job.yaml"
    job.write_text(
        "apiVersion: penstock.dev/v1alpha1\nkind: StreamJob\nmetadata: {name: draws}\n"
        f"spec:\n  job:\n    script: |\n{indent(text, '      ')}"
    )
    return job


def test_an_engine_that_cannot_start_says_why(server: ForkServer, tmp_path: Path) -> None:
    with life(server, tmp_path, tmp_path / "absent.json") as (child, _):
        assert isinstance(child, ForkedChild)
        assert "absent.json" in "".join(child.lines())
        assert child.wait(WITHIN_S) == EXIT_CANNOT_START


def test_each_fork_draws_its_own_random_numbers(
    server: ForkServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    job = scripted(tmp_path, DRAWS)
    drawn = set()
    for _ in range(2):
        with life(server, tmp_path, job) as (child, _):
            drawn |= {line for line in child.lines() if line.startswith("drew")}
    assert len(drawn) == 2
    assert capfd.readouterr().out == "standard output\n" * 2, "a keeper's log gets what they print"


def test_an_engine_that_is_killed_before_its_process_is_known_ends(server: ForkServer, tmp_path: Path) -> None:
    with life(server, tmp_path, a_job(tmp_path)) as (child, _):
        child.kill()
        assert child.wait(WITHIN_S) == -signal.SIGKILL
        assert not list(child.lines())


def test_an_engine_outlives_its_server_and_the_next_needs_none(tmp_path: Path) -> None:
    server = ForkServer()
    with life(server, tmp_path, a_job(tmp_path)) as (child, link):
        hello(link)
        assert child.pid is not None
        assert os.getpgid(child.pid) == os.getpgid(0), "a signal to its keeper's process group ends it"
        server.close()
        link.receive()  # a sign of life
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.0)
        link.close()
        assert child.wait(WITHIN_S) == STATUS_UNKNOWN
    with life(server, tmp_path, tmp_path / "absent.json") as (child, _):
        assert isinstance(child, LocalChild)
        assert "absent.json" in "".join(child.lines())
        assert child.wait(WITHIN_S) == EXIT_CANNOT_START


def test_there_is_no_fork_server_without_a_place_for_its_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = tmp_path / ("f" * 120)
    far.mkdir()
    for place in (far, tmp_path / "absent"):
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        assert start_fork_server() is None
    assert not list(far.iterdir())


def test_the_server_ends_with_its_parent_and_takes_its_socket_along() -> None:
    dies = "import os; from penstock.cluster.host import ForkServer; s = ForkServer();"
    dies += "print(s.address, flush=True); os.kill(os.getpid(), 9)"
    parent = subprocess.run([sys.executable, "-c", dies], stdout=subprocess.PIPE, check=False)
    address = parent.stdout.decode().strip()
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(WITHIN_S)
        caller.connect(address)
        try:
            assert caller.recv(1) == b""
        except ConnectionResetError:
            """It ended without taking the call."""
    assert not Path(address).parent.exists()


def hung_up(caller: socket.socket) -> bool:
    """Wait until the server ends a connection. What it has not read resets the connection."""
    try:
        return caller.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_keeper_that_says_a_byte_now_and_then_holds_nobody_up(server: ForkServer, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as slow:
        slow.connect(server.address)
        slow.sendall(LENGTH.pack(100_000))
        sent = 0
        while not select.select([slow], [], [], 0.2)[0] and sent < 200:  # 40 s, far beyond its deadline
            with suppress(OSError):  # it hangs up in this moment
                slow.send(b" ")
            sent += 1
    assert 0 < sent < 200
    with life(server, tmp_path, a_job(tmp_path)) as (child, link):
        assert isinstance(child, ForkedChild)
        hello(link)


def test_what_is_no_message_ends_neither_the_server_nor_an_engine(server: ForkServer, tmp_path: Path) -> None:
    job = a_job(tmp_path)
    with life(server, tmp_path, job) as (child, link):
        hello(link)
        for said in (b"GET / HTTP/1.1\r\n\r\n", LENGTH.pack(2) + b"{}", b"\0", LENGTH.pack(3) + b'"x"'):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.connect(server.address)
                stranger.sendall(said)
                with suppress(OSError):  # it may have hung up
                    stranger.shutdown(socket.SHUT_WR)
                assert hung_up(stranger)
        with life(server, tmp_path, job) as (other, second):
            assert isinstance(other, ForkedChild)
            hello(second)
        assert child.pid is not None
        os.kill(child.pid, 0)


CONNECT = """
import os, socket, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_of_the_machine_cannot_connect(server: ForkServer) -> None:
    command = [sys.executable, "-c", CONNECT, server.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr
