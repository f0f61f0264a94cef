"""Staged Parquet files, which are written once, hashed while written and fsynced."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import PeerError, StateError, StorageError
from penstock.contract.codec import parsed
from penstock.contract.columns import HIDDEN_PREFIX
from penstock.file_system import READ, REPLACED_FILE, closing, pieces, sync_names, write_all
from penstock.ports import FileSystem

ROW_GROUP_ROWS = 1 << 20
COMPRESSION = "snappy"
STAGED_SUFFIX = ".part"


@dataclass(frozen=True, slots=True)
class Staged:
    """One durable file that is not visible yet."""

    path: Path
    rows: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class StagedCut:
    """The files of one cut, and the number of the cut since its writer was made."""

    number: int
    parts: tuple[Staged, ...]

    def as_json(self) -> str:
        """Return the canonical JSON of a handle. It has no folder, so an output may be moved."""
        parts = [{"staged": p.path.name, "rows": p.rows, "size": p.size, "sha256": p.sha256} for p in self.parts]
        plain = {"cut": self.number, "parts": parts}
        return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def parse_cut(text: str, staging: Path) -> StagedCut:
    """Read what :meth:`StagedCut.as_json` wrote. Raises StateError on anything else.

    A name with a path in it is refused: a handle must not reach outside the staging folder.
    """
    try:
        plain = parsed(text)
        parts = tuple(
            Staged(staging / _plain_name(p["staged"]), p["rows"], p["size"], p["sha256"]) for p in plain["parts"]
        )
        return StagedCut(int(plain["cut"]), parts)
    except (PeerError, ValueError, KeyError, TypeError) as error:
        raise StateError(f"a checkpoint holds a damaged handle of a parquet sink: {error}") from error


def _plain_name(name: str) -> str:
    if Path(name).name != name:
        raise ValueError(f"{name!r} is no plain file name")
    return name


def clean_schema(schema: pa.Schema) -> pa.Schema:
    """Drop the hidden columns, and turn dictionaries into plain values."""
    fields = [f for f in schema if not f.name.startswith(HIDDEN_PREFIX)]
    return pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in fields])


def stage(files: FileSystem, path: Path, schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> Staged:
    """Write one Parquet file and fsync it. Raises StorageError, after removing the file."""
    try:
        with closing(files, files.open(path, REPLACED_FILE)) as file:
            hashing = HashingFile(files, file)
            _write(hashing, schema, batches)
            files.fsync(file)
        rows = sum(b.num_rows for b in batches)
        return Staged(path, rows, hashing.size, hashing.digest.hexdigest())
    except (OSError, pa.ArrowException) as error:
        remove_staged(files, path)
        raise StorageError(f"parquet sink: cannot stage {path}: {error}") from error


def _write(out: "HashingFile", schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> None:
    table = pa.Table.from_batches([_plain(b, schema) for b in batches], schema)
    texts = [f.name for f in schema if _repeats(f.type)]
    with pq.ParquetWriter(
        pa.PythonFile(out, "w"),
        schema,
        compression=COMPRESSION,
        use_dictionary=texts or False,
        write_statistics=False,
        # Readers get plain types, whatever Arrow types the engine used. The Arrow schema is stored
        # only for types that Parquet lacks: otherwise a zone becomes UTC, a duration a number.
        store_schema=any(_needs_arrow(f.type) for f in schema),
    ) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to the types of the file; a batch that fits is not copied."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)


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

    def write(self, data: bytes) -> int:
        """Write and hash. Both release the interpreter lock for large pieces."""
        self.digest.update(data)
        write_all(self._files, self._file, data)
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: nothing is buffered here."""

    def close(self) -> None:
        """Leave the file open, because its owner fsyncs it."""
        self.closed = True


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
        raise StorageError(f"parquet sink: cannot remove {path}: {error}") from error


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
        raise StorageError(f"parquet sink: cannot list {folder}: {error}") from error


def sync_folder(files: FileSystem, folder: Path) -> None:
    """Make the names of a folder durable. Raises StorageError."""
    try:
        sync_names(files, folder)
    except OSError as error:
        raise StorageError(f"parquet sink: cannot sync {folder}: {error}") from error
