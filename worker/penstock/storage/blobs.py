"""Immutable files below one directory, on a local disk or a network file system.

A file is created exclusively, written, fsynced with its folder, and never changed. The folders
above it are fsynced once by each store, also where another process made them. Nothing relies on rename or on listing.
Paths are walked folder by folder with ``O_NOFOLLOW``, so neither a name nor a symbolic link planted
below the root leads out of it. Reads check length and SHA-256 against the manifest: what differs is
an error, never data.
"""

import errno
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.base.errors import PenstockError, StateError, StorageError
from penstock.contract.ids import BlobName
from penstock.contract.manifest import BlobRef
from penstock.folders import make_durable

CHUNK_BYTES = 1024 * 1024
PART = re.compile(r"(?!\.)[A-Za-z0-9._=-]{1,200}")
PARTS_MAX = 8
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class DirectoryBlobStore:
    """:class:`penstock.ports.BlobStore` on a directory, which the first file makes if it is missing."""

    def __init__(self, root: Path) -> None:
        """Remember ``root``; it may itself be reached by a link, nothing below it may.

        Nothing is touched before the first call, so a volume that is full now stops no process.
        """
        self._root = root
        self._durable: set[tuple[str, ...]] = set()

    def put(self, name: BlobName, data: bytes) -> BlobRef:
        """Create durably. Raises StorageError: the name exists, the disk is full, I/O failed."""
        return self._create(name, [data])

    def put_file(self, name: BlobName, path: str) -> BlobRef:
        """Like :meth:`put`, from a local file, with bounded memory."""
        try:
            with open(path, "rb") as source:
                return self._create(name, iter(lambda: source.read(CHUNK_BYTES), b""))
        except OSError as error:
            raise _read_error(error, path) from error

    def get(self, ref: BlobRef) -> bytes:
        """Read whole. Raises StateError when missing or altered, StorageError on I/O errors."""
        pieces: list[bytes] = []
        self._read(ref, pieces.append)
        return b"".join(pieces)

    def fetch(self, ref: BlobRef, path: str) -> None:
        """Like :meth:`get`, into a local file, with bounded memory; no file on an error."""
        try:
            with _local(path), open(path, "wb", buffering=0) as target:
                self._read(ref, lambda piece: _write_local(target.fileno(), piece, path))
        except PenstockError:
            with suppress(OSError):
                os.unlink(path)
            raise

    def peek(self, name: BlobName, bytes_max: int) -> bytes | None:
        """Read up to ``bytes_max`` bytes of a file that no manifest lists; None when missing.

        For the one file that says whose directory this is. Raises StorageError.
        """
        *folders, leaf = _parts(name)
        try:
            with self._folder(folders) as folder:
                file = os.open(leaf, OLD_FILE, dir_fd=folder)
            with os.fdopen(file, "rb") as source:
                return source.read(bytes_max)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self._root / name}: {error.strerror}") from error

    def put_whole(self, name: BlobName, staged: BlobName, data: bytes) -> None:
        """Create a file of a fixed name: it appears with its content or not at all.

        A file in the making is named ``staged``, which is fresh, and linked when it is durable:
        other names may be left torn by a crash because nobody asks for them, a fixed one may not.
        Raises StorageError when the name exists.
        """
        self.put(staged, data)
        *folders, leaf = _parts(name)
        *staged_folders, staged_leaf = _parts(staged)
        assert folders == staged_folders, "linked within one folder"
        try:
            with self._folder(folders) as folder:
                os.link(staged_leaf, leaf, src_dir_fd=folder, dst_dir_fd=folder)
                os.fsync(folder)
        except OSError as error:
            raise _write_error(error, self._root / name) from error
        finally:
            self.delete(staged)

    def delete(self, name: BlobName) -> None:
        """Remove; a missing file is no error. Raises StorageError."""
        *folders, leaf = _parts(name)
        try:
            with self._folder(folders) as folder:
                os.unlink(leaf, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{self._root / name}: {error.strerror}") from error

    def delete_folder(self, name: BlobName) -> None:
        """Remove a folder with all that is in it; a missing one is no error. Raises StorageError.

        Links in it are removed, not followed. A process that still writes there may make it anew.
        """
        *folders, leaf = _parts(name)
        try:
            with self._folder(folders) as folder:
                shutil.rmtree(leaf, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"{self._root / name}: {error.strerror}") from error

    def list_for_collection(self) -> Iterator[BlobName]:
        """List the names of plain files in a stable order; links are not followed."""
        try:
            yield from self._list(self._root, "")
        except OSError as error:
            raise StorageError(f"{self._root}: {error.strerror}") from error

    def _list(self, folder: Path, prefix: str) -> Iterator[BlobName]:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                yield from self._list(folder / entry.name, f"{prefix}{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                yield BlobName(prefix + entry.name)

    def _create(self, name: BlobName, pieces: Iterable[bytes]) -> BlobRef:
        *folders, leaf = _parts(name)
        try:
            with self._folder(folders, make=True) as folder:
                file = os.open(leaf, NEW_FILE, 0o600, dir_fd=folder)
                try:
                    ref = _write(file, name, pieces)
                    os.fsync(folder)
                except BaseException:
                    # The name stays burnt for the caller; its space must not stay taken on a
                    # full disk. The file is ours: it was created exclusively a moment ago.
                    with suppress(OSError):
                        os.unlink(leaf, dir_fd=folder)
                    raise
        except OSError as error:
            raise _write_error(error, self._root / name) from error
        return ref

    def _read(self, ref: BlobRef, take: Callable[[bytes], object]) -> None:
        *folders, leaf = _parts(ref.name)
        try:
            with self._folder(folders) as folder:
                file = os.open(leaf, OLD_FILE, dir_fd=folder)
            with os.fdopen(file, "rb", buffering=0) as source:
                _check_size(os.fstat(file), ref, self._root / ref.name)
                seen = hashlib.sha256()
                for piece in iter(lambda: source.read(CHUNK_BYTES), b""):
                    seen.update(piece)
                    take(piece)
        except OSError as error:
            raise _read_error(error, self._root / ref.name) from error
        if seen.hexdigest() != ref.sha256:
            raise StateError(
                f"{self._root / ref.name} was altered: its SHA-256 is {seen.hexdigest()}, "
                f"the manifest says {ref.sha256}"
            )

    @contextmanager
    def _folder(self, parts: list[str], *, make: bool = False) -> Iterator[int]:
        if make and () not in self._durable:
            make_durable(self._root)
            self._durable.add(())
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for count, part in enumerate(parts, start=1):
                if make:
                    self._make_folder(tuple(parts[:count]), folder)
                inner = os.open(part, FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _make_folder(self, parts: tuple[str, ...], parent: int) -> None:
        """Make the last of ``parts``, durably: one that is there may be another's, not synced."""
        with suppress(FileExistsError):
            os.mkdir(parts[-1], 0o700, dir_fd=parent)
            self._durable.discard(parts)
        if parts not in self._durable:
            os.fsync(parent)
            self._durable.add(parts)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if len(parts) > PARTS_MAX or not all(PART.fullmatch(part) for part in parts):
        raise StateError(f"{name!r} is no name of a stored file")
    return parts


def _write(file: int, name: BlobName, pieces: Iterable[bytes]) -> BlobRef:
    seen, size = hashlib.sha256(), 0
    with os.fdopen(file, "wb", buffering=0) as target:
        for piece in pieces:
            seen.update(piece)
            size += len(piece)
            _write_all(target.fileno(), piece)
        os.fsync(target.fileno())
    return BlobRef(name, seen.hexdigest(), size)


def _write_all(file: int, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(file, rest) :]


@contextmanager
def _local(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error


def _write_local(file: int, piece: bytes, path: str) -> None:
    # Its own error, or a full local disk would be reported as a fault of the shared one.
    with _local(path):
        _write_all(file, piece)


def _check_size(found: os.stat_result, ref: BlobRef, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise StateError(f"{path} is not a plain file")
    if found.st_size != ref.size:
        raise StateError(f"{path} was altered: it has {found.st_size} bytes, the manifest says {ref.size}")


def _read_error(error: OSError, path: Path | str) -> PenstockError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return StateError(f"{path} is missing")
    if error.errno == errno.ELOOP:
        return StateError(f"{path} is a symbolic link, which is never followed")
    return StorageError(f"{path}: {error.strerror}")


def _write_error(error: OSError, path: Path) -> StorageError:
    if error.errno == errno.EEXIST:
        return StorageError(f"{path} exists already; names are never used again")
    return StorageError(f"{path}: {error.strerror}")
