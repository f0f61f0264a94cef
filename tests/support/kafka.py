"""A real Kafka broker for tests, and what tests say to it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from tests.integration.local_job import wait_until
from tools.servers.kafka import KafkaBroker, new_name

WITHIN_S = 60.0
PRODUCED_AT_ONCE = 10_000
POLL_S = 0.1  # it waits so long for more records, even when some are there


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a reader sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Kafka:
    """Makes topics, writes and reads: as programs do that know nothing of Penstock."""

    def __init__(self, broker: KafkaBroker, settings: Mapping[str, str] | None = None) -> None:
        """Speak to ``broker``, which runs; ``settings`` are of TLS and SASL."""
        self.broker = broker
        self._client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": broker.address,
            "log_level": 0,
            **(settings or {}),
        }
        self.admin = AdminClient(self._client)

    def wait_for_coordinator(self) -> None:
        """Wait until groups can be read. A broker that has just started answers NOT_COORDINATOR to some of them."""
        with closing(Consumer({**self._client, "group.id": new_name("first")})) as consumer:

            def reads() -> bool:
                try:
                    (found,) = consumer.committed([TopicPartition("any", 0)], WITHIN_S)
                except KafkaException:
                    return False
                return found.error is None

            wait_until(reads)

    def topic(self, prefix: str, partitions: int = 1, **settings: str) -> str:
        """Make a topic of a new name, and return the name."""
        name = new_name(prefix)
        self.make(name, partitions, **settings)
        return name

    def make(self, name: str, partitions: int = 1, **settings: str) -> None:
        """Make the topic ``name``; ``settings`` with ``_`` for dots."""
        config = {key.replace("_", "."): value for key, value in settings.items()}
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])
        made[name].result(WITHIN_S)
        wait_until(lambda: len(self.admin.list_topics(name, WITHIN_S).topics[name].partitions) == partitions)

    def configure(self, topic: str, name: str, value: str) -> None:
        """Change a setting of a topic."""
        change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
        self.admin.incremental_alter_configs([wanted])[wanted].result(WITHIN_S)

    def write(self, topic: str, records: Sequence[Mapping[str, Any]], transaction: str = "") -> None:
        """Write records (value, key, partition, headers, timestamp), in one transaction if it has a name.

        A transaction whose name begins with ``abort`` is aborted.
        """
        producer = Producer({**self._client, **({"transactional.id": transaction} if transaction else {})})
        if transaction:
            producer.init_transactions(WITHIN_S)
            producer.begin_transaction()
        failed: list[object] = []
        for number, record in enumerate(records):
            producer.produce(topic, on_delivery=lambda error, _: failed.append(error) if error else None, **record)
            if number % PRODUCED_AT_ONCE == PRODUCED_AT_ONCE - 1:
                producer.flush(WITHIN_S)
        assert not producer.flush(WITHIN_S), "the broker did not take all records"
        assert not failed, failed[0]
        if transaction.startswith("abort"):
            producer.abort_transaction(WITHIN_S)
        elif transaction:
            producer.commit_transaction(WITHIN_S)

    def read(self, topic: str, isolation: str = "read_committed") -> list[Record]:
        """Return all records that a reader sees now, partition by partition."""
        return list(self._read(topic, isolation))

    def _read(self, topic: str, isolation: str) -> Iterator[Record]:
        settings = {
            **self._client,
            "group.id": new_name("reader"),
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        with closing(Consumer(settings)) as consumer:
            partitions = consumer.list_topics(topic, WITHIN_S).topics[topic].partitions
            for partition in sorted(partitions):
                consumer.assign([TopicPartition(topic, partition, 0)])
                ended = False
                while not ended:
                    for message in consumer.consume(PRODUCED_AT_ONCE, POLL_S):
                        error = message.error()
                        if error is None:
                            offset = message.offset()
                            assert offset is not None
                            yield Record(partition, offset, message.key(), message.value())
                            continue
                        assert error.name() == "_PARTITION_EOF", error
                        ended = True
