"""The files of a table of Iceberg, for its client and for a source: in a folder, or in a bucket.

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
from penstock.connectors.s3.object_path import ObjectPath
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

    def new_input(self, location: str) -> "TableFile":
        """Return a file to read."""
        return TableFile(location, self.path(location))

    def new_output(self, location: str) -> "TableFile":
        """Return a file to write."""
        return TableFile(location, self.path(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file; one that is not there is no error."""
        path = self.path(location if isinstance(location, str) else location.location)
        if isinstance(path, Path):
            path.unlink(missing_ok=True)
        else:
            path.folder.delete(path.name)

    def path(self, location: str) -> Path | ObjectPath:
        """Return a file, as sources of files read it. Raises ConfigError for a store that is not known."""
        if location.startswith(BUCKETS):
            bucket, _, name = location.partition("://")[2].partition("/")
            config = {ours: self.properties[theirs] for ours, theirs in CONFIG.items() if theirs in self.properties}
            return ObjectPath(ObjectFolder(f"s3://{bucket}", lambda: s3_store(bucket, None, config)), name)
        path = location.removeprefix("file://").removeprefix("file:")
        if ":/" in path:
            raise ConfigError(
                f"iceberg: {location}: the table is in a store that Penstock does not know: it takes a"
                " folder, or a bucket of S3 or of a store with its API"
            )
        return Path(path)


class TableFile(InputFile, OutputFile):
    """A file of metadata, or one that a sink writes. It is read at once, and written at once when it is closed."""

    def __init__(self, location: str, path: Path | ObjectPath) -> None:
        super().__init__(location)
        self._path = path

    def __len__(self) -> int:
        return self._path.stat().st_size if self.exists() else 0

    def exists(self) -> bool:
        """Return whether the file is there."""
        return self._path.is_file()

    def open(self, seekable: bool = True) -> InputStream:
        """Read the file. Raises FileNotFoundError."""
        if isinstance(self._path, Path):
            return BytesIO(self._path.read_bytes())
        data = self._path.folder.read(self._path.name)
        if data is None:
            raise FileNotFoundError(f"{self.location} is not there")
        return BytesIO(data)

    def to_input_file(self) -> "TableFile":
        """Return the file to read."""
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        """Begin the file. Raises FileExistsError, unless it may be replaced."""
        if not overwrite and self.exists():
            raise FileExistsError(f"{self.location} is there")
        return _Whole(self._path)


class _Whole(BytesIO):
    """What is written, until it is closed. After an error nothing is written, nor when nobody closes it."""

    def __init__(self, path: Path | ObjectPath) -> None:
        super().__init__()
        self._path = path

    def __del__(self) -> None:
        # The client leaves the file of a manifest that it gives up. Python would close it, and so write it.
        super().close()

    def __exit__(self, kind: Any, *more: Any) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def close(self) -> None:
        """Write the file."""
        if self.closed:
            return
        data = self.getvalue()
        super().close()
        if isinstance(self._path, Path):
            make_durable(OS_FILES, self._path.parent)
            write_whole(self._path, data)
        else:
            self._path.folder.replace(self._path.name, data)
