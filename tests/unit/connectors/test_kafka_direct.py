"""The Kafka sink that sends at once, with a client that has no broker."""

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import StateError
from penstock.connectors.kafka.direct_sink import DirectWriter, NothingStaged
from penstock.connectors.kafka.encoding import RecordEncoder
from penstock.connectors.staged_sink import NOTHING_STAGED, StagedSink
from penstock.contract.ids import Epoch
from penstock.contract.kafka_options import Delivery, KafkaOutput
from penstock.contract.manifest import SinkHandle
from tests.support.staged_output import TASK, staged
from tests.unit.connectors.test_staged_sink import Shelf

SETTINGS = {
    "bootstrap.servers": "127.0.0.1:9",
    "log_level": 0,
    "message.max.bytes": 1_000_000,
    "queue.buffering.max.kbytes": 4 * 1024,
}


def test_large_rows_are_held_back_before_the_client_takes_no_more() -> None:
    schema = pa.schema([("word", pa.string())])
    options = KafkaOutput("127.0.0.1:9", "words", delivery=Delivery.AT_LEAST_ONCE)
    writer = DirectWriter("out", TASK, "words", RecordEncoder(options, schema), SETTINGS)
    rows = pa.record_batch([["x" * 5_000] * 100], schema=schema)
    written = 0
    while writer.room():
        writer.write(rows)  # raises when the client takes only a part of them
        written += rows.num_rows
    assert 400 <= written < 800, "half of the queue of 4 MiB"
    writer.close()


def test_output_that_was_staged_before_delivery_changed_is_not_taken_for_visible(tmp_path: Path) -> None:
    shelf = Shelf()
    sink = StagedSink("out", shelf, tmp_path)
    sink.claim("job", fresh=True)
    handle = staged(sink, 7)
    with pytest.raises(StateError, match=r"18 rows of epoch 7 are staged, .* had delivery: exactly-once .*Drop"):
        NothingStaged().publish(handle, Epoch(7))
    sink.publisher.publish(handle, Epoch(7))
    sink.close()


def test_output_that_was_sent_before_delivery_changed_is_not_published_again(tmp_path: Path) -> None:
    shelf = Shelf()
    sink = StagedSink("out", shelf, tmp_path)
    sink.claim("job", fresh=True)
    sent = SinkHandle("out", TASK, Epoch(7), NOTHING_STAGED, 18, 1000)
    sink.publisher.publish(sent, Epoch(7))
    sink.publisher.forget(sent)
    assert shelf.wanted == []
    sink.publisher.publish_all([sent, staged(sink, 7)], Epoch(7))
    assert [wanted.blocks for wanted in shelf.wanted] == [1]
    sink.close()
