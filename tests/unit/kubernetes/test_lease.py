from itertools import count

import pytest

from penstock.base.errors import StorageError
from penstock.kubernetes.client import ApiClient
from penstock.kubernetes.lease import KubernetesLeaseStore
from penstock.kubernetes.times import micro_time
from penstock.ports import SwapConflict, SwapUnknown
from tests.support.contracts import check_lease_store
from tests.unit.kubernetes.small_api import SmallApi

PATH = "/apis/coordination.k8s.io/v1/namespaces/here/leases/words-leader"


def lease(client: ApiClient) -> KubernetesLeaseStore:
    ticks = count(1_700_000_000_000_000)
    return KubernetesLeaseStore(client, "words-leader", 15.0, lambda: next(ticks))


def test_it_keeps_the_promises_of_the_port(server: SmallApi, client: ApiClient) -> None:
    server.make(PATH)
    check_lease_store(lambda: lease(client))


def test_others_can_read_who_holds_it_and_since_when(server: SmallApi, client: ApiClient) -> None:
    server.make(PATH)
    store = lease(client)
    held = store.write("one", store.read().version)
    store.write("one", held.version)
    spec = server.objects[PATH]["spec"]
    assert spec["holderIdentity"] == "one"
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 1)
    assert spec["acquireTime"] < spec["renewTime"], "a renewal is no new holder"


def test_a_change_by_somebody_else_is_no_sign_of_life(server: SmallApi, client: ApiClient) -> None:
    server.make(PATH)
    store = lease(client)
    held = store.write("one", store.read().version)
    client.merge(PATH, {"metadata": {"resourceVersion": held.version, "annotations": {"by": "hand"}}})
    seen = store.read()
    assert seen.renewed == held.renewed
    with pytest.raises(SwapConflict):
        store.write("one", held.version)


def test_a_lease_that_is_not_there_cannot_be_read(client: ApiClient) -> None:
    with pytest.raises(StorageError, match="404"):
        lease(client).read()


def test_a_lost_reply_is_unknown(server: SmallApi, client: ApiClient) -> None:
    server.make(PATH)
    store = lease(client)
    free = store.read()
    server.accidents = ["lost-reply"]
    with pytest.raises(SwapUnknown):
        store.write("one", free.version)
    assert store.read().holder == "one"


def test_times_have_six_digits_always() -> None:
    assert micro_time(0) == "1970-01-01T00:00:00.000000Z"
    assert micro_time(1_700_000_000_000_007) == "2023-11-14T22:13:20.000007Z"
