"""A table of Iceberg as its client has it, for tests that make, change and read it."""

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import parse_transform
from pyiceberg.types import IcebergType, NestedField

NAME = "lake.words"


def local_catalog(folder: Path, **more: str) -> SqlCatalog:
    """Return the catalog of a folder, in a file of SQLite, with properties of the client."""
    place = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    return SqlCatalog("default", **{**place, **more})


class IcebergTable:
    """A table of a catalog, which is opened anew for each call."""

    def __init__(self, open_catalog: Callable[[], Catalog], name: str = NAME) -> None:
        """Ask nothing yet."""
        self._open = open_catalog
        self._name = name

    def create(
        self,
        columns: Mapping[str, IcebergType],
        partitions: dict[str, str] | None = None,
        required: tuple[str, ...] = (),
        **properties: str,
    ) -> "IcebergTable":
        """Make the table, and return it. ``partitions`` are transforms by the columns."""
        fields = [NestedField(n, c, kind, required=c in required) for n, (c, kind) in enumerate(columns.items(), 1)]
        numbers = {field.name: field.field_id for field in fields}
        spec = [
            PartitionField(source_id=numbers[c], field_id=1000 + n, transform=parse_transform(t), name=f"{c}_{n}")
            for n, (c, t) in enumerate((partitions or {}).items())
        ]
        catalog = self._open()
        catalog.create_namespace_if_not_exists("lake")
        catalog.create_table(self._name, Schema(*fields), partition_spec=PartitionSpec(*spec), properties=properties)
        catalog.close()
        return self

    def change(self, how: Callable[[Table], object]) -> None:
        """Change the table, as another writer does."""
        catalog = self._open()
        how(catalog.load_table(self._name))
        catalog.close()

    def drop(self) -> None:
        """Remove the table."""
        catalog = self._open()
        catalog.drop_table(self._name)
        catalog.close()

    def ask(self, what: Callable[[Table], Any]) -> Any:
        """Return what a function says of the table as it is now."""
        catalog = self._open()
        try:
            return what(catalog.load_table(self._name))
        finally:
            catalog.close()

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows."""
        found: list[dict[str, Any]] = self.ask(lambda table: table.scan().to_arrow().to_pylist())
        return found

    def epochs(self) -> list[int]:
        """Return the epochs of the snapshots that have added rows, in order."""
        found: list[Any] = self.ask(lambda table: table.snapshots())
        return [
            int(snapshot.summary["penstock.epoch"])
            for snapshot in found
            if "penstock.epoch" in snapshot.summary.additional_properties
            and "added-records" in snapshot.summary.additional_properties
        ]


def expire_all_but_the_newest(table: Table) -> None:
    """Remove old snapshots."""
    before = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)  # noqa: TID251
    table.maintenance.expire_snapshots().older_than(before).commit()
