"""Immutable files below one directory, on a local disk or a network file system.

A file is created exclusively, written, fsynced with its folder, and never changed. The folders
above it are fsynced once by each store, also where another process made them. Nothing relies on rename or on listing.
Paths are walked folder by folder with ``O_NOFOLLOW``, so neither a name nor a symbolic link planted
below the root leads out of it. Reads check length and SHA-256 against the manifest: what differs is
an error, never data.
"""

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.base.errors import PenstockError, StateError, StorageError
from penstock.contract.ids import BlobName
from penstock.contract.manifest import BlobRef
from penstock.file_system import (
    CHUNK_BYTES,
    FOLDER,
    FOLDER_NOT_LINKED,
    NEW_FILE,
    OLD_FILE,
    OS_FILES,
    closing,
    make_durable,
    pieces,
    read_up_to,
    remove_folder,
    write_all,
)
from penstock.ports import EntryKind, FileSystem

PART = re.compile(r"(?!\.)[A-Za-z0-9._=-]{1,200}")
PARTS_MAX = 8


class DirectoryBlobStore:
    """:class:`penstock.ports.BlobStore` on a directory, which the first file makes if it is missing."""

    def __init__(self, root: Path, files: FileSystem = OS_FILES) -> None:
        """Remember ``root``; it may itself be reached by a link, nothing below it may.

        Nothing is touched before the first call, so a volume that is full now stops no process.
        """
        self._root = root
        self.files = files
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
        return b"".join(self._content(ref))

    def check(self, ref: BlobRef) -> None:
        """Like :meth:`get`, with bounded memory, and return nothing."""
        for _ in self._content(ref):
            pass

    def fetch(self, ref: BlobRef, path: str) -> None:
        """Like :meth:`get`, into a local file, with bounded memory; no file on an error."""
        try:
            with _local(path), open(path, "wb", buffering=0) as target:
                for piece in self._content(ref):
                    _write_local(target.fileno(), piece, path)
        except PenstockError:
            with suppress(OSError):
                os.unlink(path)
            raise

    def copy(self, ref: BlobRef, source: "DirectoryBlobStore", name: BlobName) -> BlobRef:
        """Create ``name`` durably with the content of a file of ``source``, with bounded memory.

        Raises StateError when that file is missing or altered, StorageError as :meth:`put`. No file on an error.
        """
        with contextlib.closing(source._content(ref)) as content:
            return self._create(name, content)

    def peek(self, name: BlobName, bytes_max: int) -> bytes | None:
        """Read up to ``bytes_max`` bytes of a file that no manifest lists; None when missing.

        For the one file that says whose directory this is. Raises StorageError.
        """
        *folders, leaf = _parts(name)
        try:
            with self._old_file(folders, leaf) as file:
                return read_up_to(self.files, file, bytes_max)
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
                self.files.link(staged_leaf, leaf, within=folder)
                self.files.unlink(staged_leaf, within=folder)  # before the sync: nobody looks for it later
                self.files.fsync(folder)
        except OSError as error:
            self.delete(staged)
            raise _write_error(error, self._root / name) from error

    def sync_name(self, name: BlobName) -> None:
        """Make the name of a file durable that another process has made. Raises StorageError."""
        *folders, _ = _parts(name)
        try:
            with self._folder(folders) as folder:
                self.files.fsync(folder)
        except OSError as error:
            raise _write_error(error, self._root / name) from error

    def delete(self, name: BlobName) -> None:
        """Remove; a missing file is no error. Raises StorageError."""
        *folders, leaf = _parts(name)
        try:
            with self._folder(folders) as folder:
                self.files.unlink(leaf, within=folder)
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
                remove_folder(self.files, leaf, within=folder)
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
        for entry in sorted(self.files.entries(folder), key=lambda entry: entry.name):
            if entry.kind is EntryKind.FOLDER:
                yield from self._list(folder / entry.name, f"{prefix}{entry.name}/")
            elif entry.kind is EntryKind.FILE:
                yield BlobName(prefix + entry.name)

    def _create(self, name: BlobName, content: Iterable[bytes]) -> BlobRef:
        *folders, leaf = _parts(name)
        try:
            with self._folder(folders, make=True) as folder:
                file = self.files.open(leaf, NEW_FILE, 0o600, within=folder)
                try:
                    ref = self._write(file, name, content)
                    self.files.fsync(folder)
                except BaseException:
                    # The name stays burnt for the caller; its space must not stay taken on a
                    # full disk. The file is ours: it was created exclusively a moment ago.
                    with suppress(OSError):
                        self.files.unlink(leaf, within=folder)
                    raise
        except OSError as error:
            raise _write_error(error, self._root / name) from error
        return ref

    def _content(self, ref: BlobRef) -> Generator[bytes, None, None]:
        """Yield a file piece by piece. It is known to be unaltered only at the end."""
        *folders, leaf = _parts(ref.name)
        try:
            with self._old_file(folders, leaf) as file:
                _check_size(self.files.stat(file), ref, self._root / ref.name)
                seen = hashlib.sha256()
                for piece in pieces(self.files, file):
                    seen.update(piece)
                    yield piece
        except OSError as error:
            raise _read_error(error, self._root / ref.name) from error
        if seen.hexdigest() != ref.sha256:
            raise StateError(
                f"{self._root / ref.name} was altered: its SHA-256 is {seen.hexdigest()}, "
                f"the manifest says {ref.sha256}"
            )

    def _write(self, file: int, name: BlobName, content: Iterable[bytes]) -> BlobRef:
        seen, size = hashlib.sha256(), 0
        with closing(self.files, file):
            for piece in content:
                seen.update(piece)
                size += len(piece)
                write_all(self.files, file, piece)
            self.files.fsync(file)
        return BlobRef(name, seen.hexdigest(), size)

    @contextmanager
    def _old_file(self, folders: list[str], leaf: str) -> Iterator[int]:
        with (
            self._folder(folders) as folder,
            closing(self.files, self.files.open(leaf, OLD_FILE, within=folder)) as file,
        ):
            yield file

    @contextmanager
    def _folder(self, parts: list[str], *, make: bool = False) -> Iterator[int]:
        if make and () not in self._durable:
            make_durable(self.files, self._root)
            self._durable.add(())
        folder = self.files.open(self._root, FOLDER)
        try:
            for count, part in enumerate(parts, start=1):
                if make:
                    self._make_folder(tuple(parts[:count]), folder)
                outer, folder = folder, self.files.open(part, FOLDER_NOT_LINKED, within=folder)
                self.files.close(outer)
            yield folder
        finally:
            self.files.close(folder)

    def _make_folder(self, parts: tuple[str, ...], parent: int) -> None:
        """Make the last of ``parts``, durably: one that is there may be another's, not synced."""
        with suppress(FileExistsError):
            self.files.mkdir(parts[-1], 0o700, within=parent)
            self._durable.discard(parts)
        if parts not in self._durable:
            self.files.fsync(parent)
            self._durable.add(parts)


def _parts(name: str) -> list[str]:
    parts = name.split("/")
    if len(parts) > PARTS_MAX or not all(PART.fullmatch(part) for part in parts):
        raise StateError(f"{name!r} is no name of a stored file")
    return parts


@contextmanager
def _local(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}") from error


def _write_local(file: int, piece: bytes, path: str) -> None:
    # Its own error, or a full local disk would be reported as a fault of the shared one.
    with _local(path):
        write_all(OS_FILES, file, piece)


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
