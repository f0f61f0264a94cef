"""A table of Iceberg as a target of the runs. Its client runs as it is, but for its clock, names and threads."""

import datetime
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import requests
from pyiceberg import table
from pyiceberg.avro import file as avro_file
from pyiceberg.io import pyarrow as arrow_files
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import metadata, snapshots, update
from pyiceberg.table.update import snapshot as producers
from pyiceberg.utils.concurrent import ExecutorFactory

from penstock.connectors.iceberg import rest_catalog, table_files
from penstock.connectors.iceberg.iceberg_sink import IcebergSink
from penstock.connectors.staged_sink import StagedTarget
from penstock.contract.iceberg_options import IcebergOutput
from sim.kernel.kernel import Violation
from sim.publishers.lake_target import COLUMNS_MAX, LakeTarget
from sim.publishers.strands import running
from sim.publishers.targets import NAME, NOWHERE, SCHEMA, NoReply, never_back, replace_name
from sim.servers.iceberg_client import CallerThread, CatalogAdapter
from sim.servers.iceberg_table import RETENTION_S, Answer, VirtualIceberg, refused
from sim.servers.iceberg_writers import IcebergWriters
from sim.servers.lake_files import Unreadable
from sim.servers.object_store import BucketClient

REQUIRED = "required"  # the column that the rows lack when the table takes less
KINDS = ("append", "delete", "compact", "add a column", "merge manifests", "expire")


def _numbered(name: str, before: int | None, epoch: int) -> None:
    never_back(name, None if before is None else (before,), (epoch,))


def replace_chance(clock: Callable[[], float], numbers: Iterator[int]) -> None:
    """Replace clocks, names and threads of the client in this process for good, and let it know no manifest."""

    class Now(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return cls.fromtimestamp(clock(), datetime.UTC)

    names = SimpleNamespace(UUID=UUID, uuid4=lambda: UUID(int=next(numbers)))
    time = SimpleNamespace(time=clock, monotonic=clock, sleep=lambda _: None)
    for module in (table, metadata, producers, arrow_files):
        replace_name(module, "uuid", names)
    for module in (table, snapshots):
        replace_name(module, "time", time)
    replace_name(table, "random", Random(0))
    replace_name(update, "datetime", Now)
    replace_name(avro_file, "os", SimpleNamespace(urandom=lambda size: next(numbers).to_bytes(size)))
    clear_manifest_cache()
    executor = CallerThread()
    ExecutorFactory.get_or_create = staticmethod(lambda: executor)  # type: ignore[method-assign]


class IcebergTarget(LakeTarget):
    """A table of Iceberg in a bucket, and the catalog that knows it."""

    misfit = "is required, and the rows lack it"
    _server: VirtualIceberg

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock, RETENTION_S)
        self._alive: list[int] = []  # the numbers of other writers' rows
        self._lost = 0  # answers of the catalog
        replace_chance(self._now, self._numbers)
        replace_name(rest_catalog, "_Bounded", lambda: CatalogAdapter(self._ask))
        replace_name(table_files, "s3_store", lambda *_: BucketClient("", self._ask_for_object))
        self._server = VirtualIceberg(self._now, _numbered)
        self._server.make_table(NAME, {"word": "string", "number": "long"}, not_null=("number",))
        self._others = IcebergWriters(self._server, NAME)

    def _ask(self, name: str, arguments: tuple[Any, ...]) -> Answer:
        try:
            answer: Answer = self._ask_server(name, arguments)
        except NoReply as error:
            self._lost += 1
            if self._lost % 2:
                return refused(504, "GatewayTimeout", "the catalog does not answer the gateway")
            raise requests.ConnectionError("the connection was lost") from error
        return answer

    def _theirs(self) -> Iterable[int]:
        return self._alive

    def staged(self) -> StagedTarget:
        """See PublishTarget."""
        options = IcebergOutput(catalog="http://simulated", table=f"lake.{NAME}")
        return IcebergSink("out", options, SCHEMA, NOWHERE)._target

    def take_less(self) -> None:
        """See PublishTarget."""
        self._others.add_column(REQUIRED, required=True)

    def take_all(self) -> None:
        """See Lake."""
        self._others.drop_column(REQUIRED)

    def _write_as_another(self, draw: Random) -> None:
        match draw.choice(KINDS):
            case "append":
                self._written += 1
                self._alive.append(-self._written)
                self._others.append(-self._written)
            case "delete" if self._alive:
                gone = draw.choice(self._alive)
                self._alive.remove(gone)
                self._others.delete(gone)
            case "compact":
                self._others.compact()
            case "add a column" if self._columns < COLUMNS_MAX:
                self._columns += 1
                self._others.add_column(f"theirs_{self._columns}")
            case "merge manifests":
                self._others.merge_manifests()
            case "expire":
                for key in self._others.expire():
                    self._server.delete(key)

    def vacuum(self) -> None:
        """See Lake. Old snapshots expire first. A file that both steps list is removed twice."""
        strand = running()
        for kind, listed in (("expire", self._others.expire), ("unused", lambda: self._server.unused(NAME))):
            for key in strand.ask(kind, partial(_readable, listed)):
                strand.ask("delete", partial(self._server.delete, key))


def _readable(listed: Callable[[], list[str]]) -> list[str]:
    try:
        return listed()
    except Unreadable as error:
        raise Violation("E", f"the table: {error}") from error
