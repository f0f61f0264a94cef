"""Output to a table of Iceberg, exactly once: staged before the commit, and added with a marker after it.

    finish ──> Parquet files beside the checkpoints, one for each partition   (fsynced)
    commit ──> publish, by one worker: copy the files of all tasks, one snapshot of the table

Nothing waits at the table: ``remove_orphan_files`` removes what no snapshot has (``staged_sink.py``).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.connectors.file_output import FileForm, HashingFile, clean_schema, write_parquet
from penstock.connectors.iceberg.client import IcebergPlace
from penstock.connectors.iceberg.iceberg_columns import IcebergColumns
from penstock.connectors.iceberg.marked_snapshots import MarkedSnapshots
from penstock.connectors.iceberg.partition_fields import PartitionFields
from penstock.connectors.staged_columns import staged_rows
from penstock.connectors.staged_sink import StagedSink
from penstock.contract.iceberg_options import IcebergOutput
from penstock.contract.ids import TaskId
from penstock.file_system import OS_FILES
from penstock.ports import FileSystem


class IcebergSink(StagedSink):
    """The sink step of one engine, for one table."""

    def __init__(
        self, step: str, options: IcebergOutput, schema: pa.Schema, folder: Path, files: FileSystem = OS_FILES
    ) -> None:
        """Stage in ``folder``, which all workers of the job see. Nothing is touched before :meth:`claim`.

        Raises ConfigError when a column does not fit, or the client is missing.
        """
        super().__init__(step, _IcebergTable(step, options, schema), folder, files)


class _IcebergTable:
    """The table, which has one marker for the sink."""

    name = "iceberg sink"
    whole = True

    def __init__(self, step: str, options: IcebergOutput, schema: pa.Schema) -> None:
        self._step = step
        self._where = f"iceberg sink: table {options.table}"
        self._columns = IcebergColumns.of(clean_schema(schema), self._where)
        make = self._columns.statement(options.table, options.catalog, options.catalog_name)
        self._place = IcebergPlace(options, f"make it in Python: {make}")
        self._staged = self._columns.staged
        self._not_null: tuple[str, ...] = ()
        self._partitions = PartitionFields(())
        self._output: MarkedSnapshots | None = None
        self.form = FileForm(self._staged, ".parquet", _write, options.roll_bytes, self._split)

    def claim(self) -> None:
        """Look at the table. Raises ConfigError when it does not take the rows, StorageError when a retry may help."""
        snapshot = self._place.open()
        schema = snapshot.table.schema()
        why = self._columns.refusal(schema, snapshot.version)
        if why is not None:
            raise ConfigError(f"{self._where}: {why}")
        self._partitions = PartitionFields.of(snapshot.table.spec(), schema, self._staged.names, self._where)
        self._place.check_rights(snapshot)
        self._staged = self._columns.numbered(schema)
        self._not_null = self._columns.not_null(schema)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they are staged. Raises ConfigError for a value that the table would refuse."""
        return staged_rows(batch, self._staged, self._not_null, self._where)

    def output(self, job_uid: str, task: TaskId) -> MarkedSnapshots:
        """Return the table as the sink writes it."""
        if self._output is None:
            self._output = MarkedSnapshots(self._place, (job_uid, self._step))
        return self._output

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        return self._partitions.split(batch)


def _write(out: HashingFile, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    write_parquet(out, batches[0].schema, batches, statistics=True, decimals_as_integers=True)
