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


class TableUser:
    """A user of the database who has a schema with the table ``words``, and no right yet."""

    def __init__(self, postgres: Postgres, columns: str) -> None:
        self._postgres = postgres
        self.name = new_name("user").replace("-", "_")
        self.table = f"{self.name}.words"
        for statement in (
            f"CREATE ROLE {self.name} LOGIN PASSWORD '{PASSWORD}'",
            f"CREATE SCHEMA {self.name}",
            f"CREATE TABLE {self.table} ({columns})",
        ):
            postgres.run(statement)

    @property
    def uri(self) -> str:
        """The address of the database for this user."""
        return self._postgres.server.uri.replace("//penstock@", f"//{self.name}@")

    def grant(self, right: str) -> None:
        """Give a right, as ``SELECT ON words``."""
        self._postgres.run(f"GRANT {right} TO {self.name}")

    def revoke(self, right: str) -> None:
        """Take a right away."""
        self._postgres.run(f"REVOKE {right} FROM {self.name}")

    def drop(self) -> None:
        """Drop the user, and what is theirs."""
        self._postgres.run(f"DROP SCHEMA {self.name} CASCADE")
        self.revoke("ALL ON DATABASE penstock")
        self._postgres.run(f"DROP ROLE {self.name}")
