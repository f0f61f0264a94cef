"""A table of Delta Lake, and what the errors of its client mean to a job.

The client (deltalake, over the crate delta-rs) is an extra, and is loaded when a connector is made. It has threads of
its own, which a process that is forked from this one has not: whoever forks does so before the first call.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.base.errors import ConfigError, PenstockError, StateError, StorageError
from penstock.connectors import extras
from penstock.connectors.durable_files import sync, write_whole
from penstock.connectors.input_files import InputPath
from penstock.connectors.missing import NotThere
from penstock.connectors.s3.object_folder import (
    CONNECT_MAX,
    SILENT_MAX,
    ObjectFolder,
    Unusable,
    kind_of,
    open_folder,
    told,
)
from penstock.connectors.s3.object_path import ObjectPath
from penstock.connectors.secret_places import read_secret
from penstock.contract.codec import parsed
from penstock.contract.delta_options import DeltaTableOptions
from penstock.contract.s3_options import S3Place

LOG = "_delta_log"
CLIENT = {
    "AWS_ALLOW_HTTP": "true",
    "connect_timeout": CONNECT_MAX,
    "timeout": SILENT_MAX,
    "max_retries": "2",  # of a request; a commit is never tried again
    "retry_timeout": SILENT_MAX,
}
SHARED = ("region", "endpoint", "access_key", "secret_key", "session_token")  # options


def library() -> Any:
    """Return the client. Raises ConfigError that names the extra when it is not installed."""
    return extras.library("deltalake", of="delta", extra="delta")


class DeltaPlace:
    """Where a table is, and who asks. Every call blocks, and raises StorageError when a retry may help."""

    def __init__(self, options: DeltaTableOptions, remedy: str) -> None:
        """Ask nothing yet. ``remedy`` says what to do when there is no table.

        Raises ConfigError when a key lacks the other one, or the client is missing.
        """
        library()
        self._options = options
        self._remedy = remedy
        self.url = options.table.rstrip("/")
        self._objects: ObjectFolder | None = None
        if "://" in self.url:
            shared = {name: getattr(options, name) for name in SHARED}
            self._objects = open_folder(S3Place(self.url, **shared))
        self.path: InputPath = ObjectPath(self._objects) if self._objects else Path(self.url)

    def open(self, *names: str) -> "DeltaSnapshot":
        """Return the newest snapshot, with the transaction numbers of the applications ``names``.

        Raises NotThere when there is no table.
        """
        with self.asked():
            table = self.table()
            return DeltaSnapshot(
                table,
                table.version(),
                parsed(table.schema().to_json()),
                table.metadata().partition_columns,
                table.metadata().configuration,
                table.protocol().writer_features or [],
                {name: table.transaction_version(name) for name in names},
            )

    def table(self, version: int | None = None) -> Any:
        """Return the client's view of a version, of the newest one without ``version``; only within :meth:`asked`.

        Raises NotThere when there is no table.
        """
        delta = library()
        try:
            return delta.DeltaTable(self.url, version, self._storage())
        except delta.exceptions.TableNotFoundError as error:
            raise NotThere(f"delta: {self.url}: there is no table: {self._remedy}") from error

    def check_rights(self) -> None:
        """Raise ConfigError when the job's user may not write to a folder. Of a bucket the first commit says it."""
        for folder in () if self._objects else (Path(self.url), Path(self.url) / LOG):
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise ConfigError(f"delta: {folder}: the job's user may not write there: let it")

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the table, unless it is there. Its name says what it holds. It survives a power failure."""
        if self._objects is not None:
            if not self._objects.create(name, data):
                found = self._objects.version(name)
                if found is None or found.size != len(data):
                    raise StateError(f"delta: {self.url}/{name} exists and is another file: move it away")
            return
        with self.asked():
            path = Path(self.url) / name
            if path.exists():
                sync(path)
            else:
                write_whole(path, data)

    def commit(self, snapshot: "DeltaSnapshot", adds: Sequence[Any], marker: dict[str, int], note: object) -> None:
        """Add files to the table and set the numbers of ``marker`` in it, if ``snapshot`` is still the newest one.

        Raises StorageError when it is not, or when nobody knows whether the commit was made.
        """
        delta, table = library(), snapshot.table
        with self.asked():
            properties = delta.CommitProperties(
                custom_metadata={"penstock": note},
                max_commit_retries=0,
                app_transactions=[delta.Transaction(name, number) for name, number in marker.items()],
            )
            try:
                table.create_write_transaction(
                    list(adds), "append", table.schema(), partition_by=snapshot.partitions, commit_properties=properties
                )
            except delta.exceptions.CommitFailedError as error:
                said = f"version {snapshot.version + 1} was made by another commit, or cannot be made: {error}"
                raise StorageError(f"delta: {self.url}: {said}") from error
            if self._objects is None:
                sync(Path(self.url) / LOG / f"{snapshot.version + 1:020d}.json")

    def _storage(self) -> dict[str, str] | None:
        if self._objects is None:
            return None
        options = self._options
        places = (
            ("AWS_ACCESS_KEY_ID", "accessKey", options.access_key),
            ("AWS_SECRET_ACCESS_KEY", "secretKey", options.secret_key),
            ("AWS_SESSION_TOKEN", "sessionToken", options.session_token),
        )
        found = {name: read_secret(place, f"delta: {option}") for name, option, place in places if place is not None}
        given = (("AWS_REGION", options.region), ("AWS_ENDPOINT_URL", options.endpoint))
        found |= {name: value for name, value in given if value is not None}
        return {**found, **CLIENT}

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Make errors of the client, and of files, those of a job: StorageError unless they have a better class.

        A fault of ours stays what it is: nobody may try again for ever.
        """
        try:
            yield
        except PenstockError:
            raise
        except PermissionError as error:
            raise Unusable(f"delta: {self.url}: {error}: let the job's user read and write the folder") from error
        except Exception as error:
            # The client makes a plain Exception of what Arrow and Parquet say. No other code does.
            if not isinstance(error, library().exceptions.DeltaError | OSError) and type(error) is not Exception:
                raise
            text = str(error)
            raise kind_of(text)(f"delta: {self.url}: {told(text)}") from None


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """One version of a table, which a commit can be made on.

    ``schema`` is as Delta Lake writes it. ``features`` are what its writers have to know. ``numbers`` are those that
    the newest commits with these names have set (application transactions), None where there is none.
    """

    table: Any
    version: int
    schema: dict[str, Any]
    partitions: list[str]
    settings: dict[str, str]
    features: list[str]
    numbers: dict[str, int | None]
