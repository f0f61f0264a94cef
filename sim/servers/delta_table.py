"""A virtual table of Delta Lake: objects of a bucket, of which those of the log say what the table has.

A version is an object that is created, or not, in one step: of two writers that want to be the same version, one is.
The log is as the protocol of Delta Lake has it. VACUUM takes several steps: it looks first (``unused``), and then one
file after the other is removed. Others work in between.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sim.servers.lake_files import Unreadable
from sim.servers.object_store import VirtualBucket

LOG = "_delta_log"
RETENTION_S = 7 * 86_400.0  # of files that no version has (delta.deletedFileRetentionDuration)
CHECK = "delta.constraints."

Action = dict[str, Any]


@dataclass(slots=True)
class Replayed:
    """What the versions of a log say together. ``removed``: when a file was removed, by its name."""

    version: int = -1
    about: Action = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    added: dict[str, Action] = field(default_factory=dict)
    removed: dict[str, float] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """Return the properties of the table."""
        return dict(self.about["configuration"])

    @property
    def fields(self) -> list[Action]:
        """Return the columns."""
        return list(json.loads(self.about["schemaString"])["fields"])

    def apply(self, actions: Iterable[Action]) -> None:
        """Apply the next version. Raises Unreadable when it breaks what the table promises to its readers."""
        self.version += 1
        for action in actions:
            match action:
                case {"metaData": about}:
                    self.about = about
                case {"protocol": protocol}:
                    self.protocol = protocol
                case {"add": add}:
                    self._add(add)
                case {"remove": remove}:
                    self.added.pop(remove["path"], None)
                    self.removed[remove["path"]] = remove["deletionTimestamp"] / 1000
                case {"txn": txn}:
                    self.numbers[txn["appId"]] = txn["version"]

    def _add(self, add: Action) -> None:
        if add["dataChange"] and any(name.startswith(CHECK) for name in self.settings):
            raise Unreadable(f"version {self.version} adds rows that nobody has checked")
        self.added[add["path"]] = add
        self.removed.pop(add["path"], None)


class VirtualDelta(VirtualBucket):
    """See the module. ``committed`` is called with each number of an application: its name, old and new number."""

    def __init__(
        self, clock: Callable[[], float], committed: Callable[[str, int | None, int], None] = lambda *_: None
    ) -> None:
        super().__init__(self._is_created)
        self._clock = clock
        self._numbered = committed
        self._modified: dict[str, float] = {}
        self._numbers: dict[str, int] = {}
        self._files = 0

    # --- For those who look at the server, and for other writers

    def make_table(self, table: str, columns: Mapping[str, str], not_null: Iterable[str] = ()) -> None:
        """Make a table. ``columns`` have Delta Lake's names of types."""
        fields = [
            {"name": name, "type": kind, "nullable": name not in not_null, "metadata": {}}
            for name, kind in columns.items()
        ]
        about = {
            "id": f"00000000-0000-0000-0000-{len(self.keys('')):012d}",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": 0,
        }
        self._write(table, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": about})

    def modified(self, key: str) -> float:
        """Return when an object was written."""
        return self._modified[key]

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of the newest version. Raises Unreadable."""
        newest = self.replayed(table)
        required = [each["name"] for each in newest.fields if not each["nullable"]]
        found: list[dict[str, Any]] = []
        for path in newest.added:
            data = self.read(f"{table}/{path}")
            if data is None:
                raise Unreadable(f"version {newest.version} has {path}, and there is no such file")
            rows = _rows(data)
            if any(row.get(name) is None for row in rows for name in required):
                raise Unreadable(f"{path} has a null in a column that is NOT NULL")
            found += rows
        return found

    def replayed(self, table: str) -> Replayed:
        """Return the newest version. Raises Unreadable."""
        return replayed(self.log(table))

    def append(self, table: str, rows: list[dict[str, Any]]) -> str:
        """Add rows, as another writer does. Return the name of their file."""
        added = self._file(table, pa.Table.from_pylist(rows), changes=True)
        self._write(table, added)
        return str(added["add"]["path"])

    def delete_rows(self, table: str, path: str) -> None:
        """Remove all rows of a file, as another writer does."""
        self._write(table, self._removal(path, changes=True))

    def compact(self, table: str) -> None:
        """Write the rows of all files into one (OPTIMIZE)."""
        newest = self.replayed(table)
        rows = pa.Table.from_pylist(self.rows(table))
        removed = [self._removal(path, changes=False) for path in newest.added]
        if len(removed) > 1:
            self._write(table, *removed, self._file(table, rows, changes=False))

    def add_column(self, table: str, name: str) -> None:
        """Add a column that may be null."""
        about = self.replayed(table).about
        fields = [*json.loads(about["schemaString"])["fields"]]
        fields.append({"name": name, "type": "string", "nullable": True, "metadata": {}})
        self._write(table, {"metaData": {**about, "schemaString": json.dumps({"type": "struct", "fields": fields})}})

    def set_checks(self, table: str, **checks: str) -> None:
        """Have writers check these conditions from now on, and no others."""
        settings = {f"{CHECK}{name}": condition for name, condition in checks.items()}
        self._write(table, {"metaData": {**self.replayed(table).about, "configuration": settings}})

    def lose_markers(self, table: str) -> None:
        """Forget the numbers of all applications, as when somebody makes the table anew from its rows."""
        for key in self.keys(f"{table}/{LOG}/"):
            lines = [line for line in (self.read(key) or b"").splitlines() if b'"txn"' not in line]
            self.overwrite(key, b"\n".join(lines))
        self._numbers.clear()

    # --- For clients

    def log(self, table: str) -> list[bytes]:
        """Return the objects of the log, in order."""
        return [self.read(key) or b"" for key in self.keys(f"{table}/{LOG}/")]

    def overwrite(self, key: str, data: bytes) -> bool:
        """Write an object."""
        self._modified[key] = self._clock()
        return super().overwrite(key, data)

    def unused(self, table: str) -> list[str]:
        """Return the keys of files that VACUUM removes: old ones that no version has, or has had for a while."""
        newest, old = self.replayed(table), self._clock() - RETENTION_S
        kept = {*newest.added, *(path for path, at in newest.removed.items() if at > old)}
        return [
            key
            for key in self.keys(f"{table}/")
            if not key.startswith(f"{table}/{LOG}/")
            and key.removeprefix(f"{table}/") not in kept
            and self._modified[key] <= old
        ]

    # --- Inside

    def _is_created(self, key: str) -> None:
        self._modified[key] = self._clock()
        if f"/{LOG}/" not in key:
            return
        for action in actions_in(self.read(key) or b""):
            if txn := action.get("txn"):
                before = self._numbers.get(txn["appId"])
                self._numbers[txn["appId"]] = txn["version"]
                self._numbered(txn["appId"], before, txn["version"])

    def _write(self, table: str, *actions: Action) -> None:
        self.create(log_key(table, len(self.log(table))), log_entry(actions))

    def _file(self, table: str, rows: pa.Table, *, changes: bool) -> Action:
        """Write a file, and return what adds it."""
        out = BytesIO()
        pq.write_table(rows, out)
        self._files += 1
        path = f"theirs-{self._files}.parquet"
        self.create(f"{table}/{path}", out.getvalue())
        about = {"size": len(out.getvalue()), "modificationTime": 0, "stats": json.dumps({"numRecords": len(rows)})}
        return {"add": {"path": path, "partitionValues": {}, "dataChange": changes, **about}}

    def _removal(self, path: str, *, changes: bool) -> Action:
        return {"remove": {"path": path, "deletionTimestamp": int(1000 * self._clock()), "dataChange": changes}}


def log_key(table: str, version: int) -> str:
    """Return the key of a version."""
    return f"{table}/{LOG}/{version:020d}.json"


def log_entry(actions: Iterable[Action]) -> bytes:
    """Return the object of a version."""
    return "\n".join(json.dumps(action) for action in actions).encode()


def replayed(log: Iterable[bytes]) -> Replayed:
    """Return what the objects of a log say. Raises Unreadable."""
    newest = Replayed()
    for data in log:
        newest.apply(actions_in(data))
    return newest


def actions_in(data: bytes) -> list[Action]:
    """Return what an object of the log says."""
    return [json.loads(line) for line in data.splitlines()]


@lru_cache(1000)
def _rows(data: bytes) -> list[dict[str, Any]]:
    return list(pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).to_pylist())
