import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.contract.assignment import Assignment
from penstock.contract.codec import encode
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    SplitId,
    StageIndex,
    TaskId,
    Term,
    Version,
)
from penstock.contract.keygroups import first_shares
from penstock.contract.manifest import (
    BlobRef,
    RootManifest,
    SinkHandle,
    SplitState,
    StateFile,
    TaskManifest,
)
from penstock.contract.names import blob_name, parse_name
from penstock.keeper.savepoints import copy_savepoint, import_snapshot, read_snapshot
from penstock.protocol import actions, events
from penstock.storage.blobs import OLD_FILE, DirectoryBlobStore

LIFE = Incarnation("11111111-2222-3333-4444-555555555555")
TASK = TaskId(StageIndex(1), Ordinal(0), 0)


@pytest.fixture
def store(tmp_path: Path) -> DirectoryBlobStore:
    return DirectoryBlobStore(tmp_path / "checkpoints")


@pytest.fixture
def root(store: DirectoryBlobStore) -> BlobRef:
    blobs = [store.put(blob_name(Term(1), Epoch(e), LIFE, e, ".state"), b"x" * e) for e in (3, 4)]
    share = first_shares(4, 1)[0]
    files = tuple(
        StateFile(blob, "counts", share, order, Epoch(3 + order), 1)
        for order, blob in enumerate(blobs)
    )
    handle = SinkHandle("out", TASK, Epoch(4), "{}", 1, 1)
    splits = (SplitState(SplitId("a"), "{}", 17),)
    manifest = RootManifest(
        JobUid("old"),
        Epoch(4),
        Term(1),
        Attempt(1),
        "savepoint",
        4,
        "plan",
        Assignment(Version(1), 1, ()),
        (TaskManifest(TASK, files, splits, (handle,)),),
    )
    return store.put(blob_name(Term(1), Epoch(4), LIFE, 9, ".root.json"), encode(manifest))


def copy(store: DirectoryBlobStore, folder: Path, root: BlobRef) -> events.CoordinatorEvent:
    return copy_savepoint(store, folder, "words", actions.CopySavepoint("r1", "monday", root))


def test_a_savepoint_is_copied_whole_and_again(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path
) -> None:
    done = copy(store, tmp_path / "savepoints", root)
    folder = tmp_path / "savepoints" / "monday"
    assert done == events.SavepointCopied("r1", str(folder))
    names = {path.name for path in folder.iterdir()}
    assert names == {*store.list_for_collection(), "savepoint.json"}
    assert copy(store, tmp_path / "savepoints", root) == done


def test_a_copy_that_was_cut_off_is_finished(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path
) -> None:
    folder = tmp_path / "savepoints" / "monday"
    copy(store, tmp_path / "savepoints", root)
    (folder / "savepoint.json").unlink()
    (folder / root.name).write_bytes(b"torn")
    assert isinstance(copy(store, tmp_path / "savepoints", root), events.SavepointCopied)
    assert DirectoryBlobStore(folder).get(root) == store.get(root)


def test_a_name_is_not_used_for_two_savepoints(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path
) -> None:
    copy(store, tmp_path / "savepoints", root)
    other = store.put(BlobName("1-5-x-0.root.json"), store.get(root))
    refused = copy(store, tmp_path / "savepoints", other)
    assert isinstance(refused, events.SavepointNotCopied)
    assert "choose another name" in refused.reason


@pytest.mark.parametrize("name", ["../outside", "a/b", "/tmp/x", ".", ""])
def test_no_name_leads_elsewhere(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path, name: str
) -> None:
    action = actions.CopySavepoint("r1", name, root)
    refused = copy_savepoint(store, tmp_path / "savepoints", "words", action)
    assert isinstance(refused, events.SavepointNotCopied)
    assert "is no name of a folder" in refused.reason
    assert not (tmp_path / "outside").exists()


def test_another_job_imports_it_under_its_own_names(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path
) -> None:
    copy(store, tmp_path / "savepoints", root)
    folder = str(tmp_path / "savepoints" / "monday")
    read = read_snapshot(actions.ReadSnapshot(1, folder))
    assert isinstance(read, events.SnapshotRead)
    other = DirectoryBlobStore(tmp_path / "other")
    action = actions.ImportSnapshot(2, folder, Term(7), Epoch(1), Incarnation("new-life"))
    done = import_snapshot(other, JobUid("new"), action)
    assert isinstance(done, events.Imported)
    manifest = done.manifest
    assert (manifest.job_uid, manifest.epoch, manifest.term) == ("new", 1, 7)
    (task,) = manifest.tasks
    assert task.handles == ()
    assert task.splits == read.manifest.tasks[0].splits
    for file, old in zip(task.files, read.manifest.tasks[0].files, strict=True):
        assert replace(file, blob=old.blob, epoch=old.epoch) == old
        assert other.get(file.blob) == store.get(old.blob)
        parts = parse_name(file.blob.name)
        assert parts is not None
        assert (parts.term, parts.epoch, file.epoch) == (7, 1, 1)
        assert file.blob.name.endswith(".state")
    assert other.get(done.root) == encode(manifest)


def test_what_is_no_savepoint_is_said(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path
) -> None:
    for path, words in ((tmp_path / "nowhere", "no such folder"), (tmp_path, "no savepoint.json")):
        refused = read_snapshot(actions.ReadSnapshot(1, str(path)))
        assert isinstance(refused, events.ImportFailed)
        assert refused.damaged
        assert words in refused.reason
    copy(store, tmp_path / "savepoints", root)
    folder = tmp_path / "savepoints" / "monday"
    (folder / root.name).write_bytes(b"altered")
    refused = read_snapshot(actions.ReadSnapshot(2, str(folder)))
    assert isinstance(refused, events.ImportFailed)
    assert refused.damaged
    assert "was altered" in refused.reason


def test_an_import_after_a_passing_error_succeeds(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy(store, tmp_path / "savepoints", root)
    folder = str(tmp_path / "savepoints" / "monday")
    other = DirectoryBlobStore(tmp_path / "other")
    real, opened = os.open, 0

    def fails_once(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        nonlocal opened
        opened += flags == OLD_FILE and str(path).endswith(".state")
        if opened == 2 and flags == OLD_FILE:
            opened += 1
            raise OSError(errno.EIO, "Input/output error")
        return real(path, flags, mode, dir_fd=dir_fd)

    def tried(token: int) -> events.CoordinatorEvent:
        life = Incarnation("new-life")
        order = actions.ImportSnapshot(token, folder, Term(7), Epoch(1), life)
        return import_snapshot(other, JobUid("new"), order)

    monkeypatch.setattr(os, "open", fails_once)
    failed = tried(1)
    assert isinstance(failed, events.ImportFailed)
    assert not failed.damaged
    assert "Input/output error" in failed.reason
    done = tried(2)
    assert isinstance(done, events.Imported), done
    listed = {file.blob.name for task in done.manifest.tasks for file in task.files}
    left = set(other.list_for_collection()) - listed - {done.root.name}
    assert not left, "a failed try keeps no space"
