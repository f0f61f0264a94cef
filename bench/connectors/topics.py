"""Topics of one broker: filled with words, watched, and read back as a reader of committed records.

A value is ``{"word": "...", "number": n}``, and the key is the word. So all records of a word are in one partition, as
an engine wants them whose state is that of a partition. ``number`` counts all records from 0.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bench import inputs
from bench.oracle import words_spec
from bench.scenario import Scenario
from penstock.connectors.generator import Integers, WordBlock
from tools.servers.kafka import KafkaBroker, new_name

LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
T = TypeVar("T")
PARTITIONS = 4
AT_ONCE = 10_000
WITHIN_S = 60.0
QUEUED_MAX = 500_000
# As kafka-server-start.sh gives it, and housekeeping as often as by Kafka's defaults.
HEAP = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:-UsePerfData")
DEFAULTS = "log.cleaner.backoff.ms=15000\nlog.retention.check.interval.ms=300000\ngroup.initial.rebalance.delay.ms=3000"


class Broker(KafkaBroker):
    """A broker as it is operated: the one of the tests has a small heap, and no optimizing compiler."""

    memory = HEAP


class Topics:
    """The topics of a broker that runs."""

    def __init__(self, broker: KafkaBroker) -> None:
        """Speak to ``broker``."""
        self.servers = broker.address
        self.pid = broker.pid
        self._admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        settings = {"bootstrap.servers": self.servers, "transactional.id": new_name("first"), "log_level": 0}
        _until_answered(lambda: Producer(settings).init_transactions(WITHIN_S))

    def make(self, prefix: str) -> str:
        """Make a topic of a new name, and return the name."""
        name = new_name(prefix)
        self._admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(WITHIN_S)
        _until_answered(lambda: (self._admin.list_topics(name, WITHIN_S), self._ends(name)))
        return name

    def keep_only(self, names: set[str]) -> None:
        """Remove all other topics, also those that an engine has made, except for the broker's own."""
        there = {name for name in self._admin.list_topics(timeout=WITHIN_S).topics if not name.startswith("__")}
        if gone := sorted(there - names):
            for done in self._admin.delete_topics(gone).values():
                done.result(WITHIN_S)

    def fill(self, words: Scenario) -> str:
        """Make a topic with the words of a scenario, one split behind the other. Return its name."""
        name = self.make("words")
        refused: list[Any] = []
        settings = {
            "bootstrap.servers": self.servers,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "queue.buffering.max.messages": 2 * QUEUED_MAX,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _: refused.append(error) if error else None,
        }
        producer = Producer(settings)
        for records in _records(words):
            producer.produce_batch(name, records)
            while len(producer) > QUEUED_MAX:
                producer.poll(0.01)
        if producer.flush(WITHIN_S) or refused:
            raise RuntimeError(f"the broker has not taken all records of {name}: {refused[:1]}")
        return name

    def visible(self, name: str) -> int:
        """Return how many records a reader of what is committed has in front of it; ends of transactions count, too."""
        return sum(_until_answered(lambda: self._ends(name)).values())

    def rows(self, name: str, schema: pa.Schema) -> pa.Table:
        """Return the committed records, partition by partition, in the order of their offsets: values of JSON."""
        parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        found = [
            pyarrow.json.read_json(pa.BufferReader(b"\n".join(values) + b"\n"), parse_options=parse)
            for values in self._values(name)
        ]
        return pa.concat_tables([schema.empty_table(), *found])

    def texts(self, name: str) -> pa.Array:
        """Return the committed values as texts."""
        return pa.chunked_array([pa.array(values, pa.string()) for values in self._values(name)], pa.string())

    def _values(self, name: str) -> Iterator[list[bytes]]:
        settings = {
            "bootstrap.servers": self.servers,
            "group.id": new_name("check"),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "queued.min.messages": 200_000,
            "fetch.queue.backoff.ms": 5,
            "enable.partition.eof": True,
        }
        with closing(Consumer(settings)) as consumer:
            for partition in self._ends(name):
                consumer.assign([TopicPartition(name, partition, 0)])
                ended = False
                while not ended:
                    messages = consumer.consume(AT_ONCE, 0.2)
                    ended = any(error.name() == "_PARTITION_EOF" for m in messages if (error := m.error()) is not None)
                    if values := [m.value() or b"" for m in messages if m.error() is None]:
                        yield values

    def _ends(self, name: str) -> Mapping[int, int]:
        wanted = {TopicPartition(name, partition): LATEST for partition in range(PARTITIONS)}
        asked = self._admin.list_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=WITHIN_S
        )
        return {place.partition: answer.result(WITHIN_S).offset for place, answer in asked.items()}


def _until_answered(ask: Callable[[], T]) -> T:
    """Ask until there is an answer: about what is new, a broker answers with an error for a moment."""
    end = time.monotonic() + WITHIN_S
    while True:
        try:
            return ask()
        except KafkaException:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _records(words: Scenario) -> Iterator[list[dict[str, bytes]]]:
    block, number = WordBlock(words_spec(words)), 0
    for split in range(words.splits):
        for column in inputs.rows_of(words, block, split):
            for start in range(0, len(column), AT_ONCE):
                keys = column.slice(start, AT_ONCE).cast(pa.large_string())
                numbers = pa.array(np.arange(number, number + len(keys))).cast(pa.large_string())
                number += len(keys)
                parts = [_text('{"word": "'), keys, _text('", "number": '), numbers, _text("}"), _text("")]
                values = pc.binary_join_element_wise(*parts).cast(pa.large_binary()).to_pylist()
                yield [
                    {"key": key, "value": value}
                    for key, value in zip(keys.cast(pa.large_binary()).to_pylist(), values, strict=True)
                ]


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def differences(wanted: Mapping[str, int], words: pa.Array, counts: Integers) -> list[str]:
    """Say which words have other counts than 1, 2, ... n, in this order; empty when none has."""
    names = pa.array(sorted(wanted), pa.string())
    places = pc.index_in(words, names)
    if places.null_count:
        return [f"{places.null_count} records have a word that no input has"]
    ids = places.to_numpy(zero_copy_only=False)
    due = np.array([wanted[name] for name in names.to_pylist()], np.int64)
    found = np.bincount(ids, minlength=len(due))
    if other := np.flatnonzero(found != due).tolist():
        word = other[0]
        return [
            f"{len(other)} of {len(due)} words have another number of records: {names[word]} {found[word]}, not"
            f" {due[word]}"
        ]
    ends = np.cumsum(due)
    expected = np.arange(1, ends[-1] + 1) - np.repeat(ends - due, due)
    wrong = counts[np.argsort(ids, kind="stable")] != expected
    if not wrong.any():
        return []
    first = names[int(np.searchsorted(ends, np.flatnonzero(wrong)[0], side="right"))]
    return [f"{wrong.sum()} counts are not in their place, the first one of {first}"]
