"""Output to a table of PostgreSQL, exactly once: staged before the commit, and written with a marker after it.

A transaction that is prepared would survive a crash, and its locks with it. So nothing waits in PostgreSQL
(``staged_sink.py``).
"""

from pathlib import Path

import pyarrow as pa

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.connectors.file_output import clean_schema, plain
from penstock.connectors.postgres.claimed_table import prepare_table
from penstock.connectors.postgres.client import PostgresDatabase, library
from penstock.connectors.postgres.column_checks import Check, TableColumn, checks_of, staged_as, staged_schema
from penstock.connectors.postgres.marked_table import NUMBER, MarkedTable, Statements, TableName
from penstock.connectors.staged_sink import StagedSink, arrow_form
from penstock.contract.ids import TaskId
from penstock.contract.postgres_options import PostgresOutput
from penstock.file_system import OS_FILES
from penstock.ports import FileSystem


class PostgresSink(StagedSink):
    """The sink step of one engine, for one table."""

    def __init__(
        self, step: str, options: PostgresOutput, schema: pa.Schema, folder: Path, files: FileSystem = OS_FILES
    ) -> None:
        """Stage in ``folder``, which all workers of the job see. Nothing is touched before :meth:`claim`.

        Raises ConfigError when a column does not fit, or the client is missing.
        """
        library()
        super().__init__(step, _ClaimedTable(step, options, schema), folder, files)


class _ClaimedTable:
    """The table, in which every task of the sink has a marker of its own."""

    name = "postgres sink"
    whole = False

    def __init__(self, step: str, options: PostgresOutput, schema: pa.Schema) -> None:
        self._step = step
        self._rows = clean_schema(schema)
        if NUMBER in self._rows.names:
            raise ConfigError(f"postgres sink: column {NUMBER!r} has a name of the sink: rename it in a step before")
        self._keys = tuple(k.strip() for k in (options.key_columns or "").split(",") if k.strip())
        for key in self._keys:
            if key not in self._rows.names:
                raise ConfigError(f"postgres sink: keyColumns: {unknown('column', key, self._rows.names)}")
        self.staged = staged_schema(self._rows)
        self.form = arrow_form(self.staged)
        self._database = PostgresDatabase(options)
        self._table = TableName(options.table)
        types = {field.name: staged_as(field).sql for field in self._rows}
        self._statements = Statements.of(self._table, types, self._keys)
        self._checks: list[Check] = []

    def claim(self) -> None:
        """Look at the table, and make that of markers. Raises ConfigError when rows cannot be written, StorageError."""
        columns: list[TableColumn] = prepare_table(self._database, self._table, self._rows, self._keys)
        self._checks = checks_of(self._rows, self._table.text, columns, self._keys)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows as they are staged. Raises ConfigError for a value that the table would refuse."""
        rows = plain(batch.select(self._rows.names), self._rows)
        arrays = []
        for array, field, check in zip(rows.columns, self.staged, self._checks, strict=True):
            try:
                staged = array.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise self._refused(field.name, str(error)) from error
            if why := check(staged):
                raise self._refused(field.name, why)
            arrays.append(staged)
        return pa.RecordBatch.from_arrays(arrays, schema=self.staged)

    def output(self, job_uid: str, task: TaskId) -> MarkedTable:
        """Return the table as ``task`` writes it."""
        owner = (job_uid, self._step, f"{task.worker}.{task.slot}")
        return MarkedTable(self._database, self._table, self._statements, self.staged, owner)

    def _refused(self, column: str, why: str) -> ConfigError:
        return ConfigError(
            f"postgres sink: table {self._table.text} does not take a row: column {column!r}: {why}; correct such rows"
            " in a step before, or change the table and start the job again"
        )
