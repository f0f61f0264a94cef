"""The Kafka sink over the cluster that the client itself brings for tests."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from penstock.base.errors import ConfigError
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.contract.ids import Epoch
from penstock.contract.kafka_options import KafkaOutput
from penstock.contract.latest import Unpublished
from penstock.contract.manifest import SinkHandle
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
