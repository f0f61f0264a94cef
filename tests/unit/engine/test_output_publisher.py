"""Committed output becomes visible, however often that has to be tried."""

import itertools
from collections.abc import Sequence
from queue import SimpleQueue

import pytest

from penstock.base.errors import ConnectorError, StateError, StorageError
from penstock.base.values import replace
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.latest import SinkRestore, Unpublished
from penstock.contract.manifest import SinkHandle, StepRows
from penstock.engine.output_publisher import HeldUp, OutputPublisher, PublishJob, Staging, publications
from penstock.protocol.marked import DROP

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


EPOCH = (Attempt(3), Epoch(7))
TIMES = itertools.count(1_000_000)


def test_a_publication_is_tried_until_the_storage_takes_it() -> None:
    shelf = Shelf(StorageError("disk full"), OSError("stale file handle"))
    failed: SimpleQueue[str] = SimpleQueue()
    over: SimpleQueue[str] = SimpleQueue()
    publisher = OutputPublisher({"out": shelf}, lambda _, __, reason: failed.put(reason), TIMES.__next__)
    publisher.publish(PublishJob(*EPOCH, (handle("a"), handle("b")), lambda _: over.put("all visible")))
    publisher.clear(Staging((handle("c"),), discard=True))
    assert failed.get(timeout=DEADLINE_S) == "sink 'out': disk full"
    assert failed.get(timeout=DEADLINE_S) == "sink 'out': stale file handle"
    assert over.get(timeout=DEADLINE_S) == "all visible"
    found = [shelf.done.get(timeout=DEADLINE_S) for _ in range(3)]
    assert found == [("published for 7", "a"), ("published for 7", "b"), ("discarded", "c")]
    publisher.close()


ERRORS = {
    "state": (StateError("another file"), "sink 'out': another file"),
    "own": (ConnectorError("sink 'out', publish(): no"), "sink 'out', publish(): no"),
    "code": (KeyError("lost"), "sink 'out': 'lost'"),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_output_that_raises_is_reported_for_its_attempt_and_nothing_counts_as_visible(kind: str) -> None:
    error, reason = ERRORS[kind]
    shelf = Shelf(error)
    failed: SimpleQueue[tuple[object, ...]] = SimpleQueue()
    over: SimpleQueue[str] = SimpleQueue()
    publisher = OutputPublisher({"out": shelf}, lambda *said: failed.put(said), TIMES.__next__)
    job = PublishJob(*EPOCH, (handle("a"), handle("b")), lambda _: over.put("all visible"))
    publisher.publish(job)
    publisher.clear(Staging((handle("c"),), discard=False))
    assert failed.get(timeout=DEADLINE_S) == (job, error, reason)
    assert shelf.done.get(timeout=DEADLINE_S) == ("forgotten", "c"), "what came after it in the queue"
    assert over.empty()
    publisher.close()


def test_a_staged_file_that_cannot_be_removed_delays_no_publication() -> None:
    class Stuck(Shelf):
        def forget(self, handle: SinkHandle) -> None:
            raise ConnectorError("sink 'out', forget(): no")

    shelf = Stuck()
    publisher = OutputPublisher({"out": shelf}, lambda *_: None, TIMES.__next__)
    publisher.clear(Staging((handle("a"),), discard=False))
    publisher.publish(PublishJob(*EPOCH, (handle("b"),), lambda _: None))
    assert shelf.done.get(timeout=DEADLINE_S) == ("published for 7", "b")
    publisher.close()


class WholeShelf(Shelf):
    """A sink with one marker for each task."""

    def publish_all(self, handles: Sequence[SinkHandle], epoch: Epoch) -> None:
        self.publish(replace(handles[0], data="+".join(h.data for h in handles)), epoch)


def test_a_sink_with_a_marker_gets_all_handles_of_a_task_at_once() -> None:
    shelf, over = WholeShelf(StorageError("away")), SimpleQueue[str]()
    publisher = OutputPublisher({"out": shelf}, lambda *_: None, TIMES.__next__)
    other = replace(handle("c"), task=TaskId(StageIndex(0), Ordinal(1), 0))
    publisher.publish(PublishJob(*EPOCH, (handle("a"), other, handle("b")), lambda _: over.put("all visible")))
    assert over.get(timeout=DEADLINE_S) == "all visible"
    assert [shelf.done.get(timeout=DEADLINE_S)[1] for _ in range(2)] == ["a+b", "c"]
    publisher.close()


def test_handles_of_a_whole_sink_go_at_once_whatever_their_task() -> None:
    other = TaskId(StageIndex(0), Ordinal(1), 0)
    handles = [replace(handle("a"), whole=True), replace(handle("b"), sink="files"), handle("c")]
    handles[2] = replace(handles[2], task=other, whole=True)
    found = publications({"out": WholeShelf(), "files": Shelf()}, handles)
    assert [[each.data for each in group] for group in found] == [["a", "c"], ["b"]]


class RestoredShelf(WholeShelf):
    """A sink that can be restored, and refuses two rows of each task."""

    def publish_restored(self, handles: Sequence[SinkHandle], epoch: Epoch, how: Unpublished) -> int:
        self.done.put((f"{how} for {epoch}", "+".join(h.data for h in handles)))
        return 2 if how is Unpublished.SKIP else 0


def test_a_restore_names_the_sinks_whose_output_is_not_published_as_always() -> None:
    shelves = {"files": Shelf(), "out": RestoredShelf(), "other": RestoredShelf()}
    over, told = SimpleQueue[object](), [SinkRestore("files", Unpublished.DROP), SinkRestore("out", Unpublished.SKIP)]
    publisher = OutputPublisher(shelves, lambda *_: None, TIMES.__next__)
    handles = [replace(handle(name), sink=sink) for sink, name in (("files", "a"), ("out", "b"), ("other", "c"))]
    publisher.publish(PublishJob(*EPOCH, tuple(handles), over.put, tuple(told)))
    assert over.get(timeout=DEADLINE_S) == (StepRows("out", 2),)
    found = {sink: shelf.done.get_nowait() for sink, shelf in shelves.items()}
    assert found == {"files": ("discarded", "a"), "out": ("Skip for 7", "b"), "other": ("published for 7", "c")}
    publisher.close()


def test_a_remedy_names_the_sink() -> None:
    failed: SimpleQueue[str] = SimpleQueue()
    shelf = Shelf(StateError(f"a marker is gone: give {DROP}"))
    publisher = OutputPublisher({"out": shelf}, lambda _, __, reason: failed.put(reason), TIMES.__next__)
    publisher.publish(PublishJob(*EPOCH, (handle("a"),), lambda _: None))
    assert "give restore.unpublishedSinks: {out: Drop}" in failed.get(timeout=DEADLINE_S)
    publisher.close()


def test_a_reset_ends_the_publications_of_older_attempts() -> None:
    shelf, failed = Shelf(*[StorageError("fenced") for _ in range(1000)]), SimpleQueue[str]()
    publisher = OutputPublisher({"out": shelf}, lambda _, __, reason: failed.put(reason), TIMES.__next__)
    publisher.publish(PublishJob(*EPOCH, (handle("a"),), lambda _: failed.put("visible")))
    assert failed.get(timeout=DEADLINE_S) == "sink 'out': fenced"
    shelf.failures.clear()
    publisher.begin(Attempt(4))
    publisher.publish(PublishJob(Attempt(4), Epoch(7), (handle("b"),), lambda _: failed.put("visible")))
    while (told := failed.get(timeout=DEADLINE_S)) != "visible":
        assert told == "sink 'out': fenced"
    assert shelf.done.get(timeout=DEADLINE_S)[1] == "b"
    assert shelf.done.empty()
    publisher.close()


def test_it_says_since_when_a_sink_is_held_up_and_why_until_it_is_not() -> None:
    shelf, told = Shelf(StorageError("away"), StorageError("refused")), SimpleQueue[object]()
    publisher = OutputPublisher(
        {"out": shelf}, lambda *_: told.put(dict(publisher.held_up)), itertools.count(70).__next__
    )
    publisher.publish(PublishJob(*EPOCH, (handle("a"),), lambda _: told.put(dict(publisher.held_up))))
    held_up = [told.get(timeout=DEADLINE_S) for _ in range(3)]
    assert held_up == [{"out": HeldUp(70, "away")}, {"out": HeldUp(70, "refused")}, {}]
    shelf.failures += [KeyError("lost")]
    publisher.publish(PublishJob(*EPOCH, (handle("b"),), lambda _: None))
    assert told.get(timeout=DEADLINE_S) == {"out": HeldUp(71, "'lost'")}
    publisher.begin(Attempt(4))
    assert publisher.held_up == {}
    publisher.close()
