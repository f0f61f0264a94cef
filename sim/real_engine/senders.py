"""The senders of pushed input: each life is a process with one thread, which runs the sender that ships.

A sender dies now and then, and another one with a higher number takes its place. Or the other one begins while it still
lives, as Spark does with a slow task. A sender may end only when the job has committed all rows of its partition.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from penstock.base.values import replace
from penstock.model.ingest_messages import IngestAnswer
from penstock_spark.push import Push, Pusher
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.virtual_disk import VirtualDisk
from sim.kernel.kernel import SimKernel, Violation
from sim.real_engine.flight_twins import FlightNetwork
from sim.real_engine.thread_scheduler import ThreadScheduler

FIRST_US = 400_000
AGAIN = (0, 0, 1, 2)  # how often a partition gets another sender
DIES = 0.7  # how likely the sender before it is dead by then


@dataclass(frozen=True, slots=True)
class StartSender:
    """Start the next sender of a partition; with ``dies`` the one before it is killed."""

    partition: int
    dies: bool


class SenderHost(Protocol):
    """The cluster as the senders use it."""

    kernel: SimKernel
    scheduler: ThreadScheduler
    disk: VirtualDisk
    flight: FlightNetwork
    host_of: dict[str, str]

    def check_committed(self, partition: int, rows: int) -> None:
        """Check that the newest checkpoint has the end of a partition. Raises Violation."""
        ...


class Senders:
    """See the module. A node of the kernel."""

    def __init__(self, host: SenderHost, pushes: Sequence[Push]) -> None:
        self._host = host
        self._pushes = pushes
        self._lives = dict.fromkeys(range(len(pushes)), 0)
        self._running: dict[str, int] = {}
        self._ended: dict[int, str] = {}

    def plan(self, draw: Random, until_us: int) -> None:
        """Draw when senders start. None takes the place of another one after a time."""
        for partition in range(len(self._pushes)):
            self._host.kernel.at(draw.randrange(FIRST_US), "senders", StartSender(partition, dies=False))
            for _ in range(draw.choice(AGAIN) if until_us > FIRST_US else 0):
                at_us = draw.randrange(FIRST_US, until_us)
                self._host.kernel.at(at_us, "senders", StartSender(partition, draw.random() < DIES))

    @property
    def waiting(self) -> list[str]:
        """List the senders that have not ended."""
        return list(self._running)

    def handle(self, event: object, now: float) -> None:
        """Start a sender, unless its partition was sent to the end."""
        assert isinstance(event, StartSender)
        if event.partition in self._ended:
            return
        if event.dies:
            for name in [name for name, of in self._running.items() if of == event.partition]:
                self._kill(name)
        number = self._lives[event.partition] = self._lives[event.partition] + 1
        name = f"s{event.partition}.{number}"
        self._host.host_of[name] = f"w{event.partition}"
        self._running[name] = event.partition
        self._host.kernel.happened("sender started")
        self._host.scheduler.spawn(lambda: self._run(name, event.partition, number), "sender", name)

    def power_failed(self) -> None:
        """End all senders; others begin soon."""
        for name, partition in list(self._running.items()):
            self._kill(name)
            self._host.kernel.at(FIRST_US, "senders", StartSender(partition, dies=False))

    def _kill(self, name: str) -> None:
        self._host.kernel.happened("sender killed")
        del self._running[name]
        self._host.scheduler.kill(name)
        self._host.flight.break_all_of(name)

    def _run(self, name: str, partition: int, number: int) -> None:
        files = MountedFiles(self._host.disk, Mount(name))
        pushed = Pusher(replace(self._pushes[partition], sender=number), files).run()
        if pushed.answer == IngestAnswer.FINISHED:
            self._host.check_committed(partition, pushed.rows)
            self._ended[partition] = name
        elif self._lives[partition] == number:
            raise Violation("L", f"sender {number} of partition {partition} is the newest, and was superseded")
        self._running.pop(name, None)
