"""Fixtures: the cluster, the operator, a namespace for each test, and evidence of failures."""

import itertools
import os
import shutil
import time
from collections.abc import Generator, Iterator

import pytest

from e2e.rig.cluster import Cluster, read_cluster
from e2e.rig.evidence import collect
from e2e.rig.release import SYSTEM, install
from e2e.rig.wordcount import WordCount, remove_volumes
from tests.integration.kubernetes.binaries import cache, cluster_file
from tests.integration.kubernetes.kubectl import Kubectl

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
LINES = 40_000
numbers = itertools.count(1)
failed = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember which tests failed, for the fixtures that write evidence."""
    report = yield
    if report.failed:
        item.stash[failed] = True
    return report


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """Give the cluster of `make cluster-up`, or of the file that PENSTOCK_E2E_FILE names."""
    file = cluster_file()
    if not file.exists():
        pytest.exit(f"no cluster: {file} is missing. `make cluster-up` makes one", returncode=3)
    return read_cluster(file)


@pytest.fixture(scope="session")
def operator(cluster: Cluster) -> Cluster:
    """Give the cluster with the chart and the definitions of this checkout installed."""
    begun = time.monotonic()
    cluster.kubectl.attempt("create", "namespace", SYSTEM)
    cluster.kubectl("label", "--overwrite", "namespace", SYSTEM, RESTRICTED)
    try:
        install(cluster, SYSTEM)
    except AssertionError:
        collect(cluster.kubectl.in_namespace(SYSTEM), cache() / "evidence" / "install")
        raise
    print(f"chart installed, operator ready: {time.monotonic() - begun:.1f} s")
    return cluster


@pytest.fixture
def kubectl(operator: Cluster, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Give kubectl in a new namespace that enforces PSS `restricted`."""
    name = f"e2e-{os.getpid()}-{next(numbers)}"
    operator.kubectl("create", "namespace", name)
    operator.kubectl("label", "namespace", name, RESTRICTED)
    here = operator.kubectl.in_namespace(name)
    yield here
    if request.node.stash.get(failed, False):
        folder = cache() / "evidence" / request.node.name
        collect(here, folder)
        collect(here.in_namespace(SYSTEM), folder / "operator")
        print(f"evidence: {folder}")
    here.attempt("delete", "streamjobs,streamsnapshots", "--all", "--timeout=30s")
    # Delete everything: what still runs would slow the next test down.
    here.attempt("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
    here.attempt("delete", "namespace", name, "--wait=false")
    remove_volumes(here)
    shutil.rmtree(operator.shared_here / name, ignore_errors=True)


@pytest.fixture
def wordcount(operator: Cluster, kubectl: Kubectl, request: pytest.FixtureRequest) -> WordCount:
    """Give a word count over 40,000 lines, not applied yet. An indirect parameter changes that."""
    folder = operator.shared_here / kubectl.namespace
    made = {"lines": LINES, **getattr(request, "param", {})}
    job = WordCount(kubectl, "wordcount", operator, folder, **made)
    job.prepare()
    return job
