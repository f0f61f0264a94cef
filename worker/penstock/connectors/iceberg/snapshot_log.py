"""The log of a table of Iceberg, as a source reads it: the snapshots of the branch ``main``, each with its files.

    snapshot ──> list of manifests ──> manifest: a file that this snapshot has added, has removed, or has kept

A snapshot names the one before it. So the snapshots behind a place are found from the newest one backwards, and each
number of a snapshot in a state is checked on the way: a table that was rolled back, or made anew, has another line.
A column is found by its number (field id), so one that is renamed while a job runs keeps its rows.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from penstock.base.errors import ConfigError, StateError
from penstock.base.values import replace
from penstock.connectors.iceberg.client import IcebergPlace
from penstock.connectors.iceberg.iceberg_columns import FIELD_ID, VERSION_MAX, arrow_type
from penstock.connectors.tables.file_rows import ColumnSource, FileRows, LoggedFile
from penstock.connectors.tables.lane_place import LanePlace
from penstock.connectors.tables.table_log import FRESH, AddedFile, TableLog, changed_column, chosen_columns
from penstock.contract.columns import Columns

EMPTY = 0  # in place of the number of a snapshot: the table has none yet
KEEP = f"let snapshots expire later than the job may stand still, and {FRESH}"
GONE = f"expire_snapshots or remove_orphan_files has removed it, or it was lost; restore it, or {KEEP}"
DELETES = (
    "it has delete files, which this source does not apply: run CALL system.rewrite_data_files(table => ..., options =>"
    " map('delete-file-threshold', '1', 'remove-dangling-deletes', 'true')) in Spark"
)


class SnapshotLog(TableLog):
    """The snapshots of one table. Their numbers are random."""

    def __init__(self, place: IcebergPlace, columns: Columns, *, skip_changes: bool = False) -> None:
        """Look at the newest snapshot. Raises NotThere when there is no table, ConfigError when it cannot be read.

        ``skip_changes`` leaves out a snapshot that removes rows, instead of an error.
        """
        super().__init__()
        self._place = place
        self._skip_changes = skip_changes
        self._opened: set[int] = set()  # lanes, since the last attempt began
        self.where = f"iceberg source: table {place.name}"
        found = place.open()
        self._table = found.table
        self.table_id = str(self._table.metadata.table_uuid)
        if found.version > VERSION_MAX:
            why = f"its format-version is {found.version}, and this source reads {VERSION_MAX} at most"
            raise ConfigError(f"{self.where}: {why}: read another one")
        schema = self._table.schema()
        self.schema = chosen_columns(_plain(schema, columns, self.where), columns, self.where)
        self._numbers = {field.field_id: field.name for field in schema.fields if field.name in self.schema.names}

    def check(self, place: LanePlace) -> None:
        """Raise StateError when a place of a checkpoint is of another table, StorageError.

        A lane that is opened again belongs to a new attempt. Then secrets are read and the table is loaded anew: the
        keys to its files, those of the job or those that the catalog gives, may have run out.
        """
        with self._lock:
            if place.lane in self._opened:
                self._place.close()
                self._refresh(0.0)
                self._opened.clear()
            self._opened.add(place.lane)
        self._same_table(place.table)

    def behind(self, place: LanePlace) -> LanePlace:
        """Return the place behind a snapshot: the number of the next one is not known yet."""
        return replace(place, file=0, row=0, whole=True)

    def open(self, file: AddedFile, place: LanePlace) -> FileRows:
        """Open a file at the row of ``place``. Raises StateError when it is gone or another one."""
        where = f"{self.where}: file {file.path} of snapshot {place.version}"
        given = LoggedFile(where, self._table.io.path(file.path), file.size, GONE)
        constants = {field.name: _constant(file.partition.get(field.name), field.type) for field in self.schema}
        mapping = self._table.name_mapping()

        def stored(found: pa.Schema) -> dict[str, str]:
            numbers = {int(f.metadata[FIELD_ID]): f.name for f in found if f.metadata and FIELD_ID in f.metadata}
            if not numbers and mapping is not None:
                numbers = {each.field_id: n for each in mapping for n in each.names if n in found.names}
            if not numbers:
                raise StateError(
                    f"{where} does not number its columns: set schema.name-mapping.default of the table, which says"
                    " their names"
                )
            return {name: numbers[number] for number, name in self._numbers.items() if number in numbers}

        return FileRows(given, ColumnSource(self.schema, stored, constants), place.row)

    def _look(self) -> None:
        table = self._place.open().table
        self._same_table(str(table.metadata.table_uuid))
        kinds = {field.field_id: arrow_type(str(field.field_type)) for field in table.schema().fields}
        found = pa.schema([pa.field(name, kinds[n] or pa.null()) for n, name in self._numbers.items() if n in kinds])
        if (why := changed_column(found, self.schema)) is not None:
            raise StateError(f"{self.where} was changed: {why}; correct the columns of the job, and start it again")
        self._table = table

    def _newest(self) -> int:
        return int(self._table.metadata.current_snapshot_id or EMPTY)

    def _from(self, begin: LanePlace) -> Sequence[int]:
        snapshots = {each.snapshot_id: each for each in self._table.metadata.snapshots}
        line, at = [], self._newest()
        while at != begin.version:
            if at not in snapshots:
                raise self._lost(begin.version, expired=begin.version not in snapshots)
            line.append(at)
            at = max(EMPTY, snapshots[at].parent_snapshot_id or EMPTY)
        return [*(() if begin.whole else (begin.version,)), *reversed(line)]

    def _lost(self, version: int, *, expired: bool) -> StateError:
        if expired:
            why = "is gone, or what was behind it: they expired, or the table was replaced"
            return StateError(f"{self.where}: snapshot {version}, which the job has read, {why}: {KEEP}")
        return StateError(
            f"{self.where}: its newest snapshot {self._newest()} does not come from {version}, which the job has read:"
            f" the table was rolled back; put it back, or {FRESH}"
        )

    def _all(self, version: int) -> Sequence[AddedFile]:
        found = []
        with self._manifests(version) as manifests:
            for manifest in manifests:
                for entry in manifest.fetch_manifest_entry(self._table.io):
                    if not _has_rows(entry):
                        raise StateError(f"{self.where}: snapshot {version}: {DELETES}")
                    found.append((entry.sequence_number or 0, self._file(entry.data_file, version)))
        return [file for _, file in sorted(found, key=lambda each: (each[0], each[1].path))]

    def _added(self, version: int) -> Sequence[AddedFile]:
        from pyiceberg.manifest import ManifestEntryStatus  # noqa: PLC0415 - an extra

        adds, removes = [], False
        with self._manifests(version) as manifests:
            summary = self._table.metadata.snapshot_by_id(version).summary  # format version 1 need not have one
            operation = "unknown" if summary is None else summary.operation.value
            if operation == "replace":
                return []  # the same rows in other files
            for manifest in (each for each in manifests if each.added_snapshot_id == version):
                for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=False):
                    if entry.status == ManifestEntryStatus.EXISTING or entry.snapshot_id != version:
                        continue
                    if entry.status == ManifestEntryStatus.ADDED and _has_rows(entry):
                        adds.append(self._file(entry.data_file, version))
                    else:
                        removes = True
        if removes and not self._skip_changes:
            raise StateError(
                f"{self.where}: snapshot {version}: it removes rows (operation {operation}), and rows that were read"
                f" cannot be taken back: give skipChangeCommits to leave out such snapshots as a whole, or {FRESH}"
            )
        return [] if removes else adds

    @contextmanager
    def _manifests(self, version: int) -> Iterator[Sequence[Any]]:
        """Give the manifests of a snapshot, to read them. Raises StateError when one is gone."""
        snapshot = self._table.metadata.snapshot_by_id(version)
        if snapshot is None and version != EMPTY:
            raise StateError(f"{self.where}: snapshot {version}, which the job has to read, expired: {KEEP}")
        with self._place.asked():
            try:
                yield () if snapshot is None else snapshot.manifests(self._table.io)
            except FileNotFoundError as error:
                raise StateError(f"{self.where}: snapshot {version}: {error}: {GONE}") from error

    def _file(self, file: Any, version: int) -> AddedFile:
        kind = str(file.file_format.value)
        if kind.upper() != "PARQUET":
            raise StateError(f"{self.where}: file {file.file_path} of snapshot {version} is {kind}: it reads Parquet")
        spec = self._table.specs()[file.spec_id]
        values = {
            self._numbers[field.source_id]: value
            for field, value in zip(spec.fields, file.partition, strict=True)
            if str(field.transform) == "identity" and field.source_id in self._numbers
        }
        return AddedFile(file.file_path, file.file_size_in_bytes, file.record_count, values)


def _has_rows(entry: Any) -> bool:
    """Return whether an entry is a file of rows, and none that says which rows are deleted."""
    return int(entry.data_file.content) == 0


def _plain(schema: Any, columns: Columns, where: str) -> pa.Schema:
    """Return the plain columns of a table. Raises ConfigError when another one is declared, or none is."""
    declared, found = {column.name for column in columns}, []
    for field in schema.fields:
        kind = arrow_type(str(field.field_type))
        if kind is not None:
            found.append(pa.field(field.name, kind))
        elif not columns or field.name in declared:
            told = f"column {field.name!r} is {field.field_type}, which this source does not read"
            raise ConfigError(f"{where}: {told}: declare the columns to read, without it")
    return pa.schema(found)


def _constant(value: object, kind: pa.DataType) -> pa.Scalar:
    """Return a value of a partition, where dates and times are numbers; a null for a column that a file lacks."""
    if isinstance(value, int) and pa.types.is_temporal(kind):
        return pa.scalar(value, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)
    return pa.scalar(value, kind)
