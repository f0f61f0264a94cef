"""Committed output becomes visible, however often that has to be tried."""

from queue import SimpleQueue

from penstock.base.errors import StateError, StorageError
from penstock.contract.ids import Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from penstock.engine.output_publisher import OutputPublisher, PublishJob, Staging

DEADLINE_S = 60.0


def handle(name: str) -> SinkHandle:
    return SinkHandle("out", TaskId(StageIndex(0), Ordinal(0), 0), Epoch(1), name, 1, 1)


class Shelf:
    """A sink that fails as told, then keeps what is published, discarded and forgotten."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.done: SimpleQueue[tuple[str, str]] = SimpleQueue()

    def publish(self, handle: SinkHandle, epoch: Epoch) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.done.put((f"published for {epoch}", handle.data))

    def discard(self, handle: SinkHandle) -> None:
        self.done.put(("discarded", handle.data))

    def forget(self, handle: SinkHandle) -> None:
        self.done.put(("forgotten", handle.data))


def test_a_publication_is_tried_until_the_storage_takes_it() -> None:
    shelf = Shelf(StorageError("disk full"))
    failed: SimpleQueue[tuple[Epoch, str, bool]] = SimpleQueue()
    over: SimpleQueue[str] = SimpleQueue()
    publisher = OutputPublisher({"out": shelf}, lambda *said: failed.put(said))
    publisher.publish(PublishJob(Epoch(7), (handle("a"), handle("b")), lambda: over.put("all visible")))
    publisher.clear(Staging((handle("c"),), discard=True))
    assert failed.get(timeout=DEADLINE_S) == (Epoch(7), "sink 'out': disk full", False)
    assert over.get(timeout=DEADLINE_S) == "all visible"
    found = [shelf.done.get(timeout=DEADLINE_S) for _ in range(3)]
    assert found == [("published for 7", "a"), ("published for 7", "b"), ("discarded", "c")]
    publisher.close()


def test_output_that_can_never_be_published_fails_the_job_and_says_why() -> None:
    failed: SimpleQueue[tuple[Epoch, str, bool]] = SimpleQueue()
    publisher = OutputPublisher({"out": Shelf(StateError("another file"))}, lambda *s: failed.put(s))
    publisher.publish(PublishJob(Epoch(7), (handle("a"),), lambda: None))
    assert failed.get(timeout=DEADLINE_S) == (Epoch(7), "sink 'out': another file", True)
    publisher.close()


def test_nothing_counts_as_visible_when_one_of_its_files_can_never_be() -> None:
    shelf = Shelf(StateError("another file"))
    over: SimpleQueue[str] = SimpleQueue()
    publisher = OutputPublisher({"out": shelf}, lambda *_: None)
    publisher.publish(PublishJob(Epoch(7), (handle("a"), handle("b")), lambda: over.put("all visible")))
    publisher.clear(Staging((handle("c"),), discard=False))
    assert shelf.done.get(timeout=DEADLINE_S) == ("forgotten", "c"), "what came after it in the queue"
    assert over.empty()
    publisher.close()
