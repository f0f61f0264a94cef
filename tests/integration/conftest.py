"""What all tests with real processes share."""

from collections.abc import Iterator

import pytest

from tests.support.forked_processes import forking, fresh


@pytest.fixture(scope="package", autouse=True)
def _forked_processes() -> Iterator[None]:
    """Fork processes of Penstock: each would load Arrow, numba and gRPC anew."""
    with forking():
        yield


@pytest.fixture
def fresh_processes(_forked_processes: None) -> Iterator[None]:
    """Start processes as a user does, because their start is what is tested."""
    with fresh():
        yield
