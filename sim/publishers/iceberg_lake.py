"""A table of Iceberg as a target of the runs. Its client runs as it is, but for its clock, names and threads."""

import datetime
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import requests
from obstore import exceptions
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
from penstock.connectors.tables import copied_names
from penstock.contract.iceberg_options import IcebergOutput
from sim.kernel.kernel import Violation
from sim.publishers.strands import running
from sim.publishers.targets import NAME, NOWHERE, SCHEMA, NoReply, never_back, replace_name
from sim.servers.iceberg_client import CallerThread, CatalogAdapter
from sim.servers.iceberg_table import RETENTION_S, Answer, VirtualIceberg, refused
from sim.servers.iceberg_writers import IcebergWriters
from sim.servers.lake_files import Unreadable
from sim.servers.object_store import BucketClient

COLUMNS_MAX = 2  # that other writers add
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


class IcebergTarget:
    """A table of Iceberg in a bucket, and the catalog that knows it."""

    misfit = "is required, and the rows lack it"

    def __init__(self, clock: Callable[[], float]) -> None:
        self._later = 0.0
        self._theirs: list[int] = []  # the numbers of other writers' rows
        self._written = self._columns = self._lost = 0
        numbers = count(1)

        def now() -> float:
            return clock() + self._later

        replace_chance(now, numbers)
        replace_name(copied_names, "uuid4", lambda: UUID(int=next(numbers)))
        replace_name(copied_names, "monotonic", now)
        replace_name(rest_catalog, "_Bounded", lambda: CatalogAdapter(self._ask))
        replace_name(table_files, "s3_store", lambda *_: BucketClient("", self._ask_for_object))
        self._server = VirtualIceberg(now, _numbered)
        self._server.make_table(NAME, {"word": "string", "number": "long"}, not_null=("number",))
        self._others = IcebergWriters(self._server, NAME)

    def _ask(self, name: str, arguments: tuple[Any, ...]) -> Answer:
        try:
            answer: Answer = running().ask(name, lambda: getattr(self._server, name)(*arguments))
        except NoReply as error:
            self._lost += 1
            if self._lost % 2:
                return refused(504, "GatewayTimeout", "the catalog does not answer the gateway")
            raise requests.ConnectionError("the connection was lost") from error
        return answer

    def _ask_for_object(self, name: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return running().ask(name, lambda: getattr(self._server, name)(*arguments))
        except NoReply as error:
            raise exceptions.GenericError("the connection was lost") from error

    def staged(self) -> StagedTarget:
        """See PublishTarget."""
        options = IcebergOutput(catalog="http://simulated", table=f"lake.{NAME}")
        return IcebergSink("out", options, SCHEMA, NOWHERE)._target

    def visible(self) -> Counter[int]:
        """See PublishTarget. Raises Violation when the table cannot be read, or lacks rows of others."""
        try:
            found = Counter(row["number"] for row in self._server.rows(NAME))
        except Unreadable as error:
            raise Violation("E", f"the table: {error}") from error
        theirs = {number: count for number, count in found.items() if number < 0}
        if theirs != dict.fromkeys(self._theirs, 1):
            raise Violation("E", f"the table has these rows of others: {theirs}")
        return found

    def take_less(self) -> None:
        """See PublishTarget."""
        self._others.add_column(REQUIRED, required=True)

    def take_all(self) -> None:
        """See Lake."""
        self._others.drop_column(REQUIRED)

    def lose_markers(self) -> None:
        """See PublishTarget."""
        self._server.lose_markers(NAME)

    def process_ended(self, process: str) -> None:
        """See PublishTarget."""
        self._server.client_ended(process)

    def let_days_pass(self) -> None:
        """See Lake."""
        self._later += RETENTION_S + 1

    def write_as_another(self, draw: Random) -> None:
        """See Lake. Raises Violation when the table cannot be read."""
        try:
            self._write_as_another(draw)
        except (Unreadable, FileNotFoundError) as error:
            raise Violation("E", f"the table: {error}") from error

    def _write_as_another(self, draw: Random) -> None:
        match draw.choice(KINDS):
            case "append":
                self._written += 1
                self._theirs.append(-self._written)
                self._others.append(-self._written)
            case "delete" if self._theirs:
                gone = draw.choice(self._theirs)
                self._theirs.remove(gone)
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
