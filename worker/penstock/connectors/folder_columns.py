"""Columns in the names of folders, as Hive has them: ``year=2026/month=11/a.parquet``.

The files do not have these columns. Each row of a file gets the values of its folders.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import ConfigError, StateError
from penstock.connectors.input_files import InputPath, folder_names
from penstock.connectors.partitions import values_of
from penstock.contract.columns import Columns
from penstock.graph.arrow import arrow_type


class FolderColumns:
    """The columns that an option ``partitionBy`` names, with their types. Without a name it does nothing."""

    def __init__(self, partition_by: object = None, columns: Columns = ()) -> None:
        """Take the types of ``columns``, the declared ones. When none are declared, all are texts.

        Raises ConfigError for a name that is there twice, a type without texts, or when nothing is left for the files.
        """
        self.names = folder_names(partition_by)
        declared = {column.name: arrow_type(column.type) for column in columns}
        if twice := sorted({name for name in self.names if self.names.count(name) > 1}):
            raise ConfigError(f"partitionBy: {twice[0]!r} is named twice")
        if self.names and columns and not declared.keys() - set(self.names):
            raise ConfigError("partitionBy: all declared columns are folders: declare one of the files")
        self.types = {n: declared.get(n, pa.string()) for n in self.names if not columns or n in declared}
        for name, kind in self.types.items():
            self._check_type(name, kind)

    def in_files(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns that the files have to have."""
        return pa.schema([field for field in schema if field.name not in self.types]) if self.types else schema

    def added(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of files and of folders."""
        return pa.schema([*schema, *(pa.field(name, kind) for name, kind in self.types.items())])

    def refuse(self, found: "list[str]", file: InputPath) -> None:
        """Raise ConfigError when a file has a column that its folders have, too."""
        for name in self.names:
            if name in found:
                raise ConfigError(
                    f"file {file} has a column {name!r}, which is also in the name of its folder: take it out of"
                    " partitionBy, or write the file without it"
                )

    def check(self, name: str, place: InputPath) -> None:
        """Raise ConfigError when a value in the folders of the file ``name`` is not of its type."""
        self.values(name, place)

    def values(self, name: str, place: InputPath) -> dict[str, pa.Scalar]:
        """Return the value of each column for the file ``name`` in ``place``. Raises ConfigError as :meth:`check`."""
        texts = values_of(name.rpartition("/")[0]) if self.types else {}
        return {column: self._value(column, texts[column], f"file {place}") for column in self.types}

    def _value(self, column: str, text: str | None, about: str) -> pa.Scalar:
        kind = self.types[column]
        try:
            return pa.array([text], pa.string()).cast(kind)[0]
        except pa.ArrowInvalid as error:
            raise ConfigError(
                f"{about}: {text!r}, in the name of its folder, is no {kind}, which column {column!r} is: move the"
                " file, or declare the column as string"
            ) from error

    def _check_type(self, name: str, kind: pa.DataType) -> None:
        try:
            pa.array([], pa.string()).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ConfigError(
                f"partitionBy: column {name!r} is declared as {kind}, and no folder's name has such values: declare"
                " string, and make another type of it in a step"
            ) from error


NO_FOLDERS = FolderColumns()


def refuse_folders(file: InputPath, by: Sequence[str]) -> None:
    """Raise ConfigError for a path that is one file when its folders are to be columns."""
    if by:
        raise ConfigError(f"partitionBy: {file} is a file: name the folder in which the folders {by[0]}=... are")


def name_in(root: InputPath, file: InputPath) -> str:
    """Return the name of a file by which a job knows it: its path from the folder ``root`` on."""
    if isinstance(root, Path) and isinstance(file, Path) and root != file:
        return file.relative_to(root).as_posix()
    return file.name


def completed(batch: pa.RecordBatch, values: Mapping[str, pa.Scalar], schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of a file with the values of its folders, in the order of ``schema``."""
    if not values:
        return batch
    columns = [
        pa.repeat(values[field.name], batch.num_rows) if field.name in values else batch.column(field.name)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def replayed(folders: FolderColumns, name: str, place: InputPath) -> dict[str, pa.Scalar]:
    """Return :meth:`FolderColumns.values` for a file that is being read. Raises StateError."""
    try:
        return folders.values(name, place)
    except ConfigError as error:
        raise StateError(str(error)) from error
