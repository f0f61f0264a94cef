"""Fixtures: the custom resources, defined in the shared API server as a user defines them."""

from collections.abc import Iterator

import pytest

from penstock.kubernetes.access import kubeconfig_access
from penstock.kubernetes.client import ApiClient
from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.crds.judge import Judge
from tests.integration.kubernetes.kubectl import Kubectl
from tests.integration.local_job import wait_until
from tools.crds import FOLDER


@pytest.fixture(scope="package")
def defined(api_server: ApiServer) -> ApiServer:
    """Give the shared server with our resources defined, served and explained: it publishes schemas a while later."""
    api_server.kubectl("apply", "-f", str(FOLDER))  # client-side: the files fit its annotation
    api_server.kubectl("wait", "--for=condition=Established", "-f", str(FOLDER), "--timeout=30s")
    wait_until(lambda: all(api_server.kubectl.attempt("explain", kind).returncode == 0 for kind in ("sj", "ssnap")))
    return api_server


@pytest.fixture
def jobs(defined: ApiServer, kubectl: Kubectl) -> Kubectl:
    """Give kubectl in a fresh namespace of a server that knows our resources."""
    return kubectl


@pytest.fixture(scope="module")
def judge(defined: ApiServer) -> Iterator[Judge]:
    """Give a judge that says whether the server would accept an object."""
    client = ApiClient(kubeconfig_access(None, "default", {"KUBECONFIG": str(defined.kubeconfig)}), timeout_s=20)
    yield Judge(client)
    client.close()
