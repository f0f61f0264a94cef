"""The targets of the runs: a sink that ships, and its virtual server behind requests that a strand makes."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pyarrow as pa

from penstock.connectors.kafka import marked_topic, topics
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.connectors.postgres import client as postgres_client
from penstock.connectors.postgres.postgres_sink import PostgresSink
from penstock.connectors.staged_sink import StagedTarget
from penstock.contract.kafka_options import KafkaOutput
from penstock.contract.postgres_options import PostgresOutput
from sim.kernel.kernel import Violation
from sim.publishers.strands import running
from sim.servers.kafka import VirtualKafka
from sim.servers.kafka_clients import NoAnswer, client_maker
from sim.servers.postgres import Row, SqlError, VirtualPostgres
from sim.servers.postgres_client import PostgresApi

SCHEMA = pa.schema([("word", pa.string()), ("number", pa.int64())])
NAME, NOWHERE = "output", Path("/nowhere")  # nothing is staged
LARGE, HUGE = 2_000, 20_000  # characters of a word
ASKED_MAX = 2  # times, by a client of Kafka
LIMIT, LOWER_LIMIT = 10_000, 1_000  # bytes that the target takes: at first, and when it takes less
LATE = (
    "append",
    "commit",
    "COMMIT",
    "INSERT INTO",
    "create",
    "overwrite",
)  # requests that may arrive when their client has given up


class NoReply(Exception):
    """No answer has come."""


class PublishTarget(Protocol):
    """What the world does with a target and its server."""

    def staged(self) -> StagedTarget:
        """Return the sink's view of the target, of a process that begins."""
        ...

    def visible(self) -> Counter[int]:
        """Count the rows that a reader sees, by their numbers."""
        ...

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """Return these rows."""
        ...

    def take_less(self) -> None:
        """Refuse rows with a large word from now on."""
        ...

    def lose_markers(self) -> None:
        """Forget all markers."""
        ...

    def process_ended(self, process: str) -> None:
        """Notice that a process is gone."""
        ...


Marked = Callable[[Any, Any, Any], None]


def never_back(key: object, before: Any, marker: Any) -> None:
    """Raise Violation when a marker goes back: its first part is its epoch."""
    if before is not None and marker[0] < before[0]:
        raise Violation("G", f"the marker of {key} goes back from {before} to {marker}")


def replace_name(module: ModuleType, name: str, twin: object) -> None:
    """Replace a name of a module in this process for good."""
    assert hasattr(module, name)
    setattr(module, name, twin)


class TopicTarget:
    """A topic of Kafka."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._server = VirtualKafka(clock, never_back)
        self._server.make_topic(NAME, 2)
        self._server.lower_limit(NAME, LIMIT)
        for module in (marked_topic, topics):
            replace_name(module, "make_client", client_maker(self._carry))
        replace_name(marked_topic, "SHARE_OF_TIMEOUT", -1.0)  # each block is a transaction

    def _carry(self, name: str, arguments: tuple[Any, ...], timeout_s: float, lost: Callable[[], None]) -> Any:
        for _ in range(ASKED_MAX):
            try:
                return running().ask(name, lambda: getattr(self._server, name)(*arguments))
            except NoReply:
                lost()
        raise NoAnswer

    def staged(self) -> StagedTarget:
        """See PublishTarget."""
        return KafkaSink("out", KafkaOutput("simulated:9092", NAME), SCHEMA, NOWHERE)._target

    def visible(self) -> Counter[int]:
        """See PublishTarget."""
        return Counter(row["number"] for row in self.rows())

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """See PublishTarget."""
        return self._server.values(NAME)

    def take_less(self) -> None:
        """See PublishTarget."""
        self._server.lower_limit(NAME, LOWER_LIMIT)

    def lose_markers(self) -> None:
        """See PublishTarget."""
        self._server.lose_markers()

    def process_ended(self, process: str) -> None:
        """See PublishTarget."""
        self._server.client_ended(process)


class TableTarget:
    """A table of PostgreSQL, to which rows are added. With ``key`` rows with its value take the place of others."""

    def __init__(self, clock: Callable[[], float], key: str | None = None) -> None:
        self._server = VirtualPostgres(clock, never_back)
        self._key = key
        self._server.make_table(NAME, {"word": "text", "number": "bigint"}, (key,) if key else ())
        replace_name(postgres_client, "library", lambda: PostgresApi(self))

    def ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Carry a request, as the way of a client."""
        strand = running()
        if name == "open":
            arguments = (strand.name, *arguments)
        kind = arguments[1] if name == "run" else name
        try:
            return strand.ask(kind, lambda: getattr(self._server, name)(*arguments))
        except NoReply:
            raise SqlError(None, "server closed the connection unexpectedly") from None

    def hang_up(self, session: int, *, broken: bool) -> None:
        """End a session."""
        self._server.close(session)

    def staged(self) -> StagedTarget:
        """See PublishTarget."""
        options = PostgresOutput("postgresql://simulated@database/penstock", NAME, self._key)
        return PostgresSink("out", options, SCHEMA, NOWHERE)._target

    def visible(self) -> Counter[int]:
        """See PublishTarget."""
        return Counter(row["number"] for row in self.rows())

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """See PublishTarget."""
        return self._server.rows(NAME)

    def take_less(self) -> None:
        """See PublishTarget."""
        self._server.add_check(NAME, _is_short)

    def lose_markers(self) -> None:
        """See PublishTarget."""
        self._server.lose_markers()

    def process_ended(self, process: str) -> None:
        """See PublishTarget."""
        self._server.client_ended(process)


def _is_short(row: Row) -> bool:
    return len(row["word"]) < LARGE


TARGETS: dict[str, Callable[[Callable[[], float]], PublishTarget]] = {
    "topic": TopicTarget,
    "table": TableTarget,
    "upserts": lambda clock: TableTarget(clock, "number"),
}
