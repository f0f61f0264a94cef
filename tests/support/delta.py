"""A table of Delta Lake as its files say, for a program that has no client: so processes may be forked from it."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.s3 import S3

LOG = "_delta_log/{:020d}.json"


class Table:
    """A table in a folder, or in a folder of a bucket."""

    def __init__(
        self, names: Callable[[], Iterable[str]], read: Callable[[str], bytes], write: Callable[[str, bytes], object]
    ) -> None:
        """Work with three functions on files, by their names in the table."""
        self.names, self.read, self.write = names, read, write

    @staticmethod
    def in_folder(folder: Path) -> "Table":
        """Return the table of a folder, which is made."""
        (folder / "_delta_log").mkdir(parents=True)
        return Table.of_folder(folder)

    @staticmethod
    def of_folder(folder: Path) -> "Table":
        """Return the table that is in a folder."""

        def names() -> list[str]:
            return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]

        return Table(
            names, lambda name: (folder / name).read_bytes(), lambda name, data: (folder / name).write_bytes(data)
        )

    @staticmethod
    def in_bucket(s3: S3, bucket: str, prefix: str) -> "Table":
        """Return the table of a folder of a bucket."""
        return Table(
            lambda: [name.removeprefix(f"{prefix}/") for name in s3.names(bucket, f"{prefix}/")],
            lambda name: s3.read(bucket, f"{prefix}/{name}"),
            lambda name, data: s3.write(bucket, f"{prefix}/{name}", data),
        )

    def create(
        self, columns: Mapping[str, str], partitions: Iterable[str] = (), not_null: Iterable[str] = (), **settings: str
    ) -> "Table":
        """Write the first version, and return this table. ``columns`` have Delta Lake's names of types."""
        fields = [
            {"name": name, "type": kind, "nullable": name not in not_null, "metadata": {}}
            for name, kind in columns.items()
        ]
        described = {
            "id": "00000000-0000-0000-0000-000000000001",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(partitions),
            "configuration": settings,
            "createdTime": 0,
        }
        self.add({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": described})
        return self

    def add(self, *actions: object) -> None:
        """Write the next version, as another writer does."""
        lines = "\n".join(json.dumps(action) for action in actions)
        self.write(LOG.format(len(self.versions())), lines.encode())

    def add_rows(self, rows: pa.Table, parts: Mapping[str, str] | None = None) -> None:
        """Write the next version, which adds a file with rows, as another writer does. ``parts`` are of its folder."""
        data = BytesIO()
        pq.write_table(rows, data)
        name = f"part-{len(self.versions())}.parquet"
        self.write(name, data.getvalue())
        about = {"size": len(data.getvalue()), "modificationTime": 0, "stats": json.dumps({"numRecords": len(rows)})}
        self.add({"add": {"path": name, "partitionValues": parts or {}, "dataChange": True, **about}})

    def versions(self) -> list[list[dict[str, Any]]]:
        """Return the actions of each version."""
        logs = sorted(name for name in self.names() if re.fullmatch(r"_delta_log/\d{20}\.json", name))
        return [[json.loads(line) for line in self.read(name).splitlines()] for name in logs]

    def rows(self) -> list[dict[str, object]]:
        """Return the rows; values of partitions are texts."""
        added: dict[str, Any] = {}
        for action in (action for version in self.versions() for action in version):
            if "add" in action:
                assert action["add"]["path"] not in added, "a file is added once"
                added[action["add"]["path"]] = action["add"]
        found: list[dict[str, object]] = []
        for path, add in added.items():
            data = self.read(unquote(path))
            assert len(data) == add["size"]
            found += [{**row, **add["partitionValues"]} for row in pq.read_table(pa.BufferReader(data)).to_pylist()]
        return found

    def epochs(self) -> list[int]:
        """Return the epochs of the commits that have added rows, in order."""
        return [
            action["txn"]["version"]
            for version in self.versions()
            if any("add" in action for action in version)
            for action in version
            if "txn" in action and not action["txn"]["appId"].endswith("/digest")
        ]
