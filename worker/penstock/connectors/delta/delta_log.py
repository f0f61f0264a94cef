"""The log of a table of Delta Lake, as a source reads it: the files of a snapshot, and those that later versions add.

The client reads a snapshot. The entries of one later version are read from its file in the log, because the client does
not tell what a single version has added and removed.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from penstock.base.errors import ConfigError, PeerError, StateError
from penstock.base.values import replace
from penstock.connectors.delta.client import LOG, DeltaPlace, library
from penstock.connectors.tables.file_rows import ColumnSource, FileRows, LoggedFile
from penstock.connectors.tables.lane_place import LanePlace
from penstock.connectors.tables.table_log import FRESH, AddedFile, TableLog, changed_column, chosen_columns
from penstock.contract.codec import parsed
from penstock.contract.columns import Columns

READER_FEATURES = frozenset(["timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"])
REMEDIES = {
    "deletionVectors": "run REORG TABLE ... APPLY (PURGE) and ALTER TABLE ... DROP FEATURE deletionVectors in Spark",
    "columnMapping": "run ALTER TABLE ... DROP FEATURE columnMapping in Spark",
}
ABSOLUTE = ("/", "file:", "s3:", "s3a:", "abfs:", "gs:")
GONE = (
    f"VACUUM has removed it, or it was lost; restore it, or {FRESH}, with a delta.deletedFileRetentionDuration in which"
    " the job reads what is there"
)


class DeltaLog(TableLog):
    """The versions of one table, which are numbers that rise by one."""

    def __init__(self, place: DeltaPlace, columns: Columns, *, skip_changes: bool = False) -> None:
        """Look at the newest version. Raises ConfigError when there is no table, or it cannot be read.

        ``skip_changes`` leaves out a version that removes rows, instead of an error.
        """
        super().__init__()
        self._place = place
        self._skip_changes = skip_changes
        self.where = f"delta source: table {place.url}"
        with place.asked():
            table = place.table()
            found, about, protocol = pa.schema(table.schema().to_arrow()), table.metadata(), table.protocol()
            self._version = self._begun = int(table.version())
        self.table_id = about.id
        why = unreadable(protocol.reader_features or (), about.configuration)
        if why is not None:
            raise ConfigError(f"{self.where}: {why}")
        self.schema = chosen_columns(found, columns, self.where)
        for field in self.schema:
            if field.name in about.partition_columns and not _has_texts(field.type):
                why = "its writers spell these bytes as texts in several ways"
                raise ConfigError(
                    f"{self.where}: partition column {field.name!r} is {field.type}, and {why}: leave it out"
                )

    def check(self, place: LanePlace) -> None:
        """Raise StateError when a place of a checkpoint is of another table, or behind its newest version."""
        newest = self.newest()
        if place.table != self.table_id or place.version > newest + 1:
            raise StateError(
                f"{self.where} is not the one that the job has read through version {place.version - 1}: it was"
                f" made anew, or is an old copy, now at version {newest}; put the table back, or {FRESH}"
            )

    def behind(self, place: LanePlace) -> LanePlace:
        """Return the place of the next version, which need not be there yet."""
        return replace(place, version=place.version + 1, file=0, row=0)

    def open(self, file: AddedFile, place: LanePlace) -> FileRows:
        """Open a file at the row of ``place``. Raises StateError when it is gone or another one."""
        where = f"{self.where}: file {file.path} of version {place.version}"
        if file.path.startswith(ABSOLUTE):
            raise StateError(f"{where} is outside of the table (a shallow clone): make a whole copy, and read that")
        given = LoggedFile(where, self._place.path / unquote(file.path), file.size, GONE)
        constants = {f.name: _constant(file.partition.get(f.name), f.type) for f in self.schema}

        def stored(found: pa.Schema) -> dict[str, str]:
            return {name: name for name in self.schema.names if name in found.names and name not in file.partition}

        return FileRows(given, ColumnSource(self.schema, stored, constants), place.row)

    def _look(self) -> None:
        with self._place.asked():
            table = self._place.table()
            self._same_table(table.metadata().id)
            self._version = int(table.version())

    def _newest(self) -> int:
        return self._version

    def _from(self, begin: LanePlace) -> Sequence[int]:
        return range(begin.version, self._version + 1)

    def _all(self, version: int) -> Sequence[AddedFile]:
        with self._place.asked():
            try:
                table = self._place.table(version)
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
            with (self._place.path / f"{LOG}/{version:020d}.json").open("rb") as file:
                return [parsed(line) for line in file.read().splitlines() if line]
        except FileNotFoundError as error:
            raise StateError(
                f"{self.where}: version {version} is gone from its log: it is older than delta.logRetentionDuration;"
                f" make that longer than the job may stand still, and {FRESH}"
            ) from error

    def _added(self, version: int) -> Sequence[AddedFile]:
        try:
            return self._changes(version)
        except PeerError as error:
            raise StateError(f"{self.where}: version {version} of its log is damaged: {error}: restore it") from error

    def _changes(self, version: int) -> list[AddedFile]:
        adds, removes, operation = [], False, "unknown"
        with self._place.asked():
            entries = self._entries(version)
        for entry in entries:
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
                f" skipChangeCommits to leave out such versions as a whole, or {FRESH}",
                version,
            )
        return [] if removes else [_added_file(add) for add in adds]

    def _check_columns(self, about: Mapping[str, Any], version: int) -> None:
        self._same_table(about["id"])
        self._refuse(unreadable((), about.get("configuration") or {}), version)
        found = pa.schema(library().Schema.from_json(about["schemaString"]).to_arrow())
        later = version <= self._begun  # then a column that this version lacks was added behind it
        why = changed_column(found, pa.schema([f for f in self.schema if not later or f.name in found.names]))
        self._refuse(why and f"{why}; declare the columns as they are now, and {FRESH}", version)

    def _refuse(self, why: str | None, version: int) -> None:
        if why is not None:
            raise StateError(f"{self.where}: version {version}: {why}")


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


def _has_texts(kind: pa.DataType) -> bool:
    """Return whether each value of a partition has one text, by which all writers and readers know it."""
    return not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def _constant(value: object, kind: pa.DataType) -> pa.Scalar:
    """Return a value of a partition, which Delta Lake writes as text; a null for a column that a file lacks."""
    if not isinstance(value, str) or not value:  # an empty text is a null, of every type
        return pa.scalar(None if value == "" else value, kind)
    if pa.types.is_timestamp(kind):
        return pa.scalar(value.removesuffix("Z")).cast(pa.timestamp("us")).cast(kind)
    return pa.scalar(value, pa.string()).cast(kind)
