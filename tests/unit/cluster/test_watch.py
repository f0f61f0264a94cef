import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from penstock.cluster.rpc import Client, Server
from penstock.cluster.watch import Changes, NotedMetaStore, watch_changes
from penstock.ports import SwapConflict, SwapUnknown, Versioned
from penstock.testing.contracts import check_meta_store
from penstock.testing.fakes import FakeMetaStore

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
    heard: SimpleQueue[None] = SimpleQueue()
    watch_changes(client, lambda: heard.put(None))
    for _ in range(3):
        heard.get(timeout=PATIENCE_S)
        changes.note()
    heard.get(timeout=PATIENCE_S)


def test_a_write_between_two_questions_is_not_missed(changes: Changes) -> None:
    seen = changes.wait(-1, PATIENCE_S)
    changes.note()
    assert changes.wait(seen, PATIENCE_S) == seen + 1


def test_without_a_write_the_wait_ends_by_time_and_counts_nothing(changes: Changes) -> None:
    assert changes.wait(0, 0.01) == 0


def test_at_the_end_nobody_is_kept_waiting(changes: Changes) -> None:
    answers: SimpleQueue[int] = SimpleQueue()
    waiting = threading.Thread(target=lambda: answers.put(changes.wait(0, PATIENCE_S)))
    waiting.start()
    changes.close()
    assert answers.get(timeout=PATIENCE_S / 2) == 0
    waiting.join()


def test_it_keeps_the_promises_of_the_store_behind_it() -> None:
    check_meta_store(lambda: NotedMetaStore(FakeMetaStore(), lambda: None))


class Unsure(FakeMetaStore):
    """Writes, and does not say so."""

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        super().swap(name, data, version)
        raise SwapUnknown("no answer")


def test_whatever_may_have_been_written_is_noted(changes: Changes) -> None:
    store = NotedMetaStore(Unsure(), changes.note)
    first = store.create("a", b"")
    assert changes.wait(0, PATIENCE_S) == 1
    with pytest.raises(SwapUnknown):
        store.swap("a", b"b", first.version)
    assert changes.wait(1, PATIENCE_S) == 2
    with pytest.raises(SwapConflict):
        store.create("a", b"")
