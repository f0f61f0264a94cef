"""The ports on a real API server pass the same contract tests as the fakes and SQLite."""

import threading
from collections.abc import Iterator
from io import StringIO
from itertools import count

import pytest

from penstock.base.errors import StorageError
from penstock.kubernetes.access import kubeconfig_access
from penstock.kubernetes.answers import ApiRefused
from penstock.kubernetes.client import ApiClient
from penstock.kubernetes.config_maps import ConfigMapMetaStore
from penstock.kubernetes.lease import KubernetesLeaseStore
from penstock.kubernetes.watch import ObjectWatch
from penstock.ports import LeaseStore, MetaStore, SwapConflict, SwapUnknown, Versioned
from sim.checks.histories import RegisterState, linearize
from tests.integration.kubernetes.api_server import ApiServer
from tests.integration.kubernetes.kubectl import Kubectl
from tests.support.contracts import check_lease_store, check_meta_store
from tests.support.store_histories import NAME, Log, history, run_clients

WAIT_S = 20.0
CALLERS = 4
CALLS = 15  # of each


def client_of(server: ApiServer, namespace: str) -> ApiClient:
    return ApiClient(kubeconfig_access(None, namespace, {"KUBECONFIG": str(server.kubeconfig)}))


@pytest.fixture
def client(api_server: ApiServer, kubectl: Kubectl) -> Iterator[ApiClient]:
    made = client_of(api_server, kubectl.namespace)
    yield made
    made.close()


def make_lease(kubectl: Kubectl) -> None:
    kubectl.apply(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "words-leader"},
        }
    )


def lease(client: ApiClient) -> LeaseStore:
    ticks = count(1_700_000_000_000_000)
    return KubernetesLeaseStore(client, "words-leader", 15.0, lambda: next(ticks))


def test_config_maps_keep_the_promises_of_the_port(client: ApiClient) -> None:
    check_meta_store(lambda: ConfigMapMetaStore(client))


def test_a_lease_keeps_the_promises_of_the_port(client: ApiClient, kubectl: Kubectl) -> None:
    make_lease(kubectl)
    check_lease_store(lambda: lease(client))


def test_an_order_explains_what_several_callers_saw_of_one_config_map(api_server: ApiServer, kubectl: Kubectl) -> None:
    clients = [client_of(api_server, kubectl.namespace) for _ in range(CALLERS)]
    stores: list[MetaStore] = [ConfigMapMetaStore(client) for client in clients]
    created = stores[0].create(NAME, b"first")
    log = StringIO()
    run_clients(stores, Log(log), range(CALLS))
    found = linearize(RegisterState(created.version, "first"), history(log.getvalue()))
    assert not found.stuck
    assert len(found.order) >= CALLS
    for client in clients:
        client.close()


def test_a_swap_keeps_uid_and_labels_and_a_new_object_is_another(client: ApiClient, kubectl: Kubectl) -> None:
    store = ConfigMapMetaStore(client, {"penstock.dev/job": "words"})
    first = store.create("a", b"1")
    assert store.swap("a", b"\x00\xff", first.version).uid == first.uid
    kept = kubectl.get("configmap", "a")
    assert kept["metadata"]["labels"] == {"penstock.dev/job": "words"}
    assert "data" not in kept, "text and bytes always have the same content"
    client.delete(f"/api/v1/namespaces/{client.namespace}/configmaps/a")
    with pytest.raises(SwapConflict):
        store.swap("a", b"2", first.version)
    assert store.create("a", b"1").uid != first.uid


def test_of_many_swaps_of_one_version_one_wins(client: ApiClient) -> None:
    store = ConfigMapMetaStore(client)
    start = store.create("a", b"0")
    won: list[Versioned] = []
    barrier = threading.Barrier(6)

    def swap(data: bytes) -> None:
        barrier.wait()
        try:
            won.append(store.swap("a", data, start.version))
        except SwapConflict:
            return

    threads = [threading.Thread(target=swap, args=(str(i).encode(),)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [store.get("a")]


def test_a_watch_wakes_its_reader(client: ApiClient) -> None:
    store = ConfigMapMetaStore(client)
    first = store.create("words-desired", b"1")
    woken = threading.Semaphore(0)
    watch = ObjectWatch(client, "configmaps", "words-desired")
    watch.start(woken.release)
    assert woken.acquire(timeout=WAIT_S), "the watch begins with the present object"
    store.swap("words-desired", b"2", first.version)
    assert woken.acquire(timeout=WAIT_S)
    watch.stop()


def test_the_connection_is_made_again_after_the_server_was_away(own_api_server: ApiServer) -> None:
    client = client_of(own_api_server, "default")
    store = ConfigMapMetaStore(client)
    first = store.create("a", b"1")
    own_api_server.stop()
    with pytest.raises(StorageError):
        store.get("a")
    with pytest.raises(SwapUnknown):
        store.swap("a", b"2", first.version)
    own_api_server.start()
    assert store.get("a") == first
    assert store.swap("a", b"2", first.version).data == b"2"
    client.close()


def test_a_call_without_the_right_is_refused_with_the_reason(
    client: ApiClient, kubectl: Kubectl, api_server: ApiServer
) -> None:
    with pytest.raises(ApiRefused, match="not found"):
        client.get(f"/api/v1/namespaces/{client.namespace}/configmaps/none")
