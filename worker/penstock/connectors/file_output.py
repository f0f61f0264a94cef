"""The output folder of a sink of files: its staged files, and the job that owns it.

Staged files are written once, hashed while written and fsynced.

The folder has files that say who owns it. ``protocol/output_folder.py`` has the rules.

::

    <output>/_staging/OWNER.json      the job that writes here; "after": the job it took over from
    <output>/_staging/<job uid>/      that job's staged files; PUBLISHED: it has begun to publish
    <output>/_staging/gone-<uid>/     staged files of the previous job, which nobody publishes

A job takes over the folder of another job in this order: it writes OWNER, moves the staged files of
the other job away, then lists the visible files. If the other job links a file meanwhile, the file
is in the list; otherwise the link fails because the staged file is gone. On a network file system
the first list may be old, so the files are listed again before the first publication. OWNER is read
before each publication. All workers of a job write the same content to these files, so a second or
late write does no harm.
"""

import errno
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, ConnectorError, PeerError, StateError, StorageError
from penstock.base.threads import uuid4
from penstock.connectors.published import FILE_SUFFIXES, OWNER, OWNER_BYTES_MAX, STAGING, SUFFIXES
from penstock.contract.codec import parsed
from penstock.contract.columns import HIDDEN_PREFIX
from penstock.contract.ids import Epoch, JobUid
from penstock.contract.manifest import Origin
from penstock.file_system import (
    OS_FILES,
    READ,
    REPLACED_FILE,
    closing,
    exists,
    is_folder,
    is_no_folder,
    make_durable,
    pieces,
    read_plain,
    remove_folder,
    sync_names,
    write_all,
)
from penstock.ports import EntryKind, FileSystem
from penstock.protocol.output_folder import FolderContents, above, refusal

ROW_GROUP_ROWS = 1 << 20
COMPRESSION = "snappy"
STAGED_SUFFIX = ".part"

VISIBLE_SUFFIX = SUFFIXES["parquet"]
GONE = "gone-"
PUBLISHED = "PUBLISHED"


@dataclass(frozen=True, slots=True)
class FileForm:
    """How rows become a file: their schema, the ending of a visible name, and what writes all rows of a file.

    With ``part_bytes`` of rows in memory a file is full; None: ``SINK_PART_BYTES``. ``split`` gives each folder of a
    batch with its rows, where output is in folders.
    """

    schema: pa.Schema
    suffix: str
    write: "Callable[[HashingFile, pa.Schema, Sequence[pa.RecordBatch]], None]"
    part_bytes: int | None = None
    split: "Callable[[pa.RecordBatch], Iterable[tuple[str, pa.RecordBatch]]] | None" = None


@dataclass(frozen=True, slots=True)
class Staged:
    """One durable file that is not visible yet. ``folder`` is where it will be, below the output."""

    path: Path
    rows: int
    size: int
    sha256: str
    folder: str = ""

    def as_plain(self) -> dict[str, object]:
        """Return the JSON object of a handle."""
        plain = {"staged": self.path.name, "rows": self.rows, "size": self.size, "sha256": self.sha256}
        return {**plain, "folder": self.folder} if self.folder else plain


@dataclass(frozen=True, slots=True)
class StagedCut:
    """The files of one cut, and the number of the cut since its writer was made.

    ``suffix`` is the ending of their visible names: the format of a sink may be another one when they are published.
    """

    number: int
    parts: tuple[Staged, ...]
    suffix: str = ""

    def as_json(self) -> str:
        """Return the canonical JSON of a handle. It has no folder, so an output may be moved."""
        plain = {"cut": self.number, "parts": [part.as_plain() for part in self.parts]}
        plain |= {"suffix": self.suffix} if self.suffix else {}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def parse_cut(text: str, staging: Path, suffix: str = "") -> StagedCut:
    """Read what :meth:`StagedCut.as_json` wrote. Raises StateError on anything else.

    ``suffix`` is that of the sink now, for handles of before, which have none. A name with a path in it is refused: a
    handle must not reach outside the staging folder.
    """
    try:
        plain = parsed(text)
        parts = tuple(
            Staged(staging / _plain_name(p["staged"]), p["rows"], p["size"], p["sha256"], _folder(p.get("folder", "")))
            for p in plain["parts"]
        )
        return StagedCut(int(plain["cut"]), parts, _plain_name(plain.get("suffix", suffix)))
    except (PeerError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"a checkpoint holds a damaged handle of a file sink: {error}") from error


def _plain_name(name: str) -> str:
    if Path(name).name != name:
        raise ValueError(f"{name!r} is no plain file name")
    return name


def _folder(folder: str) -> str:
    if folder and not all("=" in part for part in folder.split("/")):
        raise ValueError(f"{folder!r} is no folder of column=value")
    return folder


def clean_schema(schema: pa.Schema) -> pa.Schema:
    """Drop the hidden columns, and turn dictionaries into plain values."""
    fields = [f for f in schema if not f.name.startswith(HIDDEN_PREFIX)]
    return pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in fields])


def stage(files: FileSystem, path: Path, form: FileForm, batches: Sequence[pa.RecordBatch]) -> Staged:
    """Write one file and fsync it. After an error the file is removed.

    Raises StorageError, and ConnectorError when Arrow cannot write these rows, which it cannot do later either.
    """
    try:
        with closing(files, files.open(path, REPLACED_FILE)) as file:
            hashing = HashingFile(files, file)
            try:
                form.write(hashing, form.schema, batches)
            finally:
                hashing.end()
            files.fsync(file)
        rows = sum(b.num_rows for b in batches)
        return Staged(path, rows, hashing.size, hashing.digest.hexdigest())
    except (OSError, pa.ArrowException) as error:
        remove_staged(files, path)
        of_system = isinstance(error, OSError) and error.errno is not None
        raise (StorageError if of_system else ConnectorError)(f"file sink: cannot stage {path}: {error}") from error


def write_parquet(
    out: "HashingFile",
    schema: pa.Schema,
    batches: Sequence[pa.RecordBatch],
    *,
    statistics: bool = False,
    decimals_as_integers: bool = False,
) -> None:
    """Write a whole Parquet file, with or without statistics of its columns.

    A column with NaN has none: Arrow leaves NaN out of the bounds, and Spark, to which NaN is the largest number, would
    leave out such files when it is asked for NaN or for large numbers.
    With ``decimals_as_integers`` those of at most 18 digits are whole numbers, as Iceberg wants them.
    """
    table = pa.Table.from_batches([plain(b, schema) for b in batches], schema)
    texts = [f.name for f in schema if _repeats(f.type)]
    with pq.ParquetWriter(
        pa.PythonFile(out, "w"),
        schema,
        compression=COMPRESSION,
        use_dictionary=texts or False,
        write_statistics=statistics and [name for name in table.column_names if not _has_nan(table[name])],
        store_decimal_as_integer=decimals_as_integers,
        # Readers get plain types, whatever Arrow types the engine used. The Arrow schema is stored
        # only for types that Parquet lacks: otherwise a zone becomes UTC, a duration a number.
        store_schema=any(_needs_arrow(f.type) for f in schema),
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


def parquet_form(schema: pa.Schema) -> FileForm:
    """Return the form of Parquet files with the visible columns of ``schema``.

    Raises ConfigError for a column that Parquet cannot hold.
    """
    visible = clean_schema(schema)
    for field in visible:
        try:
            pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
        except (pa.ArrowException, OSError) as error:
            raise ConfigError(
                f"parquet sink: column {field.name!r} is {field.type}, which Parquet has not ({error}): make another"
                " type of it in a step before"
            ) from error
    return FileForm(visible, VISIBLE_SUFFIX, write_parquet)


def plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to the types of the file; a batch that fits is not copied."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def _has_nan(values: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _needs_arrow(kind: pa.DataType) -> bool:
    text = str(kind).replace("tz=UTC", "")
    return "tz=" in text or "duration[" in text


def _repeats(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


class HashingFile:
    """A file that computes the SHA-256 and the size of what is written."""

    def __init__(self, files: FileSystem, file: int) -> None:
        """Write through to ``file``, which is open."""
        self._files = files
        self._file = file
        self.digest = hashlib.sha256()
        self.size = 0
        self.closed = False
        self._ended = False

    def write(self, data: bytes) -> int:
        """Write and hash. Both release the interpreter lock for large pieces. Raises OSError after :meth:`end`."""
        if self._ended:
            raise OSError(errno.EBADF, "the file was closed")
        self.digest.update(data)
        write_all(self._files, self._file, data)
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is buffered here."""

    def close(self) -> None:
        """Leave the file open, because its owner fsyncs it."""
        self.closed = True

    def end(self) -> None:
        """Refuse all that comes later.

        Arrow's writer writes its last bytes when it is destroyed, also after an error. The number of the file
        may belong to another file by then.
        """
        self._ended = True


def hash_file(files: FileSystem, path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    seen = hashlib.sha256()
    with closing(files, files.open(path, READ)) as file:
        for piece in pieces(files, file):
            seen.update(piece)
    return seen.hexdigest()


def remove_staged(files: FileSystem, path: Path) -> None:
    """Remove a file; a missing file is no error. Raises StorageError when it cannot be removed."""
    try:
        files.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"file sink: cannot remove {path}: {error}") from error


def remove_all(files: FileSystem, paths: Iterable[Path]) -> None:
    """Remove files; missing files are no error. Raises StorageError."""
    for path in paths:
        remove_staged(files, path)


def names_in(files: FileSystem, folder: Path) -> list[str]:
    """List a folder; a missing one has no names. Raises StorageError."""
    try:
        return [entry.name for entry in files.entries(folder)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"file sink: cannot list {folder}: {error}") from error


def sync_folder(files: FileSystem, folder: Path) -> None:
    """Make the names of a folder durable. Raises StorageError."""
    try:
        sync_names(files, folder)
    except OSError as error:
        raise StorageError(f"file sink: cannot sync {folder}: {error}") from error


@dataclass(frozen=True, slots=True)
class Record:
    """The content of OWNER.json. ``after``: the owner began from this savepoint of the owner before it."""

    owner: JobUid
    after: Origin | None = None

    def as_plain(self) -> dict[str, object]:
        """Return the JSON object to write."""
        if self.after is None:
            return {"job_uid": self.owner}
        after = {"job_uid": self.after.job_uid, "epoch": self.after.epoch}
        return {"job_uid": self.owner, "after": after}


def parse_record(data: bytes) -> Record | None:
    """Read what :meth:`Record.as_plain` gave, as JSON; None for anything else."""
    try:
        plain = parsed(data.decode())
        after = plain.get("after")
        origin = Origin(JobUid(after["job_uid"]), Epoch(after["epoch"])) if after else None
        return Record(JobUid(plain["job_uid"]), origin)
    except (PeerError, UnicodeError, KeyError, TypeError, AttributeError):
        return None


class OutputFolder:
    """One output folder, for the job that takes it."""

    def __init__(self, output: Path, files: FileSystem = OS_FILES) -> None:
        """Remember the path; nothing is touched before :meth:`take`."""
        self.path = output
        self.files = files
        self._all = output / STAGING
        self._owner = JobUid("")

    @property
    def staging(self) -> Path:
        """The folder of this job's staged files. :meth:`take` must come first."""
        assert self._owner, "the folder is taken before anything is staged"
        return self._all / self._owner

    def take(self, me: JobUid, origin: Origin | None) -> None:
        """Take the folder for the job ``me``. Idempotent; any number of workers may call it.

        ``origin`` is the savepoint that the job starts from, while it has no checkpoint of its own.
        Raises ConfigError when the folder belongs to another job; OSError.
        """
        self._refuse(self._linked(self._all, self._all / me))  # first: a link leads to files of others
        record = self._read()
        if record is not None and record.owner == me:
            self._owner = me
            make_durable(self.files, self.staging)
            self._adopt()
        else:
            found = self._found(record)
            self._refuse(refusal(found, me, origin))  # first: make nothing in a folder of others
            make_durable(self.files, self._all)
            record = Record(me, origin if found.files else None)
            self._write(record)
            self._owner = me
            make_durable(self.files, self.staging)
        self._refuse(self._linked(self._all, self.staging))
        self._move_away(record)
        if record.after is not None and not self._publishes():
            self._check_again(record.after)

    def check(self, epoch: Epoch) -> None:
        """Check, before a publication, that the folder still belongs to this job.

        Raises StateError when another job has it, or the previous job has published more; OSError.
        """
        linked = self._linked(self._all, self.staging)
        if linked is not None:
            raise StateError(f"file sink: output folder {self.path} {linked}")
        record = self._read()
        lost = self._lost(record)
        if lost:
            raise StateError(lost)
        if record is None or record.after is None or self._publishes():
            return
        # Another worker of this job may have published this very epoch since OWNER was read.
        why = above(self._found(record, without=epoch), record.after)
        if why is not None:
            raise StateError(f"file sink: output folder {self.path} {why}")
        self._write_durably(self.staging / PUBLISHED, b"")
        sync_names(self.files, self.staging)
        self._remove_folder(self._gone(record.after))

    def check_staging(self) -> None:
        """Raise StorageError when this job's staging folder is a link or is gone, or when that cannot be said.

        The error names the new owner.
        """
        try:
            linked = self._linked(self._all, self.staging)
            there = linked is None and is_folder(self.files, self.staging)
            lost = linked is None and not there and self._lost(self._read())
        except OSError as error:
            raise StorageError(f"file sink: cannot look at {self.staging}: {error}") from error
        if linked is not None:
            raise StorageError(f"file sink: output folder {self.path} {linked}")
        if lost:
            raise StorageError(lost)

    def sweep(self) -> None:
        """Remove what a process left that ended while it wrote OWNER. Called when all have taken the folder.

        Raises StorageError.
        """
        left = [name for name in names_in(self.files, self._all) if name.startswith(f"{OWNER}.")]
        remove_all(self.files, (self._all / name for name in left))

    # --- What is there ------------------------------------------------------------------------

    def _linked(self, *folders: Path) -> str | None:
        """Say that one of the folders in which files are written and removed is a link; None when none is."""
        found = next((folder for folder in folders if is_no_folder(self.files, folder)), None)
        if found is None:
            return None
        return (
            f"has {found.relative_to(self.path)}, which is a link or no folder: a job follows no link there, because "
            "whoever made it could have files elsewhere removed; remove it, or name another folder"
        )

    def _read(self) -> Record | None:
        try:
            return parse_record(read_plain(self.files, self._all / OWNER, OWNER_BYTES_MAX))
        except FileNotFoundError:
            return None

    def _found(self, record: Record | None, without: Epoch | None = None) -> FolderContents:
        """List the visible files, except those of epoch ``without``."""
        there = self.files.entries(self.path) if is_folder(self.files, self.path) else ()
        names = sorted(entry.name for entry in there if entry.name.endswith(FILE_SUFFIXES))
        numbers = [name.split("-", 1)[0] for name in names]
        epochs = [Epoch(int(n)) for n in numbers if n.isdecimal() and int(n) != without]
        owner = record.owner if record is not None else None
        return FolderContents(owner, len(names), max(epochs, default=Epoch(0)), names[0] if names else "")

    def _lost(self, record: Record | None) -> str:
        if record is None or record.owner == self._owner:
            return ""
        return (
            f"file sink: job {record.owner} has taken output folder {self.path} over from this "
            f"job ({self._owner}): name another folder to go on"
        )

    def _publishes(self) -> bool:
        """Return whether this job has begun to publish here, so that visible files may be its own."""
        return exists(self.files, self.staging / PUBLISHED)

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise ConfigError(f"file sink: output folder {self.path} {why}")

    # --- Taking over --------------------------------------------------------------------------

    def _gone(self, origin: Origin) -> Path:
        return self._all / f"{GONE}{origin.job_uid}"

    def _adopt(self) -> None:
        """Move files that an earlier version of Penstock staged next to OWNER into this job's folder."""
        for file in self._staged_beside_owner():
            with suppress(FileNotFoundError):  # another worker of this job was quicker
                self.files.rename(file, self.staging / file.name)

    def _move_away(self, record: Record) -> None:
        """Move another job's staged files away, so that nobody publishes them.

        When no output is visible, all staged files of other jobs are deleted.
        """
        if record.after is not None:
            with suppress(OSError):  # another worker of this job was quicker, or nothing is there
                self.files.rename(self._all / record.after.job_uid, self._gone(record.after))
            return
        for entry in self.files.entries(self._all):
            if entry.kind is EntryKind.FOLDER and entry.name != record.owner:
                self._remove_folder(self._all / entry.name)
        remove_all(self.files, self._staged_beside_owner())

    def _staged_beside_owner(self) -> Iterator[Path]:
        names = [entry.name for entry in self.files.entries(self._all)]
        return (self._all / name for name in names if name.endswith(STAGED_SUFFIX))

    def _remove_folder(self, folder: Path) -> None:
        with suppress(OSError):  # what is left does no harm
            remove_folder(self.files, folder)

    def _check_again(self, origin: Origin) -> None:
        """If the previous job has published more meanwhile, give the folder back to it and refuse."""
        why = above(self._found(self._read()), origin)
        if why is None:
            return
        with suppress(OSError):
            self.files.rename(self._gone(origin), self._all / origin.job_uid)
        self._write(Record(origin.job_uid))
        self._refuse(why)

    def _write(self, record: Record) -> None:
        """Replace OWNER.json durably and atomically."""
        temporary = self._all / f"{OWNER}.{uuid4().hex}"
        self._write_durably(temporary, json.dumps(record.as_plain()).encode())
        self.files.rename(temporary, self._all / OWNER)
        sync_names(self.files, self._all)

    def _write_durably(self, path: Path, content: bytes) -> None:
        with closing(self.files, self.files.open(path, REPLACED_FILE)) as file:
            write_all(self.files, file, content)
            self.files.fsync(file)
