"""Parquet files as a replayable source: split = file, offset = row.

    file ──row groups──> decoded pieces of bounded bytes ──slices──> Read(batch, offset)

A seek skips whole row groups by the footer and cuts the first piece; nothing else is decoded twice.
A file is open while its rows are read, and between two row groups it may be closed: so many files
take no more memory than the few that are read. Files with a rate are all read in turns.
"""

from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, StateError
from penstock.connectors.bounded import head
from penstock.connectors.event_time import Stamper, with_stamp
from penstock.connectors.input_files import look_at
from penstock.connectors.parquet_files import (
    FileIdentity,
    check_unchanged,
    find_files,
    parse_identity,
    read_identity,
)
from penstock.connectors.rate_limit import RateLimit
from penstock.contract.columns import Columns
from penstock.contract.graph import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.inputs import InputSeen
from penstock.contract.manifest import SplitState
from penstock.graph.arrow import arrow_type
from penstock.ports import Read

PIECE_BYTES = 4 * 1024 * 1024  # decoded at once: bounds memory and the wait in read()
PIECES_BYTES = 256 * 1024 * 1024  # of all files together, where all are open
PIECE_BYTES_MIN = 256 * 1024
PIECE_ROWS_MIN = 64
PIECE_ROWS_MAX = 131_072
READ_BUFFER_BYTES = 1024 * 1024
RELEASE_AFTER_BYTES = 32 * 1024 * 1024  # decoded: what opening a file again costs is little then


class ParquetSource:
    """A folder of Parquet files (or one file). The list of files is fixed by :meth:`splits`."""

    bounded = True

    def __init__(
        self,
        path: str,
        columns: Columns,
        event_time: EventTime | None = None,
        rate: int | None = None,
    ) -> None:
        """Read the first file's schema. Raises ConfigError naming the file and the column.

        ``rate`` bounds the rows per second of each file; None: as fast as possible.
        """
        self._path = Path(path)
        self._rate = rate
        self._event_time = event_time
        self._plain = plain_schema(self._path, columns)
        self._piece_bytes = piece_bytes(len(find_files(self._path))) if rate else PIECE_BYTES
        self.schema = with_stamp(self._plain, event_time)

    def splits(self) -> list[SplitState]:
        """List all files by name; checks that each is whole and has the columns.

        Raises ConfigError naming the file that does not fit, and how.
        """
        found = find_files(self._path)
        return [self._first_state(file, found[0]) for file in found]

    def _first_state(self, file: Path, first: Path) -> SplitState:
        identity = read_identity(file)
        fit_schema(pq.read_schema(file), self._plain, file, first)
        return SplitState(
            SplitId(identity.file), identity.as_json(), 0, finished=identity.rows == 0
        )

    def look(self, known: Collection[str]) -> InputSeen:
        """Say which files of the folder are not among the splits ``known``. Blocking; OSError."""
        return look_at(self._path, known)

    def open(self, state: SplitState) -> "ParquetReader":
        """Read a file from a row on. Raises StateError when it is not the file that was listed."""
        identity = parse_identity(state.spec)
        file = self._path if self._path.is_file() else self._path / identity.file
        check_unchanged(file, identity)
        stamper = Stamper(self._event_time, state.max_ts) if self._event_time else None
        pieces = Pieces(file, self._plain, self._piece_bytes)
        kind = ParquetReader if self._rate else UnpacedReader
        return kind(pieces, (state, identity), stamper, RateLimit(self._rate))


class ParquetReader:
    """Reads one file in order. One thread; a read decodes a piece at most."""

    def __init__(
        self,
        pieces: "Pieces",
        place: tuple[SplitState, FileIdentity],
        stamper: Stamper | None,
        pace: RateLimit,
    ) -> None:
        """Begin at the state of ``place`` (state, file); the first read opens it."""
        self._state, self._identity = place
        self._rows = self._identity.rows
        self._offset = self._state.offset
        self._pieces = pieces
        self._rest: Iterator[pa.RecordBatch] | None = None
        self._piece: pa.RecordBatch | None = None
        self._stamper = stamper
        self._pace = pace

    def read(self, max_rows: int) -> Read | None:
        """Return the next 1..max_rows rows, or None at the end of the file and when none is due.

        Raises StateError naming file and row when the data cannot be decoded, or has changed.
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
        return Read(self._stamper.stamp(batch) if self._stamper else batch, offset)

    def state(self) -> SplitState:
        """Return where the next read begins."""
        return SplitState(
            self._state.split,
            self._state.spec,
            self._offset,
            finished=self._offset >= self._rows,
            max_ts=self._stamper.max_ts if self._stamper else None,
        )

    def wait_s(self) -> float:
        """Return how long to wait for the next rows."""
        return self._pace.wait_s()

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Nothing to acknowledge: a file stays."""

    def close(self) -> None:
        """Close the file; a read opens it again."""
        self._rest = self._piece = None
        self._pieces.close()

    def _next_piece(self) -> pa.RecordBatch:
        try:
            if self._rest is None:
                self._rest = self._open()
            return next(self._rest)
        except StopIteration:
            raise StateError(
                f"parquet source: file {self._pieces.path} ends at row {self._offset} of"
                f" {self._rows}: it was rewritten since the job began"
            ) from None
        except (pa.ArrowInvalid, OSError) as error:
            raise StateError(
                f"parquet source: file {self._pieces.path} cannot be read"
                f" at row {self._offset}: {error}"
            ) from error

    def _open(self) -> Iterator[pa.RecordBatch]:
        check_unchanged(self._pieces.path, self._identity)  # it tells more than Arrow would
        rest = self._pieces.decode(self._offset)
        check_unchanged(self._pieces.path, self._identity)  # that is what was opened
        return rest


class UnpacedReader(ParquetReader):
    """Reads one file as fast as its rows are taken; between two row groups it may be closed."""

    def release(self) -> bool:
        """Close the file unless that would cost as much as reading did; say whether it was.

        It would within a row group, of which rows are decoded twice, and soon after it was opened.
        """
        if self._rest is not None and self._offset < self._rows:
            dear = self._pieces.within_group or self._pieces.decoded_bytes < RELEASE_AFTER_BYTES
            if dear or self._piece is not None:
                return False
        self.close()
        return True


class Pieces:
    """Decodes one file piece by piece, from any row."""

    def __init__(self, path: Path, schema: pa.Schema, size: int = PIECE_BYTES) -> None:
        """Decode ``size`` bytes at once, when asked: the file is not opened yet."""
        self.path = path
        self.within_group = False  # rows of the row group that was begun are left
        self.decoded_bytes = 0  # since the file was opened
        self._schema = schema
        self._size = size
        self._file: pq.ParquetFile | None = None

    def decode(self, offset: int) -> Iterator[pa.RecordBatch]:
        """Open the file, and give pieces from row ``offset`` on, row group by row group."""
        # A buffer for each column; pre_buffer would hold the whole row group, compressed.
        self._file = pq.ParquetFile(
            self.path, buffer_size=min(READ_BUFFER_BYTES, self._size), pre_buffer=False
        )
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

    def _decode_group(
        self, file: pq.ParquetFile, group: int, skip: int
    ) -> Iterator[pa.RecordBatch]:
        meta = file.metadata.row_group(group)
        rows = piece_rows(meta.total_byte_size, meta.num_rows, self._size)
        left = meta.num_rows
        batches = file.iter_batches(
            rows, row_groups=[group], columns=self._schema.names, use_threads=False
        )
        for batch in batches:
            rest = batch.slice(skip)
            skip = max(0, skip - batch.num_rows)
            left -= batch.num_rows
            self.within_group = left > 0
            self.decoded_bytes += batch.nbytes
            if rest.num_rows:
                yield to_schema(rest, self._schema)


def piece_bytes(files: int) -> int:
    """Return how much of each of so many files to decode at once when all of them are open."""
    return max(PIECE_BYTES_MIN, min(PIECE_BYTES, PIECES_BYTES // files))


def piece_rows(group_bytes: int, group_rows: int, size: int) -> int:
    """Return how many rows are ``size`` bytes at most when decoded.

    Encoded sizes understate repeated values: halved.
    """
    row_bytes = max(1, 2 * group_bytes // max(1, group_rows))
    return max(PIECE_ROWS_MIN, min(PIECE_ROWS_MAX, size // row_bytes))


def plain_schema(path: Path, columns: Columns) -> pa.Schema:
    """Return the schema of a source: the declared columns, or all columns of the first file."""
    first = find_files(path)[0]
    read_identity(first)
    found = pq.read_schema(first)
    if not columns:
        fields = [pa.field(f.name, value_type(f.type), f.nullable) for f in found]
        return pa.schema(fields)
    declared = pa.schema([pa.field(c.name, arrow_type(c.type)) for c in columns])
    fit_schema(found, declared, first, first)
    return declared


def check_files(path: Path, columns: Columns) -> None:
    """Check that every file there is whole and has the columns. Raises ConfigError naming it."""
    wanted = plain_schema(path, columns)
    found = find_files(path)
    for file in found:
        read_identity(file)
        fit_schema(pq.read_schema(file), wanted, file, found[0])


def fit_schema(found: pa.Schema, wanted: pa.Schema, file: Path, first: Path) -> None:
    """Check that a file has every wanted column in a type that loses nothing.

    Raises ConfigError naming file, column and both types.
    """
    for field in wanted:
        index = found.get_field_index(field.name)
        if index < 0:
            raise ConfigError(
                f"parquet source: file {file} has no column {field.name!r}: it has"
                f" {', '.join(found.names)}"
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
    """Say what to declare where only the time zone does not fit."""
    kind = found.field(wanted.name).type
    if not (pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted.type)):
        return ""
    return f": a time zone is neither dropped nor guessed, declare {str(kind)!r}"


def to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a decoded batch the types of the source; no copy where they are the same."""
    columns = [
        batch.column(f.name)
        if batch.schema.field(f.name).type == f.type
        else batch.column(f.name).cast(f.type)
        for f in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values of a column: of a dictionary that of its values."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Say whether every value of ``found`` is one of ``wanted``."""
    if found == wanted or pa.types.is_null(found):
        return True  # a column of nulls has values of no type
    texts = (pa.string(), pa.large_string(), pa.string_view())
    if found in texts and wanted in texts:
        return True
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(wanted):
        # An instant in UTC has the digits that it has without a zone, in another zone it has not;
        # and no zone is ever guessed. Losing digits raises later.
        return (found.tz is None) == (wanted.tz is None) or (found.tz == "UTC" and not wanted.tz)
    if pa.types.is_signed_integer(found) and pa.types.is_signed_integer(wanted):
        return bool(found.bit_width <= wanted.bit_width)
    return bool(found == pa.float32() and wanted == pa.float64())
