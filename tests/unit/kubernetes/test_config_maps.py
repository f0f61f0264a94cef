import pytest

from penstock.base.errors import StorageError
from penstock.kubernetes.client import ApiClient
from penstock.kubernetes.config_maps import RECORD_BYTES_MAX, ConfigMapMetaStore
from penstock.ports import SwapConflict, SwapUnknown
from tests.support.contracts import check_meta_store
from tests.unit.kubernetes.small_api import SmallApi

FOLDER = "/api/v1/namespaces/here/configmaps"


def test_they_keep_the_promises_of_the_port(client: ApiClient) -> None:
    check_meta_store(lambda: ConfigMapMetaStore(client))


def test_a_swap_keeps_uid_and_labels(server: SmallApi, client: ApiClient) -> None:
    store = ConfigMapMetaStore(client, {"penstock.dev/job": "words"})
    first = store.create("a", b"1")
    second = store.swap("a", b"2", first.version)
    assert second.uid == first.uid
    assert server.objects[f"{FOLDER}/a"]["metadata"]["labels"] == {"penstock.dev/job": "words"}


def test_bytes_that_are_no_text_come_back_too(client: ApiClient) -> None:
    store = ConfigMapMetaStore(client)
    first = store.create("a", b"\x00\xff")
    second = store.swap("a", b"text", first.version)
    third = store.swap("a", b"\xfe", second.version)
    assert [v.data for v in (first, second, third)] == [b"\x00\xff", b"text", b"\xfe"]


def test_a_lost_reply_is_unknown_and_the_swap_may_have_happened(server: SmallApi, client: ApiClient) -> None:
    store = ConfigMapMetaStore(client)
    first = store.create("a", b"1")
    server.accidents = ["lost-reply"]
    with pytest.raises(SwapUnknown):
        store.swap("a", b"2", first.version)
    found = store.get("a")
    assert found is not None
    assert found.data == b"2"


def test_a_server_in_trouble_leaves_it_unknown(server: SmallApi, client: ApiClient) -> None:
    store = ConfigMapMetaStore(client)
    first = store.create("a", b"1")
    server.accidents = ["trouble"]
    with pytest.raises(SwapUnknown, match="500"):
        store.swap("a", b"2", first.version)


@pytest.mark.parametrize("accident", ["busy", "refused"])
def test_a_refusal_changes_nothing_and_is_tried_once(server: SmallApi, client: ApiClient, accident: str) -> None:
    store = ConfigMapMetaStore(client)
    first = store.create("a", b"1")
    server.accidents = [accident]
    with pytest.raises(StorageError, match=accident):
        store.swap("a", b"2", first.version)
    assert store.get("a") == first
    assert server.accidents == []


@pytest.mark.parametrize("version", ["", "-1", "x", "1 OR 1", "²"])
def test_a_version_of_another_store_conflicts(client: ApiClient, version: str) -> None:
    # An empty version in a patch would be no comparison, and so the last writer would win.
    store = ConfigMapMetaStore(client)
    store.create("a", b"1")
    with pytest.raises(SwapConflict):
        store.swap("a", b"2", version)


def test_what_is_too_large_is_refused_before_it_is_sent(client: ApiClient) -> None:
    with pytest.raises(StorageError, match="at most"):
        ConfigMapMetaStore(client).create("a", b"x" * (RECORD_BYTES_MAX + 1))


def test_an_object_that_was_made_empty_can_be_written_to(server: SmallApi, client: ApiClient) -> None:
    server.make(f"{FOLDER}/a")
    store = ConfigMapMetaStore(client)
    empty = store.get("a")
    assert empty is not None
    assert empty.data == b""
    assert store.swap("a", b"1", empty.version).uid == empty.uid


def test_a_server_that_is_away_cannot_be_read_and_leaves_swaps_unknown() -> None:
    from penstock.kubernetes.access import Access, no_token
    from tests.unit.kubernetes.small_api import access_to, small_api

    with small_api() as server:
        access: Access = access_to(server)
    client = ApiClient(Access(access.server, access.tls, no_token, "here"))
    store = ConfigMapMetaStore(client)
    with pytest.raises(StorageError):
        store.get("a")
    with pytest.raises(SwapUnknown):
        store.swap("a", b"1", "1")
    client.close()
