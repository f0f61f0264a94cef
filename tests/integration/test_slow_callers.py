"""Callers of the pages of probes and metrics who are slow, or many: both pages bound them."""

import asyncio
import contextlib
import select
import socket
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from prometheus_client.registry import CollectorRegistry

from penstock.base.limits import PAGE_CALLERS_MAX
from penstock.metrics.pages import Pages
from penstock_operator.app.health import Health, Role

MORE = 8  # callers than there is room for
STEP_S = 0.2  # between two bytes of a slow caller
BYTES_MAX = 200  # 40 s of them: far beyond any deadline


@dataclass(frozen=True)
class Page:
    """A page that listens, and one path of it."""

    port: int
    path: str

    def call(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port))

    def fetch(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{self.path}", timeout=30) as answer:
            text: str = answer.read().decode()
            return text


@contextlib.contextmanager
def of_a_worker() -> Iterator[Page]:
    pages = Pages(("127.0.0.1", 0), CollectorRegistry(), "/metrics", {"/livez": lambda: None})
    try:
        yield Page(int(pages.address.rpartition(":")[2]), "/livez")
    finally:
        pages.close()


@contextlib.contextmanager
def of_the_operator() -> Iterator[Page]:
    """Serve in a thread with an event loop of its own."""
    health = Health(lambda: "", lambda: Role.LEADING, lambda: b"")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(health.serve(0), loop).result()
    try:
        yield Page(port, "/healthz")
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(params=[of_a_worker, of_the_operator], ids=["worker", "operator"])
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    with request.param() as found:
        yield found


def hung_up(connection: socket.socket, within_s: float) -> bool:
    """Wait until the other side has closed the connection, without an answer to it."""
    if not select.select([connection], [], [], within_s)[0]:
        return False
    with contextlib.suppress(ConnectionResetError):
        connection.recv(1 << 16)
    return True


def test_a_request_that_never_ends_is_ended_by_its_deadline(page: Page) -> None:
    with page.call() as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")
        sent = 0
        while not hung_up(slow, STEP_S) and sent < BYTES_MAX:
            with contextlib.suppress(OSError):  # it hangs up in this moment
                slow.send(b"x")
            sent += 1
    assert 0 < sent < BYTES_MAX
    assert page.fetch().strip() == "ok"


def test_of_too_many_callers_the_oldest_are_sent_away_and_a_probe_is_answered(page: Page) -> None:
    silent = [page.call() for _ in range(PAGE_CALLERS_MAX + MORE)]
    try:
        assert page.fetch().strip() == "ok"
        assert all(hung_up(each, 1.0) for each in silent[:MORE]), "and not by the deadline, which is later"
        assert not hung_up(silent[-1], 0.0)
    finally:
        for each in silent:
            each.close()
