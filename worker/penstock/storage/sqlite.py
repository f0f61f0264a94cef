"""Metadata and Lease in one SQLite file, opened by one process: ``penstock run``.

Others reach it over gRPC, because a process that is stopped inside a transaction would block
all others. Compare-and-swap is one ``UPDATE ... WHERE version = ?`` in a transaction that is on
disk when it returns (WAL, synchronous=FULL). Versions come from one counter of the database, so
no version is ever used twice, not even by another object of the same name.
"""

import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from penstock.base.errors import StateError, StorageError
from penstock.ports import LeaseView, SwapConflict, SwapUnknown, Versioned

FORMAT = 1
BUSY_TIMEOUT_S = 5.0
SCHEMA = f"""
CREATE TABLE objects (name TEXT PRIMARY KEY, uid TEXT NOT NULL, version INTEGER NOT NULL,
                      data BLOB NOT NULL) STRICT;
CREATE TABLE lease (one INTEGER PRIMARY KEY CHECK (one = 1), holder TEXT,
                    version INTEGER NOT NULL) STRICT;
CREATE TABLE counter (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES (1, 0);
INSERT INTO lease VALUES (1, NULL, 0);
PRAGMA user_version = {FORMAT};
"""


class Database:
    """One SQLite file under one lock of this process; ``with database.write()`` is a transaction.

    Holding the directory's lock is the caller's part.
    """

    def __init__(self, path: Path) -> None:
        """Open or create. Raises StateError when the file is another format or damaged."""
        self._path = path
        self._lock = threading.Lock()
        try:
            self._connection = sqlite3.connect(
                path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._prepare()
        except sqlite3.DatabaseError as error:
            raise StateError(f"{path}: not a usable metadata store: {error}") from error

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        if found == 0:
            self._connection.executescript(f"BEGIN IMMEDIATE; {SCHEMA} COMMIT;")
        elif found != FORMAT:
            self._connection.close()
            raise StateError(f"{self._path}: format {found}, this Penstock reads {FORMAT}")

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Run queries. Raises StorageError when SQLite does."""
        with self._lock:
            try:
                yield self._connection
            except sqlite3.Error as error:
                raise StorageError(f"{self._path}: {error}") from error

    @contextmanager
    def write(self) -> Iterator[tuple[sqlite3.Connection, int]]:
        """Run a transaction with the next version number; done means durable.

        Raises SwapUnknown when SQLite fails: whether the commit is on disk is then not known.
        """
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                query = "UPDATE counter SET version = version + 1 RETURNING version"
                (version,) = self._connection.execute(query).fetchone()
                yield self._connection, version
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise SwapUnknown(f"{self._path}: {error}") from error
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file; idempotent."""
        with self._lock:
            self._connection.close()


class SqliteMetaStore:
    """:class:`penstock.ports.MetaStore` on a :class:`Database`. Every call is one transaction."""

    def __init__(self, database: Database) -> None:
        """Serve the objects of ``database``."""
        self._database = database

    def get(self, name: str) -> Versioned | None:
        """Return the newest object, or None. Raises StorageError."""
        with self._database.read() as connection:
            query = "SELECT data, version, uid FROM objects WHERE name = ?"
            row = connection.execute(query, (name,)).fetchone()
        return None if row is None else Versioned(bytes(row[0]), str(row[1]), row[2])

    def create(self, name: str, data: bytes) -> Versioned:
        """Create atomically. Raises SwapConflict when it exists, SwapUnknown when SQLite fails."""
        uid = str(uuid.uuid4())
        with self._database.write() as (connection, version):
            query = "INSERT INTO objects VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
            if connection.execute(query, (name, uid, version, data)).rowcount != 1:
                raise SwapConflict(f"{name} exists already")
        return Versioned(data, str(version), uid)

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        """Replace exactly ``version``. Raises SwapConflict, or SwapUnknown when SQLite fails."""
        with self._database.write() as (connection, new):
            query = "UPDATE objects SET data = ?, version = ? WHERE name = ? AND version = ? RETURNING uid"
            row = connection.execute(query, (data, new, name, _number(version))).fetchone()
            if row is None:
                raise SwapConflict(f"{name} is not at version {version}")
        return Versioned(data, str(new), row[0])


class SqliteLeaseStore:
    """:class:`penstock.ports.LeaseStore` on a :class:`Database`: one Lease per file."""

    def __init__(self, database: Database, duration_s: float) -> None:
        """Serve the one Lease; ``duration_s`` is what readers judge its expiry by."""
        self._database = database
        self._duration_s = duration_s

    def read(self) -> LeaseView:
        """Return the Lease. Raises StorageError."""
        with self._database.read() as connection:
            holder, version = connection.execute("SELECT holder, version FROM lease").fetchone()
        return self._view(holder, version)

    def write(self, holder: str | None, version: str) -> LeaseView:
        """Take, renew or give up. Raises SwapConflict, or SwapUnknown when SQLite fails."""
        with self._database.write() as (connection, new):
            query = "UPDATE lease SET holder = ?, version = ? WHERE version = ?"
            if connection.execute(query, (holder, new, _number(version))).rowcount != 1:
                raise SwapConflict(f"the lease is not at version {version}")
        return self._view(holder, new)

    def _view(self, holder: str | None, version: int) -> LeaseView:
        # Every write is a renewal: the version tells a reader that the holder was alive.
        return LeaseView(holder, str(version), self._duration_s, str(version))


def _number(version: str) -> int:
    """Versions are opaque texts to others; what is none of ours matches nothing."""
    return int(version) if version.isascii() and version.isdecimal() else -1


def peek(path: Path, name: str) -> bytes | None:
    """Read one object without opening the store: for a process other than the one that has it open.

    None when there is no store or no such object. Raises StateError when it cannot be read.
    """
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as store:
            row = store.execute("SELECT data FROM objects WHERE name = ?", (name,)).fetchone()
    except sqlite3.Error as error:
        raise StateError(f"{path}: not a usable metadata store: {error}") from error
    return None if row is None else bytes(row[0])
