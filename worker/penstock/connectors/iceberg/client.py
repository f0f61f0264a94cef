"""A table of Iceberg, and what the errors of its client mean to a job.

The client (pyiceberg) is an extra, and is loaded when a connector is made.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.base.errors import ConfigError, PenstockError, StorageError
from penstock.base.threads import Lock
from penstock.connectors import extras
from penstock.connectors.missing import NotThere
from penstock.connectors.s3.object_folder import SHOWN_CHARS, Unusable, told
from penstock.connectors.secret_places import read_secret
from penstock.contract.iceberg_options import SQLITE, IcebergTableOptions

BUSY_MAX_S = "30"  # until a catalog in a file has its lock
RETRIES = "commit.retry.num-retries"
FILES = "penstock.connectors.iceberg.table_files.TableFiles"
SECRETS = (
    ("token", "token", "token"),
    ("credential", "credential", "credential"),
    ("access_key", "accessKey", "s3.access-key-id"),
    ("secret_key", "secretKey", "s3.secret-access-key"),
    ("session_token", "sessionToken", "s3.session-token"),
)
TEXTS = (
    ("warehouse", "warehouse"),
    ("scope", "scope"),
    ("region", "s3.region"),
    ("endpoint", "s3.endpoint"),
)


def library() -> Any:
    """Return the client's errors. Raises ConfigError that names the extra when it is not installed."""
    return extras.library("pyiceberg.exceptions", of="iceberg", extra="iceberg")


def _errors_of_client() -> tuple[type[BaseException], ...]:
    """Return what the client and its libraries raise when a catalog, a file or what they hold is at fault."""
    own = [each for each in vars(library()).values() if isinstance(each, type) and issubclass(each, Exception)]
    theirs = (("sqlalchemy.exc", "SQLAlchemyError"), ("pydantic", "ValidationError"))
    libraries = [getattr(extras.library(module, of="iceberg", extra="iceberg"), name) for module, name in theirs]
    return (OSError, *own, *libraries)


def _first(error: Exception) -> BaseException:
    """Return what failed: when a manifest that is merged cannot be read, the client says that the new one is empty."""
    empty = type(error) is ValueError and "empty manifest" in str(error)
    return error.__context__ or error if empty else error


class IcebergPlace:
    """Where a table is, and who asks. Every call blocks, and raises StorageError when a retry may help."""

    def __init__(self, options: IcebergTableOptions, remedy: str) -> None:
        """Ask nothing yet. ``remedy`` says what to do when there is no table.

        Raises ConfigError when a key lacks the other one, or the client is missing.
        """
        library()
        if (options.access_key is None) != (options.secret_key is None):
            raise ConfigError("iceberg: accessKey and secretKey go together: give both or none")
        self._options = options
        self._remedy = remedy
        self.name = options.table
        self._catalog: Any = None
        self._lock = Lock()

    def open(self) -> "IcebergSnapshot":
        """Return the table as it is now. Raises NotThere when there is none."""
        with self.asked():
            try:
                return IcebergSnapshot(self._connected().load_table(self.name))
            except library().NoSuchTableError as error:
                raise NotThere(f"{self._where}: there is no table: {self._remedy}") from error

    def write(self, snapshot: "IcebergSnapshot", location: str, data: bytes) -> None:
        """Write a file of the table, or replace it by an equal one. Its name says what it holds."""
        with self.asked(), snapshot.table.io.new_output(location).create(overwrite=True) as stream:
            stream.write(data)

    def commit(
        self, snapshot: "IcebergSnapshot", files: Sequence[Any], marker: dict[str, str], note: dict[str, str]
    ) -> None:
        """Add files and set the properties ``marker``, if the table still is as ``snapshot`` says.

        ``note`` is written into the new snapshot. Raises StorageError when the table is another one, or when nobody
        knows whether the commit was made.
        """
        table = snapshot.table
        # The client reads only here how often it tries. It would do so on a newer snapshot, which nobody looked at.
        table.metadata.properties[RETRIES] = "0"
        with self.asked():
            transaction = table.transaction()
            transaction.set_properties(marker)
            update = transaction.update_snapshot(snapshot_properties=note)
            merges = snapshot.properties.get("commit.manifest-merge.enabled", "false").lower() == "true"
            producer = update.merge_append() if merges else update.fast_append()
            for file in files:
                producer.append_data_file(file)
            producer.commit()
            transaction.commit_transaction()

    def check_rights(self, snapshot: "IcebergSnapshot") -> None:
        """Raise ConfigError when the job's user may not write to a folder. Of a bucket the first commit says it."""
        place = str(snapshot.table.location()).removeprefix("file://").removeprefix("file:")
        for folder in (Path(place), Path(place) / "metadata"):
            if "://" not in place and folder.exists() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise ConfigError(f"iceberg: {folder}: the job's user may not write there: let it")

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Give errors their meaning. Keys may have changed when one was refused: they are read again then.

        A fault of ours stays what it is: nobody may try again for ever.
        """
        errors = library()
        try:
            yield
        except Unusable:
            self.close()
            raise
        except PenstockError:
            raise
        except (errors.UnauthorizedError, errors.OAuthError, errors.AuthorizationExpiredError) as error:
            self.close()
            raise Unusable(f"{self._where}: {told(str(error))}: correct `token` or `credential`") from None
        except errors.ForbiddenError as error:
            self.close()
            raise Unusable(f"{self._where}: {told(str(error))}: let the job's user read and write the table") from None
        except extras.library("requests", of="iceberg", extra="iceberg").RequestException as error:
            said = f"{type(error).__name__}: {str(error)[:SHOWN_CHARS]}"
            raise StorageError(f"{self._where}: {said}: check `catalog`, and that it lets the workers in") from None
        except PermissionError as error:
            raise Unusable(f"{self._where}: {error}: let the job's user read and write the folder") from error
        except errors.CommitFailedException as error:
            said = f"another commit came first, or this one cannot be made: {told(str(error))}"
            raise StorageError(f"{self._where}: {said}") from error
        except Exception as error:
            failed = _first(error)
            if not isinstance(failed, (PenstockError, *_errors_of_client())):
                raise
            self.close()  # a connection that could not commit still reads what it wrote
            if isinstance(failed, PenstockError):
                raise failed from None
            raise StorageError(f"{self._where}: {type(failed).__name__}: {told(str(failed))}") from None

    def close(self) -> None:
        """Release connections; the next call connects again."""
        with self._lock:
            catalog, self._catalog = self._catalog, None
        if catalog is not None:
            catalog.close()

    def _connected(self) -> Any:
        with self._lock:
            if self._catalog is None:
                self._catalog = self._connect()
            return self._catalog

    def _connect(self) -> Any:
        options = self._options
        given = {theirs: getattr(options, ours) for ours, theirs in TEXTS}
        for name, option, theirs in SECRETS:
            place = getattr(options, name)
            given[theirs] = None if place is None else read_secret(place, f"iceberg: {option}")
        properties = {name: value for name, value in given.items() if value is not None} | {"py-io-impl": FILES}
        if not options.catalog.startswith(SQLITE):
            from penstock.connectors.iceberg.rest_catalog import BoundedRestCatalog  # noqa: PLC0415 - an extra

            uri = options.catalog.rstrip("/")
            server = options.oauth2_server or f"{uri}/v1/oauth/tokens"
            return BoundedRestCatalog("rest", uri=uri, **{"oauth2-server-uri": server}, **properties)
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - an extra

        file = Path(options.catalog.removeprefix(SQLITE))
        if not file.exists():
            raise NotThere(f"iceberg: catalog {file}: there is no such file: {self._remedy}")
        uri = f"{SQLITE}{file}?timeout={BUSY_MAX_S}"
        return SqlCatalog(options.catalog_name, uri=uri, init_catalog_tables="false", **properties)

    @property
    def _where(self) -> str:
        return f"iceberg: {self.name}"


@dataclass(frozen=True, slots=True)
class IcebergSnapshot:
    """A table at one moment, which a commit can be made on."""

    table: Any

    @property
    def properties(self) -> dict[str, str]:
        """Return the table's properties."""
        return dict(self.table.metadata.properties)

    @property
    def version(self) -> int:
        """Return the version of the format."""
        return int(self.table.metadata.format_version)
