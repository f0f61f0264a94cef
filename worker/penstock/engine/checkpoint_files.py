"""The files of checkpoints: snapshots are stored in the background, and read when a task begins.

The task's thread made the cut; only captured values are written here. A task has one snapshot at a
time (the core ensures that); several tasks may store at the same time.

Root manifests are read and checked, and files are read before they are needed.
"""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.base.errors import PeerError, PenstockError, StateError, StorageError, is_storage_away
from penstock.base.limits import PREPARE_TIMEOUT_S
from penstock.base.threads import Event, Executor, ThreadPoolExecutor
from penstock.contract.codec import decode
from penstock.contract.ids import BlobName, Epoch, Incarnation, Term, blob_name
from penstock.contract.manifest import BlobRef, CopyDigest, GroupRows, RootManifest, SinkHandle, SplitState, StateFile
from penstock.contract.plan import PhysicalPlan
from penstock.protocol.state_matching import altered
from penstock.protocol.task.task_messages import SnapshotParts, SnapshotStored, StoreFailed

if TYPE_CHECKING:
    from penstock.keyed_state.state_files import StateSnapshot
    from penstock.ports import BlobStore, Pending


log = logging.getLogger(__name__)

_THREADS = 2  # how many tasks of one worker load at a time; more would compete for the disk


@dataclass(frozen=True, slots=True)
class SinkRaised:
    """A sink raised, so the attempt ends with ``error``. ``failed`` has what other sinks have prepared."""

    failed: StoreFailed
    error: Exception


Outcome = SnapshotStored | StoreFailed | SinkRaised


@dataclass(frozen=True, slots=True)
class Captured:
    """What was cut at a barrier and must be stored."""

    term: Term
    epoch: Epoch
    state: "StateSnapshot | None"
    sinks: "tuple[Pending, ...]"
    splits: tuple[SplitState, ...]
    copies: tuple[CopyDigest, ...] = ()
    load: tuple[GroupRows, ...] = ()


class SnapshotWriter:
    """Stores on the threads of a pool, which also call ``tell`` with the outcome."""

    def __init__(self, blobs: "BlobStore", incarnation: Incarnation, pool: Executor) -> None:
        """Write into ``blobs`` under names of this incarnation."""
        self._blobs = blobs
        self._incarnation = incarnation
        self._numbers = itertools.count(1)
        self._pool = pool

    def store(self, captured: Captured, tell: Callable[[Outcome], None]) -> None:
        """Store in the background, then tell the outcome."""
        self._pool.submit(self._store, captured, tell)

    def name(self, term: Term, epoch: Epoch, suffix: str) -> BlobName:
        """Return a name that no file has had. From any thread: taking a number is atomic."""
        return blob_name(term, epoch, self._incarnation, next(self._numbers), suffix)

    def close(self) -> None:
        """Take no more work, and do not wait for running work."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _store(self, captured: Captured, tell: Callable[[Outcome], None]) -> None:
        term, epoch = captured.term, captured.epoch
        handles, failure = _finish(captured.sinks)
        raised = failure is not None and not is_storage_away(failure)
        if failure is None:
            try:
                files = self._files(captured)
            except Exception as error:  # aborts this epoch, nothing else
                if not isinstance(error, StorageError):
                    log.exception("event=store_failed epoch=%d", epoch)
                failure = error
        if failure is None:
            parts = SnapshotParts(files, captured.splits, handles, copies=captured.copies, load=captured.load)
            tell(SnapshotStored(term, epoch, parts))
            return
        failed = StoreFailed(term, epoch, f"{type(failure).__name__}: {failure}", handles)
        tell(SinkRaised(failed, failure) if raised else failed)

    def _files(self, captured: Captured) -> tuple[StateFile, ...]:
        if captured.state is None:
            return ()

        def naming(suffix: str) -> BlobName:
            return self.name(captured.term, captured.epoch, suffix)

        return captured.state.write(naming, self._blobs)


def _finish(sinks: "Sequence[Pending]") -> tuple[tuple[SinkHandle, ...], Exception | None]:
    """Prepare every sink, even after one has failed: each cut must end before the next one.

    Returns the handles, and the failure that matters most: one after which the attempt must end.
    """
    handles: list[SinkHandle] = []
    failures: list[Exception] = []
    for pending in sinks:
        try:
            handle = pending.finish()
        except Exception as error:  # returned below, when all have ended
            failures.append(error)
            continue
        if handle is not None:
            handles.append(handle)
    return tuple(handles), min(failures, key=is_storage_away, default=None)


def read_root(blobs: "BlobStore", ref: BlobRef, plan: PhysicalPlan) -> RootManifest:
    """Read and check a root manifest.

    Raises StateError when it is missing or altered, or when a step of the job has other state.
    """
    try:
        root = decode(RootManifest, blobs.get(ref))
    except PeerError as error:
        raise StateError(f"root manifest {ref.name}: {error}") from error
    why = altered(root, plan)
    if why is not None:
        raise StateError(why.removeprefix("StateError: "))
    return root


def read_base(blobs: "BlobStore", ref: BlobRef, plan: PhysicalPlan) -> RootManifest | None:
    """Read the checkpoint from which a proposed version is prepared; None to prepare without one.

    A member may come to a proposal late, when it was called off and its base is collected. That
    must not fail the job, for the adoption reads all that is needed.
    """
    try:
        return read_root(blobs, ref, plan)
    except StateError as error:
        log.warning("event=base_unreadable reason=%s", error)
        return None


class Preloader:
    """Reads files once in the background, so that the adoption reads them from a cache.

    On one machine, or with a file system that caches, reading is enough: the second read is from
    memory. A failure does no harm here, because the adoption reads again and reports the error.

    State that a task needs now is loaded on threads of its own. So it never waits for files of a rescale that
    was cancelled.
    """

    def __init__(self, blobs: "BlobStore", warmed: Event) -> None:
        """Read from ``blobs``, one file at a time; also wait until the kernels are ``warmed``."""
        self._blobs = blobs
        self._warmed = warmed
        self._preloads = ThreadPoolExecutor(_THREADS, thread_name_prefix="preload")
        self._loads = ThreadPoolExecutor(_THREADS, thread_name_prefix="load")

    def preload(self, files: tuple[StateFile, ...], done: Callable[[], None], wanted: Callable[[], bool]) -> None:
        """Read ``files`` while they are ``wanted``, then call ``done``."""
        self._preloads.submit(self._read, files, done, wanted)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Run other work that reads checkpoints."""
        self._loads.submit(work)

    def close(self) -> None:
        """Take no more work."""
        for pool in (self._preloads, self._loads):
            pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, files: tuple[StateFile, ...], done: Callable[[], None], wanted: Callable[[], bool]) -> None:
        for file in files:
            if not wanted():
                return
            try:
                self._blobs.check(file.blob)
            except PenstockError as error:
                log.warning("event=preload_failed file=%s reason=%s", file.blob.name, error)
        self._warmed.wait(PREPARE_TIMEOUT_S)
        done()
