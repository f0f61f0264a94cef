"""The virtual servers of the simulation pass the checks of the real ones: the kit runs the sinks that ship on them."""

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from obstore import exceptions

from penstock.connectors.delta import client as delta_client
from penstock.connectors.delta import marked_versions
from penstock.connectors.delta.delta_sink import DeltaSink
from penstock.connectors.iceberg import rest_catalog, table_files
from penstock.connectors.iceberg.iceberg_sink import IcebergSink
from penstock.connectors.kafka import marked_topic, topics
from penstock.connectors.kafka.kafka_sink import KafkaSink
from penstock.connectors.postgres import client as postgres_client
from penstock.connectors.postgres.postgres_sink import PostgresSink
from penstock.connectors.s3 import object_folder
from penstock.connectors.s3.s3_sink import S3Sink
from penstock.contract.delta_options import DeltaOutput
from penstock.contract.iceberg_options import IcebergOutput
from penstock.contract.kafka_options import KafkaOutput
from penstock.contract.postgres_options import PostgresOutput
from penstock.contract.s3_options import S3Output, S3Place
from penstock.testing import connectors as kit
from sim.servers.delta_client import DeltaApi
from sim.servers.delta_table import VirtualDelta
from sim.servers.iceberg_client import CatalogAdapter
from sim.servers.iceberg_table import VirtualIceberg
from sim.servers.kafka import VirtualKafka
from sim.servers.kafka_clients import NoAnswer, client_maker
from sim.servers.object_store import BucketClient, VirtualBucket
from sim.servers.postgres import SqlError, VirtualPostgres
from sim.servers.postgres_client import PostgresApi
from tests.support.long_tests import count, long_only
from tests.support.virtual_servers import Caller, served

pytestmark = pytest.mark.timeout(1800)
ROWS = pa.record_batch({"word": [f"word {n % 5}" for n in range(18)], "number": pa.array(range(18), pa.int64())})


def replace_name(name: str, twin: object, *modules: ModuleType) -> None:
    """Replace a client in this process for good, as ``sim/real_engine/install.py`` does."""
    for module in modules:
        assert hasattr(module, name)
        setattr(module, name, twin)


def carrying(ask: Caller, failure: type[Exception]) -> Callable[[str, tuple[Any, ...]], Any]:
    """Return a way to the server whose lost connections are errors of a client."""

    def carry(name: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return ask(name, arguments)
        except (OSError, EOFError) as error:
            raise failure(str(error)) from error

    return carry


class Output:
    """What a sink writes at a virtual server. It has a name of its own, and a folder for what is staged."""

    numbers = itertools.count(1)
    read_by = "rows"  # a method of the server

    def __init__(self, ask: Caller, folder: Path) -> None:
        self._ask, self._name = ask, f"output_{next(self.numbers)}"
        self._folder = folder / self._name

    def visible(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = self._ask(self.read_by, (self._name,))
        return found


class Bucket(Output):
    """A folder of the virtual store."""

    def sink(self) -> S3Sink:
        return S3Sink("out", S3Output(f"s3://simulated/{self._name}"), ROWS.schema, self._folder)

    def visible(self) -> list[dict[str, object]]:
        found = self._ask("files", (self._name,)).values()
        return [row for content in found for row in pq.read_table(pa.BufferReader(content)).to_pylist()]


def check_bucket(folder: Path, every: int) -> kit.SinkReport:
    """Check the S3 sink. It runs in a process of its own, whose client it replaces."""
    with served(VirtualBucket) as ask:

        def connect(options: S3Place) -> BucketClient:
            return BucketClient(options.url.rpartition("/")[2], ask)

        replace_name("_connect", connect, object_folder)
        return kit.check_sink(lambda: Bucket(ask, folder), ROWS, every=every)


class Table(Output):
    """A table of the virtual database."""

    def __init__(self, ask: Caller, folder: Path, keys: str | None) -> None:
        super().__init__(ask, folder)
        self._keys = keys
        ask("make_table", (self._name, {"word": "text", "number": "bigint"}, (keys,) if keys else ()))

    def sink(self) -> PostgresSink:
        options = PostgresOutput("postgresql://simulated@database/penstock", self._name, self._keys)
        return PostgresSink("out", options, ROWS.schema, self._folder)


class PostgresWire:
    """The way of the kit's processes to the virtual database."""

    def __init__(self, ask: Caller) -> None:
        self._ask = ask

    def ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return self._ask(name, (str(os.getpid()), *arguments) if name == "open" else arguments)
        except (OSError, EOFError) as error:
            raise SqlError(None, str(error)) from error

    def hang_up(self, session: int, *, broken: bool) -> None:
        with suppress(OSError, EOFError):
            self._ask("close", (session,))


class Database(VirtualPostgres):
    """The virtual database with the clock of this machine."""

    def __init__(self) -> None:
        super().__init__(time.monotonic)


def check_table(folder: Path, every: int, keys: str | None = None) -> kit.SinkReport:
    """Check the PostgreSQL sink."""
    with served(Database) as ask:
        replace_name("library", lambda: PostgresApi(PostgresWire(ask)), postgres_client)
        return kit.check_sink(lambda: Table(ask, folder, keys), ROWS, every=every)


def check_upserts(folder: Path, every: int) -> kit.SinkReport:
    """Check the PostgreSQL sink with keys."""
    return check_table(folder, every, "number")


class Topic(Output):
    """A topic of the virtual brokers."""

    read_by = "values"

    def __init__(self, ask: Caller, folder: Path) -> None:
        super().__init__(ask, folder)
        ask("make_topic", (self._name, 3))

    def sink(self) -> KafkaSink:
        return KafkaSink("out", KafkaOutput("simulated:9092", self._name), ROWS.schema, self._folder)


class Brokers(VirtualKafka):
    """The virtual brokers with the clock of this machine."""

    def __init__(self) -> None:
        super().__init__(time.monotonic)


def check_topic(folder: Path, every: int) -> kit.SinkReport:
    """Check the Kafka sink."""
    with served(Brokers) as ask:

        def carry(name: str, arguments: tuple[Any, ...], timeout_s: float, lost: Callable[[], None]) -> Any:
            try:
                return ask(name, arguments)
            except (OSError, EOFError) as error:
                raise NoAnswer from error

        replace_name("make_client", client_maker(carry), marked_topic, topics)
        return kit.check_sink(lambda: Topic(ask, folder), ROWS, every=every)


class Versions(Output):
    """A table of Delta Lake in the virtual store."""

    def __init__(self, ask: Caller, folder: Path) -> None:
        super().__init__(ask, folder)
        ask("make_table", (self._name, {"word": "string", "number": "long"}))

    def sink(self) -> DeltaSink:
        return DeltaSink("out", DeltaOutput(table=f"s3://simulated/{self._name}"), ROWS.schema, self._folder)


class Lake(VirtualDelta):
    """The virtual table with the clock of this machine."""

    def __init__(self) -> None:
        super().__init__(time.monotonic)


def check_versions(folder: Path, every: int) -> kit.SinkReport:
    """Check the Delta Lake sink."""
    with served(Lake) as ask:

        def connect(options: S3Place) -> BucketClient:
            return BucketClient(options.url.rpartition("/")[2], ask)

        api = DeltaApi(carrying(ask, deltalake.exceptions.DeltaError))
        replace_name("library", lambda: api, delta_client, marked_versions)
        replace_name("_connect", connect, object_folder)
        return kit.check_sink(lambda: Versions(ask, folder), ROWS, every=every)


class Snapshots(Output):
    """A table of Iceberg in the virtual store and catalog."""

    def __init__(self, ask: Caller, folder: Path) -> None:
        super().__init__(ask, folder)
        ask("make_table", (self._name, {"word": "string", "number": "long"}))

    def sink(self) -> IcebergSink:
        options = IcebergOutput(catalog="http://simulated", table=f"lake.{self._name}")
        return IcebergSink("out", options, ROWS.schema, self._folder)


class Catalog(VirtualIceberg):
    """The virtual table with the clock of this machine."""

    def __init__(self) -> None:
        super().__init__(time.monotonic)


def check_snapshots(folder: Path, every: int) -> kit.SinkReport:
    """Check the Iceberg sink."""
    with served(Catalog) as ask:
        catalog, store = carrying(ask, requests.ConnectionError), carrying(ask, exceptions.GenericError)
        replace_name("_Bounded", lambda: CatalogAdapter(catalog), rest_catalog)
        replace_name("s3_store", lambda *_: BucketClient("", store), table_files)
        return kit.check_sink(lambda: Snapshots(ask, folder), ROWS, every=every)


Check = Callable[[Path, int], kit.SinkReport]
EVERY: dict[Check, int] = {
    check_bucket: count(251, 5),
    check_table: count(331, 11),
    check_upserts: 11,
    check_topic: count(523, 11),
    check_versions: count(523, 11),
    check_snapshots: count(1_009, 61),
}  # outgoing calls


@pytest.mark.parametrize(
    "check",
    [pytest.param(check, marks=[long_only] if check is check_upserts else []) for check in EVERY],
    ids=lambda check: check.__name__,
)
def test_a_sink_keeps_its_rules_on_a_virtual_server(check: Check, tmp_path: Path) -> None:
    every = EVERY[check]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        report = process.submit(check, tmp_path, every).result()
    assert min(report.killed, report.stopped, report.failed) >= report.calls // every
