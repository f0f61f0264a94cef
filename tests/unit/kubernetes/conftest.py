from collections.abc import Iterator

import pytest

from penstock.kubernetes.client import ApiClient
from tests.unit.kubernetes.small_api import SmallApi, access_to, small_api


@pytest.fixture
def server() -> Iterator[SmallApi]:
    with small_api() as running:
        yield running


@pytest.fixture
def client(server: SmallApi) -> Iterator[ApiClient]:
    made = ApiClient(access_to(server))
    yield made
    made.close()
