"""The files of this machine, and what adapters do with files besides the calls of the port.

Blobs, staged and published output, and copies of savepoints use files only through
:class:`penstock.ports.FileSystem`. So the simulator can put a virtual disk below the code that ships.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.ports import EntryKind, FileSystem, FolderEntry

CHUNK_BYTES = 1024 * 1024
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_CLOEXEC
OLD_FILE = READ | os.O_NOFOLLOW
REPLACED_FILE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER_NOT_LINKED = FOLDER | os.O_NOFOLLOW


class OsFileSystem:
    """:class:`penstock.ports.FileSystem` of the operating system. Every method is one call of ``os``."""

    def open(self, path: str | Path, flags: int, mode: int = 0o666, *, within: int | None = None) -> int:
        """Call ``os.open``."""
        return os.open(path, flags, mode, dir_fd=within)

    def close(self, handle: int) -> None:
        """Call ``os.close``."""
        os.close(handle)

    def read(self, file: int, size: int) -> bytes:
        """Call ``os.read``."""
        return os.read(file, size)

    def write(self, file: int, data: bytes | memoryview) -> int:
        """Call ``os.write``."""
        return os.write(file, data)

    def fsync(self, handle: int) -> None:
        """Call ``os.fsync``."""
        os.fsync(handle)

    def stat(self, place: str | Path | int) -> os.stat_result:
        """Call ``os.stat``."""
        return os.stat(place)

    def entries(self, folder: str | Path | int) -> list[FolderEntry]:
        """Call ``os.scandir``."""
        with os.scandir(folder) as found:
            return [FolderEntry(entry.name, _kind(entry)) for entry in found]

    def link(self, source: str | Path, target: str | Path, *, within: int | None = None) -> None:
        """Call ``os.link``."""
        os.link(source, target, src_dir_fd=within, dst_dir_fd=within)

    def rename(self, source: str | Path, target: str | Path) -> None:
        """Call ``os.replace``."""
        os.replace(source, target)

    def unlink(self, path: str | Path, *, within: int | None = None) -> None:
        """Call ``os.unlink``."""
        os.unlink(path, dir_fd=within)

    def mkdir(self, path: str | Path, mode: int = 0o777, *, within: int | None = None) -> None:
        """Call ``os.mkdir``."""
        os.mkdir(path, mode, dir_fd=within)

    def rmdir(self, path: str | Path, *, within: int | None = None) -> None:
        """Call ``os.rmdir``."""
        os.rmdir(path, dir_fd=within)

    def resolve(self, path: str | Path) -> Path:
        """Call ``os.path.realpath``."""
        return Path(os.path.realpath(path))


OS_FILES = OsFileSystem()  # has no state


def _kind(entry: "os.DirEntry[str]") -> EntryKind:
    if entry.is_dir(follow_symlinks=False):
        return EntryKind.FOLDER
    return EntryKind.FILE if entry.is_file(follow_symlinks=False) else EntryKind.OTHER


@contextmanager
def closing(files: FileSystem, handle: int) -> Iterator[int]:
    """Close what is open at the end of a ``with``."""
    try:
        yield handle
    finally:
        files.close(handle)


def pieces(files: FileSystem, file: int) -> Iterator[bytes]:
    """Read an open file to its end, in pieces."""
    while piece := files.read(file, CHUNK_BYTES):
        yield piece


def read_up_to(files: FileSystem, file: int, bytes_max: int) -> bytes:
    """Read an open file up to ``bytes_max`` bytes or its end."""
    found = b""
    while len(found) < bytes_max and (piece := files.read(file, bytes_max - len(found))):
        found += piece
    return found


def read_plain(files: FileSystem, path: Path, bytes_max: int) -> bytes:
    """Read a small file that others may have put there: at most ``bytes_max`` bytes of it.

    Raises ConfigError when it is a link, a pipe or anything else but a plain file; OSError.
    """
    refused = ConfigError(f"{path} is a link or no plain file: remove it, or name another folder")
    try:
        file = files.open(path, OLD_FILE | os.O_NONBLOCK)
    except OSError as error:
        raise refused if error.errno == errno.ELOOP else error from error
    with closing(files, file):
        if not stat.S_ISREG(files.stat(file).st_mode):
            raise refused
        return read_up_to(files, file, bytes_max)


def write_all(files: FileSystem, file: int, data: bytes) -> None:
    """Write all of ``data``."""
    rest = memoryview(data)
    while rest:
        rest = rest[files.write(file, rest) :]


def exists(files: FileSystem, path: Path) -> bool:
    """Return whether there is something at ``path``. Raises OSError when that cannot be said."""
    try:
        files.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def is_folder(files: FileSystem, path: Path) -> bool:
    """Return whether ``path`` is a folder, or a link to one. Raises OSError when that cannot be said."""
    try:
        return stat.S_ISDIR(files.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def is_no_folder(files: FileSystem, path: Path) -> bool:
    """Return whether something that is not a folder is at ``path``, a link to one among them. Raises OSError."""
    try:
        files.close(files.open(path, FOLDER_NOT_LINKED))
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and is_folder(files, path.parent):
            return True
        raise
    return False


def make_folders(files: FileSystem, folder: Path) -> None:
    """Make a folder with its parents; those that are there are no error."""
    try:
        files.mkdir(folder)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        make_folders(files, folder.parent)
        make_folders(files, folder)
    except OSError:
        if not is_folder(files, folder):
            # Another client of a network file system may just have made it, and this one remembers
            # that nothing was there.
            with suppress(PermissionError):
                refresh_names(files, folder.parent)
            if not is_folder(files, folder):
                raise


def make_durable(files: FileSystem, folder: Path) -> None:
    """Make ``folder`` with its parents, such that its name survives a power failure.

    A process may make a folder and die before the sync, so a folder that already exists may not be
    durable either: each parent on the same file system is synced, even one that existed before. A
    parent that may not be read is skipped: this user cannot have made it.
    """
    make_folders(files, folder)
    real = files.resolve(folder)
    device = files.stat(real).st_dev
    for parent in real.parents:
        if files.stat(parent).st_dev != device:
            return
        with suppress(PermissionError):
            sync_names(files, parent)


def refresh_names(files: FileSystem, folder: Path) -> None:
    """Let a client of a network file system forget which names were missing: it asks when a folder is opened."""
    files.close(files.open(folder, FOLDER))


def sync_names(files: FileSystem, folder: Path) -> None:
    """Make the names in a folder durable."""
    with closing(files, files.open(folder, FOLDER)) as handle:
        files.fsync(handle)


def remove_folder(files: FileSystem, path: str | Path, *, within: int | None = None) -> None:
    """Remove a folder with all that is in it. Links in it are removed, not followed.

    What others remove meanwhile is no error.
    """
    with closing(files, files.open(path, FOLDER_NOT_LINKED, within=within)) as folder:
        for entry in files.entries(folder):
            with suppress(FileNotFoundError):
                if entry.kind is EntryKind.FOLDER:
                    remove_folder(files, entry.name, within=folder)
                else:
                    files.unlink(entry.name, within=folder)
    files.rmdir(path, within=within)
