"""The Kafka sink that sends at once, with a client that has no broker."""

import pyarrow as pa

from penstock.connectors.kafka.direct_sink import DirectWriter
from penstock.connectors.kafka.encoding import RecordEncoder
from penstock.contract.kafka_options import Delivery, KafkaOutput
from tests.support.staged_output import TASK

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
