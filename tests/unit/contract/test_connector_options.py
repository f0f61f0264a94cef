"""Options that would do nothing are refused by name."""

from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.contract.connectors import DiscardOutput, WordsSpec
from penstock.contract.delta_options import DeltaInput, DeltaOutput
from penstock.contract.iceberg_options import IcebergInput
from penstock.contract.kafka_options import Delivery, KafkaInput, KafkaOutput, KeyPartitioner
from penstock.contract.s3_options import FileFormat, S3Input

TOPIC = {"bootstrap_servers": "broker:9092", "topic": "words"}
TABLE = {"table": "sales.orders", "catalog": "https://catalog.example.com"}


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (DeltaInput, {"table": "s3://bucket/orders", "skip_change_commits": True}, "skipChangeCommits.*give follow"),
        (IcebergInput, {**TABLE, "skip_change_commits": True}, "skipChangeCommits.*give follow"),
        (S3Input, {"url": "s3://bucket/in", "delimiter": ";"}, "delimiter is for format csv, and this one is parquet"),
        (S3Input, {"url": "s3://bucket/in", "format": FileFormat.JSON, "delimiter": ";"}, "this one is json"),
        (DeltaInput, {"table": "/data/orders", "endpoint": "https://store.example.com"}, "endpoint is for a table in"),
        (DeltaOutput, {"table": "/data/orders", "access_key": "env:KEY"}, "accessKey is for a table in a bucket"),
        (IcebergInput, {**TABLE, "scope": "all"}, "scope is for tokens"),
        (IcebergInput, {**TABLE, "catalog_name": "mine"}, "catalogName is for a catalog in a file of SQLite"),
        (KafkaInput, {**TOPIC, "until": "latest", "discover_every": 30.0}, "discoverEvery is for a source without an"),
        (KafkaOutput, {**TOPIC, "partitioner": KeyPartitioner.CONSISTENT}, "partitioner.*give keyColumn"),
        (
            KafkaOutput,
            {**TOPIC, "transactional_id_prefix": "mine-", "delivery": Delivery.AT_LEAST_ONCE},
            "transactionalIdPrefix is for delivery exactly-once",
        ),
        (WordsSpec, {"exponent": 3.8}, "exponent is for distribution zipf"),
        (DiscardOutput, {"stall_after": 2.0}, "stallAfter.*give stallFor"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(kind: type, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        kind(**options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (DeltaInput, {"table": "/data/orders", "skip_change_commits": True, "follow": 1.0}),
        (DeltaInput, {"table": "/data/orders", "skip_change_commits": False}),
        (DeltaOutput, {"table": "s3://bucket/orders", "endpoint": "https://store.example.com"}),
        (IcebergInput, {**TABLE, "skip_change_commits": True, "follow": 1.0}),
        (IcebergInput, {**TABLE, "catalog": "sqlite:///catalog.db", "catalog_name": "mine"}),
        (KafkaInput, {**TOPIC, "until": "latest"}),
        (KafkaInput, {**TOPIC, "discover_every": 30.0}),
        (KafkaOutput, {**TOPIC, "partitioner": KeyPartitioner.CONSISTENT, "key_column": "word"}),
        (KafkaOutput, {**TOPIC, "transactional_id_prefix": "mine-"}),
        (KafkaOutput, {**TOPIC, "delivery": Delivery.AT_LEAST_ONCE}),
        (WordsSpec, {"exponent": 3.8, "distribution": "zipf"}),
        (DiscardOutput, {"stall_for": 2.0}),
        (S3Input, {"url": "s3://bucket/in", "format": FileFormat.CSV, "delimiter": ";"}),
    ],
)
def test_an_option_that_does_something_is_taken(kind: type, options: dict[str, Any]) -> None:
    assert kind(**options) is not None
