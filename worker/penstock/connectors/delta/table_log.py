"""The log of a table of Delta Lake, as a source reads it: the files of a snapshot, and those that later versions add.

A version never changes once it is there. The client reads a snapshot. The entries of one later version are read from
its file in the log, because the client does not tell what a single version has added and removed.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.base.errors import ConfigError, PeerError, StateError
from penstock.base.suggest import unknown
from penstock.base.threads import Lock, monotonic
from penstock.connectors.delta.client import LOG, DeltaPlace, library
from penstock.connectors.parquet_source import fits, value_type
from penstock.contract.codec import parsed
from penstock.contract.columns import Columns
from penstock.graph.arrow import arrow_schema

READER_FEATURES = frozenset(["timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"])
REMEDIES = {
    "deletionVectors": "run REORG TABLE ... APPLY (PURGE) and ALTER TABLE ... DROP FEATURE deletionVectors in Spark",
    "columnMapping": "run ALTER TABLE ... DROP FEATURE columnMapping in Spark",
}
LISTS_KEPT_MAX = 64  # versions whose files are remembered: the lanes of a source are seldom further apart


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A file of the table. ``rows`` is None where its writer kept no statistics.

    ``partition`` has the values of the columns that are not in the file: as Delta Lake writes them, or as Python does.
    """

    path: str
    size: int
    rows: int | None
    partition: Mapping[str, object]


class TableLog:
    """The versions of one table. Any thread may use it; every call blocks, and raises StorageError."""

    def __init__(self, place: DeltaPlace, columns: Columns, *, skip_changes: bool = False) -> None:
        """Look at the newest version. Raises ConfigError when there is no table, or it cannot be read.

        ``skip_changes`` leaves out a version that removes rows, instead of an error.
        """
        self.place = place
        self.where = f"delta source: table {place.url}"
        self._columns = columns
        self._skip_changes = skip_changes
        self._lock = Lock()
        self._lists: OrderedDict[tuple[str, int], tuple[AddedFile, ...]] = OrderedDict()
        with place.asked():
            table = place.table()
            found, about, protocol = pa.schema(table.schema().to_arrow()), table.metadata(), table.protocol()
            self._newest = int(table.version())
        self._looked_at = monotonic()
        self.table_id = about.id
        why = unreadable(protocol.reader_features or (), about.configuration)
        if why is not None:
            raise ConfigError(f"{self.where}: {why}")
        self.schema = self._chosen(found)

    def newest(self, every_s: float) -> int:
        """Return the newest version; the last look is at most ``every_s`` seconds ago.

        Raises StateError when it is another table than before.
        """
        with self._lock:
            if monotonic() >= self._looked_at + every_s:
                with self.place.asked():
                    table = self.place.table()
                    self._same_table(table.metadata().id)
                    self._newest = int(table.version())
                self._looked_at = monotonic()
            return self._newest

    def snapshot(self, version: int) -> tuple[AddedFile, ...]:
        """Return all files of a version, the older ones first. Raises StateError when the log has lost it."""
        return self._list("snapshot", version)

    def added(self, version: int) -> tuple[AddedFile, ...]:
        """Return the files that a version has added to the one before.

        Raises StateError when it removes rows, changes the columns in use, or is gone from the log.
        """
        return self._list("added", version)

    def _list(self, kind: str, version: int) -> tuple[AddedFile, ...]:
        with self._lock:
            found = self._lists.get((kind, version))
            if found is None:
                try:
                    with self.place.asked():
                        found = tuple(self._snapshot(version) if kind == "snapshot" else self._changes(version))
                except PeerError as error:
                    raise StateError(
                        f"{self.where}: version {version} of its log is damaged: {error}: restore it"
                    ) from error
                self._lists[kind, version] = found
                if len(self._lists) > LISTS_KEPT_MAX:
                    self._lists.popitem(last=False)
            return found

    def _snapshot(self, version: int) -> list[AddedFile]:
        try:
            table = self.place.table(version)
        except library().exceptions.DeltaError:
            self._entries(version)  # its error says more
            raise
        self._same_table(table.metadata().id)
        rows = pa.table(table.get_add_actions()).to_pylist()
        rows.sort(key=lambda row: (row["modification_time"], row["path"]))
        return [
            AddedFile(row["path"], row["size_bytes"], row.get("num_records"), row.get("partition") or {})
            for row in rows
        ]

    def _entries(self, version: int) -> list[dict[str, Any]]:
        try:
            with (self.place.path / f"{LOG}/{version:020d}.json").open("rb") as file:
                return [parsed(line) for line in file.read().splitlines() if line]
        except FileNotFoundError as error:
            raise StateError(
                f"{self.where}: version {version} is gone from its log: it is older than delta.logRetentionDuration;"
                " make that longer than the job may stand still, and begin anew (penstock run --fresh)"
            ) from error

    def _changes(self, version: int) -> list[AddedFile]:
        adds, removes, operation = [], False, "unknown"
        for entry in self._entries(version):
            match entry:
                case {"add": add} if add.get("dataChange", True):
                    adds.append(add)
                case {"remove": remove} if remove.get("dataChange", True):
                    removes = True
                case {"metaData": about}:
                    self._check_columns(about, version)
                case {"protocol": protocol}:
                    self._refuse(unreadable(protocol.get("readerFeatures") or (), {}), version)
                case {"commitInfo": info}:
                    operation = info.get("operation", operation)
        if removes and not self._skip_changes:
            self._refuse(
                f"it removes rows (operation {operation}), and rows that were read cannot be taken back: give"
                " skipChangeCommits to leave out such versions as a whole, or begin anew (penstock run --fresh)",
                version,
            )
        return [] if removes else [_added_file(add) for add in adds]

    def _check_columns(self, about: Mapping[str, Any], version: int) -> None:
        self._same_table(about["id"])
        self._refuse(unreadable((), about.get("configuration") or {}), version)
        found = pa.schema(library().Schema.from_json(about["schemaString"]).to_arrow())
        for field in self.schema:
            index = found.get_field_index(field.name)
            if index < 0 or not fits(value_type(found.field(index).type), field.type):
                has = "it is gone" if index < 0 else f"now it is {found.field(index).type}"
                self._refuse(
                    f"it changes column {field.name!r}, which the job reads as {field.type}: {has}; declare the"
                    " columns as they are now, and begin anew (penstock run --fresh)",
                    version,
                )

    def _refuse(self, why: str | None, version: int) -> None:
        if why is not None:
            raise StateError(f"{self.where}: version {version}: {why}")

    def _same_table(self, table_id: str) -> None:
        if table_id != self.table_id:
            raise StateError(
                f"{self.where} was made anew while the job reads it: put the old table back, or begin anew (penstock"
                " run --fresh)"
            )

    def _chosen(self, found: pa.Schema) -> pa.Schema:
        """Return the declared columns, or all of the table."""
        if not self._columns:
            return found
        wanted = arrow_schema(self._columns)
        for field in wanted:
            index = found.get_field_index(field.name)
            if index < 0:
                raise ConfigError(f"{self.where}: {unknown('column', field.name, found.names)}")
            if not fits(found.field(index).type, field.type):
                raise ConfigError(
                    f"{self.where}: column {field.name!r} is {found.field(index).type}, declared is {field.type}"
                )
        return wanted


def unreadable(features: Sequence[str], settings: Mapping[str, str]) -> str | None:
    """Return why a table cannot be read exactly, with a remedy; None when it can."""
    needed = sorted(set(features) - READER_FEATURES)
    if settings.get("delta.columnMapping.mode", "none") == "none":
        needed = [name for name in needed if name != "columnMapping"]
    elif "columnMapping" not in needed:
        needed.append("columnMapping")
    if not needed:
        return None
    helps = "; ".join(REMEDIES[name] for name in needed if name in REMEDIES)
    return f"its readers have to know {', '.join(needed)}, which this source does not" + (f": {helps}" if helps else "")


def _added_file(add: Mapping[str, Any]) -> AddedFile:
    stats = parsed(add.get("stats") or "{}")
    return AddedFile(add["path"], add["size"], stats.get("numRecords"), add.get("partitionValues") or {})
