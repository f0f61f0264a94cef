"""Others who write to the virtual table of Iceberg, at once, with the client as it is."""

from io import BytesIO
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import CommitTableRequest, CommitTableResponse, Table, TableIdentifier
from pyiceberg.types import LongType, StringType

from sim.servers.iceberg_table import BUCKET, VirtualIceberg

ROWS = pa.schema([pa.field("word", pa.string()), pa.field("number", pa.int64(), nullable=False)])
MERGES = "commit.manifest-merge.enabled"
MERGES_AT = "commit.manifest.min-count-to-merge"


class IcebergWriters:
    """What others do to one table."""

    def __init__(self, server: VirtualIceberg, table: str) -> None:
        self._server = server
        self._table = table

    def opened(self) -> Table:
        """Return the table as the client has it."""
        location, metadata = self._server.metadata(self._table)
        catalog: Any = _Catalog(self._server, self._table)
        return Table(("lake", self._table), metadata.model_copy(deep=True), location, _Files(self._server), catalog)

    def append(self, number: int) -> None:
        """Add a row."""
        self.opened().append(_rows([{"word": "theirs", "number": number}]))

    def delete(self, number: int) -> None:
        """Remove a row: its file, or the file is written again without it."""
        self.opened().delete(f"number = {number}")

    def compact(self) -> None:
        """Write the rows of all files into one."""
        table = self.opened()
        files = [task.file for task in table.scan().plan_files()]
        if len(files) < 2:
            return
        plain = [{each.name: row[each.name] for each in ROWS} for row in self._server.rows(self._table)]
        transaction = table.transaction()
        with transaction.update_snapshot().overwrite() as update:
            for file in files:
                update.delete_data_file(file)
            for file in _dataframe_to_data_files(transaction.table_metadata, _rows(plain), table.io):
                update.append_data_file(file)
        transaction.commit_transaction()

    def add_column(self, name: str, *, required: bool = False) -> None:
        """Add a column."""
        with self.opened().update_schema(allow_incompatible_changes=required) as update:
            update.add_column(name, LongType() if required else StringType(), required=required)

    def drop_column(self, name: str) -> None:
        """Remove a column."""
        with self.opened().update_schema() as update:
            update.delete_column(name)

    def merge_manifests(self) -> None:
        """Have writers merge manifests from now on."""
        with self.opened().transaction() as transaction:
            transaction.set_properties({MERGES: "true", MERGES_AT: "3"})

    def expire(self) -> list[str]:
        """Remove all snapshots but the newest. Return the keys of the files that they alone had."""
        table = self.opened()
        old = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != table.metadata.current_snapshot_id]
        if not old:
            return []
        files = self._server.only_of(self._table, old)
        table.maintenance.expire_snapshots().by_ids(old).commit()
        return files


class _Catalog:
    """Commits for another writer."""

    def __init__(self, server: VirtualIceberg, table: str) -> None:
        self._server = server
        self._table = table

    def supports_server_side_planning(self) -> bool:
        """Return that files are found by the client."""
        return False

    def _delete_old_metadata(self, *_: Any) -> None:
        """Keep them: the table has no property that says otherwise."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Commit. Raises CommitFailedException."""
        name = TableIdentifier.model_validate({"namespace": ["lake"], "name": self._table})
        asked = CommitTableRequest(identifier=name, requirements=requirements, updates=updates)
        status, body = self._server.commit(self._table, asked.model_dump_json().encode())
        if status != 200:
            raise CommitFailedException(body.decode())
        return CommitTableResponse.model_validate_json(body)


class _Files(FileIO):
    """Reads and writes objects of the bucket."""

    def __init__(self, server: VirtualIceberg) -> None:
        super().__init__()
        self._server = server

    def new_input(self, location: str) -> "_Object":
        return _Object(self._server, location)

    def new_output(self, location: str) -> "_Object":
        return _Object(self._server, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        place = location if isinstance(location, str) else location.location
        self._server.delete(place.removeprefix(BUCKET))


class _Object(InputFile, OutputFile):
    def __init__(self, server: VirtualIceberg, location: str) -> None:
        super().__init__(location)
        self._server = server
        self._key = location.removeprefix(BUCKET)

    def __len__(self) -> int:
        return len(self._server.read(self._key) or b"")

    def exists(self) -> bool:
        return self._server.read(self._key) is not None

    def open(self, seekable: bool = True) -> InputStream:
        data = self._server.read(self._key)
        if data is None:
            raise FileNotFoundError(self.location)
        return BytesIO(data)

    def to_input_file(self) -> "_Object":
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Written(self._server, self._key)


class _Written(BytesIO):
    """What is written when it is closed."""

    def __init__(self, server: VirtualIceberg, key: str) -> None:
        super().__init__()
        self._server = server
        self._key = key

    def close(self) -> None:
        if not self.closed:
            self._server.overwrite(self._key, self.getvalue())
        super().close()


def _rows(plain: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(plain, ROWS)
