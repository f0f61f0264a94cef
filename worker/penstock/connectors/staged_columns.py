"""Rows as a table takes them: what it would refuse is refused before the commit."""

from collections.abc import Sequence

import pyarrow as pa

from penstock.base.errors import ConfigError, StateError
from penstock.connectors.file_output import plain
from penstock.protocol.marked import DROP


def staged_rows(batch: pa.RecordBatch, staged: pa.Schema, not_null: Sequence[str], where: str) -> pa.RecordBatch:
    """Return rows with the types of ``staged``. ``where`` names the table in errors.

    Raises ConfigError for a value that has no like there, and for a null in a column of ``not_null``.
    """
    rows = plain(batch.select(staged.names), pa.schema([batch.schema.field(name) for name in staged.names]))
    arrays = []
    for array, field in zip(rows.columns, staged, strict=True):
        try:
            arrays.append(array.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _refused(where, field.name, str(error)) from error
        if field.name in not_null and array.null_count:
            raise _refused(where, field.name, "a null, and the column is NOT NULL")
    return pa.RecordBatch.from_arrays(arrays, schema=staged)


def in_columns(rows: pa.RecordBatch, columns: pa.Schema, where: str) -> list[pa.Array]:
    """Return the columns of rows that were staged, as the sink has them now. ``where`` begins the text of an error.

    The job may have been changed behind a crash. Raises StateError when the columns are others than in another order.
    """
    then = {field.name: field.type for field in rows.schema}
    if then != {field.name: field.type for field in columns}:
        was, now = (", ".join(f"{field.name} {field.type}" for field in schema) for schema in (rows.schema, columns))
        raise StateError(
            f"{where}: committed rows have the columns {was}, and the sink has {now}: run the job with the columns of"
            f" before until it has published (stop it, or suspend it), or give {DROP}"
        )
    return [rows.column(name) for name in columns.names]


def pyarrow_columns(schema: pa.Schema) -> str:
    """Return the columns of a schema as a program has them: ``("word", pa.string()), ...``."""
    return ", ".join(f'("{field.name}", pa.{_maker(field.type)})' for field in schema)


def _refused(where: str, column: str, why: str) -> ConfigError:
    return ConfigError(
        f"{where} does not take a row: column {column!r}: {why}; correct such rows in a step before, or change"
        " the table and start the job again"
    )


def _maker(kind: pa.DataType) -> str:
    """Return the call of pyarrow that makes a type."""
    if pa.types.is_timestamp(kind):
        return f'timestamp("us", {kind.tz!r})'
    if pa.types.is_decimal(kind):
        return f"decimal128({kind.precision}, {kind.scale})"
    names = {pa.bool_(): "bool_", pa.float32(): "float32", pa.float64(): "float64", pa.date32(): "date32"}
    return f"{names.get(kind, kind)}()"
