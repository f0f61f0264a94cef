"""Stores snapshots in the background: state files and prepared output; then it informs the task.

The task's thread made the cut; only captured values are written here. A task has one snapshot at a
time (the core ensures that); several tasks may store at the same time.
"""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.base.errors import StorageError
from penstock.base.threads import Executor
from penstock.contract.ids import BlobName, Epoch, Incarnation, Term, blob_name
from penstock.contract.manifest import SinkHandle, SplitState, StateFile
from penstock.protocol.task.task_messages import SnapshotParts, SnapshotStored, StoreFailed

if TYPE_CHECKING:
    from penstock.ports import BlobStore, Pending
    from penstock.state.snapshot import StateSnapshot

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Captured:
    """What was cut at a barrier and must be stored."""

    term: Term
    epoch: Epoch
    state: "StateSnapshot | None"
    sinks: "tuple[Pending, ...]"
    splits: tuple[SplitState, ...]


class SnapshotWriter:
    """Stores on the threads of a pool, which also call ``tell`` with the outcome."""

    def __init__(self, blobs: "BlobStore", incarnation: Incarnation, pool: Executor) -> None:
        """Write into ``blobs`` under names of this incarnation."""
        self._blobs = blobs
        self._incarnation = incarnation
        self._numbers = itertools.count(1)
        self._pool = pool

    def store(self, captured: Captured, tell: Callable[[SnapshotStored | StoreFailed], None]) -> None:
        """Store in the background, then tell the outcome."""
        self._pool.submit(self._store, captured, tell)

    def name(self, term: Term, epoch: Epoch, suffix: str) -> BlobName:
        """Return a name that no file has had. From any thread: taking a number is atomic."""
        return blob_name(term, epoch, self._incarnation, next(self._numbers), suffix)

    def close(self) -> None:
        """Take no more work, and do not wait for running work."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _store(self, captured: Captured, tell: Callable[[SnapshotStored | StoreFailed], None]) -> None:
        term, epoch = captured.term, captured.epoch
        handles: list[SinkHandle] = []
        try:
            _finish(captured.sinks, handles)
            files = self._files(captured)
        except Exception as error:  # any failure before the swap aborts this epoch, nothing else
            if not isinstance(error, StorageError):
                log.exception("event=store_failed epoch=%d", epoch)
            tell(StoreFailed(term, epoch, f"{type(error).__name__}: {error}", tuple(handles)))
            return
        tell(SnapshotStored(term, epoch, SnapshotParts(files, captured.splits, tuple(handles))))

    def _files(self, captured: Captured) -> tuple[StateFile, ...]:
        if captured.state is None:
            return ()

        def naming(suffix: str) -> BlobName:
            return self.name(captured.term, captured.epoch, suffix)

        return captured.state.write(naming, self._blobs)


def _finish(sinks: "Sequence[Pending]", handles: list[SinkHandle]) -> None:
    """Prepare every sink, even after one has failed: each cut must end before the next one."""
    failures: list[Exception] = []
    for pending in sinks:
        try:
            handle = pending.finish()
        except Exception as error:  # raised below, when all have ended
            failures.append(error)
            continue
        if handle is not None:
            handles.append(handle)
    if failures:
        raise failures[0]
