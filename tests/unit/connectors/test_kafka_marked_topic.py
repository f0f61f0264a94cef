"""The Kafka sink over the cluster that the client itself brings for tests."""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.base.errors import ConfigError, StorageError
from penstock.connectors.kafka import marked_topic, topics
from penstock.connectors.kafka.encoding import RECORDS
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.connectors.kafka.marked_topic import MarkedTopic
from penstock.connectors.kafka.topics import TopicRules
from penstock.contract.ids import Epoch
from penstock.contract.kafka_options import KafkaOutput
from penstock.contract.latest import Unpublished
from penstock.contract.manifest import SinkHandle
from penstock.protocol.marked import OutputMarker, Wanted
from sim.servers.kafka import KafkaRefusal, VirtualKafka
from sim.servers.kafka_clients import NoAnswer, client_maker
from tests.support.staged_output import TASK

ANSWER_MAX_S = 30.0
NOTHING = json.dumps({"cut": json.dumps({"cut": 1, "parts": []}), "known": 0})


@pytest.fixture
def cluster() -> Iterator[str]:
    """Run a cluster in this process, and give its address."""
    client = Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1, "log_level": 0})
    found = client.list_topics("words", ANSWER_MAX_S).brokers.values()  # it makes the topic
    yield ",".join(f"{broker.host}:{broker.port}" for broker in found)
    client.purge()  # the cluster ends with its client


def test_a_client_file_is_read_again_for_each_client(cluster: str, tmp_path: Path) -> None:
    file = tmp_path / "client"
    file.write_text("security.protocol=ssl\nssl.ca.location=/gone\n")
    options = KafkaOutput(cluster, "words", client_file=str(file))
    sink = KafkaSink("out", options, pa.schema([("word", pa.string())]), tmp_path)
    sink.publisher.claimed("job")
    handle = SinkHandle("out", TASK, Epoch(1), NOTHING, 0, 0)
    with pytest.raises(ConfigError, match="the client refuses its settings"):
        sink.publisher.publish_restored([handle], Epoch(1), Unpublished.PUBLISH)
    file.write_text("security.protocol=plaintext\n")
    assert sink.publisher.publish_restored([handle], Epoch(1), Unpublished.PUBLISH) == 0
    sink.close()


class SlowClient:
    """A producer that sends only while somebody waits. A request with a word that is ``bad`` is refused as a whole."""

    def __init__(self, bad: str, alone: bool, made: list[str]) -> None:
        self._bad, self._alone, self._made = bad.encode(), alone, made
        self._queue: list[tuple[bytes, Callable[[Any, Any], None]]] = []
        self._sent: list[str] = []
        self._failed = False
        self.complaints = SimpleNamespace(reason=None)

    def __len__(self) -> int:
        return len(self._queue)

    def produce(self, topic: str, value: bytes, key: bytes | None, on_delivery: Callable[[Any, Any], None]) -> None:
        if self._failed:
            raise KafkaException(KafkaError(KafkaError._STATE, "the transaction has failed"))
        if len(self._queue) >= QUEUE_MAX:
            raise BufferError("Local: Queue full")
        self._queue.append((value, on_delivery))

    def poll(self, timeout_s: float) -> None:
        if not timeout_s:
            return
        step = 1 if self._alone else len(self._queue)
        request, self._queue = self._queue[:step], self._queue[step:]
        self._failed = self._failed or any(value == self._bad for value, _ in request)
        error = KafkaError(KafkaError.INVALID_RECORD, "refused") if self._failed else None
        for value, answered in request:
            if error is None:
                self._sent.append(value.decode())
            answered(error, None)

    def begin_transaction(self) -> None:
        self._sent.clear()

    def send_offsets_to_transaction(self, *_: object) -> None:
        assert not self._queue, "all was sent"

    def commit_transaction(self, timeout_s: float) -> None:
        self._made += self._sent

    def purge(self) -> None:
        self._queue.clear()


class Skipping(MarkedTopic):
    """A topic whose clients are slow ones."""

    def __init__(self, bad: str, rules: TopicRules) -> None:
        super().__init__(dict, "words", "writer", "murmur2_random")
        self.visible: list[str] = []
        self._bad, self._now = bad, rules

    def _begin(self, *, skips: bool = False, alone: bool = False) -> None:
        self._producer = SlowClient(self._bad, alone, self.visible)
        self._consumer = SimpleNamespace(consumer_group_metadata=lambda: None, close=lambda: None)
        self._marker, self._alone, self._rules = OutputMarker(Epoch(0), "seed", 0), alone, self._now


QUEUE_MAX = 20


@pytest.mark.parametrize(("bad", "left_out"), [("", 0), ("word 30", 1)])
def test_a_block_that_is_larger_than_the_queue_is_published_without_what_is_refused(
    monkeypatch: pytest.MonkeyPatch, bad: str, left_out: int
) -> None:
    monkeypatch.setattr(marked_topic, "QUEUED_MAX", QUEUE_MAX // 2)
    words = [f"word {n}" for n in range(70)]
    rows = pa.RecordBatch.from_pylist([{"key": None, "value": word.encode()} for word in words], schema=RECORDS)
    topic = Skipping(bad, TopicRules())
    wanted = Wanted(Epoch(1), "digest", 1, Epoch(0), Unpublished.SKIP)
    assert topic.publish(wanted, iter([iter([rows])])) == left_out
    assert topic.visible == [word for word in words if word != bad]


def test_rows_without_a_key_are_left_out_of_a_topic_that_was_compacted_since() -> None:
    keys = [None, b"a", None, b"b"]
    rows = pa.RecordBatch.from_pylist([{"key": key, "value": key or b"none"} for key in keys], schema=RECORDS)
    topic = Skipping("none", TopicRules(needs_key=True))
    wanted = Wanted(Epoch(1), "digest", 1, Epoch(0), Unpublished.SKIP)
    assert topic.publish(wanted, iter([iter([rows])])) == 2
    assert topic.visible == ["a", "b"]


def test_a_marker_that_the_brokers_forgot_while_nothing_was_written_is_written_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They forget it seven days behind the last write (``offsets.retention.minutes``)."""
    server = VirtualKafka(lambda: 0.0)
    server.make_topic("words", 1)
    made = client_maker(lambda name, arguments, *_: getattr(server, name)(*arguments))
    monkeypatch.setattr(marked_topic, "make_client", made)
    topic = MarkedTopic(dict, "words", "job/out/0.0", "murmur2_random")
    rows = pa.RecordBatch.from_pylist([{"key": None, "value": b"{}"}], schema=RECORDS)

    def publish(epoch: int) -> None:
        known = topic.known(Epoch(epoch - 1))
        topic.publish(Wanted(Epoch(epoch), "digest", 1, known), iter([iter([rows])]))

    publish(1)
    publish(5)
    assert server.marker_of("words", "out", "0.0") == 5
    monkeypatch.setattr(marked_topic, "REST_MAX_S", -1.0)  # a long rest
    server.lose_markers()
    publish(900)
    assert topic.known(Epoch(950)) == 950, "it is written again, so that it is kept for longer"
    assert server.marker_of("words", "out", "0.0") == 950
    assert len(server.records("words")) == 3


@pytest.mark.parametrize("how", [Unpublished.PUBLISH, Unpublished.SKIP])
def test_a_commit_that_arrives_late_ends_no_later_transaction(
    monkeypatch: pytest.MonkeyPatch, how: Unpublished
) -> None:
    """The client asks again when no answer comes. The brokers may hear its first request later."""
    server = VirtualKafka(lambda: 0.0)
    server.make_topic("words", 1)
    commits: list[tuple[Any, ...]] = []
    late: list[tuple[Any, ...]] = []

    def wire(name: str, arguments: tuple[Any, ...], timeout_s: float, lost: Callable[[], None]) -> Any:
        if name == "commit":
            commits.append(arguments)
            if len(commits) == 2:  # the first one was of the marker alone
                late.append(arguments)
                lost()
        elif name == "append" and late and arguments[-1][0][1][1] == b"4":
            with suppress(KafkaRefusal):
                server.commit(*late.pop())
            raise NoAnswer
        return getattr(server, name)(*arguments)

    monkeypatch.setattr(topics, "make_client", client_maker(wire))
    monkeypatch.setattr(marked_topic, "make_client", client_maker(wire))
    monkeypatch.setattr(marked_topic, "SHARE_OF_TIMEOUT", -1.0)  # each block is a transaction
    topic = MarkedTopic(dict, "words", "job/out/0.0", "murmur2_random")

    def blocks() -> Iterator[Iterator[pa.RecordBatch]]:
        for block in ((1, 2), (3, 4)):
            yield (pa.RecordBatch.from_pylist([{"key": None, "value": b"%d" % n}], schema=RECORDS) for n in block)

    wanted = Wanted(Epoch(1), "digest", 2, topic.known(Epoch(0)), how)
    with pytest.raises(StorageError):
        topic.publish(wanted, blocks())
    topic.publish(wanted, blocks())
    assert [value for _, value in server.records("words")] == [b"1", b"2", b"3", b"4"]


def test_a_batch_that_is_larger_than_the_queue_of_the_client_is_published(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marked_topic, "CLIENT_QUEUE_KBYTES", 1024)
    rows = pa.RecordBatch.from_pylist([{"key": None, "value": b"x" * 5_000}] * 1_000, schema=RECORDS)
    settings = {"bootstrap.servers": cluster, "log_level": 0}
    topic = MarkedTopic(lambda: settings, "words", "writer", "murmur2_random")
    assert topic.publish(Wanted(Epoch(1), "digest", 1, topic.known(Epoch(0))), iter([iter([rows])])) == 0
    assert topic.known(Epoch(0)) == 1
    topic.close()
