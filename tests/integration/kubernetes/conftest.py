"""Fixtures of the tests against a real API server; they are skipped where its binaries are not."""

import itertools
from collections.abc import Iterator

import pytest

from tests.integration.kubernetes.api_server import ApiServer, Programs, running
from tests.integration.kubernetes.binaries import binaries
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.kubernetes.operator.conftest import settle

numbers = itertools.count(1)


@pytest.fixture(scope="session")
def programs() -> Programs:
    """Give the binaries. Skips the test with the remedy when they were not built."""
    return Programs(*binaries("etcd", "kube-apiserver", "kubeadm", "kubectl"))


@pytest.fixture(scope="package")
def api_server(programs: Programs) -> Iterator[ApiServer]:
    """Give the API server that all tests share: a test never stops it and has its own namespace."""
    with running(programs) as server:
        yield server


@pytest.fixture(scope="package")
def home(api_server: ApiServer) -> ApiServer:
    """Give the shared server with our definitions and the operator's account."""
    settle(api_server)
    return api_server


@pytest.fixture
def own_api_server(programs: Programs) -> Iterator[ApiServer]:
    """Give an API server that the test may stop, start again and fill."""
    with running(programs) as server:
        yield server


@pytest.fixture
def kubectl(api_server: ApiServer) -> Kubectl:
    """Give kubectl as the administrator of the shared server, in a namespace made for this test."""
    name = f"test-{next(numbers)}"
    api_server.kubectl("create", "namespace", name)
    return api_server.kubectl.in_namespace(name)
