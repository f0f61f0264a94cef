"""Announcements: each worker of an ingest source writes its address to a small file for senders.

The file of a worker that is gone leads to a refused connection, never to a wrong answer. Both sides
authenticate each other by the job's certificates. On one machine, they rely on the folder, which
also has the workers' Unix sockets and which only one user may enter
(:class:`penstock.folders.PrivateFolder`).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path, PurePath

from penstock.base.errors import ConfigError, PeerError
from penstock.contract.codec import parsed
from penstock.file_system import OS_FILES, REPLACED_FILE, closing, make_folders, read_plain, write_all
from penstock.folders import PrivateFolder
from penstock.ports import FileSystem

SUFFIX = ".worker.json"
ANNOUNCEMENT_BYTES_MAX = 1024 * 1024
NOTE_BYTES_MAX = 32
SOCKET_SUFFIX = ".sock"
SOCKET_SCHEME = "grpc+unix"


class Proof(StrEnum):
    """How a sender knows that it speaks to the workers of its job. The value is the URL scheme.

    ``NOTHING`` is for a cluster without mTLS, if the job's owner asked for that.
    """

    CERTIFICATES = "grpc+tls"
    FOLDER = SOCKET_SCHEME
    NOTHING = "grpc"


@dataclass(frozen=True, slots=True)
class Announcement:
    """One worker: its address, the job's number of partitions, and the partitions it owns now."""

    address: str
    partitions: int
    owned: tuple[int, ...]


def announce(folder: Path, life: str, announcement: Announcement, files: FileSystem = OS_FILES) -> None:
    """Write or replace the file of one incarnation of a worker, atomically."""
    make_folders(files, folder)
    _replace(files, folder / f"{life}{SUFFIX}", folder / f".{life}", json.dumps(asdict(announcement)))


def _replace(files: FileSystem, file: Path, temporary: Path, text: str) -> None:
    """Put a file in the place of what is there, a link for example, which is not followed."""
    with closing(files, files.open(temporary, REPLACED_FILE)) as handle:
        write_all(files, handle, text.encode())
    files.rename(temporary, file)


def finished_note(folder: Path, partition: int) -> Path:
    """Return the path of the note that a partition is committed to its end; it holds the end."""
    return folder / f"partition-{partition:05d}.finished"


def write_note(note: Path, life: str, rows: int, files: FileSystem = OS_FILES) -> None:
    """Write or replace a note, atomically. ``life`` names the worker, and nobody else."""
    _replace(files, note, note.with_name(f".{life}.{note.name}"), str(rows))


def read_note(note: Path, files: FileSystem = OS_FILES) -> str:
    """Return the text of a note; empty when there is none. Raises ConfigError for what is no plain file; OSError."""
    try:
        return read_plain(files, note, NOTE_BYTES_MAX).decode(errors="replace")
    except FileNotFoundError:
        return ""


def socket_address(folder: Path, life: str) -> str:
    """Return the address of one incarnation of a worker that listens in its folder."""
    return f"{SOCKET_SCHEME}://{folder / life}{SOCKET_SUFFIX}"


@contextmanager
def opened(folder: Path, proof: Proof) -> Iterator[Path]:
    """Give the path through which a sender reads ``folder`` and connects to its sockets.

    Raises ConfigError when the folder is the proof and other users may enter it. A folder that does
    not exist yet counts as empty.
    """
    if proof is not Proof.FOLDER:
        yield folder
        return
    try:
        private = PrivateFolder(folder)
    except FileNotFoundError:
        yield folder
        return
    try:
        yield private.path
    finally:
        private.close()


def dialled(address: str, folder: Path, proof: Proof) -> str | None:
    """Return the address to dial for an announced address; None if it does not offer this proof.

    A socket must be in ``folder``, the path that :func:`opened` gave.
    """
    scheme, _, place = address.partition("://")
    if scheme != proof:
        return None
    return socket_address(folder, PurePath(place).stem) if proof is Proof.FOLDER else address


def read_announcements(folder: Path, files: FileSystem = OS_FILES) -> list[Announcement]:
    """Return all announcements, the newest first."""
    try:
        names = [entry.name for entry in files.entries(folder) if entry.name.endswith(SUFFIX)]
    except OSError:
        return []  # no worker has made the folder yet
    found = [one for name in names if (one := _read(folder / name, files))]
    return [a for _, a in sorted(found, key=lambda pair: -pair[0])]


def _read(file: Path, files: FileSystem) -> tuple[float, Announcement] | None:
    """Return when a file was written, and its announcement. None: it is being replaced, or it is no announcement."""
    try:
        plain = parsed(read_plain(files, file, ANNOUNCEMENT_BYTES_MAX).decode())
        known = Announcement(plain["address"], plain["partitions"], tuple(plain["owned"]))
        return files.stat(file).st_mtime, known
    except (OSError, ConfigError, PeerError, ValueError, KeyError, TypeError):
        return None


def read_owners(folder: Path, files: FileSystem = OS_FILES) -> dict[int, str]:
    """Return the address of the owner of each partition; the newest announcement counts."""
    owners: dict[int, str] = {}
    for known in reversed(read_announcements(folder, files)):
        owners.update(dict.fromkeys(known.owned, known.address))
    return owners
