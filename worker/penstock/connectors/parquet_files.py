"""The files of a Parquet input: which there are, their identity, and whether they have changed.

A file's identity is its name, size, number of rows and the hash of its footer. The job's state has
it. A file that grew, shrank, vanished or was rewritten cannot be replayed; the error says which.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.base.errors import ConfigError, PeerError, StateError, StorageError
from penstock.base.os_errors import may_pass, storage_error
from penstock.connectors.input_files import list_input, nothing_to_read
from penstock.contract.codec import parsed

MAGIC = b"PAR1"
TAIL_BYTES = 8  # length of the footer, then the magic


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """The identity of a split's file; ``footer`` is the first half of a SHA-256 in hex."""

    file: str
    size: int
    rows: int
    footer: str

    def as_json(self) -> str:
        """Return the canonical JSON that checkpoints hold."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def parse_identity(text: str) -> FileIdentity:
    """Read what :meth:`FileIdentity.as_json` wrote. Raises StateError on anything else."""
    try:
        return FileIdentity(**parsed(text))
    except (PeerError, TypeError) as error:
        raise StateError(f"a checkpoint describes a Parquet split as {text!r}: {error}") from error


def find_files(path: Path) -> list[Path]:
    """List the input files by name; ``path`` is a folder or one file.

    Hidden files (their names begin with ``.`` or ``_``) do not count. Raises ConfigError when there
    is no file.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ConfigError(f"parquet source: there is no file or folder {path}")
    try:
        found = list_input(path)
    except OSError as error:
        raise storage_error(f"parquet source: folder {path}", error) from error
    problem = nothing_to_read(found)
    if problem is not None:
        raise ConfigError(f"parquet source: folder {path} {problem}")
    return [path / name for name in found.files]


def read_identity(path: Path) -> FileIdentity:
    """Read the footer of a file. Raises ConfigError naming it when it is no whole Parquet file.

    Raises StorageError when a retry may help.
    """
    try:
        size = path.stat().st_size
        footer = _footer_hash(path, size)
    except OSError as error:
        raise storage_error(f"parquet source: file {path}", error) from error
    try:
        rows = pq.ParquetFile(path).metadata.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        if may_pass(error):
            raise StorageError(f"parquet source: file {path}: {error}") from error
        raise ConfigError(f"parquet source: file {path} is damaged: {error}") from error
    return FileIdentity(path.name, size, rows, footer)


def _footer_hash(path: Path, size: int) -> str:
    with path.open("rb") as file:
        footer = _footer(file.read(4) == MAGIC, size, file, path)
    return hashlib.sha256(footer).hexdigest()[:32]


def _footer(has_magic: bool, size: int, file: BinaryIO, path: Path) -> bytes:
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


def check_unchanged(path: Path, wanted: FileIdentity) -> None:
    """Compare a file with its identity in the checkpoint.

    Raises StateError naming the file and the change: its rows cannot be replayed.
    """
    if not path.is_file():
        raise StateError(
            f"parquet source: file {path} is gone: put it back, the job still reads it; if the job"
            " is to read other input now, begin anew (penstock run --fresh) or name another job"
        )
    size = path.stat().st_size
    if size != wanted.size:
        change = "grew" if size > wanted.size else "shrank"
        raise StateError(
            f"parquet source: file {path} {change} from {wanted.size} to {size} bytes since the job"
            " began: files of a running job must not change; put new rows into new files"
        )
    try:
        footer = _footer_hash(path, size)
    except ConfigError as error:
        raise StateError(str(error)) from error
    if footer != wanted.footer:
        raise StateError(f"parquet source: file {path} was rewritten since the job began")
