"""Rows to records of Kafka: what a topic would refuse is refused before the commit."""

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from penstock.base.errors import ConfigError
from penstock.connectors.kafka.client import make_client
from penstock.connectors.kafka.encoding import RECORDS, RecordEncoder, messages_of, pieces_of
from penstock.connectors.kafka.topics import TopicRules
from penstock.contract.kafka_options import KafkaOutput

ROWS = pa.record_batch({"word": ["a", None, "b"], "number": [1, 2, 3]})
COMPACTED = TopicRules(needs_key=True)


def test_a_compacted_topic_takes_no_row_without_a_key() -> None:
    with pytest.raises(ConfigError, match=r"topic words is compacted .*: name the column of the key \(keyColumn\)"):
        RecordEncoder(KafkaOutput("broker:9092", "words"), ROWS.schema).claim(COMPACTED)
    encoder = RecordEncoder(KafkaOutput("broker:9092", "words", key_column="word"), ROWS.schema)
    assert encoder.records(ROWS)["key"].to_pylist() == [b"a", None, b"b"]
    encoder.claim(COMPACTED)
    assert encoder.records(ROWS.slice(2))["key"].to_pylist() == [b"b"]
    with pytest.raises(ConfigError, match=r"takes no record without a key: column 'word' has a null: leave such rows"):
        encoder.records(ROWS)


def test_a_row_that_is_larger_than_the_topic_takes_is_refused() -> None:
    encoder = RecordEncoder(KafkaOutput("broker:9092", "words"), pa.schema([("word", pa.string())]))
    encoder.claim(TopicRules(bytes_max=2_000))
    with pytest.raises(ConfigError, match=r"a record has 1,512 bytes, topic words takes 2,000: raise its max"):
        encoder.records(pa.record_batch({"word": ["short", "x" * 1_500]}))


@pytest.mark.parametrize("bytes_max", [100, 1_048_588, 2**31 - 1])
def test_the_client_takes_the_bound_of_any_topic(bytes_max: int) -> None:
    settings = {"bootstrap.servers": "127.0.0.1:9", "log_level": 0}
    make_client(Producer, {**settings, "message.max.bytes": TopicRules(bytes_max).client_bytes_max})


def test_records_are_divided_by_number_and_size() -> None:
    sizes = [10, 10, 900, 10, 2_000, 10, 500, 500]
    values = [{"key": b"k" if n % 2 else None, "value": b"x" * size} for n, size in enumerate(sizes)]
    pieces = list(pieces_of(pa.RecordBatch.from_pylist(values, schema=RECORDS), 1_000))
    assert [piece.num_rows for piece in pieces] == [4, 1, 2, 1]
    assert [message for piece in pieces for message in messages_of(piece)] == values
    many = pa.RecordBatch.from_pylist([{"key": None, "value": None}] * 12_000, schema=RECORDS)
    assert [piece.num_rows for piece in pieces_of(many, 1_000)] == [5_000, 5_000, 2_000]
    assert list(pieces_of(many.slice(0, 0), 1_000)) == []
