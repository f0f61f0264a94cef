"""Reads checkpoints: root manifests, and files that are read before they are needed."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.base.errors import PeerError, PenstockError, StateError
from penstock.base.limits import PREPARE_TIMEOUT_S
from penstock.base.threads import Event, ThreadPoolExecutor
from penstock.contract.codec import decode
from penstock.contract.manifest import BlobRef, RootManifest, StateFile
from penstock.contract.plan import PhysicalPlan
from penstock.protocol.state_matching import altered

if TYPE_CHECKING:
    from penstock.ports import BlobStore

_THREADS = 2  # how many tasks of one worker load at a time; more would compete for the disk

log = logging.getLogger(__name__)


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
    """

    def __init__(self, blobs: "BlobStore", warmed: Event) -> None:
        """Read from ``blobs``, one file at a time; also wait until the kernels are ``warmed``."""
        self._blobs = blobs
        self._warmed = warmed
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="preload")

    def preload(self, files: tuple[StateFile, ...], done: Callable[[], None]) -> None:
        """Read ``files``, then call ``done``."""
        self._pool.submit(self._read, files, done)

    def run_in_background(self, work: Callable[[], None]) -> None:
        """Run other work that reads checkpoints."""
        self._pool.submit(work)

    def close(self) -> None:
        """Take no more work."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, files: tuple[StateFile, ...], done: Callable[[], None]) -> None:
        for file in files:
            try:
                self._blobs.get(file.blob)
            except PenstockError as error:
                log.warning("event=preload_failed file=%s reason=%s", file.blob.name, error)
        self._warmed.wait(PREPARE_TIMEOUT_S)
        done()
