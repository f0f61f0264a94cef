from collections.abc import Iterator

import pytest

from penstock.base.errors import StorageError
from penstock.cluster.metadata import RemoteLeaseStore, RemoteMetaStore, metadata_handlers
from penstock.cluster.rpc import Client, Server
from penstock.ports import SwapUnknown
from tests.support.contracts import check_lease_store, check_meta_store
from tests.support.fakes import FakeLeaseStore, FakeMetaStore


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(metadata_handlers(FakeMetaStore(), FakeLeaseStore()), "secret")
    yield server
    server.close()


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    client = Client(server.address, "secret")
    yield client
    client.close()


def test_metadata_keeps_the_promises_of_the_port(client: Client) -> None:
    check_meta_store(lambda: RemoteMetaStore(client))


def test_the_lease_keeps_the_promises_of_the_port(client: Client) -> None:
    check_lease_store(lambda: RemoteLeaseStore(client))


def test_every_byte_travels(client: Client) -> None:
    store = RemoteMetaStore(client)
    store.create("bytes", bytes(range(256)))
    found = store.get("bytes")
    assert found is not None
    assert found.data == bytes(range(256))


def test_without_an_answer_a_write_is_unknown_and_a_read_fails(server: Server, client: Client) -> None:
    server.close()
    store, lease = RemoteMetaStore(client), RemoteLeaseStore(client)
    with pytest.raises(SwapUnknown):
        store.create("a", b"")
    with pytest.raises(SwapUnknown):
        store.swap("a", b"", "1")
    with pytest.raises(SwapUnknown):
        lease.write("me", "1")
    with pytest.raises(StorageError):
        store.get("a")
    with pytest.raises(StorageError):
        lease.read()
