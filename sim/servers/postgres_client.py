"""The twin of the client of PostgreSQL (``adbc_driver_postgresql.dbapi``), for the virtual server."""

import re
from typing import Any, Protocol

import pyarrow as pa

from sim.servers.postgres import LOOK_UP, Answer, SqlError

ARROW = {"bigint": pa.int64(), "text": pa.string()}


class SqlWire(Protocol):
    """The way to the server."""

    def ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method of the server, as often as it says that it waits. Raises SqlError."""
        ...

    def hang_up(self, session: int, *, broken: bool) -> None:
        """End a session. A server does not notice at once that a ``broken`` one has ended."""
        ...


class PostgresApi:
    """The names of the client's module that ``connectors/postgres`` uses."""

    Error = SqlError

    def __init__(self, wire: SqlWire) -> None:
        self._wire = wire

    def connect(self, uri: str, *, autocommit: bool) -> "PostgresConnection":
        """Begin a session. Raises SqlError."""
        assert autocommit
        name = uri.partition("application_name=")[2].partition("&")[0]
        return PostgresConnection(self._wire, self._wire.ask("open", (name,)))


class PostgresConnection:
    """One session. After a request without an answer it is of no use."""

    def __init__(self, wire: SqlWire, session: int) -> None:
        self._wire = wire
        self._session = session
        self._broken = False

    def __enter__(self) -> "PostgresConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.hang_up(self._session, broken=self._broken)

    def cursor(self) -> "PostgresCursor":
        """Return what runs statements."""
        return PostgresCursor(self)

    def ask(self, name: str, *arguments: Any) -> Any:
        """Make a request of this session. Raises SqlError."""
        if self._broken:
            raise SqlError(None, "the connection was lost")
        try:
            return self._wire.ask(name, (self._session, *arguments))
        except SqlError as error:
            self._broken = error.sqlstate in (None, "57P01")
            raise


class PostgresCursor:
    """Runs statements, one at a time."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self.adbc_statement = self
        self.description: Answer = []
        self._sql = ""

    def __enter__(self) -> "PostgresCursor":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def set_options(self, **_options: str) -> None:
        """Do nothing: the options say how answers come."""

    def execute(self, sql: str, values: tuple[Any, ...] | pa.RecordBatch | None) -> None:
        """Run a statement, with the values of a tuple or of a batch of one row. Raises SqlError."""
        self._sql = sql
        if isinstance(values, pa.RecordBatch):
            values = tuple(column.to_pylist()[0] for column in values.columns)
        self.description = self._connection.ask("run", sql, tuple(values or ()))

    def fetchall(self) -> Answer:
        """Return the rows of the answer."""
        return self.description

    def fetch_arrow_table(self) -> pa.Table:
        """Return the rows of a lookup: the numbers of keys, and the chosen columns as what they are cast to."""
        found = LOOK_UP.match(self._sql)
        assert found, "no other statement is fetched so"
        kinds = [pa.int64(), *(ARROW[name] for name in re.findall(r"::(\w+)", found["chosen"]))]
        columns = [[row[place] for row in self.description] for place in range(len(kinds))]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        return pa.table(arrays, [f"c{place}" for place in range(len(kinds))])

    def adbc_ingest(self, _table: str, rows: Any, *, mode: str, temporary: bool) -> None:
        """Add the rows of a reader to the temporary table. Raises SqlError, also for what fails in the reader."""
        assert (mode, temporary) == ("append", True)
        self._connection.ask("copy", rows.read_all().to_pylist())
