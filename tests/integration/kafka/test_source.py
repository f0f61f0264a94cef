"""The Kafka source against a real broker: every position is one that a checkpoint may hold, and nothing is guessed."""

import json
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewPartitions

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.connectors.kafka.kafka_source import KafkaSource
from penstock.connectors.kafka.lane_position import parse_position
from penstock.connectors.missing import NotThere
from penstock.contract.columns import Column
from penstock.contract.kafka_options import KafkaInput, RecordFormat
from penstock.contract.manifest import SplitState
from penstock.testing import connectors as kit
from tests.integration.local_job import wait_until
from tests.support.kafka import WITHIN_S, Kafka
from tools.servers.kafka import new_name

COLUMNS = (Column("word", "string"), Column("n", "int64"))
COMPACTED = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.001"}


def source(kafka: Kafka, topic: str, columns: tuple[Column, ...] = COLUMNS, **options: Any) -> KafkaSource:
    given = {"bootstrap_servers": kafka.broker.address, "topic": topic, "until": "latest", **options}
    return KafkaSource(KafkaInput(**given), columns)


def record(n: int, **more: Any) -> dict[str, Any]:
    return {"value": json.dumps({"word": f"word {n % 7}", "n": n, "more": [n]}).encode(), **more}


def numbers(kafka: Kafka, topic: str, **options: Any) -> list[int]:
    """Read a bounded source to its end, split by split."""
    made = source(kafka, topic, **options)
    return [n for state in made.splits() for n in rest(made, state)[0]]


def rows_of(made: KafkaSource, state: SplitState, rows: int | None = None) -> tuple[list[dict[str, Any]], SplitState]:
    """Read a split to its end, or until there are as many ``rows``. Returns them, and the state behind them."""
    found: list[dict[str, Any]] = []
    end = time.monotonic() + WITHIN_S
    with closing(made.open(state)) as reader:
        while not reader.state().finished and len(found) != rows:
            assert time.monotonic() < end, f"only {len(found)} rows"
            if (read := reader.read(1000 if rows is None else rows - len(found))) is not None:
                found += read.batch.to_pylist()
        return found, reader.state()


def rest(made: KafkaSource, state: SplitState, rows: int | None = None) -> tuple[list[int], SplitState]:
    """Return the numbers of :func:`rows_of`."""
    found, after = rows_of(made, state, rows)
    return [row["n"] for row in found], after


def mixed_topic(kafka: Kafka) -> tuple[str, list[int]]:
    """Make a topic with plain rows, committed and aborted transactions: its offsets have holes."""
    topic = kafka.topic("mixed", 2)
    kafka.write(topic, [record(n, partition=n % 2) for n in range(20)])
    for first in (20, 30):
        kafka.write(topic, [record(n, partition=n % 2) for n in range(first, first + 10)], new_name("writer"))
        kafka.write(topic, [record(n, partition=n % 2) for n in range(1000, 1010)], new_name("abort"))
    return topic, list(range(40))


def test_it_keeps_the_rules_of_a_source_over_control_records_and_aborted_rows(kafka: Kafka) -> None:
    topic, due = mixed_topic(kafka)
    assert kit.check_source(lambda: source(kafka, topic)) == len(due)
    assert sorted(numbers(kafka, topic)) == due


def test_it_keeps_the_rules_of_a_source_without_an_end(kafka: Kafka) -> None:
    topic = kafka.topic("growing")
    kafka.write(topic, [record(n) for n in range(30)])
    more = lambda: kafka.write(topic, [record(n) for n in range(30, 50)])  # noqa: E731 - given to the kit
    assert kit.check_source(lambda: source(kafka, topic, until=None), more) == 50


def test_a_compacted_topic_is_read_over_its_holes(kafka: Kafka) -> None:
    topic = kafka.topic(
        "compacted", cleanup_policy="compact", segment_bytes="1048576", min_cleanable_dirty_ratio="0.001"
    )
    rows = [record(n, key=b"%d" % (n % 5), headers={"large": bytes(4000)}) for n in range(400)]
    kafka.write(topic, rows)
    wait_until(lambda: len(kafka.read(topic)) < len(rows))
    due = [json.loads(each.value or b"")["n"] for each in kafka.read(topic)]
    made = source(kafka, topic)
    found, after = rest(made, made.splits()[0])
    assert (found, after.offset) == (due, len(due))
    assert parse_position(after.spec).next == {0: 400}
    assert made.unreplayable() == f"topic {topic} is compacted, so a record may be gone when it is read again"


def test_partitions_that_are_added_are_found_and_each_belongs_to_one_split(kafka: Kafka) -> None:
    topic = kafka.topic("widened", 2)
    kafka.write(topic, [record(n, partition=n % 2) for n in range(10)])
    made = source(kafka, topic, until=None, discover_every=0.1)
    states = made.splits()
    before = [rest(made, state, 5) for state in states]
    kafka.admin.create_partitions([NewPartitions(topic, 5)])[topic].result(WITHIN_S)
    kafka.write(topic, [record(n, partition=n % 5) for n in range(10, 60)])
    after = [rest(made, state, due) for (_, state), due in zip(before, (30, 20), strict=True)]
    assert sorted(n for found, _ in [*before, *after] for n in found) == list(range(60))
    assert [sorted(parse_position(state.spec).next) for _, state in after] == [[0, 2, 4], [1, 3]]
    assert made.unreplayable() == ""


def test_what_is_left_to_read_is_known_from_fetches(kafka: Kafka) -> None:
    topic = kafka.topic("pending", 1)
    kafka.write(topic, [record(n) for n in range(100)])
    made = source(kafka, topic, until=None)
    with closing(made.open(made.splits()[0])) as reader:
        assert reader.pending() == (None, None)
        wait_until(lambda: reader.read(30) is not None)
        assert reader.pending() == (100 - reader.state().offset, None)
        wait_until(lambda: reader.read(30) is None and reader.state().offset == 100)
        wait_until(lambda: reader.read(30) is None and reader.pending() == (0, None))
        kafka.write(topic, [record(n) for n in range(100, 140)])
        wait_until(lambda: reader.read(10) is not None)
        assert reader.pending() == (140 - reader.state().offset, None)
    bounded = source(kafka, topic)
    state = bounded.splits()[0]
    kafka.write(topic, [record(n) for n in range(140, 150)])
    with closing(bounded.open(state)) as reader:
        wait_until(lambda: reader.read(30) is not None)
        assert reader.pending() == (140 - reader.state().offset, None)  # up to its end, not the topic's


def test_a_topic_that_was_made_again_is_an_error_and_no_row_is_left_out(kafka: Kafka) -> None:
    topic = kafka.topic("again")
    kafka.write(topic, [record(n) for n in range(10)])
    made = source(kafka, topic)
    _, state = rest(made, made.splits()[0], 5)
    kafka.admin.delete_topics([topic])[topic].result(WITHIN_S)
    with pytest.raises(NotThere, match=f"topic {topic}.*there is no such topic"):
        source(kafka, topic).open(state)
    kafka.make(topic)
    kafka.write(topic, [record(n) for n in range(100, 120)])
    with pytest.raises(StateError, match=r"removed and made again since the job began.*begin anew"):
        source(kafka, topic).open(state)


def test_rows_that_are_gone_are_an_error_and_no_position_is_reset(kafka: Kafka) -> None:
    topic = kafka.topic("short")
    kafka.write(topic, [record(n) for n in range(20)])
    made = source(kafka, topic, until=None)
    _, state = rest(made, made.splits()[0], 5)
    kafka.admin.delete_records([TopicPartition(topic, 0, 15)])[TopicPartition(topic, 0)].result(WITHIN_S)
    with pytest.raises(StateError, match=f"topic {topic}, partition 0, offset 5: rows .* are gone.*--fresh"):
        rest(source(kafka, topic, until=None), state)
    found, _ = rest(made, made.splits()[0], 5)
    assert found == list(range(15, 20)), "a new job begins with the first row that is there"


def test_a_job_begins_and_ends_where_it_is_told(kafka: Kafka) -> None:
    topic = kafka.topic("timed", retention_ms="-1")
    kafka.write(topic, [record(n, timestamp=1_700_000_000_000 + 1000 * n) for n in range(10)])
    at = "2023-11-14T22:13:23Z"  # the row 3
    assert numbers(kafka, topic, startup=at) == [3, 4, 5, 6, 7, 8, 9]
    assert numbers(kafka, topic, until=at) == [0, 1, 2]
    assert numbers(kafka, topic, startup="latest") == []
    with pytest.raises(ConfigError, match="startup is 'yesterday'; due is earliest, latest, or a time like"):
        source(kafka, topic, startup="yesterday")


def test_what_a_record_has_beside_its_value_fills_columns(kafka: Kafka) -> None:
    topic = kafka.topic("parts", retention_ms="-1")
    first = {"value": b"x,1", "key": b"k", "timestamp": 1_700_000_000_123, "headers": {"trace": b"t1"}}
    kafka.write(topic, [first, {"value": None, "key": b"gone"}])
    parts = {
        "key": "string",
        "timestamp": "timestamp[us]",
        "headers": "string",
        "partition": "int64",
        "offset": "int64",
    }
    columns = (*COLUMNS, *(Column(name, kind) for name, kind in parts.items()))
    made = source(kafka, topic, columns, format=RecordFormat.CSV, **{f"{name}_column": name for name in parts})
    rows, _ = rows_of(made, made.splits()[0])
    at = datetime.fromtimestamp(1_700_000_000, UTC).replace(tzinfo=None, microsecond=123_000)
    assert list(rows[0].values()) == ["x", 1, "k", at, '{"trace": "t1"}', 0, 0]
    assert list({**rows[1], "timestamp": None}.values()) == [None, None, "gone", None, None, 0, 1]


def test_a_value_that_does_not_decode_fails_the_job_or_fills_the_error_column(kafka: Kafka) -> None:
    topic = kafka.topic("bad")
    kafka.write(topic, [record(0), {"value": b"{no json"}, record(2), {"value": b'{"n": "text"}'}, record(4)])
    kit.check_bad_input(lambda: source(kafka, topic), f"topic {topic}, partition 0, offset 1")
    columns = (*COLUMNS, Column("raw", "binary"), Column("why", "string"))
    made = source(kafka, topic, columns, raw_column="raw", error_column="why")
    rows, _ = rows_of(made, made.splits()[0])
    assert [row["n"] for row in rows] == [0, None, 2, None, 4]
    assert [row["why"] is None for row in rows] == [True, False, True, False, True]
    assert rows[1]["raw"] == b"{no json"


def test_a_topic_that_is_missing_and_a_broker_that_is_away_are_named(kafka: Kafka) -> None:
    with pytest.raises(ConfigError, match="topic no-such-topic: there is no such topic or partition: make it"):
        source(kafka, "no-such-topic").splits()
    away = source(kafka, "any", bootstrap_servers="127.0.0.1:1")
    with pytest.raises(StorageError, match=r"topic any: no broker .*check bootstrapServers"):
        away.splits()


def test_a_broker_that_is_away_makes_no_split_idle_and_what_was_missed_is_read(kafka: Kafka) -> None:
    topic = kafka.topic("away")
    kafka.write(topic, [record(n) for n in range(10)])
    made = source(kafka, topic, until=None)
    with closing(made.open(made.splits()[0])) as reader:
        found: list[int] = []

        def read() -> None:
            if (rows := reader.read(100)) is not None:
                found.extend(rows.batch.column("n").to_pylist())

        def holds(wanted: Callable[[], bool]) -> bool:
            read()
            return wanted()

        wait_until(lambda: holds(lambda: len(found) == 10 and not reader._behind))
        assert not reader.silent()
        kafka.broker.kill()
        wait_until(lambda: holds(reader.silent))
        kafka.broker.start()
        kafka.write(topic, [record(n) for n in range(10, 20)])
        wait_until(lambda: holds(lambda: len(found) == 20))
        assert found == list(range(20))
        wait_until(lambda: holds(lambda: not reader.silent()))
