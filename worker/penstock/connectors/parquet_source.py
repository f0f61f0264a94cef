"""Parquet files as a replayable source: a split is a file, an offset is a row number.

    file ──row groups──> decoded pieces of bounded bytes ──slices──> Read(batch, offset)

A seek skips whole row groups by the footer, and decodes again only the rows before the offset in
its row group. A file is open while its rows are read, and may be closed between two row groups. So
only the few files that are being read use memory. With a rate, all files are read round-robin.

A file's identity is its name, size, number of rows and the hash of its footer. The job's state has
it. A file that grew, shrank, vanished or was rewritten cannot be replayed; the error says which. A store of
objects has a version of each, which is in the identity instead of the hash; every read asks for this version.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, PeerError, StateError, StorageError
from penstock.base.os_errors import may_pass, storage_error
from penstock.base.values import replace
from penstock.connectors.folder_columns import NO_FOLDERS, FolderColumns, completed, name_in, refuse_folders, replayed
from penstock.connectors.input_files import InputPath, list_input, look_at, nothing_to_read, pinned, version_of
from penstock.connectors.rate_limit import RateLimit
from penstock.connectors.source_rows import Stamper, closed_when_it_fails, head, with_stamp
from penstock.contract.codec import parsed
from penstock.contract.columns import Columns
from penstock.contract.event_time import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.contract.status import InputSeen
from penstock.graph.arrow import arrow_type
from penstock.ports import Read

MAGIC = b"PAR1"
TAIL_BYTES = 8  # length of the footer, then the magic

PIECE_BYTES = 4 * 1024 * 1024  # decoded at once: bounds memory and the time that read() takes
PIECES_BYTES = 256 * 1024 * 1024  # for all files together, where all are open
PIECE_BYTES_MIN = 256 * 1024
PIECE_ROWS_MIN = 64
PIECE_ROWS_MAX = 131_072
READ_BUFFER_BYTES = 1024 * 1024
RELEASE_AFTER_BYTES = 32 * 1024 * 1024  # decode this much before a file is closed: opening has a cost


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a split's file; ``footer`` is the first half of a SHA-256 in hex.

    An object has a ``version`` and no ``footer``. ``columns`` is a hash of the columns of the source, where the first
    file of its folder says them.
    """

    file: str
    size: int
    rows: int
    footer: str
    version: str = ""
    columns: str = ""

    def as_json(self) -> str:
        """Return the canonical JSON that checkpoints hold."""
        plain = {name: value for name, value in asdict(self).items() if value or name not in ("version", "columns")}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def parse_identity(text: str) -> FileIdentity:
    """Read what :meth:`FileIdentity.as_json` wrote. Raises StateError on anything else."""
    try:
        return FileIdentity(**parsed(text))
    except (PeerError, TypeError) as error:
        raise StateError(f"a checkpoint describes a Parquet split as {text!r}: {error}") from error


def find_files(path: InputPath, by: Sequence[str] = ()) -> list[InputPath]:
    """List the input files by name; ``path`` is a folder, which has folders of ``by`` in it, or one file.

    Hidden files (their names begin with ``.`` or ``_``) do not count. Raises ConfigError when there
    is no file, or one is in no such folder.
    """
    if path.is_file():
        refuse_folders(path, by)
        return [path]
    if not path.is_dir():
        raise ConfigError(f"parquet source: there is no file or folder {path}")
    try:
        found = list_input(path, by=by)
    except OSError as error:
        raise storage_error(f"parquet source: folder {path}", error) from error
    problem = nothing_to_read(found, by=by)
    if problem is not None:
        raise ConfigError(f"parquet source: folder {path} {problem}")
    return [path / name for name in found.files]


def read_identity(path: InputPath) -> FileIdentity:
    """Read the footer of a file. Raises ConfigError naming it when it is no whole Parquet file.

    Raises StorageError when a retry may help.
    """
    try:
        size, version = path.stat().st_size, version_of(path)
        footer = "" if version else _footer_hash(path, size)
    except OSError as error:
        raise storage_error(f"parquet source: file {path}", error) from error
    with _named(path):
        rows = parquet_file(pinned(path, version)).metadata.num_rows
    return FileIdentity(path.name, size, rows, footer, version)


def read_schema(path: InputPath) -> pa.Schema:
    """Read the columns of a file. Raises ConfigError, StorageError as :func:`read_identity`."""
    with _named(path):
        return parquet_file(path).schema_arrow


@contextmanager
def _named(path: InputPath) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowInvalid, OSError) as error:
        if may_pass(error):
            raise StorageError(f"parquet source: file {path}: {error}") from error
        raise ConfigError(f"parquet source: file {path} is damaged: {error}") from error


def parquet_file(path: InputPath, **buffers: Any) -> pq.ParquetFile:
    """Open a file, read its footer. ``buffers`` are options of Arrow. Raises what Arrow and the store raise.

    Times of the old type INT96, which Spark writes by default, are read in microseconds, as Spark has them. Arrow's own
    choice is nanoseconds, which end in 2262: it makes the year 1816 of 9999, without an error.
    """
    source = path if isinstance(path, Path) else path.open("rb")
    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us", **buffers)


def _footer_hash(path: InputPath, size: int) -> str:
    with path.open("rb") as file:
        footer = _footer(file.read(4) == MAGIC, size, file, path)
    return hashlib.sha256(footer).hexdigest()[:32]


def _footer(has_magic: bool, size: int, file: BinaryIO, path: InputPath) -> bytes:
    tail = b""
    if size >= TAIL_BYTES + len(MAGIC):
        file.seek(size - TAIL_BYTES)
        tail = file.read(TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if not has_magic or tail[4:] != MAGIC or length + TAIL_BYTES > size:
        raise ConfigError(
            f"parquet source: file {path} ({size} bytes) is truncated or is not Parquet:"
            " write it again, or move it out of the folder"
        )
    file.seek(size - TAIL_BYTES - length)
    return file.read(length)


def check_unchanged(path: InputPath, wanted: FileIdentity) -> None:
    """Compare a file with its identity in the checkpoint.

    Raises StateError naming the file and the change: its rows cannot be replayed. Raises StorageError when a retry may
    help.
    """
    try:
        why = _change(path, wanted)
    except ConfigError as error:
        raise StateError(str(error)) from error
    except OSError as error:
        raise storage_error(f"parquet source: file {path}", error) from error
    if why is not None:
        raise StateError(f"parquet source: file {path} {why}")


def _change(path: InputPath, wanted: FileIdentity) -> str | None:
    if not path.is_file():
        return (
            "is gone: put it back, the job still reads it; if the job is to read other input now, begin anew"
            " (penstock run --fresh) or name another job"
        )
    size = path.stat().st_size
    if size != wanted.size:
        change = "grew" if size > wanted.size else "shrank"
        return (
            f"{change} from {wanted.size} to {size} bytes since the job began: files of a running job must not change;"
            " put new rows into new files"
        )
    same = version_of(path) == wanted.version if wanted.version else _footer_hash(path, size) == wanted.footer
    return None if same else "was rewritten since the job began"


class ParquetSource:
    """A folder of Parquet files, or one file. :meth:`splits` fixes the list of files."""

    bounded = True

    def __init__(
        self,
        path: "str | InputPath",
        columns: Columns,
        event_time: EventTime | None = None,
        rate: int | None = None,
        folders: FolderColumns = NO_FOLDERS,
    ) -> None:
        """Read the first file's schema. Raises ConfigError naming the file and the column.

        ``rate`` bounds the rows per second of each file; None: as fast as possible.
        """
        self._folders = folders
        self._path: InputPath = Path(path) if isinstance(path, str) else path
        self._rate = rate
        self._event_time = event_time
        self._plain = plain_schema(self._path, columns, folders)
        self._columns = "" if columns else _hash_of(self._plain)
        self._piece_bytes = piece_bytes(len(find_files(self._path, folders.names))) if rate else PIECE_BYTES
        self.schema = with_stamp(self._plain, event_time)

    def splits(self) -> list[SplitState]:
        """List all files by name, after checking that each is whole and has the columns.

        Raises ConfigError with the file that does not fit and the reason.
        """
        found = find_files(self._path, self._folders.names)
        return [self._first_state(file, found[0]) for file in found]

    def _first_state(self, file: InputPath, first: InputPath) -> SplitState:
        name = name_in(self._path, file)
        identity = replace(read_identity(file), file=name, columns=self._columns)
        _fit(file, self._plain, first, self._folders, name)
        return SplitState(SplitId(identity.file), identity.as_json(), 0, finished=identity.rows == 0)

    def look(self, known: Collection[str]) -> InputSeen:
        """Return which files of the folder are not ``known`` splits. Blocking; raises OSError."""
        return look_at(self._path, known, by=self._folders.names)

    def open(self, state: SplitState) -> "ParquetReader":
        """Open a file at a row. Raises StateError when it is not the file that was listed, or columns are others."""
        identity = parse_identity(state.spec)
        if self._columns and identity.columns not in ("", self._columns):
            first = find_files(self._path, self._folders.names)[0].name
            raise StateError(
                f"parquet source: {self._path}: its first file, {first}, has other columns than the first one had when"
                " the job began: move files out that came later, or declare the columns as they were"
            )
        file = self._path if self._path.is_file() else self._path / identity.file
        check_unchanged(file, identity)
        stamper = Stamper(self._event_time, state.max_ts) if self._event_time else None
        values = replayed(self._folders, identity.file, file)
        pieces = Pieces(pinned(file, identity.version), self._plain, self._piece_bytes, values)
        reader_class = ParquetReader if self._rate else UnpacedReader
        return reader_class(pieces, (state, identity), stamper, RateLimit(self._rate))


def _hash_of(schema: pa.Schema) -> str:
    """Return a short hash of names and types."""
    told = json.dumps([(field.name, str(field.type)) for field in schema])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


class ParquetReader:
    """Reads one file in order, on one thread. One read decodes at most one piece."""

    def __init__(
        self,
        pieces: "Pieces",
        place: tuple[SplitState, FileIdentity],
        stamper: Stamper | None,
        pace: RateLimit,
    ) -> None:
        """Begin at ``place``, a split's state and its file. The first read opens the file."""
        self._state, self._identity = place
        self._rows = self._identity.rows
        self._offset = self._state.offset
        self._pieces = pieces
        self._rest: Iterator[pa.RecordBatch] | None = None
        self._piece: pa.RecordBatch | None = None
        self._stamper = stamper
        self._pace = pace

    def read(self, max_rows: int) -> Read | None:
        """Return the next 1..max_rows rows; None at the end of the file, or when no row is due.

        Raises StateError with file and row when the data cannot be decoded or has changed. Raises
        StorageError when a retry may help.
        """
        if self._offset >= self._rows:
            return None
        rows = self._pace.allow(max_rows)
        if not rows:
            return None
        piece = self._piece or self._next_piece()
        batch = head(piece, rows)
        left = piece.num_rows > batch.num_rows
        self._piece = piece.slice(batch.num_rows) if left else None
        offset = self._offset
        self._offset += batch.num_rows
        self._pace.sent(batch.num_rows)
        return Read(self._stamper.stamp(batch, self._state.split, offset) if self._stamper else batch, offset)

    def state(self) -> SplitState:
        """Return where the next read begins."""
        return SplitState(
            self._state.split,
            self._state.spec,
            self._offset,
            finished=self._offset >= self._rows,
            max_ts=self._stamper.max_ts if self._stamper else None,
        )

    def pending(self) -> tuple[int | None, int | None]:
        """Return the rows that are left of the file."""
        return self._rows - self._offset, None

    def wait_s(self) -> float:
        """Return how long to wait for the next rows."""
        return self._pace.wait_s()

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Do nothing: a file stays."""

    def close(self) -> None:
        """Close the file. A later read opens it again."""
        self._rest = self._piece = None
        self._pieces.close()

    def _next_piece(self) -> pa.RecordBatch:
        try:
            with closed_when_it_fails(self.close, self._where):
                if self._rest is None:
                    self._rest = self._open()
                return next(self._rest)
        except StopIteration:
            raise StateError(
                f"parquet source: file {self._pieces.path} ends at row {self._offset} of"
                f" {self._rows}: it was rewritten since the job began"
            ) from None

    def _where(self) -> str:
        return f"parquet source: file {self._pieces.path} cannot be read at row {self._offset}"

    def _open(self) -> Iterator[pa.RecordBatch]:
        check_unchanged(self._pieces.path, self._identity)  # its error says more than Arrow's
        rest = self._pieces.decode(self._offset)
        check_unchanged(self._pieces.path, self._identity)  # the file that was opened is the same
        return rest


class UnpacedReader(ParquetReader):
    """Reads one file as fast as possible. Between two row groups the file may be closed."""

    def release(self) -> bool:
        """Close the file, unless opening it again would be expensive; return whether it was closed.

        It is expensive within a row group, whose rows would be decoded twice, and soon after the
        file was opened.
        """
        if self._rest is not None and self._offset < self._rows:
            expensive = self._pieces.within_group or self._pieces.decoded_bytes < RELEASE_AFTER_BYTES
            if expensive or self._piece is not None:
                return False
        self.close()
        return True


class Pieces:
    """Decodes one file piece by piece, from any row."""

    def __init__(
        self,
        path: InputPath,
        schema: pa.Schema,
        size: int = PIECE_BYTES,
        values: Mapping[str, pa.Scalar] = MappingProxyType({}),
    ) -> None:
        """Decode about ``size`` bytes at a time. The file is not opened yet. ``values`` are those of its folders."""
        self._values = values
        self._in_file = pa.schema([field for field in schema if field.name not in values])
        self.path = path
        self.within_group = False  # whether the present row group has rows left
        self.decoded_bytes = 0  # since the file was opened
        self._schema = schema
        self._size = size
        self._file: pq.ParquetFile | None = None

    def decode(self, offset: int) -> Iterator[pa.RecordBatch]:
        """Open the file, and yield pieces from row ``offset`` on, row group by row group."""
        # One buffer for each column: pre_buffer would hold the whole compressed row group.
        buffer_bytes = min(READ_BUFFER_BYTES, self._size)
        self._file = parquet_file(self.path, buffer_size=buffer_bytes, pre_buffer=False)
        self.decoded_bytes = 0
        return self._decode(self._file, offset)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self.within_group = False

    def _decode(self, file: pq.ParquetFile, offset: int) -> Iterator[pa.RecordBatch]:
        start = 0
        for group in range(file.num_row_groups):
            meta = file.metadata.row_group(group)
            if start + meta.num_rows > offset:
                yield from self._decode_group(file, group, max(0, offset - start))
            start += meta.num_rows

    def _decode_group(self, file: pq.ParquetFile, group: int, skip: int) -> Iterator[pa.RecordBatch]:
        meta = file.metadata.row_group(group)
        rows = piece_rows(meta.total_byte_size, meta.num_rows, self._size)
        left = meta.num_rows
        batches = file.iter_batches(rows, row_groups=[group], columns=self._in_file.names, use_threads=False)
        for batch in batches:
            rest = batch.slice(skip)
            skip = max(0, skip - batch.num_rows)
            left -= batch.num_rows
            self.within_group = left > 0
            self.decoded_bytes += batch.nbytes
            if rest.num_rows:
                yield completed(to_schema(rest, self._in_file), self._values, self._schema)


def piece_bytes(files: int) -> int:
    """Return how many bytes of each file to decode at once when all files are open."""
    return max(PIECE_BYTES_MIN, min(PIECE_BYTES, PIECES_BYTES // files))


def piece_rows(group_bytes: int, group_rows: int, size: int) -> int:
    """Return how many rows decode to at most ``size`` bytes.

    The encoded size counts repeated values once, so rows are assumed to be twice as large.
    """
    row_bytes = max(1, 2 * group_bytes // max(1, group_rows))
    return max(PIECE_ROWS_MIN, min(PIECE_ROWS_MAX, size // row_bytes))


def plain_schema(path: InputPath, columns: Columns, folders: FolderColumns = NO_FOLDERS) -> pa.Schema:
    """Return the schema of a source: the declared columns, or all columns of the first file and of its folders."""
    first = find_files(path, folders.names)[0]
    read_identity(first)
    found = read_schema(first)
    if not columns:
        folders.refuse(found.names, first)
        fields = [pa.field(f.name, value_type(f.type), f.nullable) for f in found]
        return folders.added(pa.schema(fields))
    declared = pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])
    _fit(first, declared, first, folders, name_in(path, first))
    return declared


def check_files(path: InputPath, columns: Columns, folders: FolderColumns = NO_FOLDERS) -> None:
    """Check that every file is whole and has the columns. Raises ConfigError naming the file."""
    wanted = plain_schema(path, columns, folders)
    found = find_files(path, folders.names)
    for file in found:
        read_identity(file)
        _fit(file, wanted, found[0], folders, name_in(path, file))


def _fit(file: InputPath, wanted: pa.Schema, first: InputPath, folders: FolderColumns, name: str) -> None:
    """Check that a file and its folders have every wanted column. Raises ConfigError naming the file."""
    found = read_schema(file)
    folders.refuse(found.names, file)
    fit_schema(found, folders.in_files(wanted), file, first)
    folders.check(name, file)


def fit_schema(found: pa.Schema, wanted: pa.Schema, file: InputPath, first: InputPath) -> None:
    """Check that a file has every wanted column, with a type that converts without loss.

    Raises ConfigError naming file, column and both types.
    """
    for field in wanted:
        index = found.get_field_index(field.name)
        if index < 0:
            raise ConfigError(
                f"parquet source: file {file} has no column {field.name!r}: it has {', '.join(found.names)}"
            )
        if not fits(value_type(found.field(index).type), field.type):
            has = f"column {field.name!r} is {found.field(index).type}"
            raise ConfigError(
                f"parquet source: in {file} {has}, declared is {field.type}{_remedy(found, field)}"
                if file == first
                else f"parquet source: the schema changes between files: in {file} {has}, in the"
                f" first file {first.name} it is {field.type}"
            )


def _remedy(found: pa.Schema, wanted: pa.Field) -> str:
    """Return what to declare instead, where only the time zone does not fit."""
    kind = found.field(wanted.name).type
    if not (pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted.type)):
        return ""
    return f": a time zone is neither dropped nor guessed, declare {str(kind)!r}"


def to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a decoded batch to the types of the source; columns that fit are not copied."""
    columns = [
        batch.column(f.name) if batch.schema.field(f.name).type == f.type else batch.column(f.name).cast(f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values; for a dictionary, the type of its values."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view())


def fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether every value of the type ``found`` is also a value of the type ``wanted``."""
    if found == wanted or pa.types.is_null(found):
        return True  # a column of the type null has nulls only
    for alike in (_TEXTS, _BYTES):
        if found in alike and wanted in alike:
            return True
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        # A time in UTC reads the same without a zone; in another zone it does not. A zone is never
        # guessed. Losing digits raises an error later.
        return (found.tz is None) == (wanted.tz is None) or (found.tz == "UTC" and not wanted.tz)
    if pa.types.is_signed_integer(found) and pa.types.is_signed_integer(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    return bool(found == pa.float32() and wanted == pa.float64())
