"""Output to a table of Delta Lake, exactly once: staged before the commit, and added with a marker after it.

    finish ──> Parquet files beside the checkpoints, one for each partition   (fsynced)
    commit ──> publish, by one worker: copy the files of all tasks, one commit of the table

Nothing waits at the table: VACUUM removes files that no commit has added (``staged_sink.py``).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.connectors.delta.client import DeltaPlace
from penstock.connectors.delta.delta_columns import DeltaColumns
from penstock.connectors.delta.marked_versions import MarkedVersions
from penstock.connectors.file_output import FileForm, HashingFile, clean_schema, write_parquet
from penstock.connectors.partitions import Partitions
from penstock.connectors.staged_sink import StagedSink
from penstock.contract.delta_options import DeltaOutput
from penstock.contract.ids import TaskId
from penstock.file_system import OS_FILES
from penstock.ports import FileSystem


class DeltaSink(StagedSink):
    """The sink step of one engine, for one table."""

    def __init__(
        self, step: str, options: DeltaOutput, schema: pa.Schema, folder: Path, files: FileSystem = OS_FILES
    ) -> None:
        """Stage in ``folder``, which all workers of the job see. Nothing is touched before :meth:`claim`.

        Raises ConfigError when a column does not fit, or the client is missing.
        """
        super().__init__(step, _DeltaTable(step, options, schema), folder, files)


class _DeltaTable:
    """The table, which has one marker for the sink."""

    name = "delta sink"
    whole = True

    def __init__(self, step: str, options: DeltaOutput, schema: pa.Schema) -> None:
        self._step = step
        url = options.table.rstrip("/")
        self._where = f"delta sink: table {url}"
        self._columns = DeltaColumns.of(clean_schema(schema), self._where)
        self._place = DeltaPlace(options, f"make it in Python: {self._columns.statement(url)}")
        self._not_null: tuple[str, ...] = ()
        self._folders: Partitions | None = None
        self._output: MarkedVersions | None = None
        self.form = FileForm(self._columns.staged, ".parquet", _write, options.roll_bytes, self._split)

    def claim(self) -> None:
        """Look at the table. Raises ConfigError when it does not take the rows, StorageError when a retry may help."""
        snapshot = self._place.open()
        why = self._columns.refusal(snapshot.schema, snapshot.settings, snapshot.features)
        if why is not None:
            raise ConfigError(f"{self._where}: {why}")
        self._place.check_rights()
        self._not_null = self._columns.not_null(snapshot.schema)
        if snapshot.partitions:
            self._folders = Partitions(
                ",".join(snapshot.partitions), self._columns.staged, f"{self._where}: partitions"
            )

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they are staged. Raises ConfigError for a value that the table would refuse."""
        return self._columns.encode(batch, self._not_null)

    def output(self, job_uid: str, task: TaskId) -> MarkedVersions:
        """Return the table as the sink writes it."""
        if self._output is None:
            self._output = MarkedVersions(self._place, (job_uid, self._step))
        return self._output

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        return self._folders.split(batch) if self._folders is not None else iter((("", batch),))


def _write(out: HashingFile, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    write_parquet(out, batches[0].schema, batches, statistics=True)
