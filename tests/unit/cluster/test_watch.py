import threading
from collections.abc import Collection, Iterator
from queue import SimpleQueue

import pytest

from penstock.cluster.metadata import Changes, NotedMetaStore, Written, watch_changes
from penstock.cluster.rpc import Client, Server
from penstock.ports import SwapConflict, SwapUnknown, Versioned
from tests.support.contracts import check_meta_store
from tests.support.fakes import FakeMetaStore

PATIENCE_S = 30.0


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def client(changes: Changes) -> Iterator[Client]:
    server = Server(changes.handlers(), "secret", waiting=1)
    client = Client(server.address, "secret")
    yield client
    changes.close()
    server.close()
    client.close()


def test_who_watches_hears_at_once_and_of_every_write(changes: Changes, client: Client) -> None:
    heard: SimpleQueue[Collection[str]] = SimpleQueue()
    changes.note("before")
    watch_changes(client, heard.put)
    assert heard.get(timeout=PATIENCE_S) == ("before",)
    for name in ("a", "b", "a"):
        changes.note(name)
        assert heard.get(timeout=PATIENCE_S) == (name,)


def test_a_write_between_two_questions_is_not_missed(changes: Changes) -> None:
    seen = changes.wait(-1, PATIENCE_S).count
    for name in ("b", "a", "b"):
        changes.note(name)
    assert changes.wait(seen, PATIENCE_S) == Written(seen + 3, ("a", "b"))
    assert changes.wait(seen + 2, PATIENCE_S).names == ("b",)
    assert changes.wait(seen + 9, PATIENCE_S).names == ("a", "b"), "of another server"


def test_without_a_write_the_wait_ends_by_time_and_counts_nothing(changes: Changes) -> None:
    assert changes.wait(0, 0.01) == Written(0, ())


def test_at_the_end_nobody_is_kept_waiting(changes: Changes) -> None:
    answers: SimpleQueue[int] = SimpleQueue()
    waiting = threading.Thread(target=lambda: answers.put(changes.wait(0, PATIENCE_S).count))
    waiting.start()
    changes.close()
    assert answers.get(timeout=PATIENCE_S / 2) == 0
    waiting.join()


def test_it_keeps_the_promises_of_the_store_behind_it() -> None:
    check_meta_store(lambda: NotedMetaStore(FakeMetaStore(), lambda _: None))


class Unsure(FakeMetaStore):
    """Writes, and does not say so."""

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        super().swap(name, data, version)
        raise SwapUnknown("no answer")


def test_whatever_may_have_been_written_is_noted(changes: Changes) -> None:
    store = NotedMetaStore(Unsure(), changes.note)
    first = store.create("a", b"")
    assert changes.wait(0, PATIENCE_S) == Written(1, ("a",))
    with pytest.raises(SwapUnknown):
        store.swap("a", b"b", first.version)
    assert changes.wait(1, PATIENCE_S) == Written(2, ("a",))
    with pytest.raises(SwapConflict):
        store.create("a", b"")
