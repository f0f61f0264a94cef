"""Text files as a replayable source: JSON lines or CSV. A split is a file, an offset is a row number.

    file ──blocks of lines──> decoded by column ──slices──> Read(batch, offset)

The state of a split also has the byte and the line at which its next row begins. So a seek reads nothing
twice; only a packed file is unpacked again up to there.

A file's identity is its name, its size, and hashes of its first and last bytes. The job's state has it.
A file that grew, shrank, vanished or was replaced cannot be replayed; the error says which. A line that
does not decode fails the job with file, line and reason: it is never left out. A store of objects has a version of
each, which is in the identity instead of the hashes; every read asks for this version.
"""

import csv
import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import ConfigError, PeerError, StateError
from penstock.base.os_errors import storage_error
from penstock.base.suggest import unknown
from penstock.base.values import replace
from penstock.connectors.folder_columns import NO_FOLDERS, FolderColumns, completed, name_in, refuse_folders, replayed
from penstock.connectors.input_files import InputPath, list_input, look_at, nothing_to_read, pinned, version_of
from penstock.connectors.rate_limit import RateLimit
from penstock.connectors.source_rows import Stamper, closed_when_it_fails, head, with_stamp
from penstock.connectors.text_formats import (
    BadLine,
    Decode,
    check_types,
    csv_decoder,
    decode,
    decode_each,
    json_decoder,
    with_times_checked,
)
from penstock.connectors.text_lines import PACKED, Block, LinePlace, blocks
from penstock.contract.codec import parsed
from penstock.contract.columns import Columns
from penstock.contract.event_time import EventTime
from penstock.contract.ids import Epoch, SplitId
from penstock.contract.manifest import SplitState
from penstock.contract.status import InputSeen
from penstock.graph.arrow import arrow_schema
from penstock.ports import Read
from penstock.steps.undecoded import with_letters

HASHED_BYTES = 64 * 1024  # at each end of a file
LINE_SHOWN_CHARS = 120
RELEASE_AFTER_BYTES = 32 * 1024 * 1024  # read this much before a file is closed: opening has a cost


@dataclass(frozen=True, slots=True)
class TextIdentity:
    """The identity of a split's file; ``head`` and ``tail`` are halves of a SHA-256 in hex.

    An object has a ``version`` and no hashes.
    """

    file: str
    size: int
    head: str
    tail: str
    version: str = ""


@dataclass(frozen=True, slots=True)
class TextForm:
    """What the files hold: ``kind`` is "json" or "csv". ``schema`` has the columns of ``folders``, too.

    With ``has_letters`` a line that does not decode is a dead letter; else it is an error.
    """

    kind: str
    schema: pa.Schema
    delimiter: str = ","
    folders: FolderColumns = NO_FOLDERS
    has_letters: bool = False

    def __post_init__(self) -> None:
        """Raise ConfigError for a column of a type that the files cannot have."""
        check_types(self.kind, self.in_files, f"{self.kind} source")

    @property
    def in_files(self) -> pa.Schema:
        """Return the columns that the files have to have."""
        return self.folders.in_files(self.schema)


def spell_spec(identity: TextIdentity, place: LinePlace) -> str:
    """Return the canonical JSON that checkpoints hold."""
    plain = {name: value for name, value in asdict(identity).items() if value or name != "version"}
    return json.dumps({**plain, **asdict(place)}, sort_keys=True, separators=(",", ":"))


def parse_spec(text: str) -> tuple[TextIdentity, LinePlace]:
    """Read what :func:`spell_spec` wrote. Raises StateError on anything else."""
    try:
        plain = parsed(text)
        place = LinePlace(int(plain.pop("byte")), int(plain.pop("line")))
        return TextIdentity(**plain), place
    except (PeerError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise StateError(
            f"a checkpoint describes a split of text as {text!r}: {error}: if the job began with `follow`, give it"
            " again, or begin anew (penstock run --fresh)"
        ) from error


def read_text_identity(path: InputPath) -> TextIdentity:
    """Hash both ends of a file, or take the version of an object. Raises OSError."""
    if version := version_of(path):
        return TextIdentity(path.name, path.stat().st_size, "", "", version)
    with path.open("rb") as file:
        first = file.read(HASHED_BYTES)
        size = file.seek(0, 2)
        file.seek(max(0, size - HASHED_BYTES))
        last = file.read(HASHED_BYTES)
    return TextIdentity(path.name, size, *(hashlib.sha256(piece).hexdigest()[:32] for piece in (first, last)))


def check_text_unchanged(path: InputPath, wanted: TextIdentity) -> None:
    """Compare a file with its identity in the checkpoint. Raises StateError naming the file and the change."""
    try:
        found = read_text_identity(path)
    except FileNotFoundError as error:
        raise StateError(
            f"text source: file {path} is gone: put it back, the job still reads it; if the job is to read"
            " other input now, begin anew (penstock run --fresh) or name another job"
        ) from error
    except OSError as error:
        raise storage_error(f"text source: file {path}", error) from error
    if found.size != wanted.size:
        change = "grew" if found.size > wanted.size else "shrank"
        raise StateError(
            f"text source: file {path} {change} from {wanted.size} to {found.size} bytes since the job"
            " began: files of a running job must not change; put new rows into new files"
        )
    if (found.head, found.tail, found.version) != (wanted.head, wanted.tail, wanted.version):
        raise StateError(f"text source: file {path} was rewritten since the job began: put the old file back")


def declared_schema(kind: str, columns: Columns) -> pa.Schema:
    """Return the declared columns. Raises ConfigError when there are none: text has no types of its own."""
    if not columns:
        raise ConfigError(f"{kind} source: text has no types: declare its columns, like columns={{'name': 'string'}}")
    return arrow_schema(columns)


def text_files(path: InputPath, form: TextForm) -> list[InputPath]:
    """List the input files by name; ``path`` is a folder or one file.

    Raises ConfigError when there is none, or one is in no folder of ``form.folders``.
    """
    kind, by = form.kind, form.folders.names
    if path.is_file():
        refuse_folders(path, by)
        return [path]
    if not path.is_dir():
        raise ConfigError(f"{kind} source: there is no file or folder {path}")
    try:
        found = list_input(path, kind, by)
    except OSError as error:
        raise storage_error(f"{kind} source: folder {path}", error) from error
    problem = nothing_to_read(found, kind, by)
    if problem is not None:
        raise ConfigError(f"{kind} source: folder {path} {problem}")
    return [path / name for name in found.files]


def check_text_files(path: InputPath, form: TextForm) -> None:
    """Check that every file is readable and has the columns. Raises ConfigError naming the file."""
    for file in text_files(path, form):
        try:
            read_text_identity(file)
            form.folders.check(name_in(path, file), file)
            _columns(file, form)
        except OSError as error:
            raise storage_error(f"{form.kind} source: file {file}", error) from error


def _columns(path: InputPath, form: TextForm) -> tuple[list[str], LinePlace]:
    """Return the names in the header of a file of CSV, and the place behind it; none for others.

    Raises ConfigError when a declared column is missing or a name is there twice, or when the file has a column that
    its folders have. Raises OSError.
    """
    if form.kind == "csv":
        names, behind = _csv_columns(path, form)
        form.folders.refuse(names, path)
        return names, behind
    if form.folders.names:
        form.folders.refuse(_first_names(path), path)
    return [], LinePlace()


def _first_names(path: InputPath) -> list[str]:
    """Return the names in the first line of JSON lines, none when it is no object: reading it says more."""
    try:
        first = next(blocks(path, LinePlace()), None)
        found = parsed(first.lines[0].as_py().decode()) if first is not None and len(first.lines) else {}
    except (pa.ArrowInvalid, StateError, PeerError, UnicodeDecodeError):
        return []
    return list(found) if isinstance(found, dict) else []


def _csv_columns(path: InputPath, form: TextForm) -> tuple[list[str], LinePlace]:
    """Return the names in a file's header, and the place behind it; none for a file without lines.

    Raises ConfigError when a declared column is missing or a name is there twice. Raises OSError.
    """
    try:
        first = next(blocks(path, LinePlace()), None)
        if first is None or not len(first.lines):
            return [], LinePlace()
        names = next(csv.reader([first.lines[0].as_py().decode()], delimiter=form.delimiter))
    except (pa.ArrowInvalid, StateError, csv.Error, UnicodeDecodeError) as error:
        raise ConfigError(f"csv source: file {path}, line 1: {error}") from error
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"csv source: file {path}, line 1: two columns are named {twice[0]!r}")
    for name in form.in_files.names:
        if name not in names:
            raise ConfigError(f"csv source: file {path}, line 1: {unknown('column', name, names)}")
    return names, first.place(1)


class TextSource:
    """A folder of text files, or one file. :meth:`splits` fixes the list of files."""

    bounded = True

    def __init__(
        self, path: "str | InputPath", form: TextForm, event_time: EventTime | None = None, rate: int | None = None
    ) -> None:
        """Read nothing yet. ``rate`` bounds the rows per second of each file; None: as fast as possible."""
        self._path: InputPath = Path(path) if isinstance(path, str) else path
        self._form = form
        self._event_time = event_time
        self._rate = rate
        self.schema = with_stamp(form.schema, event_time)

    def splits(self) -> list[SplitState]:
        """List all files by name. Raises ConfigError with the file that does not fit and the reason."""
        check_text_files(self._path, self._form)
        return [self._first_state(file) for file in text_files(self._path, self._form)]

    def _first_state(self, file: InputPath) -> SplitState:
        identity = replace(read_text_identity(file), file=name_in(self._path, file))
        return SplitState(SplitId(identity.file), spell_spec(identity, LinePlace()), 0, finished=identity.size == 0)

    def look(self, known: Collection[str]) -> InputSeen:
        """Return which files of the folder are not ``known`` splits. Blocking; raises OSError."""
        return look_at(self._path, known, self._form.kind, self._form.folders.names)

    def open(self, state: SplitState) -> "TextReader":
        """Open a file at a row. Raises StateError when it is not the file that was listed."""
        rows = open_rows(self._path, self._form, state.spec, self._event_time)
        stamper = Stamper(self._event_time, state.max_ts) if self._event_time else None
        reader_class = TextReader if self._rate else UnpacedTextReader
        return reader_class(rows, state, stamper, RateLimit(self._rate))


def open_rows(path: InputPath, form: TextForm, spec: str, event_time: EventTime | None) -> "TextRows":
    """Open a file of the folder ``path`` where ``spec`` says.

    If the form has dead letters, a line whose ``event_time`` no timestamp holds is one.

    Raises StateError when it is not the file of ``spec``, StorageError when a retry may help.
    """
    identity, place = parse_spec(spec)
    file = pinned(path if path.is_file() else path / identity.file, identity.version)
    check_text_unchanged(file, identity)
    try:
        names, behind = _columns(file, form)
    except OSError as error:
        raise storage_error(f"text source: file {file}", error) from error
    begin = behind if place.byte < behind.byte else place
    decoder = _decoder(form, names, replayed(form.folders, identity.file, file))
    if form.has_letters and event_time is not None:
        decoder = with_times_checked(decoder, event_time)
    return TextRows(file, identity, decoder, begin, form.schema if form.has_letters else None)


def _decoder(form: TextForm, names: Sequence[str], values: dict[str, pa.Scalar]) -> Decode:
    schema = form.in_files
    of_file = json_decoder(schema) if form.kind == "json" else csv_decoder(schema, names, form.delimiter)
    return of_file if not values else lambda lines: completed(of_file(lines), values, form.schema)


class TextRows:
    """Decodes one file block by block, and knows where each row begins."""

    def __init__(
        self,
        path: InputPath,
        identity: TextIdentity,
        decoder: Decode,
        begin: LinePlace,
        kept_apart: pa.Schema | None = None,
    ) -> None:
        """Begin with the row at ``begin``. The file is not opened yet.

        With ``kept_apart``, the columns of rows, lines that do not decode are dead letters.
        """
        self._kept_apart = kept_apart
        self._path = path
        self._identity = identity
        self._decoder = decoder
        self._blocks: Iterator[Block] | None = None
        self._block: Block | None = None
        self._rows: pa.RecordBatch | None = None
        self._taken = 0
        self._opened_at = 0
        self.place = begin
        self.ended = False

    @property
    def name(self) -> str:
        """Return the name of the file."""
        return self._identity.file

    @property
    def size(self) -> int:
        """Return the bytes of the file."""
        return self._identity.size

    @property
    def may_close(self) -> bool:
        """Return whether all decoded rows are taken, and much was read since the file was opened."""
        decoded = self._rows is None or self._taken >= self._rows.num_rows
        return decoded and (self._blocks is None or self.place.byte - self._opened_at >= RELEASE_AFTER_BYTES)

    @property
    def bytes_left(self) -> int | None:
        """Return how many bytes are left of the file; None for a packed one, whose length is not known."""
        return None if self._path.suffix in PACKED else max(0, self._identity.size - self.place.byte)

    def spec(self) -> str:
        """Return the text for a checkpoint: the file, and where the next row begins."""
        return spell_spec(self._identity, self.place)

    def take(self, rows_max: int) -> pa.RecordBatch | None:
        """Return 1..rows_max rows, or None behind the last one.

        Raises StateError with file and line when a line does not decode or the file has changed.
        Raises StorageError when a retry may help.
        """
        with closed_when_it_fails(self.close, self._where):
            return self._take(rows_max)

    def _where(self) -> str:
        return f"text source: file {self._path}, behind line {self.place.line - 1}"

    def _take(self, rows_max: int) -> pa.RecordBatch | None:
        while self._rows is None or self._taken >= self._rows.num_rows:
            if not self._next():
                return None
        assert self._block is not None
        piece = head(self._rows.slice(self._taken), rows_max)
        taken = self._taken + piece.num_rows
        place, ended = self._block.place(taken), False
        if self._path.suffix not in PACKED:  # the length of a packed text is not known before its end
            ended = taken >= self._rows.num_rows and place.byte >= self._identity.size
            if ended:
                check_text_unchanged(self._path, self._identity)  # somebody may still be writing it
        self._taken, self.place, self.ended = taken, place, ended  # not before: the check may fail
        return piece

    def close(self) -> None:
        """Close the file. A later call of :meth:`take` opens it again."""
        self._blocks = self._block = self._rows = None

    def _next(self) -> bool:
        """Decode the next block. Returns whether there was one."""
        if self._blocks is None:
            check_text_unchanged(self._path, self._identity)
            self._blocks, self._opened_at = blocks(self._path, self.place), self.place.byte
        block = next(self._blocks, None)
        if block is None:
            check_text_unchanged(self._path, self._identity)  # a file that shrank ends early
            self.ended = True
            return False
        self._block, self._taken = block, 0
        self.place = block.place(0)
        if not len(block.lines):
            self._rows = None
            return True
        found = decode(block.lines, self._decoder)
        if isinstance(found, BadLine):
            check_text_unchanged(self._path, self._identity)  # its error says more
            if self._kept_apart is None:
                raise StateError(self._bad(block, found))
            found = self._divided(block, self._kept_apart)
        elif self._kept_apart is not None:
            found = with_letters(found, {})
        self._rows = found
        return True

    def _divided(self, block: Block, schema: pa.Schema) -> pa.RecordBatch:
        """Return a row for each line: nulls for one that does not decode, with the line, its file and its number."""
        found = decode_each(block.lines, schema, self._decoder)
        index: list[int | None] = [None] * len(block.lines)
        for row, line in enumerate(found.good):
            index[line] = row
        letters = {
            line: (why, None, block.lines[line].as_py().rstrip(b"\r\n"), self.name, block.place(line).line)
            for line, why in found.bad.items()
        }
        return with_letters(found.rows.take(pa.array(index, pa.int64())), letters)

    def _bad(self, block: Block, bad: BadLine) -> str:
        line = block.lines[bad.index].as_py().rstrip(b"\r\n").decode(errors="backslashreplace")
        shown = line if len(line) <= LINE_SHOWN_CHARS else f"{line[:LINE_SHOWN_CHARS]}..."
        number = block.place(bad.index).line
        return (
            f"text source: file {self._path}, line {number}: {bad.why}; the line is {shown!r}: "
            "give the source onError: dead-letter to keep such lines apart, correct it in a new file and begin anew, or"
            " move the file out of the folder"
        )


class TextReader:
    """Reads one file in order, on one thread. One read decodes at most one block."""

    def __init__(self, rows: TextRows, state: SplitState, stamper: Stamper | None, pace: RateLimit) -> None:
        """Begin at ``state``. The first read opens the file."""
        self._rows = rows
        self._state = state
        self._offset = state.offset
        self._finished = state.finished
        self._stamper = stamper
        self._pace = pace

    def read(self, max_rows: int) -> Read | None:
        """Return the next 1..max_rows rows; None at the end of the file, or when no row is due.

        Raises StateError with file and line, StorageError when a retry may help.
        """
        allowed = 0 if self._finished else self._pace.allow(max_rows)
        if not allowed:
            return None
        batch = self._rows.take(allowed)
        self._finished = self._rows.ended
        if batch is None:
            return None
        offset, self._offset = self._offset, self._offset + batch.num_rows
        self._pace.sent(batch.num_rows)
        return Read(self._stamper.stamp(batch, self._state.split, offset) if self._stamper else batch, offset)

    def state(self) -> SplitState:
        """Return where the next read begins."""
        max_ts = self._stamper.max_ts if self._stamper else None
        return SplitState(self._state.split, self._rows.spec(), self._offset, self._finished, max_ts)

    def pending(self) -> tuple[int | None, int | None]:
        """Return the bytes that are left of the file: how many rows they are is not known."""
        return None, self._rows.bytes_left

    def wait_s(self) -> float:
        """Return how long to wait for the next rows."""
        return self._pace.wait_s()

    def committed(self, epoch: Epoch, state: SplitState) -> None:
        """Do nothing: a file stays."""

    def close(self) -> None:
        """Close the file. A later read opens it again."""
        self._rows.close()


class UnpacedTextReader(TextReader):
    """Reads one file as fast as possible. Between two blocks the file may be closed."""

    def release(self) -> bool:
        """Close the file, unless opening it again would be expensive; return whether it was closed.

        It is expensive within a block, whose lines would be decoded twice, and soon after it was opened.
        """
        if not self._finished and not self._rows.may_close:
            return False
        self._rows.close()
        return True
