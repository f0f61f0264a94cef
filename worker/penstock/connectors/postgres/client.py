"""Connections to PostgreSQL, and what its errors mean to a job.

The client is loaded when a connection is made, because it is an extra. A connection is made for each publication, so
no session of a job rests at the server.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pyarrow as pa

from penstock.base.errors import ConfigError, ConnectorError, PenstockError, StateError, StorageError
from penstock.base.suggest import unknown
from penstock.connectors import extras
from penstock.connectors.missing import NotThere
from penstock.connectors.secret_places import read_secret
from penstock.contract.postgres_options import PostgresLookup, PostgresOutput
from penstock.protocol.marked import DROP, SKIP

NO_COPY = {"adbc.postgresql.use_copy": "false"}  # else the client reads results by COPY, which few statements allow
CONNECT_MAX_S = 10
SILENT_MAX_MS = 30_000  # what was sent and is not answered for so long ends a connection
SETTINGS = frozenset(
    ["channel_binding", "gssencmode", "sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert", "target_session_attrs"]
)
CONNECTING = {
    "the database system is": "wait until the server has started, or start it",
    "password authentication failed": "correct `uri` and `password`",
    "no password supplied": "give `password`",
    "no pg_hba.conf entry": "let the server's pg_hba.conf admit this user from the workers",
    "is not permitted to log in": "let the user of `uri` log in: ALTER ROLE <user> LOGIN",
    "permission denied for database": "GRANT CONNECT ON DATABASE <database> TO <user>, those of `uri`",
    "too many connections for role": "ALTER ROLE <user> CONNECTION LIMIT, or run fewer workers",
    "too many connections for database": "ALTER DATABASE <database> CONNECTION LIMIT, or run fewer workers",
    "too many clients": "raise max_connections, or run fewer workers",
    "connection slots are reserved": "raise max_connections, or run fewer workers",
    "not currently accepting connections": "ALTER DATABASE <database> ALLOW_CONNECTIONS true",
    "session is read-only": "its servers take no writes now: name the primary in `uri`, or wait for a new one",
    'role "': "correct the user in `uri`, or make it",
    'database "': "correct the database in `uri`, or make it",
    "certificate verify failed": "correct sslrootcert in `uri`",
    "could not translate host name": "correct the host in `uri`",
    "refused": "check the address in `uri`, and that the server runs",
    "timeout": "check the address in `uri`, and that the network lets the workers through",
}
HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
PORT, PORT_MAX = 5432, 65_535
# Classes that say what is wrong with a row. 54000: it is larger than a page, or its key than an index takes.
REFUSED = ("09", "21", "22", "23", "27", "38", "39", "44", "54000", "P0")
# All other classes of PostgreSQL (appendix A of its manual). A class that is none of its own is that of a trigger.
OTHERS = (
    *("00", "01", "02", "03", "08", "0A", "0B", "0F", "0L", "0P", "0Z", "20", "24", "25", "26", "28", "2B", "2D", "2F"),
    *("34", "3B", "3D", "3F", "40", "42", "53", "54", "55", "57", "58", "72", "F0", "HV", "XX"),
)
ABSENT = ("42P01", "3F000")  # there is no table, or no schema
POLICY = "violates row-level security policy"  # of a row, with the class of rights
READ_ONLY = "25006"
CHANGED = ("42",)  # what is wrong with the table
MISUSED = (2, 5)  # of the client: NOT_IMPLEMENTED, INVALID_ARGUMENT


def library() -> Any:
    """Return the client. Raises ConfigError that names the extra when it is not installed."""
    return extras.library("adbc_driver_postgresql.dbapi", of="postgres", extra="postgres")


class PostgresDatabase:
    """A database, as the options of a connector name it."""

    def __init__(self, options: PostgresOutput | PostgresLookup) -> None:
        """Connect nothing yet. Raises ConfigError for a host or setting in ``uri`` that is not allowed."""
        try:
            self._parts = urlsplit(options.uri)
        except ValueError as error:
            raise ConfigError(f"postgres: uri: the host is no host, or host:port: {error}") from error
        self._password = options.password
        self._settings = dict(parse_qsl(self._parts.query))
        for name in self._settings:
            if name not in SETTINGS:
                raise ConfigError(f"postgres: uri: {unknown('setting', name, SETTINGS)}")
        hosts = self._parts.netloc.rpartition("@")[2].split(",")
        self.place = ",".join(map(_address, hosts)) + self._parts.path

    @contextmanager
    def session(self, name: str, about: str) -> Iterator["PostgresSession"]:
        """Give a connection. It ends with the ``with``, and what is not committed with it.

        ``name`` is what the server shows as application_name; ``about`` begins the text of errors. Raises StorageError
        when a retry may help, ConfigError or StateError when not.
        """
        api = library()
        try:
            connection = api.connect(self._uri(name), autocommit=True)
        except (api.Error, OSError) as error:
            raise not_connected(about, self.place, str(error)) from error
        try:
            with connection:
                yield PostgresSession(connection)
        except api.Error as error:
            raise problem(about, error) from error
        except OSError as error:
            raise StorageError(f"{about}: {error}") from error

    def _uri(self, name: str) -> str:
        user, _, place = self._parts.netloc.rpartition("@")
        if self._password is not None:
            user += ":" + quote(read_secret(self._password, "postgres: password"), safe="")
        settings = {
            **self._settings,
            "application_name": name,
            "connect_timeout": CONNECT_MAX_S,
            "tcp_user_timeout": SILENT_MAX_MS,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 4,
        }
        return f"postgresql://{user}@{place}{self._parts.path}?{urlencode(settings, quote_via=quote)}"


class LockHeld(StorageError):
    """Another session has held a lock for too long."""


class PostgresSession:
    """One connection. Its calls raise the client's errors, which :meth:`PostgresDatabase.session` translates."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement with ``values`` for $1, $2 ... Return its rows, none for a statement without."""
        with self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**NO_COPY)
            cursor.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def fetch(self, sql: str, values: pa.RecordBatch) -> pa.RecordBatch:
        """Run a query with the one row ``values`` for $1, $2 ... Return what it gives."""
        with self._connection.cursor() as cursor:
            cursor.adbc_statement.set_options(**NO_COPY)
            cursor.execute(sql, values)
            table = cursor.fetch_arrow_table().combine_chunks()
            return next(iter(table.to_batches()), pa.RecordBatch.from_pylist([], table.schema))

    def accepted(self, sql: str) -> str | None:
        """Run a statement within a transaction. When the table refuses a row, undo it alone and return why."""
        self.run("SAVEPOINT before")
        try:
            self.run(sql)
        except library().Error as error:
            if not _refuses_row(error):
                raise
            self.run("ROLLBACK TO SAVEPOINT before")
            why: str | None = _plain(str(error))
        else:
            why = None
        self.run("RELEASE SAVEPOINT before")
        return why

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit at the end of the ``with``. After an error the connection has to be given up, which rolls back."""
        self.run("BEGIN")
        yield
        self.run("COMMIT")

    def copy(self, table: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Add rows to a temporary table that is there. What ``batches`` raises is raised as it is.

        The client takes the rows in C, and would make an error of its own of it, as of a connection that is cut.
        """
        failed: list[PenstockError] = []

        def given() -> Iterator[pa.RecordBatch]:
            try:
                yield from batches
            except PenstockError as error:
                failed.append(error)
                raise

        rows = pa.RecordBatchReader.from_batches(schema, given())
        with self._connection.cursor() as cursor:
            try:
                cursor.adbc_ingest(table, rows, mode="append", temporary=True)
            except library().Error:
                if failed:
                    raise failed[0] from None
                raise


def problem(about: str, error: Any) -> PenstockError:
    """Turn an error of the client into what a job does about it."""
    state, said = str(error.sqlstate or ""), _plain(str(error))
    if state == "55P03":
        return LockHeld(f"{about}: another session holds a lock: {said}")
    if _refuses_row(error):
        remedy = f"mend the table and start the job again, or give {SKIP}, or {DROP}"
        return StateError(f"{about}: the table refuses a row: {said}: {remedy}")
    if state.startswith(ABSENT):
        return NotThere(
            f"{about}: the table is not there: {said}: bring it back as it was and start the job again, or give {DROP}"
        )
    if state == "42501":
        return StorageError(f"{about}: a right is missing: {said}: grant it to the user of the job")
    if state == READ_ONLY:
        remedy = "name the primary in `uri`, or let the user of `uri` write"
        return StorageError(f"{about}: the server takes no writes now: {said}: {remedy}")
    if state.startswith(CHANGED):
        remedy = f"bring it back as it was and start the job again, or give {DROP}"
        return StateError(f"{about}: the table is another than at the start: {said}: {remedy}")
    if not state and getattr(error, "status_code", None) in MISUSED:
        return ConnectorError(f"{about}: {said}: {extras.REPORT}")
    return StorageError(f"{about}: {said} ({state or 'no answer'})")


def _refuses_row(error: Any) -> bool:
    """Say whether the server refuses a row, by itself or by a trigger that raises, with any code."""
    state = str(error.sqlstate or "")
    return state.startswith(REFUSED) or POLICY in str(error) or bool(state and not state.startswith(OTHERS))


def not_connected(about: str, place: str, said: str) -> PenstockError:
    """Say what helps when no connection to ``place`` is made; ``said`` is what the client says."""
    remedy = next((remedy for sign, remedy in CONNECTING.items() if sign in said), "check `uri`")
    return StorageError(f"{about}: no connection to {place}: {remedy} ({_plain(said)})")


def _address(host: str) -> str:
    """Return a host of ``uri`` with its port. Raises ConfigError."""
    found = HOST.fullmatch(host)
    if found is None or not 0 < int(found[2] or PORT) <= PORT_MAX:
        raise ConfigError(f"postgres: uri: {host!r} is no host, or host:port with a port from 1 to {PORT_MAX}")
    return f"{found[1] or 'localhost'}:{found[2] or PORT}"


def _plain(said: str) -> str:
    """Return what the server said on one line, without the statement that was sent and where in it the error is."""
    line = " ".join(said.split())
    _, statement, answer = line.partition("': ERROR: ")
    if not statement:
        return line.rpartition("PGRES_FATAL_ERROR ERROR: ")[2].replace(" . SQLSTATE:", ". SQLSTATE:")
    return re.sub(r" LINE \d+: .*? \^", "", answer).replace(" . SQLSTATE:", ". SQLSTATE:")
