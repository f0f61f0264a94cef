"""Missing rights, wrong passwords and wrong addresses are told apart, each with what to do; a real server says them."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.connectors.postgres.postgres_sink import PostgresSink
from penstock.contract.postgres_options import PostgresOutput
from tests.support.postgres import PASSWORD_VARIABLE, Postgres, TableUser

SCHEMA = pa.schema([("word", pa.string())])


@pytest.fixture
def writer(postgres: Postgres) -> Iterator[TableUser]:
    made = TableUser(postgres, "word text PRIMARY KEY")
    yield made
    made.drop()
    postgres.run("GRANT TEMPORARY ON DATABASE penstock TO PUBLIC")


def claim(writer: TableUser, folder: Path, keys: str | None = None, **changed: str) -> None:
    """Claim the table. ``changed`` replaces parts of the address."""
    uri = writer.uri
    for old, new in changed.items():
        uri = uri.replace(str(getattr(writer, old, old)), new)
    options = PostgresOutput(uri, writer.table, keys, f"env:{PASSWORD_VARIABLE}")
    PostgresSink("out", options, SCHEMA, folder).claim("job", fresh=True)


def test_each_right_that_is_missing_is_named_with_the_statement_that_grants_it(
    postgres: Postgres, writer: TableUser, tmp_path: Path
) -> None:
    name = writer.name
    with pytest.raises(ConfigError, match=rf'lacks rights: GRANT USAGE ON SCHEMA "{name}" TO "{name}"'):
        claim(writer, tmp_path)
    writer.grant(f"USAGE ON SCHEMA {name}")
    with pytest.raises(
        ConfigError,
        match=rf'in schema "{name}"; as its owner: CREATE .*; GRANT .* ON "{name}".penstock_epochs TO "{name}"',
    ):
        claim(writer, tmp_path)
    writer.grant(f"CREATE ON SCHEMA {name}")
    with pytest.raises(ConfigError, match=rf'lacks rights: GRANT INSERT ON "{name}"."words" TO "{name}"'):
        claim(writer, tmp_path)
    writer.grant(f"INSERT ON {name}.words")
    with pytest.raises(ConfigError, match=rf'lacks rights: GRANT SELECT, UPDATE ON "{name}"."words" TO "{name}"'):
        claim(writer, tmp_path, keys="word")
    postgres.run("REVOKE TEMPORARY ON DATABASE penstock FROM PUBLIC")
    with pytest.raises(ConfigError, match=r'GRANT TEMPORARY ON DATABASE "penstock"'):
        claim(writer, tmp_path)
    writer.grant("TEMPORARY ON DATABASE penstock")
    claim(writer, tmp_path)


def test_a_wrong_password_user_database_or_address_is_told_apart(
    postgres: Postgres, writer: TableUser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="correct the database in `uri`, or make it"):
        claim(writer, tmp_path, **{"/penstock": "/shop"})
    with pytest.raises(StorageError, match="correct the host in `uri`"):
        claim(writer, tmp_path, **{"127.0.0.1": "no-such-host.invalid"})
    with pytest.raises(StorageError, match="correct `uri` and `password`"):
        claim(writer, tmp_path, name="nobody")
    postgres.run(f"ALTER ROLE {writer.name} NOLOGIN")
    with pytest.raises(StorageError, match="let the user of `uri` log in: ALTER ROLE <user> LOGIN"):
        claim(writer, tmp_path)
    postgres.run(f"ALTER ROLE {writer.name} LOGIN")
    postgres.run("REVOKE CONNECT ON DATABASE penstock FROM PUBLIC")
    with pytest.raises(StorageError, match="GRANT CONNECT ON DATABASE <database> TO <user>"):
        claim(writer, tmp_path)
    postgres.run("GRANT CONNECT ON DATABASE penstock TO PUBLIC")
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-one")
    with pytest.raises(StorageError, match="correct `uri` and `password`") as told:
        claim(writer, tmp_path)
    assert "wrong-one" not in str(told.value)
