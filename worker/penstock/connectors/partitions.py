"""Output in folders by the values of columns, as Hive names them: ``day=2026-11-26/country=de/...``.

Each batch is split as it comes. The columns are in the name of the folder and not in the file. Readers (Spark,
pyarrow, DuckDB) give them back.
"""

from collections.abc import Iterator, Sequence
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.connectors.file_output import clean_schema, plain

NAME_SHOWN = 60
NULL = "__HIVE_DEFAULT_PARTITION__"  # as Hive and Spark have it, for an empty text, too


class Partitions:
    """The folders of one sink."""

    def __init__(
        self, columns: str, schema: pa.Schema, where: str = "s3 sink: partitionBy", bytes_max: int | None = None
    ) -> None:
        """Take ``columns`` (names with commas between) of rows of ``schema``. ``where`` begins the texts of errors.

        A folder has a name of at most ``bytes_max`` bytes.

        Raises ConfigError for a column that is not there, whose values make no names, or when no other one is left.
        """
        self._where, self._bytes_max = where, bytes_max
        self._all = clean_schema(schema)
        self._columns = tuple(name.strip() for name in columns.split(","))
        for name in self._columns:
            if name not in self._all.names:
                raise ConfigError(f"{where}: {unknown('column', name, self._all.names)}")
            _check(self._all.field(name), where)
        self._names = [name for name in self._all.names if name not in self._columns]
        if not self._names:
            raise ConfigError(f"{where}: all columns are in the names of folders: leave one for the files")
        self.schema = pa.schema([self._all.field(name) for name in self._names])

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give each folder of a batch with its rows, in their order, without the columns of the folder.

        Raises ConfigError when a name is too long for the store.
        """
        rows = plain(batch.select(self._all.names), self._all)
        parts = [_parts(name, rows.column(name)) for name in self._columns]
        for folder, kept in split_by(parts, rows.select(self._names)):
            if self._bytes_max is not None and len(folder) > self._bytes_max:
                raise ConfigError(
                    f"{self._where}: a row goes to a folder whose name has {len(folder):,} bytes, like"
                    f" {folder[:NAME_SHOWN]!r} ..., and the store takes {self._bytes_max:,} there: shorten the value in"
                    " a step before"
                )
            yield folder, kept


def split_by(parts: Sequence[pa.Array], rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Give each folder with its rows, in their order. ``parts`` have the parts of the folder's name for each row."""
    encoded = pc.binary_join_element_wise(*parts, "/").dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    sizes = np.bincount(codes, minlength=len(encoded.dictionary))
    if len(sizes) > 1:
        rows = rows.take(pa.array(np.argsort(codes, kind="stable")))
    for folder, size, end in zip(encoded.dictionary.to_pylist(), sizes, np.cumsum(sizes), strict=True):
        yield folder, rows.slice(int(end - size), int(size))


def _check(field: pa.Field, where: str) -> None:
    kind, is_ = field.type, pa.types
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_integer(kind) or is_.is_boolean(kind):
        return
    if not is_.is_date(kind):
        raise ConfigError(
            f"{where}: column {field.name!r} is {kind}: it takes texts, whole numbers, booleans and"
            " dates; make one of these in a step before"
        )


def values_of(folder: str) -> dict[str, str | None]:
    """Return the values in the name of a folder, by column."""
    parts = (part.partition("=") for part in folder.split("/") if part)
    return {unquote(name): None if value == NULL else unquote(value) for name, _, value in parts}


def _parts(name: str, values: pa.Array) -> pa.Array:
    """Return the part of the folder's name for each row."""
    encoded = values.dictionary_encode()
    texts = encoded.dictionary.cast(pa.string()).to_pylist()
    named = pa.array([f"{quote(name, safe='')}={_quoted(text)}" for text in texts], pa.string())
    return pc.fill_null(named.take(encoded.indices), f"{quote(name, safe='')}={NULL}")


def _quoted(text: str) -> str:
    """Return a text as a part of a name. An empty one is a null, and one that reads like a null is none."""
    quoted = quote(text, safe="") or NULL
    return quoted.replace("_", "%5F") if text == NULL else quoted
