"""Missing rights, wrong passwords and wrong addresses are told apart, each with what to do; a real server says them."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.connectors.postgres.postgres_sink import PostgresSink
from penstock.contract.postgres_options import PostgresOutput
from tests.support.postgres import PASSWORD, PASSWORD_VARIABLE, Postgres
from tools.servers.kafka import new_name

SCHEMA = pa.schema([("word", pa.string())])


class Writer:
    """A user of the database who has a schema with a table, and no right yet."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self.name = new_name("writer").replace("-", "_")
        self._run(f"CREATE ROLE {self.name} LOGIN PASSWORD '{PASSWORD}'", f"CREATE SCHEMA {self.name}")
        self._run(
            f"CREATE TABLE {self.name}.words (word text PRIMARY KEY)",
            f"GRANT USAGE ON SCHEMA {self.name} TO {self.name}",
        )

    def _run(self, *statements: str) -> None:
        for statement in statements:
            self._postgres.run(statement)

    def grant(self, right: str) -> None:
        self._run(f"GRANT {right} TO {self.name}")

    def claim(self, folder: Path, keys: str | None = None, **changed: str) -> None:
        uri = self._postgres.server.uri.replace("//penstock@", f"//{self.name}@")
        for old, new in changed.items():
            uri = uri.replace(str(getattr(self, old, old)), new)
        options = PostgresOutput(uri, f"{self.name}.words", keys, f"env:{PASSWORD_VARIABLE}")
        PostgresSink("out", options, SCHEMA, folder).claim("job", fresh=True)


@pytest.fixture
def writer(postgres: Postgres) -> Iterator[Writer]:
    made = Writer(postgres)
    yield made
    postgres.run(f"DROP SCHEMA {made.name} CASCADE")
    postgres.run(f"REVOKE ALL ON DATABASE penstock FROM {made.name}")
    postgres.run("GRANT TEMPORARY ON DATABASE penstock TO PUBLIC")
    postgres.run(f"DROP ROLE {made.name}")


def test_each_right_that_is_missing_is_named_with_the_statement_that_grants_it(
    postgres: Postgres, writer: Writer, tmp_path: Path
) -> None:
    name = writer.name
    with pytest.raises(
        ConfigError, match=rf'may not make the table of markers in schema "{name}"; as its owner: CREATE'
    ):
        writer.claim(tmp_path)
    writer.grant(f"CREATE ON SCHEMA {name}")
    with pytest.raises(ConfigError, match=rf'lacks rights: GRANT INSERT ON "{name}"."words" TO "{name}"'):
        writer.claim(tmp_path)
    writer.grant(f"INSERT ON {name}.words")
    with pytest.raises(ConfigError, match=rf'lacks rights: GRANT SELECT, UPDATE ON "{name}"."words" TO "{name}"'):
        writer.claim(tmp_path, keys="word")
    postgres.run("REVOKE TEMPORARY ON DATABASE penstock FROM PUBLIC")
    with pytest.raises(ConfigError, match=r'GRANT TEMPORARY ON DATABASE "penstock"'):
        writer.claim(tmp_path)
    writer.grant("TEMPORARY ON DATABASE penstock")
    writer.claim(tmp_path)


def test_a_wrong_password_user_database_or_address_is_told_apart(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="correct the database in `uri`, or make it"):
        writer.claim(tmp_path, **{"/penstock": "/shop"})
    with pytest.raises(StorageError, match="correct the host in `uri`"):
        writer.claim(tmp_path, **{"127.0.0.1": "no-such-host.invalid"})
    with pytest.raises(StorageError, match="correct `uri` and `password`"):
        writer.claim(tmp_path, name="nobody")
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-one")
    with pytest.raises(StorageError, match="correct `uri` and `password`") as told:
        writer.claim(tmp_path)
    assert "wrong-one" not in str(told.value)
