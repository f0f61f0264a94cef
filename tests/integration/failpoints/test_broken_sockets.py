"""Real sockets between the processes of a job are cut, held and slowed; the output is exact all the same."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.base.limits import HEARTBEAT_TIMEOUT_S
from tests.failpoints.runs import FailpointRun, Meanwhile
from tests.integration.local_job import Folders, make_lines
from tests.support.tcp_proxy import Link, TcpProxy

LOOK_S = 0.02


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[TcpProxy]:
    made = TcpProxy(tmp_path / "proxy")
    yield made
    made.close()


def data(link: Link) -> bool:
    return link.kind == "flight"


def control(link: Link) -> bool:
    return link.kind == "grpc" and link.role == "worker"


def run(folder: Path, proxy: TcpProxy, meanwhile: Meanwhile) -> None:
    folders = make_lines(folder, files=2, lines=300)
    outcome = FailpointRun(folder, folders, None, proxy=proxy.control, meanwhile=meanwhile).run()
    assert outcome.violations == []


def wait_for(over: threading.Event, reached: Callable[[], object]) -> None:
    while not reached() and not over.wait(LOOK_S):
        pass


def visible(folders: Folders) -> int:
    return len(list(folders.output.glob("*.parquet")))


@pytest.mark.parametrize("reset", [False, True])
def test_data_connections_are_cut_during_the_shuffle(tmp_path: Path, proxy: TcpProxy, *, reset: bool) -> None:
    cut = list[int]()

    def meanwhile(folders: Folders, over: threading.Event) -> None:
        for _ in range(2):
            files = visible(folders)
            wait_for(over, lambda files=files: visible(folders) > files)  # type: ignore[misc]
            cut.append(proxy.cut(data, reset=reset))

    run(tmp_path, proxy, meanwhile)
    assert cut[0] > 0


def test_a_half_open_control_connection_is_replaced(tmp_path: Path, proxy: TcpProxy) -> None:
    held = list[int]()

    def meanwhile(folders: Folders, over: threading.Event) -> None:
        wait_for(over, lambda: visible(folders))
        held.append(proxy.hold(control))

    run(tmp_path, proxy, meanwhile)
    assert held[0] > 0


def test_messages_that_take_longer_than_a_heartbeat_may(tmp_path: Path, proxy: TcpProxy) -> None:
    def meanwhile(folders: Folders, over: threading.Event) -> None:
        wait_for(over, lambda: visible(folders))
        proxy.slow(control, 1.2 * HEARTBEAT_TIMEOUT_S)
        over.wait(2 * HEARTBEAT_TIMEOUT_S)  # the fault lasts so long
        proxy.slow(control, 0.0)

    run(tmp_path, proxy, meanwhile)
