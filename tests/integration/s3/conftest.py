"""One server for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.support.s3 import S3, SECRET, SECRET_VARIABLE, USER, USER_VARIABLE
from tools.servers.fetched import ServerMissing
from tools.servers.s3 import S3Server


@pytest.fixture(scope="package")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Start a server, and stop it by its pid. Skips the test where none can be had, and says what is missing."""
    try:
        server = S3Server(tmp_path_factory.mktemp("s3"), USER, SECRET)
        server.start()
    except ServerMissing as error:
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3:
    """Give the store, and put its keys where jobs of these tests look for them."""
    monkeypatch.setenv(USER_VARIABLE, USER)
    monkeypatch.setenv(SECRET_VARIABLE, SECRET)
    return S3(s3_server.endpoint)
