"""Which rows a table of Iceberg takes, and gives. What it would not keep is refused before the commit.

A file names its columns by the numbers that the table has for them (field ids). So a column that is renamed while a
job runs keeps its rows.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.connectors.staged_columns import pyarrow_columns
from penstock.contract.iceberg_options import SQLITE

VERSION_MAX = 2  # of the format; the client writes no later one
FIELD_ID = b"PARQUET:field_id"
STAGED: dict[pa.DataType, pa.DataType] = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}
SIMPLE: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
}
WIDER = (("int", "long"), ("float", "double"))
PLAIN = {text: kind for kind, text in SIMPLE.items()} | {
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")
TAKES = "booleans, signed whole numbers, floats, decimals, texts, bytes, dates, times of the day and timestamps"


@dataclass(frozen=True, slots=True)
class IcebergColumns:
    """The columns of rows as they are staged, and as the table has them."""

    where: str
    staged: pa.Schema
    types: dict[str, str]

    @staticmethod
    def of(rows: pa.Schema, where: str) -> "IcebergColumns":
        """Take rows of a schema. ``where`` begins texts of errors. Raises ConfigError for a type that has no like."""
        staged = pa.schema([pa.field(field.name, _staged_type(field.type)) for field in rows])
        return IcebergColumns(where, staged, {field.name: iceberg_type(field, where) for field in staged})

    def statement(self, table: str, catalog: str, name: str) -> str:
        """Return what makes a table for such rows, in Python."""
        namespace, local = table.rpartition(".")[0], catalog.startswith(SQLITE)
        kind, module = ("SqlCatalog", "sql") if local else ("RestCatalog", "rest")
        where = Path(catalog.removeprefix(SQLITE)).absolute().parent / "warehouse"
        more = f', warehouse="file://{where}"' if local else ""
        return (
            f"import pyarrow as pa; from pyiceberg.catalog.{module} import {kind};"
            f' catalog = {kind}("{name}", uri="{catalog}"{more});'
            f' catalog.create_namespace_if_not_exists("{namespace}");'
            f' catalog.create_table("{table}", pa.schema([{pyarrow_columns(self.staged)}]))'
        )

    def refusal(self, schema: Any, version: int) -> str | None:
        """Return why a table of this schema and version of the format does not take such rows; None when it does."""
        if version > VERSION_MAX:
            return f"its format-version is {version}, and the client writes {VERSION_MAX} at most: write to another one"
        found = {field.name: field for field in schema.fields}
        for name, kind in self.types.items():
            if name not in found:
                return f"{unknown('column', name, found)}: leave it out in a step before, or add it to the table"
            if str(found[name].field_type) != kind:
                return f"column {name!r} is {found[name].field_type}, and the rows have {kind}: make them equal"
        return lacking(schema, self.types)

    def numbered(self, schema: Any) -> pa.Schema:
        """Return the schema of staged files, with the table's numbers of the columns."""
        ids = {field.name: str(field.field_id) for field in schema.fields}
        return pa.schema([field.with_metadata({FIELD_ID: ids[field.name]}) for field in self.staged])

    def not_null(self, schema: Any) -> tuple[str, ...]:
        """Return the columns in which the table has no nulls."""
        return tuple(field.name for field in schema.fields if field.required and field.name in self.types)


def lacking(schema: Any, names: Sequence[str] | dict[str, str]) -> str | None:
    """Return why a table does not take rows with these columns only; None when it does."""
    missing = [field.name for field in schema.fields if field.required and field.name not in names]
    return f"column {missing[0]!r} is required, and the rows lack it: add it in a step before" if missing else None


def holds(column: str, kind: str) -> bool:
    """Return whether a column of one type of Iceberg holds values of another one, as files from before a change do."""
    if column == kind or (kind, column) in WIDER:
        return True
    now, then = (DECIMAL.fullmatch(text) for text in (column, kind))
    return now is not None and then is not None and now[2] == then[2] and int(now[1]) >= int(then[1])


def file_columns(footer: pq.FileMetaData) -> dict[str, int]:
    """Return the number of each column of a staged file."""
    return {field.name: int(field.metadata[FIELD_ID]) for field in footer.schema.to_arrow_schema()}


def iceberg_type(field: pa.Field, where: str) -> str:
    """Return what Iceberg calls the type of a staged column. Raises ConfigError for one that has no like."""
    kind = field.type
    if kind in SIMPLE:
        return SIMPLE[kind]
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    raise ConfigError(f"{where}: column {field.name!r} is {kind}: it takes {TAKES}; make one of these in a step before")


def arrow_type(kind: str) -> pa.DataType | None:
    """Return the type of the values of a column, None for one that is not plain."""
    if (found := DECIMAL.fullmatch(kind)) is not None:
        return pa.decimal128(int(found[1]), int(found[2]))
    return PLAIN.get(kind)


def _staged_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    return STAGED.get(kind, kind)
