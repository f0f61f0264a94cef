"""Objects of a folder of a bucket, with the methods of a path that the sources of files use.

A job notes the version (etag) of each object. Every read of a pinned object asks for that version. So rows of two
versions are never mixed: an object that is replaced while it is read is an error at the next request.
"""

import io
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Literal, cast

from penstock.base.values import replace
from penstock.connectors.s3.object_folder import ObjectFolder, ObjectVersion

AHEAD_BYTES = 1024 * 1024  # asked for at least: a request costs as much as some 100 kB


@dataclass(frozen=True, slots=True)
class ObjectStat:
    """What a look at an object tells."""

    st_size: int


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """A folder (without a name), or an object in it. Every call blocks, and raises StorageError."""

    folder: ObjectFolder
    name: str = ""
    etag: str = ""

    def __str__(self) -> str:
        return f"{self.folder.place}/{self.name}" if self.name else self.folder.place

    def __truediv__(self, name: str, /) -> "ObjectPath":
        """Return an object of the folder."""
        return replace(self, name=name)

    @property
    def suffix(self) -> str:
        """Return the end of the name, with the dot."""
        return PurePosixPath(self.name).suffix

    def is_dir(self) -> bool:
        """Return whether it is the folder."""
        return not self.name

    def is_file(self) -> bool:
        """Return whether there is such an object."""
        return bool(self.name) and self.folder.version(self.name) is not None

    def entries(self) -> list[tuple[str, bool]]:
        """List the folder."""
        return self.folder.entries()

    def names(self) -> list[str]:
        """List all objects below the folder."""
        return self.folder.names()

    def stat(self) -> ObjectStat:
        """Look at the object. Raises FileNotFoundError."""
        return ObjectStat(self._seen().size)

    def version(self) -> str:
        """Return the present etag. Raises FileNotFoundError."""
        return self._seen().etag

    def pinned(self, version: str) -> "ObjectPath":
        """Return the object such that only this version is read."""
        return replace(self, etag=version)

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Open the object, of the pinned version or the present one. Raises FileNotFoundError."""
        seen = self._seen()
        return cast(BinaryIO, _ObjectReader(self, ObjectVersion(seen.size, self.etag or seen.etag)))

    def _seen(self) -> ObjectVersion:
        found = self.folder.version(self.name)
        if found is None:
            raise FileNotFoundError(f"there is no object {self}")
        return found


class _ObjectReader(io.RawIOBase):
    """Reads one version of an object, from any place. No connection is kept."""

    def __init__(self, path: ObjectPath, version: ObjectVersion) -> None:
        self._path = path
        self._version = version
        self._at = 0
        self._piece, self._piece_at = b"", 0

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def seekable(self) -> bool:
        """Return that it can be read at any place."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a place."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._version.size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """Return the place."""
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        """Return ``size`` bytes, fewer at the end only. Raises StateError when the object was replaced."""
        left = max(0, self._version.size - self._at)
        size = left if size < 0 else min(size, left)
        begin = self._at - self._piece_at
        if not 0 <= begin <= begin + size <= len(self._piece):
            end = min(self._version.size, self._at + max(size, AHEAD_BYTES))
            self._piece = self._path.folder.part(self._path.name, self._version.etag, self._at, end) if size else b""
            self._piece_at, begin = self._at, 0
        self._at += size
        return self._piece[begin : begin + size]

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer."""
        view: Any = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)
