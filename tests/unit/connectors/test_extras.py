"""A connector whose client library is missing names the extra that brings it."""

import sys
from collections.abc import Callable

import pytest

from penstock.base.errors import ConfigError
from penstock.connectors.delta import client as delta
from penstock.connectors.iceberg import client as iceberg
from penstock.connectors.kafka import client as kafka
from penstock.connectors.kafka.avro import avro_library
from penstock.connectors.postgres import client as postgres
from penstock.connectors.s3 import object_folder as s3


@pytest.mark.parametrize(
    ("library", "module", "said"),
    [
        (delta.library, "deltalake", r"delta: .* penstock\[delta\]"),
        (iceberg.library, "pyiceberg.exceptions", r"iceberg: .* penstock\[iceberg\]"),
        (kafka.library, "confluent_kafka", r"kafka: .* penstock\[kafka\]"),
        (avro_library, "fastavro", r"kafka: format avro: .* penstock\[avro\]"),
        (postgres.library, "adbc_driver_postgresql.dbapi", r"postgres: .* penstock\[postgres\]"),
        (s3.library, "obstore", r"s3: .* penstock\[s3\]"),
    ],
)
def test_a_missing_library_names_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, library: Callable[[], object], module: str, said: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=said.replace("penstock", "'penstock")):
        library()
