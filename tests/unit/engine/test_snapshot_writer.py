"""A snapshot is stored whole or fails whole; output that was staged for it is never forgotten."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, cast

import pytest

from penstock.base.errors import ConnectorError, StateError, StorageError
from penstock.contract.ids import Epoch, Incarnation, SplitId, Term
from penstock.contract.manifest import SinkHandle, SplitState
from penstock.engine.checkpoint_files import Captured, Outcome, SinkRaised, SnapshotWriter
from penstock.protocol.task.task_messages import SnapshotParts, SnapshotStored, StoreFailed
from penstock.storage.memory import MemoryBlobStore
from tests.support.task_harness import handle

SPLITS = (SplitState(SplitId("a"), "{}", 7),)
FULL = StorageError("disk full")


class AtOnce(Executor):
    """A pool that does the work in the caller's thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class Cut:
    """The cut of one sink, which gives a handle or fails; knows whether it has ended."""

    def __init__(self, name: str, error: Exception | None = None) -> None:
        self._name = name
        self._error = error
        self.ended = False

    def finish(self) -> SinkHandle | None:
        self.ended = True
        if self._error is not None:
            raise self._error
        return handle(5, self._name) if self._name else None


class Table:
    """Keyed state that stores an empty file under a name that it asks for."""

    def __init__(self, blobs: MemoryBlobStore) -> None:
        self._blobs = blobs
        self.names: list[str] = []

    def write(self, naming: Callable[[str], Any], blobs: MemoryBlobStore) -> tuple[()]:
        for _ in range(2):
            self.names.append(naming(".state"))
            blobs.put(cast(Any, self.names[-1]), b"")
        return ()


def stored(*sinks: Cut, state: Any = None, blobs: MemoryBlobStore | None = None) -> Outcome:
    told: list[Outcome] = []
    writer = SnapshotWriter(cast(Any, blobs), Incarnation("life"), AtOnce())
    for _ in range(1 if state is None else 2):
        writer.store(Captured(Term(1), Epoch(5), state, sinks, SPLITS), told.append)
    return told[-1]


def test_a_snapshot_has_the_places_of_the_splits_and_the_output_of_all_sinks() -> None:
    done = stored(Cut("a"), Cut(""), Cut("b"))
    parts = SnapshotParts((), SPLITS, (handle(5, "a"), handle(5, "b")))
    assert done == SnapshotStored(Term(1), Epoch(5), parts)


def test_output_of_a_snapshot_that_fails_goes_into_a_later_epoch_and_every_cut_ends() -> None:
    cuts = (Cut("a"), Cut("b", FULL), Cut("c"))
    failed = stored(*cuts)
    assert isinstance(failed, StoreFailed)
    assert failed.handles == (handle(5, "a"), handle(5, "c"))
    assert "disk full" in failed.reason
    assert all(cut.ended for cut in cuts), "the next cut of a sink requires that this one has ended"


@pytest.mark.parametrize("error", [ConnectorError("no bucket"), KeyError("no bucket"), StateError("no handle")])
def test_a_sink_that_raises_ends_the_attempt_whatever_failed_before_it(error: Exception) -> None:
    cuts = (Cut("a"), Cut("b", FULL), Cut("c", error), Cut("d", OSError("gone")))
    raised = stored(*cuts)
    assert isinstance(raised, SinkRaised)
    assert raised.error is error
    assert raised.failed.handles == (handle(5, "a"),)
    assert all(cut.ended for cut in cuts)


def test_a_sink_whose_storage_is_away_aborts_the_epoch_only() -> None:
    assert isinstance(stored(Cut("a", OSError("stale file handle"))), StoreFailed)


def test_no_file_has_a_name_that_another_had() -> None:
    blobs = MemoryBlobStore()
    table = Table(blobs)
    assert isinstance(stored(state=table, blobs=blobs), SnapshotStored)
    assert len(set(table.names)) == 4
