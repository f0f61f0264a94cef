"""One server for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.support.postgres import PASSWORD, PASSWORD_VARIABLE, Postgres
from tools.servers.fetched import ServerMissing
from tools.servers.postgres import PostgresServer


@pytest.fixture(scope="package")
def postgres() -> Iterator[Postgres]:
    """Start a server, and stop it by its pid. Skips the test where none can be had, and says what is missing."""
    try:
        server = PostgresServer(PASSWORD)
    except ServerMissing as error:
        pytest.skip(str(error))
    try:
        server.start()
        yield Postgres(server)
    finally:
        server.remove()


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the password where jobs of these tests look for it."""
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
