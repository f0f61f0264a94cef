"""The files of a table of Iceberg, for its client: in a folder, or in a bucket.

The client finds this class by its name (``py-io-impl``) and makes one for each table. A file in a folder is whole or
not there, and survives a power failure: with the client's own code a catalog could know a file that the disk lost. The
files of a bucket go through the client that the S3 connectors have. So the image of workers needs no other one, and
an error has the same text. Keys that a REST catalog gives (vended credentials) are among the properties.

Only this module imports the client (pyiceberg) when it is loaded, because only the client loads it.
"""

from io import BytesIO
from pathlib import Path
from typing import Any

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from penstock.base.errors import ConfigError
from penstock.connectors.durable_files import write_whole
from penstock.connectors.s3.object_folder import ObjectFolder, s3_store
from penstock.file_system import OS_FILES, make_durable

CONFIG = {  # of the client of buckets, by the names that catalogs have for it
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "s3.region",
    "endpoint": "s3.endpoint",
}
BUCKETS = ("s3://", "s3a://", "s3n://")


class TableFiles(FileIO):
    """Reads, writes and deletes files by their place. Raises StorageError, OSError."""

    def new_input(self, location: str) -> InputFile:
        """Return a file to read."""
        return _ReadFile(self._at(location))

    def new_output(self, location: str) -> OutputFile:
        """Return a file to write."""
        return _WrittenFile(self._at(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file; one that is not there is no error."""
        self._at(location if isinstance(location, str) else location.location).delete()

    def _at(self, location: str) -> "_LocalFile | _Object":
        if location.startswith(BUCKETS):
            bucket, _, name = location.partition("://")[2].partition("/")
            config = {ours: self.properties[theirs] for ours, theirs in CONFIG.items() if theirs in self.properties}
            return _Object(location, ObjectFolder(f"s3://{bucket}", lambda: s3_store(bucket, None, config)), name)
        path = location.removeprefix("file://").removeprefix("file:")
        if ":/" in path:
            raise ConfigError(
                f"iceberg: {location}: the table is in a store that this sink does not know: it takes a"
                " folder, or a bucket of S3 or of a store with its API"
            )
        return _LocalFile(location, Path(path))


class _LocalFile:
    def __init__(self, location: str, path: Path) -> None:
        self.location = location
        self._path = path

    def size(self) -> int | None:
        return self._path.stat().st_size if self._path.exists() else None

    def read(self) -> bytes:
        return self._path.read_bytes()

    def write(self, data: bytes) -> None:
        make_durable(OS_FILES, self._path.parent)
        write_whole(self._path, data)

    def delete(self) -> None:
        self._path.unlink(missing_ok=True)


class _Object:
    def __init__(self, location: str, folder: ObjectFolder, name: str) -> None:
        self.location = location
        self._folder = folder
        self._name = name

    def size(self) -> int | None:
        found = self._folder.version(self._name)
        return None if found is None else found.size

    def read(self) -> bytes:
        data = self._folder.read(self._name)
        if data is None:
            raise FileNotFoundError(f"{self.location} is not there")
        return data

    def write(self, data: bytes) -> None:
        self._folder.replace(self._name, data)

    def delete(self) -> None:
        self._folder.delete(self._name)


class _ReadFile(InputFile):
    """A file that is read at once. The client reads metadata by it, which is small."""

    def __init__(self, file: _LocalFile | _Object) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return self._file.size() or 0

    def exists(self) -> bool:
        """Return whether the file is there."""
        return self._file.size() is not None

    def open(self, seekable: bool = True) -> InputStream:
        """Read the file."""
        return BytesIO(self._file.read())


class _WrittenFile(OutputFile):
    """A file that is written at once, when its stream is closed."""

    def __init__(self, file: _LocalFile | _Object) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return self._file.size() or 0

    def exists(self) -> bool:
        """Return whether the file is there."""
        return self._file.size() is not None

    def to_input_file(self) -> InputFile:
        """Return the file to read."""
        return _ReadFile(self._file)

    def create(self, overwrite: bool = False) -> OutputStream:
        """Begin the file. Raises FileExistsError, unless it may be replaced."""
        if not overwrite and self.exists():
            raise FileExistsError(f"{self.location} is there")
        return _Whole(self._file)


class _Whole(BytesIO):
    """What is written, until it is closed. After an error nothing is written."""

    def __init__(self, file: _LocalFile | _Object) -> None:
        super().__init__()
        self._file = file

    def __exit__(self, kind: Any, *more: Any) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def close(self) -> None:
        """Write the file."""
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._file.write(data)
