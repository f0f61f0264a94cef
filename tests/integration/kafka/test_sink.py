"""The Kafka sink against a real broker: each committed row once, wherever a process is killed or stopped."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, ConnectorError, StateError, StorageError
from penstock.connectors.kafka import marked_topic
from penstock.connectors.kafka.encoding import RECORDS
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.connectors.kafka.marked_topic import MarkedTopic
from penstock.connectors.missing import NotThere
from penstock.connectors.open_connectors import open_sink
from penstock.connectors.staged_sink import Block
from penstock.contract.graph import Connector
from penstock.contract.ids import Attempt, Epoch
from penstock.contract.kafka_options import Delivery, KafkaOutput, OutputFormat
from penstock.contract.latest import Unpublished
from penstock.contract.manifest import SinkHandle
from penstock.protocol.marked import OutputMarker, Wanted
from penstock.testing import connectors as kit
from tests.integration.local_job import wait_until
from tests.support.kafka import Kafka
from tests.support.long_tests import count
from tests.support.staged_output import ROWS, TASK, numbers, staged
from tools.servers.kafka import new_name

EVERY = count(599, 11)  # outgoing calls


class Target:
    """A topic, and a folder for what is staged."""

    def __init__(self, kafka: Kafka, folder: Path, **options: Any) -> None:
        self._kafka = kafka
        self.topic = kafka.topic("output", 2)
        self._folder = folder / self.topic
        self._options = {"transactional_id_prefix": f"{self.topic}-", "key_column": "word", **options}

    def sink(self, schema: pa.Schema = ROWS.schema) -> KafkaSink:
        options = KafkaOutput(self._kafka.broker.address, self.topic, **self._options)
        return KafkaSink("out", options, schema, self._folder)

    def visible(self) -> list[dict[str, object]]:
        return [json.loads(record.value or b"") for record in self._kafka.read(self.topic)]

    def claimed(self, uid: str = "job") -> KafkaSink:
        sink = self.sink()
        sink.claim(uid, fresh=True)
        return sink


@pytest.fixture
def target(kafka: Kafka, tmp_path: Path) -> Target:
    return Target(kafka, tmp_path)


def test_it_keeps_the_rules_of_a_sink_wherever_a_process_is_killed_stopped_or_given_an_error(
    kafka: Kafka, tmp_path: Path
) -> None:
    report = kit.check_sink(lambda: Target(kafka, tmp_path), ROWS, every=EVERY)
    assert min(report.killed, report.stopped, report.failed) >= report.calls // EVERY


def test_all_handles_of_a_task_are_published_by_one_call_and_only_once(target: Target) -> None:
    sink = target.claimed()
    handles = (staged(sink, 1, ROWS.slice(0, 6)), staged(sink, 2, ROWS.slice(6)))
    for _ in range(2):
        sink.publisher.publish_all(handles, Epoch(2))
    other = target.claimed()
    other.publisher.publish_all(handles, Epoch(2))
    assert numbers(target) == Counter(range(18))
    for closed in (sink, other):
        closed.close()


def test_a_publisher_that_was_fenced_writes_nothing_and_begins_with_the_marker(target: Target) -> None:
    stale, successor = target.claimed(), target.claimed()
    first = staged(stale, 1)
    stale.publisher.publish(first, Epoch(1))  # its producer is warm from now on
    second = staged(stale, 2, ROWS.slice(0, 3))
    successor.publisher.publish(second, Epoch(2))
    with pytest.raises(StorageError, match=r"transactional id .*/out/0\.0"):
        stale.publisher.publish(second, Epoch(2))
    stale.publisher.publish(second, Epoch(2))
    assert numbers(target) == Counter(range(18)) + Counter(range(3))


def test_a_sink_whose_broker_was_killed_between_two_epochs_goes_on(kafka: Kafka, target: Target) -> None:
    sink = target.claimed()
    sink.publisher.publish(staged(sink, 1), Epoch(1))  # its producer is warm from now on
    later = staged(sink, 2, ROWS.slice(0, 3))
    # The broker writes a transaction's markers behind its answer. Killed before that, this broker may never write them.
    wait_until(lambda: numbers(target) == Counter(range(18)))
    kafka.broker.kill()
    kafka.broker.start()
    kafka.wait_for_coordinator()
    sink.publisher.publish(later, Epoch(2))
    assert numbers(target) == Counter(range(18)) + Counter(range(3))
    sink.close()


def test_a_predecessor_that_is_in_the_middle_of_it_is_fenced_before_its_marker_is_read(kafka: Kafka) -> None:
    topic, name = kafka.topic("fenced"), new_name("writer")
    settings = {"bootstrap.servers": kafka.broker.address, "log_level": 0}
    wanted = Wanted(Epoch(1), "digest", 1, Epoch(0))

    def blocks() -> Iterator[Block]:
        yield iter([pa.RecordBatch.from_pylist([{"key": None, "value": b"once"}], schema=RECORDS)])

    class Successor(MarkedTopic):
        """It begins while its predecessor goes on, as late as that can."""

        def _read(self) -> OutputMarker | None:
            found = super()._read()
            with suppress(StorageError):
                predecessor.publish(wanted, blocks())
            return found

    predecessor = MarkedTopic(lambda: settings, topic, name, "murmur2_random")
    assert predecessor.known(Epoch(0)) == 0
    Successor(lambda: settings, topic, name, "murmur2_random").publish(wanted, blocks())
    assert [record.value for record in kafka.read(topic)] == [b"once"]


def test_a_block_that_is_larger_than_the_queue_of_the_client_is_published(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marked_topic, "CLIENT_QUEUE_KBYTES", 1024)
    topic = kafka.topic("large")
    settings = {"bootstrap.servers": kafka.broker.address, "log_level": 0}
    values = [f"{number} {'x' * 5_000}".encode() for number in range(1_000)]
    rows = pa.RecordBatch.from_pylist([{"key": None, "value": value} for value in values], schema=RECORDS)
    block = [rows.slice(at, 20) for at in range(0, len(values), 20)]
    writer = MarkedTopic(lambda: settings, topic, new_name("writer"), "murmur2_random")
    writer.publish(Wanted(Epoch(1), "digest", 1, writer.known(Epoch(0))), iter([iter(block)]))
    writer.close()
    assert [record.value for record in kafka.read(topic)] == values


def test_a_marker_that_is_ahead_or_lost_is_refused_with_a_remedy(kafka: Kafka, target: Target) -> None:
    sink = target.claimed()
    old, new = staged(sink, 5), staged(sink, 5, ROWS.slice(3))
    sink.publisher.publish(new, Epoch(5))
    for epoch, remedy in ((4, "let the job write to another place"), (5, "give .*Drop")):
        with pytest.raises(StateError, match=rf"marker says epoch 5.*restore the newest state, or {remedy}"):
            sink.publisher.publish(old, Epoch(epoch))
    late = staged(sink, 6)
    sink.close()
    kafka.admin.delete_topics([target.topic])[target.topic].result(60)
    kafka.make(target.topic)
    with pytest.raises(StateError, match=r"marker was at epoch 5, and now it is gone.*Drop"):
        target.claimed().publisher.publish(late, Epoch(6))
    assert numbers(target) == Counter()


def without_marker(kafka: Kafka, target: Target) -> tuple[KafkaSink, SinkHandle]:
    """Return a sink with committed output whose topic was made anew, so that its marker is lost."""
    sink = target.claimed()
    sink.publisher.publish(staged(sink, 5, ROWS.slice(9)), Epoch(5))
    late = staged(sink, 6, ROWS.slice(0, 9))
    sink.close()
    kafka.admin.delete_topics([target.topic])[target.topic].result(60)
    kafka.make(target.topic)
    return target.claimed(), late


def test_output_is_published_without_its_marker_when_a_restore_says_so(kafka: Kafka, target: Target) -> None:
    sink, late = without_marker(kafka, target)
    for _ in range(2):  # the second time the marker is there
        assert sink.publisher.publish_restored((late,), Epoch(6), Unpublished.PUBLISH) == 0
    assert numbers(target) == Counter(range(9))
    sink.close()


def test_output_that_is_dropped_is_published_by_nobody_who_comes_late(kafka: Kafka, target: Target) -> None:
    sink, late = without_marker(kafka, target)
    with suppress(StateError):  # it stands still with a producer from before
        (zombie := target.claimed()).publisher.publish(late, Epoch(6))
    for _ in range(2):
        assert sink.publisher.publish_restored((late,), Epoch(6), Unpublished.DROP) == 0
    zombie.publisher.publish(late, Epoch(6))
    assert numbers(target) == Counter()
    sink.close()  # the other one has fenced its client
    sink.publisher.publish(staged(sink, 7, ROWS.slice(0, 1)), Epoch(7))
    assert numbers(target) == Counter([0])
    for closed in (sink, zombie):
        closed.close()


def test_only_the_records_that_the_topic_refuses_are_left_out(kafka: Kafka, target: Target) -> None:
    text = random.Random(1).randbytes(9_000).hex()  # nothing that a client could compress
    large = pa.record_batch({"word": [text if n in {3, 4, 8} else "short" for n in range(9)], "number": range(9)})
    sink = target.claimed()
    handle = staged(sink, 1, large)
    kafka.configure(target.topic, "max.message.bytes", "5000")  # after the commit
    assert sink.publisher.publish_restored((handle,), Epoch(1), Unpublished.SKIP) == 3
    sink.publisher.publish(staged(sink, 2, ROWS.slice(17)), Epoch(2))
    assert numbers(target) == Counter(set(range(9)) - {3, 4, 8}) + Counter([17])
    sink.close()


def test_records_that_only_the_brokers_refuse_are_left_out_too(kafka: Kafka, tmp_path: Path) -> None:
    target = Target(kafka, tmp_path)
    keys = pa.record_batch({"word": [None if n in {1, 2} else f"word {n}" for n in range(5)], "number": range(5)})
    sink = target.claimed()
    handle = staged(sink, 1, keys)
    kafka.configure(target.topic, "cleanup.policy", "compact")  # it takes no record without a key
    with pytest.raises(StorageError, match=r"INVALID_RECORD\): take `compact` from the topic's cleanup.policy, .*Skip"):
        sink.publisher.publish(handle, Epoch(1))
    assert sink.publisher.publish_restored((handle,), Epoch(1), Unpublished.SKIP) == 2
    assert numbers(target) == Counter([0, 3, 4])
    sink.close()


def test_the_key_decides_the_partition_and_raw_values_stay_as_they_are(kafka: Kafka, tmp_path: Path) -> None:
    made = Target(kafka, tmp_path, format=OutputFormat.RAW)
    rows = pa.record_batch({"word": ["a", "b", "a", None], "value": pa.array([b"1", b"2", None, b"4"], pa.binary())})
    sink = made.sink(rows.schema)
    sink.claim("job", fresh=True)
    sink.publisher.publish(staged(sink, 1, rows), Epoch(1))
    found = kafka.read(made.topic)
    assert Counter((r.key, r.value) for r in found) == Counter([(b"a", b"1"), (b"b", b"2"), (b"a", None), (None, b"4")])
    assert len({r.partition for r in found if r.key == b"a"}) == 1


def test_what_a_topic_would_refuse_is_refused_before_the_commit(kafka: Kafka, target: Target) -> None:
    sink = target.claimed()
    writer = sink.writer(TASK, Attempt(1))
    large = pa.record_batch({"word": ["x" * 2_000_000], "number": pa.array([1], pa.int64())})
    with pytest.raises(ConfigError, match=rf"topic {target.topic} takes 1,048,588: raise its max.message.bytes"):
        writer.write(large)
    kafka.configure(target.topic, "cleanup.policy", "compact")
    keyless = pa.record_batch({"word": pa.array([None], pa.string()), "number": pa.array([1], pa.int64())})
    again = target.claimed()
    with pytest.raises(ConfigError, match=rf"topic {target.topic} is compacted .*: column 'word' has a null"):
        again.writer(TASK, Attempt(1)).write(keyless)
    with pytest.raises(ConfigError, match=r"keyColumn: .*'word'"):
        target.sink(pa.schema([("wrd", pa.string())]))
    kafka.admin.delete_topics([target.topic])[target.topic].result(60)
    with pytest.raises(ConfigError, match=f"topic {target.topic}: there is no such topic"):
        target.claimed()
    with pytest.raises(NotThere, match=f"topic {target.topic}: there is no such topic"):
        target.sink().claim("job", fresh=False)


def test_at_least_once_is_visible_before_the_commit_and_a_checkpoint_waits_for_the_brokers(
    kafka: Kafka, target: Target
) -> None:
    options = KafkaOutput(kafka.broker.address, target.topic, delivery=Delivery.AT_LEAST_ONCE)
    sink = open_sink("out", Connector("kafka", asdict(options)), ROWS.schema, staging=Path("unused"))
    assert sink.guarantee == "at-least-once"
    sink.claim("job", fresh=True)
    writer = sink.writer(TASK, Attempt(1))
    writer.write(ROWS.slice(0, 9))
    handle = writer.seal(Epoch(1), "first").finish()
    assert handle is not None
    assert (handle.rows, numbers(target)) == (9, Counter(range(9)))
    sink.publisher.publish(handle, Epoch(1))
    assert writer.seal(Epoch(2), "none").finish() is None
    kafka.admin.delete_topics([target.topic])[target.topic].result(60)
    wait_until(lambda: target.topic not in kafka.admin.list_topics(timeout=60).topics)  # the broker hears of it later
    writer.write(ROWS.slice(9))
    with pytest.raises(ConnectorError, match=f"topic {target.topic}: .* not taken"):
        writer.seal(Epoch(3), "lost").finish()
    writer.close()
