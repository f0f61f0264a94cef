"""Calls of engines to servers outside of the cluster. They take a time, fail, and lose their replies.

A request whose reply was lost has its effect at once, or up to seconds later: then its sender has tried again, or is
dead. The servers do not answer while the store of metadata does not, or while the network to it is cut.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Protocol, TypeVar

from obstore import exceptions

from penstock.connectors.postgres.claimed_table import CLAIM
from penstock.connectors.postgres.postgres_lookup import NAME as LOOKUP
from penstock.connectors.s3.owned_folder import MARKS
from penstock.contract.s3_options import S3Place
from sim.cluster.fault_injector import Over
from sim.kernel.faults import Faults, Verdict
from sim.kernel.kernel import SECOND, SimKernel
from sim.kernel.network import Network
from sim.real_engine.thread_scheduler import ThreadScheduler
from sim.servers import Waits
from sim.servers.kafka import KafkaRefusal, VirtualKafka
from sim.servers.kafka_clients import KafkaClient, NoAnswer, client_maker
from sim.servers.object_store import BucketClient, VirtualBucket
from sim.servers.postgres import LOOK_UP, SqlError, VirtualPostgres
from sim.servers.postgres_client import PostgresApi

TRAVEL_US = (100, 3_000)
LATE_US = (3_000, 3 * SECOND)
LATE = 0.5  # of the requests whose reply was lost
SILENCE_US = SECOND // 10  # so long a client waits for an answer

KINDS = {CLAIM: "claim", LOOKUP: "lookup"}  # of faults, by the name of a session
ASKED_MAX = 3  # times, by a client of objects
WAIT_US = 50_000  # between two looks at a lock
NOTICED_US = (0, 0, SECOND // 2, 5 * SECOND)  # until a server notices that a client is gone
STOPPED_US = 10 * SECOND  # longer than the others wait for a worker
KAFKA_ASKED_MAX = 4
KAFKA_LATE = ("append", "commit")
KAFKA_CLAIMS = ("partitions", "bytes_max")
SLOW_US = (SECOND // 20, SECOND // 2, 3 * SECOND // 2)  # a query of a lookup
REFUSALS = {"42P01": "the table does not exist", "42501": "permission denied", "57P01": "terminating connection"}
MAY_BE_LATE = ("COMMIT", "INSERT INTO")  # statements that may come when their client has given up

R = TypeVar("R")


class Silent(Exception):
    """No answer has come."""


@dataclass(frozen=True, slots=True)
class LateRequest:
    """A request arrives, long after its client has given up."""

    request: Callable[[], object]


@dataclass(frozen=True, slots=True)
class ClientEnded:
    """The servers notice that a process has ended."""

    process: str


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """The database notices that a session has ended."""

    number: int


class ServerWatcher(Protocol):
    """Learns what becomes visible at a server."""

    def object_created(self, key: str) -> None:
        """Learn of a new object."""
        ...

    def marker_written(self, key: object, before: Sequence[Any] | None, marker: Sequence[Any]) -> None:
        """Learn of a marker that has changed; the first item of each is its epoch."""
        ...


class ServerHost(Protocol):
    """The cluster as its calls to servers use it."""

    kernel: SimKernel
    scheduler: ThreadScheduler
    network: Network
    faults: Faults

    def stores_answer(self) -> bool:
        """Return whether servers outside of the cluster answer at all."""
        ...

    def end_caller(self) -> None:
        """End the process of the calling thread, which does not return."""
        ...

    def stop_caller(self, duration_us: int) -> None:
        """Stop the worker of the calling thread, keeper and engine. Returns when it goes on."""
        ...


class ServerCalls:
    """See the module. A node of the kernel: it takes late requests. ``running`` is that of the run that goes on."""

    running: ClassVar["ServerCalls"]

    def __init__(self, host: ServerHost, draw: Random, watcher: "ServerWatcher") -> None:
        self._host = host
        self._draw = draw
        self._kinds: dict[int, str] = {}  # of faults, by session of the database
        self._standing: dict[str, str] = {}  # transactional ids with the processes that are stopped in a transaction
        self._last_us = 0  # when the last late request comes
        self.bucket = VirtualBucket(watcher.object_created)
        self.postgres = VirtualPostgres(self._clock, watcher.marker_written)
        self.kafka = VirtualKafka(self._clock, watcher.marker_written)

    def handle(self, event: object, now: float) -> None:
        """Let a late request have its effect, or notice that a client is gone."""
        match event:
            case LateRequest(request):
                self._host.kernel.happened("request arrived late")
                with suppress(SqlError, KafkaRefusal):  # nobody hears it
                    request()
            case ClientEnded(process):
                self.postgres.client_ended(process)
            case SessionEnded(number):
                self.postgres.close(number)

    def process_ended(self, process: str) -> None:
        """Have the servers notice that a process has ended, now or some time later."""
        noticed_us = max(self._draw.choice(NOTICED_US), self._left_us())
        self._host.kernel.at(noticed_us, "servers", ClientEnded(process))

    def carry(self, request: Callable[[], R], kind: str, *, may_be_late: bool) -> R:
        """Carry a request to its server, and the answer back. ``kind`` is that of its faults. Raises Silent."""
        host, scheduler = self._host, self._host.scheduler
        scheduler.block(self._draw.randint(*TRAVEL_US))
        process = scheduler.current.process
        if not host.stores_answer() or host.network.cut(process, "store") or host.network.cut("store", process):
            raise self._silence()
        verdict = host.faults.verdict(kind)
        if verdict is Verdict.CRASH_BEFORE:
            host.end_caller()
        if verdict is Verdict.FAILED:
            raise self._silence()
        if verdict is Verdict.UNKNOWN and may_be_late and self._draw.random() < LATE:
            delay_us = self._draw.randint(*LATE_US)
            self._last_us = max(self._last_us, host.kernel.now_us + delay_us)
            host.kernel.at(delay_us, "servers", LateRequest(request))
            raise self._silence()
        answer = request()
        if verdict is Verdict.CRASH_AFTER:
            host.end_caller()
        if verdict is Verdict.UNKNOWN:
            host.kernel.happened("answer of a server lost")
            raise self._silence()
        scheduler.block(self._draw.randint(*TRAVEL_US))
        return answer

    def ask_bucket(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Make a request of the bucket. As its client does, ask again when no answer comes."""
        for _ in range(self._draw.randint(1, ASKED_MAX)):
            with suppress(Silent):
                kind = "claim" if f"/{MARKS}/" in arguments[0] else "server"
                return self.carry(lambda: getattr(self.bucket, name)(*arguments), kind, may_be_late=name == "create")
        raise exceptions.GenericError("Generic S3 error: operation timed out")

    # --- As the way to PostgreSQL (postgres_client.SqlWire)

    def ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Make a request of the database, as often as it says that it waits. Raises SqlError."""
        kind = KINDS.get(arguments[0], "server") if name == "open" else self._kinds[arguments[0]]
        late = name == "run" and arguments[1].startswith(MAY_BE_LATE)
        if name == "open":
            arguments = (self._host.scheduler.current.process, *arguments)
        elif name == "run" and LOOK_UP.match(arguments[1]):
            self._hold_up()

        def request() -> Any:
            answer = getattr(self.postgres, name)(*arguments)
            if name == "open":
                self._kinds[answer] = kind
            return answer

        while True:
            try:
                return self.carry(request, kind, may_be_late=late)
            except Waits:
                self._host.scheduler.block(WAIT_US)
            except Silent:
                raise SqlError(None, "server closed the connection unexpectedly") from None

    def _hold_up(self) -> None:
        """Let a query of a lookup take long, or be refused, as while somebody makes the table anew. Raises SqlError."""
        if self._host.faults.verdict("slow") is not Verdict.DONE:
            self._host.scheduler.block(self._draw.choice(SLOW_US))
        if self._host.faults.verdict("refused") is not Verdict.DONE:
            self._host.kernel.happened("query of a lookup refused")
            raise SqlError(*self._draw.choice(tuple(REFUSALS.items())))

    def hang_up(self, session: int, *, broken: bool) -> None:
        """End a session of the database. The server notices later that a broken one has ended: behind its requests."""
        at_us = self._draw.choice(NOTICED_US) if broken else self._draw.randint(*TRAVEL_US)
        self._host.kernel.at(max(at_us, self._left_us()), "servers", SessionEnded(session))

    # --- As the way to Kafka (kafka_clients.KafkaWire)

    def ask_kafka(self, name: str, arguments: tuple[Any, ...], timeout_s: float, lost: Callable[[], None]) -> Any:
        """Make a request of the brokers, again while they do not answer. Raises NoAnswer, KafkaRefusal."""
        until_us = self._host.kernel.now_us + int(timeout_s * SECOND)
        left = self._draw.randint(1, KAFKA_ASKED_MAX)
        if name == "add_offset":
            self._stand_still(arguments[0])
        elif name == "init":
            self._arrive_behind(arguments[0])
        while left and self._host.kernel.now_us < until_us:
            try:
                kind = "claim" if name in KAFKA_CLAIMS else "server"
                return self.carry(lambda: getattr(self.kafka, name)(*arguments), kind, may_be_late=name in KAFKA_LATE)
            except Silent:
                lost()
                left -= 1
            except Waits:
                self._host.scheduler.block(WAIT_US)
        raise NoAnswer

    def _stand_still(self, name: str) -> None:
        """Stop the worker in the midst of a transaction, when the server knows its records and not yet its offset."""
        if self._host.faults.verdict("stand") is not Verdict.DONE:
            self._standing[name] = self._host.scheduler.current.process
            self.kafka.keep_open(name, 2 * STOPPED_US / SECOND)
            self._host.stop_caller(STOPPED_US)

    def _arrive_behind(self, name: str) -> None:
        """Let a producer that is stopped go on, and have time to commit, before the request to fence it arrives."""
        stopped = self._standing.pop(name, None)
        if stopped in (None, self._host.scheduler.current.process):
            return
        self._host.kernel.happened("fence of a producer that is stopped")
        self._host.kernel.at(0, "fault_injector", Over("pause", (stopped,)))
        self._host.scheduler.block(WAIT_US)

    def _left_us(self) -> int:
        """Return how long it takes until all late requests have come."""
        return max(0, self._last_us - self._host.kernel.now_us) + 1

    def _clock(self) -> float:
        return self._host.kernel.now_us / SECOND

    def _silence(self) -> Silent:
        """Wait as long as a client waits."""
        self._host.scheduler.block(SILENCE_US)
        return Silent()


def connect_bucket(options: S3Place) -> BucketClient:
    """Take the place of what connects to a store of objects. All names of buckets are one bucket."""
    _, _, prefix = options.url.removeprefix("s3://").partition("/")
    return BucketClient(prefix.strip("/"), ServerCalls.running.ask_bucket)


def postgres_api() -> PostgresApi:
    """Take the place of what loads the client of PostgreSQL."""
    return PostgresApi(ServerCalls.running)


def make_client(kind: type, settings: Mapping[str, Any]) -> KafkaClient:
    """Take the place of what makes a client of Kafka."""
    return client_maker(ServerCalls.running.ask_kafka)(kind, settings)
