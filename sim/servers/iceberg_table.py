"""A virtual table of Iceberg: a REST catalog that says where its metadata are, and a bucket with all of its files.

A commit is one request. It says what has to be true of the table, and the catalog compares and swaps: of two commits
on one snapshot, one is made. What is compared, and what a commit changes, is the client's own library: it has the rules
of the specification. A reader here is another one: it goes from the metadata through Avro and Parquet to the rows.

``remove_orphan_files`` takes several steps: it looks first (``unused``), and then one file after the other is removed.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import RemovePropertiesUpdate, TableUpdate, update_table_metadata
from pyiceberg.types import IcebergType, LongType, NestedField, StringType

from sim.servers.lake_files import Unreadable
from sim.servers.object_store import VirtualBucket

BUCKET = "s3://simulated/"
RETENTION_S = 3 * 86_400.0  # of files that no snapshot has (remove_orphan_files)
OWNER = "penstock/"  # begins the names of the properties that are markers
TYPES: dict[str, IcebergType] = {"string": StringType(), "long": LongType()}
FIELD_ID = b"PARQUET:field_id"
REMOVED = 2  # the status of an entry of a manifest

Answer = tuple[int, bytes]  # a status of HTTP, and the body


class VirtualIceberg(VirtualBucket):
    """See the module. ``marked`` is called with each change of a marker: its name, old and new epoch."""

    def __init__(
        self, clock: Callable[[], float], marked: Callable[[str, int | None, int], None] = lambda *_: None
    ) -> None:
        super().__init__(self._is_created)
        self._clock = clock
        self._marked = marked
        self._modified: dict[str, float] = {}
        self._tables: dict[str, tuple[str, TableMetadata]] = {}  # where the metadata are, and what they say
        self._written = 0

    # --- For those who look at the server, and for other writers

    def make_table(self, table: str, columns: Mapping[str, str], not_null: Iterable[str] = ()) -> None:
        """Make a table. ``columns`` have Iceberg's names of types."""
        fields = [
            NestedField(number, name, TYPES[kind], required=name in not_null)
            for number, (name, kind) in enumerate(columns.items(), 1)
        ]
        made = new_table_metadata(
            Schema(*fields),
            UNPARTITIONED_PARTITION_SPEC,
            UNSORTED_SORT_ORDER,
            BUCKET + table,
            {},
            UUID(int=len(self._tables) + 1),
        )
        self._swap(table, made.model_copy(update={"last_updated_ms": int(1000 * self._clock())}))

    def metadata(self, table: str) -> tuple[str, TableMetadata]:
        """Return where the metadata of a table are, and what they say."""
        return self._tables[table]

    def apply(self, table: str, *updates: TableUpdate) -> None:
        """Change a table in one step, whatever it is."""
        location, now = self._tables[table]
        self._swap(table, update_table_metadata(now, updates, metadata_location=location))

    def modified(self, key: str) -> float:
        """Return when an object was written."""
        return self._modified[key]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of the newest snapshot. Raises Unreadable, also when an older snapshot lacks a file."""
        about = self._about(table)
        for snapshot in about["snapshots"]:
            for key in self._files_of(snapshot):
                self._found(key)
        columns = {field["id"]: field for field in _schema(about, about["current-schema-id"])["fields"]}
        newest = next((s for s in about["snapshots"] if s["snapshot-id"] == about.get("current-snapshot-id")), None)
        found: list[dict[str, Any]] = []
        for entry in self._entries(newest) if newest is not None else ():
            file = entry["data_file"]
            data = self._found(_key(file["file_path"]))
            rows = _rows(data)
            if (len(data), len(rows)) != (file["file_size_in_bytes"], file["record_count"]):
                raise Unreadable(f"{file['file_path']} has another size than its manifest says")
            if missing := _missing(about, entry["snapshot_id"], rows):
                raise Unreadable(f"{file['file_path']} has no value in column {missing}, which was required then")
            found += [{f["name"]: row.get(number) for number, f in columns.items()} for row in rows]
        return found

    def lose_markers(self, table: str) -> None:
        """Remove the properties that are markers, as when somebody makes the table anew from its rows."""
        names = [name for name in self._tables[table][1].properties if name.startswith(OWNER)]
        self.apply(table, RemovePropertiesUpdate(removals=names))

    def unused(self, table: str) -> list[str]:
        """Return the keys of files that ``remove_orphan_files`` removes: old ones that no snapshot has."""
        about, old = self._about(table), self._clock() - RETENTION_S
        kept = {_key(self._tables[table][0]), *(_key(each["metadata-file"]) for each in about["metadata-log"])}
        kept |= {key for snapshot in about["snapshots"] for key in self._files_of(snapshot)}
        return [key for key in self.keys(f"{table}/") if key not in kept and self._modified[key] <= old]

    def only_of(self, table: str, snapshots: Iterable[int]) -> list[str]:
        """Return the keys of the files that only these snapshots have."""
        about, asked = self._about(table), set(snapshots)
        theirs = [(s["snapshot-id"] in asked, self._files_of(s)) for s in about["snapshots"]]
        kept = {key for mine, files in theirs if not mine for key in files}
        return sorted({key for mine, files in theirs if mine for key in files} - kept)

    # --- For clients

    def config(self) -> Answer:
        """Answer what the catalog is."""
        return 200, b'{"defaults": {}, "overrides": {}}'

    def load(self, table: str) -> Answer:
        """Answer what a table is."""
        if table not in self._tables:
            return refused(404, "NoSuchTableException", f"{table} does not exist")
        return self._answer(table)

    def commit(self, table: str, body: bytes) -> Answer:
        """Compare and swap."""
        if table not in self._tables:
            return refused(404, "NoSuchTableException", f"{table} does not exist")
        asked = CommitTableRequest.model_validate_json(body)
        location, now = self._tables[table]
        try:
            for requirement in asked.requirements:
                requirement.validate(now)
        except CommitFailedException as error:
            return refused(409, "CommitFailedException", str(error))
        self._swap(table, update_table_metadata(now, asked.updates, metadata_location=location))
        return self._answer(table)

    def overwrite(self, key: str, data: bytes) -> bool:
        """Write an object."""
        self._modified[key] = self._clock()
        return super().overwrite(key, data)

    # --- Inside

    def _is_created(self, key: str) -> None:
        self._modified[key] = self._clock()

    def _swap(self, table: str, metadata: TableMetadata) -> None:
        before = self._tables[table][1].properties if table in self._tables else {}
        for name, marker in metadata.properties.items():
            if name.startswith(OWNER) and marker != before.get(name):
                old = before.get(name)
                self._marked(name, None if old is None else _epoch(old), _epoch(marker))
        self._written += 1
        key = f"{table}/metadata/{self._written:05d}.metadata.json"
        self.create(key, metadata.model_dump_json().encode())
        self._tables[table] = BUCKET + key, metadata

    def _answer(self, table: str) -> Answer:
        location = self._tables[table][0]
        metadata = self._found(_key(location)).decode()
        return 200, f'{{"metadata-location": "{location}", "metadata": {metadata}, "config": {{}}}}'.encode()

    def _about(self, table: str) -> dict[str, Any]:
        about: dict[str, Any] = json.loads(self._found(_key(self._tables[table][0])))
        return about

    def _found(self, key: str) -> bytes:
        data = self.read(key)
        if data is None:
            raise Unreadable(f"the table has {key}, and there is no such file")
        return data

    def _files_of(self, snapshot: Mapping[str, Any]) -> Iterator[str]:
        """Give the keys of all files that a snapshot needs."""
        yield _key(snapshot["manifest-list"])
        yield from (_key(each["manifest_path"]) for each in self._manifests(snapshot))
        yield from (_key(each["data_file"]["file_path"]) for each in self._entries(snapshot))

    def _manifests(self, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = _records(self._found(_key(snapshot["manifest-list"])))
        if any(manifest["content"] != 0 for manifest in found):
            raise Unreadable("it has delete files, which nobody here writes")
        return found

    def _entries(self, snapshot: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Give the entries of the data files that a snapshot has, each with the id of the snapshot that added it."""
        for manifest in self._manifests(snapshot):
            data = self._found(_key(manifest["manifest_path"]))
            if len(data) != manifest["manifest_length"]:
                raise Unreadable(f"{manifest['manifest_path']} has another size than the list of manifests says")
            for entry in _records(data):
                if entry["status"] != REMOVED:
                    yield {**entry, "snapshot_id": entry["snapshot_id"] or manifest["added_snapshot_id"]}


def refused(status: int, kind: str, text: str) -> Answer:
    """Return how a catalog refuses a request."""
    return status, json.dumps({"error": {"message": text, "type": kind, "code": status}}).encode()


def _key(location: str) -> str:
    return location.removeprefix(BUCKET)


def _epoch(marker: str) -> int:
    return int(marker.partition(" ")[0])


def _schema(about: Mapping[str, Any], number: int) -> dict[str, Any]:
    return next(schema for schema in about["schemas"] if schema["schema-id"] == number)


def _missing(about: Mapping[str, Any], snapshot: int, rows: list[dict[int, Any]]) -> str:
    """Return a column that some row lacks though it was required in the snapshot that added the rows."""
    added = [each for each in about["snapshots"] if each["snapshot-id"] == snapshot]
    required = [f for each in added for f in _schema(about, each["schema-id"])["fields"] if f["required"]]
    return next((f["name"] for f in required for row in rows if row.get(f["id"]) is None), "")


@lru_cache(1000)
def _records(data: bytes) -> list[dict[str, Any]]:
    """Return what a file of Avro has."""
    found: Any = fastavro.reader(BytesIO(data))
    return list(found)


@lru_cache(1000)
def _rows(data: bytes) -> list[dict[int, Any]]:
    """Return the rows of a file of Parquet, by the numbers of its columns."""
    found = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    names = {field.name: int(field.metadata[FIELD_ID]) for field in found.schema}
    return [{names[name]: value for name, value in row.items()} for row in found.to_pylist()]
