"""A database of a real server, as tests make tables in it and look at them."""

from typing import Any

from adbc_driver_postgresql import dbapi

from tools.servers.kafka import new_name
from tools.servers.postgres import PostgresServer

PASSWORD = "a-secret-of-the-tests"
PASSWORD_VARIABLE = "PENSTOCK_TESTS_PG"  # not a name that libpq reads


class Postgres:
    """The owner of the database ``penstock`` on a server."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement, and return its rows."""
        uri = self.server.uri.replace("@", f":{PASSWORD}@")
        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def table(self, columns: str, prefix: str = "output") -> str:
        """Make a table of a new name, and return the name."""
        name = new_name(prefix).replace("-", "_")
        self.run(f"CREATE TABLE {name} ({columns})")
        return name

    def rows(self, table: str) -> list[dict[str, object]]:
        """Return the rows of a table, in no order."""
        uri = self.server.uri.replace("@", f":{PASSWORD}@")
        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            found: list[dict[str, object]] = cursor.fetch_arrow_table().to_pylist()
            return found
