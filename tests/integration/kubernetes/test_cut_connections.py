"""Real connections to an API server are cut, reset, held and slowed: no write is lost or made twice."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from itertools import count
from pathlib import Path

import pytest

from penstock.base.errors import StorageError
from penstock.base.values import replace
from penstock.kubernetes.access import kubeconfig_access
from penstock.kubernetes.client import ApiClient
from penstock.kubernetes.config_maps import ConfigMapMetaStore
from penstock.kubernetes.lease import KubernetesLeaseStore
from penstock.kubernetes.watch import ObjectWatch
from penstock.ports import MetaStore, SwapUnknown, Versioned
from sim.checks.histories import Outcome, RegisterState, SwapCall, linearize
from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl
from tests.support.store_histories import NAME, Log, history, run_clients
from tests.support.tcp_proxy import Link, TcpProxy

WAIT_S = 60.0
LOOK_S = 0.02
CALLERS = 4
CALLS = 25  # of each
READS = 100
SHORT_S = 1.0  # the deadline of a call that is held up


def everything(_: Link) -> bool:
    return True


class Way:
    """The way to the API server through a proxy, and clients that take it."""

    def __init__(self, server: ApiServer, namespace: str, folder: Path) -> None:
        self.proxy = TcpProxy(folder / "proxy")
        self._access = kubeconfig_access(None, namespace, {"KUBECONFIG": str(server.kubeconfig)})
        self._front = self.proxy.front(server.port)
        self._clients: list[ApiClient] = []

    def client(self, timeout_s: float = WAIT_S) -> ApiClient:
        access = replace(self._access, server=f"https://127.0.0.1:{self._front}")
        self._clients.append(ApiClient(access, timeout_s))
        return self._clients[-1]

    def open(self) -> int:
        """Return how many connections there are now."""
        return sum(len(link.connections) for link in self.proxy.links(everything))

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.proxy.close()


@pytest.fixture
def way(api_server: ApiServer, kubectl: Kubectl, tmp_path: Path) -> Iterator[Way]:
    made = Way(api_server, kubectl.namespace, tmp_path)
    yield made
    made.close()


def swapped(store: MetaStore, found: Versioned, data: bytes) -> Versioned:
    """Swap as a keeper does: an unknown outcome is found out by reading."""
    try:
        return store.swap(NAME, data, found.version)
    except SwapUnknown:
        now = read(store)
        return now if now.data == data else swapped(store, now, data)


def read(store: MetaStore) -> Versioned:
    """Read until there is an answer."""
    for _ in range(READS):
        with suppress(StorageError):
            found = store.get(NAME)
            assert found is not None
            return found
    raise AssertionError("no read is answered")


class PatientStore(ConfigMapMetaStore):
    """A store whose reads are tried until they are answered. A swap has one try."""

    def get(self, name: str) -> Versioned | None:
        for _ in range(READS):
            with suppress(StorageError):
                return super().get(name)
        raise AssertionError("no read is answered")


@pytest.mark.parametrize("reset", [False, True])
def test_an_order_explains_what_callers_saw_whose_connections_were_cut(way: Way, *, reset: bool) -> None:
    stores: list[MetaStore] = [PatientStore(way.client()) for _ in range(CALLERS)]
    created = stores[0].create(NAME, b"first")
    over, cuts, log = threading.Event(), list[int](), StringIO()

    def cut() -> None:
        answers = 0
        while not over.wait(LOOK_S):
            if log.getvalue().count('"version"') >= answers + CALLERS:  # else nobody would get on
                answers = log.getvalue().count('"version"')
                cuts.append(way.proxy.cut(everything, reset=reset))

    cutter = threading.Thread(target=cut)
    cutter.start()
    run_clients(stores, Log(log), range(CALLS))
    over.set()
    cutter.join()
    calls = history(log.getvalue())
    assert sum(cuts) > CALLERS
    assert any(isinstance(c, SwapCall) and c.outcome is Outcome.UNKNOWN for c in calls), "a swap lost its reply"
    assert not linearize(RegisterState(created.version, "first"), calls).stuck


def test_a_swap_that_arrives_after_its_caller_gave_up_changes_nothing_newer(way: Way) -> None:
    hasty, other = ConfigMapMetaStore(way.client(SHORT_S)), ConfigMapMetaStore(way.client())
    first = hasty.create(NAME, b"first")
    way.proxy.slow(everything, 3 * SHORT_S)
    with pytest.raises(SwapUnknown):
        hasty.swap(NAME, b"late", first.version)
    way.proxy.slow(everything, 0.0)
    newer = swapped(other, first, b"newer")
    over = threading.Event()
    while way.open() > 1 and not over.wait(LOOK_S):
        pass  # the connection of the late request ends with its answer
    assert other.get(NAME) == newer


def test_a_lease_is_renewed_within_its_deadline_though_a_connection_is_half_open(way: Way, kubectl: Kubectl) -> None:
    kubectl.apply({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "words-leader"}})
    ticks = count(1_700_000_000_000_000)
    store = KubernetesLeaseStore(way.client(SHORT_S), "words-leader", 15.0, lambda: next(ticks))
    held = store.write("one", store.read().version)
    assert way.proxy.hold(everything) == 1
    with pytest.raises(SwapUnknown):
        store.write("one", held.version)
    now = store.read()  # on another connection
    assert now == held
    assert store.write("one", now.version).renewed != held.renewed


def test_a_refused_and_a_cut_read_are_tried_again_and_not_taken_for_an_absent_object(way: Way) -> None:
    store = ConfigMapMetaStore(way.client(SHORT_S))
    first = store.create(NAME, b"first")
    way.proxy.hold(everything)
    with pytest.raises(StorageError):
        store.get(NAME)
    assert store.get(NAME) == first


@pytest.mark.parametrize("reset", [False, True])
def test_a_watch_that_was_cut_is_opened_again(way: Way, *, reset: bool) -> None:
    client = way.client()
    store = ConfigMapMetaStore(client)
    now = store.create(NAME, b"0")
    told = threading.Semaphore(0)
    watch = ObjectWatch(client, "configmaps", NAME)
    watch.start(told.release)
    for turn in range(3):
        assert told.acquire(timeout=WAIT_S), "the watch is open"
        assert way.proxy.cut(everything, reset=reset) > 0
        now = swapped(store, now, f"{turn}".encode())
    watch.stop()
