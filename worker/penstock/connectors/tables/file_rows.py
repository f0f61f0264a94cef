"""The rows of one Parquet file of a table, with the columns of the source."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.base.errors import StateError
from penstock.connectors.input_files import InputPath, pinned
from penstock.connectors.parquet_source import Pieces, UnpacedReader, read_identity, read_schema, value_type
from penstock.connectors.rate_limit import RateLimit
from penstock.contract.ids import SplitId
from penstock.contract.manifest import SplitState


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file as the log describes it. ``where`` begins texts of errors, and ``gone`` says why it may be gone."""

    where: str
    path: InputPath
    size: int
    gone: str


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where the columns of a source come from.

    ``stored`` returns the name in a file of each column that is in it, and ``constants`` are the values of all others.
    """

    schema: pa.Schema
    stored: Callable[[pa.Schema], Mapping[str, str]]
    constants: Mapping[str, pa.Scalar]


class FileRows:
    """The rows of one file from a row on. The file is checked when it is opened."""

    def __init__(self, file: LoggedFile, columns: ColumnSource, row: int) -> None:
        """Open the file. Raises StateError when it is gone or another one, StorageError."""
        self._where, self._columns = file.where, columns
        if not file.path.is_file():
            raise StateError(f"{file.where} is gone: {file.gone}")
        identity = read_identity(file.path)
        if identity.size != file.size:
            raise StateError(f"{file.where} has {identity.size} bytes, and the log says {file.size}: restore it")
        path = pinned(file.path, identity.version)
        found = read_schema(path)
        self._stored = columns.stored(found)
        wanted = [found.field(name) for name in self._stored.values()]
        plain = pa.schema([pa.field(field.name, value_type(field.type)) for field in wanted or list(found)[:1]])
        state = SplitState(SplitId(str(file.path)), "", row)
        self._reader = UnpacedReader(Pieces(path, plain), (state, identity), None, RateLimit(None))

    @property
    def left(self) -> int:
        """Return how many rows are left."""
        return self._reader.pending()[0] or 0

    @property
    def ended(self) -> bool:
        """Return whether no row is left."""
        return not self.left

    def take(self, rows_max: int, /) -> pa.RecordBatch | None:
        """Return 1..rows_max rows; None behind the last one. Raises StateError, StorageError."""
        read = self._reader.read(rows_max)
        if read is None:
            return None
        found, schema = read.batch, self._columns.schema
        try:
            columns = [
                found.column(self._stored[field.name]).cast(field.type)
                if field.name in self._stored
                else pa.repeat(self._columns.constants[field.name], found.num_rows)
                for field in schema
            ]
        except pa.ArrowInvalid as error:
            raise StateError(f"{self._where}, behind row {read.offset}: {error}") from error
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def close(self) -> None:
        """Close the file."""
        self._reader.close()
