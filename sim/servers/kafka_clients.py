"""The twins of the clients of Kafka (``confluent_kafka``), for the virtual server.

As librdkafka does, a client complains when no answer comes, connects anew and asks again, until its time is over.
Then the call fails.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol
from zlib import crc32

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from penstock.connectors.kafka.client import Complaints
from sim.servers.kafka import KafkaRefusal

NO_OFFSET = -1001

OnDelivery = Callable[[Any, Any], None]


class NoAnswer(Exception):
    """The time is over, and the server has not answered."""


class KafkaWire(Protocol):
    """The way to the server."""

    def __call__(self, name: str, arguments: tuple[Any, ...], timeout_s: float, lost: Callable[[], None]) -> Any:
        """Call a method of the server, again and again while it does not answer. Raises NoAnswer, KafkaRefusal.

        ``lost`` is called for each request without an answer.
        """
        ...


class KafkaClient:
    """What all clients have."""

    def __init__(self, wire: KafkaWire, settings: Mapping[str, Any]) -> None:
        self.complaints = Complaints()
        self._wire = wire
        self._settings = settings

    def ask(self, timeout_s: float, name: str, *arguments: Any) -> Any:
        """Make a request. Raises KafkaException."""
        try:
            return self._wire(name, arguments, timeout_s, self._complain)
        except NoAnswer:
            error = KafkaError(KafkaError._TIMED_OUT, "no answer in time")
            self._complain()
        except KafkaRefusal as refusal:
            error = KafkaError(getattr(KafkaError, refusal.name), refusal.name)
        raise KafkaException(error)

    def _complain(self) -> None:
        self.complaints(KafkaError(KafkaError._TRANSPORT, "the connection was lost"))

    def poll(self, _timeout_s: float) -> None:
        """Have callbacks called: here there are none."""


class SimProducer(KafkaClient):
    """Twin of ``Producer``, with transactions."""

    def __init__(self, wire: KafkaWire, settings: Mapping[str, Any]) -> None:
        super().__init__(wire, settings)
        self._name = settings["transactional.id"]
        self._timeout_s = settings["transaction.timeout.ms"] / 1000
        self._epoch = -1
        self._sequence = 0
        self._partitions: dict[str, int] = {}
        self._failed: KafkaException | None = None

    def __len__(self) -> int:
        """Return how many records wait: none, because each batch is sent at once."""
        return 0

    def init_transactions(self, timeout_s: float) -> None:
        """Fence the others of this id."""
        self._epoch = self.ask(timeout_s, "init", self._name, self._timeout_s)

    def begin_transaction(self) -> None:
        """Do nothing: the server begins with the first request."""

    def produce_batch(self, topic: str, records: Sequence[Mapping[str, bytes | None]]) -> int:
        """Send records. An error shows at the end of the transaction."""
        if self._failed is None:
            try:
                self._send(topic, records)
            except KafkaException as error:
                self._failed = error
        return len(records)

    def produce(self, topic: str, value: bytes | None, key: bytes | None, on_delivery: OnDelivery) -> None:
        """Send one record, and say what became of it. The transaction has failed when one is refused."""
        try:
            self._send(topic, [{"key": key, "value": value}])
        except KafkaException as error:
            self._failed = error
            on_delivery(error.args[0], None)
        else:
            on_delivery(None, None)

    def send_offsets_to_transaction(self, offsets: Sequence[TopicPartition], group: str, timeout_s: float) -> None:
        """Add the offset of a group."""
        (at,) = offsets
        self.ask(timeout_s, "add_offset", self._name, self._epoch, (group, at.topic), (at.offset, at.metadata))

    def commit_transaction(self, timeout_s: float) -> None:
        """Make the transaction visible. Raises what has failed in it."""
        if self._failed is not None:
            raise self._failed
        self.ask(timeout_s, "commit", self._name, self._epoch)

    def purge(self) -> None:
        """Do nothing: no record waits."""

    def _send(self, topic: str, records: Sequence[Mapping[str, bytes | None]]) -> None:
        if topic not in self._partitions:
            self._partitions[topic] = self.ask(self._timeout_s, "partitions", topic)
        placed = [(crc32(r["key"] or b"") % self._partitions[topic], (r["key"], r["value"])) for r in records]
        self._sequence += 1
        self.ask(self._timeout_s, "append", self._name, self._epoch, self._sequence, topic, placed)


class SimConsumer(KafkaClient):
    """Twin of ``Consumer``, as far as it reads what its group has committed."""

    def assignment(self) -> list[TopicPartition]:
        """Return what it reads: nothing."""
        return []

    def consumer_group_metadata(self) -> str:
        """Return its group."""
        return str(self._settings["group.id"])

    def committed(self, asked: Sequence[TopicPartition], timeout_s: float) -> list[TopicPartition]:
        """Return what the group has committed. It waits for a transaction that is about to change it."""
        (at,) = asked
        found = self.ask(timeout_s, "offset", (self._settings["group.id"], at.topic))
        offset, metadata = found or (NO_OFFSET, "")
        return [TopicPartition(at.topic, at.partition, offset, metadata=metadata)]

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Described:
    """What is told of a topic, or of a setting."""

    topic_id: str = ""
    value: str = ""


class SimAdmin(KafkaClient):
    """Twin of ``AdminClient``."""

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Described]]:
        """Describe topics."""
        return {
            n: self._described("partitions", n, lambda _: Described("id"), request_timeout) for n in topics.topic_names
        }

    def describe_configs(self, resources: Sequence[Any], *, request_timeout: float) -> dict[Any, Future[Any]]:
        """Return the settings of topics."""
        return {each: self._described("bytes_max", each.name, _settings, request_timeout) for each in resources}

    def _described(self, asked: str, topic: str, made: Callable[[int], Any], timeout_s: float) -> Future[Any]:
        answer: Future[Any] = Future()
        try:
            answer.set_result(made(self.ask(timeout_s, asked, topic)))
        except KafkaException as error:
            answer.set_exception(error)
        return answer


def _settings(bytes_max: int) -> dict[str, Described]:
    return {"max.message.bytes": Described(value=str(bytes_max))}


def client_maker(wire: KafkaWire) -> Callable[[type, Mapping[str, Any]], KafkaClient]:
    """Return what takes the place of ``connectors.kafka.client.make_client``."""
    twins = {"Producer": SimProducer, "Consumer": SimConsumer, "AdminClient": SimAdmin}
    return lambda kind, settings: twins[kind.__name__](wire, settings)
