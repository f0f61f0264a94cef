"""What an engine reads of a checkpoint, and what it refuses whatever its leader said."""

import threading
from pathlib import Path

import pytest

from penstock.base.errors import StateError
from penstock.base.values import replace
from penstock.contract.codec import encode
from penstock.contract.columns import Column
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.manifest import BlobRef, RootManifest, StateFile
from penstock.contract.plan import StepState
from penstock.engine.checkpoint_files import Preloader, read_base, read_root
from penstock.storage.blobs import DirectoryBlobStore
from penstock.storage.memory import MemoryBlobStore
from tests.support.task_harness import PLAN, root

FILE = StateFile(BlobRef(BlobName("1-1-x.state"), "", 1), "count", (), 1, Epoch(1), 1)


class SlowBlobs(MemoryBlobStore):
    """Files that take until ``goes_on`` to read."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.begun = threading.Semaphore(0)
        self.checked: list[BlobRef] = []

    def check(self, ref: BlobRef) -> None:
        """Wait."""
        self.begun.release()
        self.checked.append(ref)
        self.goes_on.wait()


def stored(folder: Path, manifest: RootManifest) -> tuple[DirectoryBlobStore, BlobRef]:
    blobs = DirectoryBlobStore(folder)
    return blobs, blobs.put(BlobName("1-3-root.json"), encode(manifest))


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    manifest = root(3)
    assert read_root(*stored(tmp_path, manifest), PLAN) == manifest


def test_a_step_with_other_state_is_refused_and_state_without_a_step_is_the_leaders(
    tmp_path: Path,
) -> None:
    blobs, ref = stored(tmp_path, root(3))
    fewer = replace(PLAN, states=PLAN.states[:1])
    assert read_root(blobs, ref, fewer) == root(3)
    keyed = StepState("count", "process", keys=(Column("word", "string"),))
    other = replace(PLAN, states=(PLAN.states[0], keyed))
    with pytest.raises(StateError, match=r"step 'count': stored keys \[\], columns \[\]; the job"):
        read_root(blobs, ref, other)
    assert read_base(blobs, ref, other) is None


def test_an_earlier_format_is_read_by_the_plan_that_it_is_of(tmp_path: Path) -> None:
    old = replace(root(3), format=1, states=(), steps=(), fingerprint="then")
    blobs, ref = stored(tmp_path, old)
    assert read_root(blobs, ref, replace(PLAN, state_fingerprint="then")) == old
    with pytest.raises(StateError, match="taken by an earlier release"):
        read_root(blobs, ref, replace(PLAN, state_fingerprint="now"))


def test_files_that_cannot_be_read_ahead_hold_up_no_rescale(tmp_path: Path) -> None:
    blobs = DirectoryBlobStore(tmp_path)
    missing = StateFile(BlobRef(BlobName("1-1-gone.state"), "", 1), "count", (), 1, Epoch(1), 1)
    warmed, prepared = threading.Event(), threading.Event()
    preloader = Preloader(blobs, warmed)
    warmed.set()
    preloader.preload((missing, missing), prepared.set, lambda: True)
    assert prepared.wait(60)
    preloader.close()


def test_state_that_is_needed_does_not_wait_for_a_rescale_that_was_cancelled(tmp_path: Path) -> None:
    slow = SlowBlobs()
    warmed, loaded = threading.Event(), threading.Event()
    preloader = Preloader(slow, warmed)
    warmed.set()
    cancelled = threading.Event()
    try:
        for _ in range(3):
            preloader.preload((FILE, FILE), lambda: None, lambda: not cancelled.is_set())
        assert slow.begun.acquire(timeout=60)
        assert slow.begun.acquire(timeout=60)
        cancelled.set()
        preloader.run_in_background(loaded.set)
        assert loaded.wait(20)
    finally:
        slow.goes_on.set()
        preloader.close()


def test_files_are_not_read_ahead_when_the_rescale_is_cancelled() -> None:
    slow = SlowBlobs()
    slow.goes_on.set()
    warmed = threading.Event()
    asked: list[int] = []
    cancelled = threading.Event()
    preloader = Preloader(slow, warmed)

    def wanted() -> bool:
        asked.append(len(slow.checked))
        if len(asked) > 1:
            cancelled.set()
        return len(asked) == 1

    preloader.preload((FILE, FILE, FILE), lambda: None, wanted)
    assert cancelled.wait(60)
    assert asked == [0, 1]
    preloader.close()
