"""A worker with only its transport: an Exchange, one sending and one receiving task.

Run as a program it is a worker in a process of its own, which a test may stop and kill: it says
where it listens, is told the members, and then sends or takes for ever.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from threading import Condition
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest

from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
    Version,
)
from penstock.contract.settings import ShuffleSettings
from penstock.model.elements import Data, Element
from penstock.transport.batches import measure
from penstock.transport.exchange import Exchange, Identity, Peer, Wiring
from penstock.transport.input import Wakeup
from penstock.transport.stream import FlightEndpoint

SCHEMA = pa.schema([("word", pa.string())])
DEADLINE_S = 60
JOB = JobUid("job-1")


def sender(worker: int) -> TaskId:
    return TaskId(StageIndex(0), Ordinal(worker), 0)


def receiver(worker: int) -> TaskId:
    return TaskId(StageIndex(1), Ordinal(worker), 0)


def channel(start: int, end: int) -> ChannelId:
    return ChannelId(0, sender(start), receiver(end))


def words(rows: int, size: int = 32, tag: str = "w") -> Data[pa.RecordBatch]:
    batch = pa.record_batch([[f"{tag}{i}".ljust(size, ".") for i in range(rows)]], schema=SCHEMA)
    return Data(batch, rows, measure(batch))


class Worker:
    """Ordinal ``n`` with the tasks ``sender(n)`` and ``receiver(n)``, and its events."""

    def __init__(self, ordinal: int, life: str = "", **changes: Any) -> None:
        self.ordinal = ordinal
        self.life = Incarnation(life or f"life-{ordinal}")
        self.version = Version(1)
        job = changes.pop("job", JOB)
        endpoint = changes.pop("endpoint", FlightEndpoint())
        self.schema = changes.pop("schema", SCHEMA)
        self.prompt = changes.pop("prompt", frozenset())
        self._changed = Condition()
        self.events: list[Any] = []
        self.send_wakeup, self.take_wakeup = Wakeup(), Wakeup()
        self.exchange = Exchange(
            Identity(job, Ordinal(ordinal), self.life),
            ShuffleSettings(**changes),
            self._on_event,
            endpoint,
        )

    def peer(self) -> Peer:
        return Peer(self.life, self.exchange.location)

    def wiring(self, members: Mapping[int, Peer], *channels: ChannelId) -> Wiring:
        n = self.ordinal
        return Wiring(
            {Ordinal(o): p for o, p in members.items()},
            channels,
            {0: self.schema},
            {sender(n): self.send_wakeup, receiver(n): self.take_wakeup},
            self.version,
            self.prompt,
        )

    def open(self, attempt: int, members: Mapping[int, Peer], *channels: ChannelId) -> None:
        self.exchange.reset(Attempt(attempt))
        self.exchange.open_attempt(Attempt(attempt), self.wiring(members, *channels))

    def send(self, end: int, element: Data[pa.RecordBatch], timeout_s: float = DEADLINE_S) -> None:
        output = self.exchange.output(channel(self.ordinal, end))
        until = monotonic() + timeout_s
        while not output.try_send(element):
            assert self.send_wakeup.wait(until - monotonic()), "no room in time"

    def take(self, timeout_s: float = DEADLINE_S) -> tuple[ChannelId, Element[pa.RecordBatch]]:
        got = self.try_take(timeout_s)
        assert got is not None, f"no element in time; events: {self.events}"
        return got

    def try_take(self, timeout_s: float) -> tuple[ChannelId, Element[pa.RecordBatch]] | None:
        task = self.exchange.input(receiver(self.ordinal))
        until = monotonic() + timeout_s
        while (got := task.poll(lambda _: True, lambda _: False)) is None:
            if not self.take_wakeup.wait(until - monotonic()):
                return None
        return got

    def event(self, kind: type, timeout_s: float = DEADLINE_S) -> Any:
        """Return the first event of a kind, waiting for it."""
        with self._changed:
            found = self._changed.wait_for(lambda: [e for e in self.events if isinstance(e, kind)], timeout_s)
        assert found, f"no {kind.__name__} in time; events: {self.events}"
        return found[0]

    def _on_event(self, event: Any) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()


class Process:
    """A worker in another process: ordinal 1, wired with ordinal 0 both ways in attempt 1."""

    def __init__(self, role: str, first: Worker, **changes: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, json.dumps({"role": role, "settings": changes})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        location = self.process.stdout.readline().strip()
        self.members = {0: first.peer(), 1: Peer(Incarnation("life-1"), location)}
        self.process.stdin.write(first.exchange.location + "\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def make_worker() -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(ordinal: int, life: str = "", **changes: Any) -> Worker:
        made.append(Worker(ordinal, life, **changes))
        return made[-1]

    yield make
    for worker in made:  # all of them first: a server waits for its callers
        worker.exchange.reset(Attempt(1 << 40))
    closed = [worker.exchange.close() for worker in made]
    assert all(closed)


@pytest.fixture
def make_process() -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def make(role: str, first: Worker, **changes: Any) -> Process:
        made.append(Process(role, first, **changes))
        return made[-1]

    yield make
    for process in made:
        process.end()


def main() -> None:
    """Live as ordinal 1: ``send`` words for ever, or ``take`` them, or ``sleep``.

    One that sleeps was very fast before: it lets as much wait as its settings allow.
    """
    orders = json.loads(sys.argv[1])
    worker = Worker(1, **orders["settings"])
    print(worker.exchange.location, flush=True)
    members = {0: Peer(Incarnation("life-0"), sys.stdin.readline().strip()), 1: worker.peer()}
    worker.open(1, members, channel(0, 1), channel(1, 0))
    rows = words(1000)
    if orders["role"] == "sleep":
        fast = Data(rows.payload, 1_000_000, 1 << 50)
        worker.exchange.input(receiver(1)).worked(fast, 0.001, 0.0, monotonic())
    while orders["role"] == "send":
        worker.send(0, rows, timeout_s=600)
    while orders["role"] == "take":
        worker.take(timeout_s=600)
    sys.stdin.read()


if __name__ == "__main__":
    main()
