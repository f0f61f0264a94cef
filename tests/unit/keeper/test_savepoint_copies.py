import errno
import json
import os
import threading
import tracemalloc
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.base.values import replace
from penstock.contract.codec import decode, encode
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
    blob_name,
    parse_name,
)
from penstock.contract.keygroups import first_shares
from penstock.contract.manifest import (
    BlobRef,
    Origin,
    RootManifest,
    SinkHandle,
    SplitState,
    StateFile,
    TaskManifest,
)
from penstock.contract.plan import Assignment
from penstock.file_system import OLD_FILE
from penstock.keeper.savepoint_copies import (
    SavepointIndex,
    copy_savepoint,
    import_snapshot,
    index_savepoint,
    read_snapshot,
)
from penstock.protocol import keeper_core_messages as km
from penstock.storage.blobs import DirectoryBlobStore

LIFE = Incarnation("11111111-2222-3333-4444-555555555555")
TASK = TaskId(StageIndex(1), Ordinal(0), 0)
LARGE_BYTES = 16 * 1024 * 1024


@pytest.fixture
def store(tmp_path: Path) -> DirectoryBlobStore:
    return DirectoryBlobStore(tmp_path / "checkpoints")


@pytest.fixture
def root(store: DirectoryBlobStore) -> BlobRef:
    blobs = [store.put(blob_name(Term(1), Epoch(e), LIFE, e, ".state"), b"x" * e) for e in (3, 4)]
    share = first_shares(4, 1)[0]
    files = tuple(StateFile(blob, "counts", share, order, Epoch(3 + order), 1) for order, blob in enumerate(blobs))
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


FOLDERS = (f"{n}-{LIFE}-{n}" for n in count(1))


def ordered(root: BlobRef, name: str = "monday") -> km.CopySavepoint:
    """Order a copy, as a leader does: each try has a folder of its own."""
    return km.CopySavepoint("r1", name, root, next(FOLDERS))


def index(folder: Path, order: km.CopySavepoint) -> km.CoordinatorEvent:
    action = km.IndexSavepoint(order.request, order.name, order.root, order.folder)
    return index_savepoint(folder, "words", action)


def copy(store: DirectoryBlobStore, folder: Path, root: BlobRef) -> km.CoordinatorEvent:
    """Do what one leader orders until the savepoint is complete, or not."""
    order = ordered(root)
    done = copy_savepoint(store, folder, order)
    return index(folder, order) if isinstance(done, km.SavepointCopied) else done


def imported(folder: Path, job: Path) -> km.CoordinatorEvent:
    """Have another job begin from what is in ``folder``."""
    order = km.ImportSnapshot(1, str(folder), Term(7), Epoch(1), Incarnation("new-life"))
    return import_snapshot(DirectoryBlobStore(job), JobUid("new"), order)


def folders(savepoint: Path) -> list[str]:
    return sorted(path.name for path in savepoint.iterdir())


def test_a_savepoint_is_copied_whole_and_again(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path) -> None:
    done = copy(store, tmp_path / "savepoints", root)
    folder = tmp_path / "savepoints" / "monday"
    assert isinstance(done, km.SavepointIndexed)
    assert done.path == str(folder)
    assert folders(folder) == [done.folder, "savepoint.json"]
    names = {path.name for path in (folder / done.folder).iterdir()}
    assert names == set(store.list_for_collection())
    again = copy(store, tmp_path / "savepoints", root)
    assert isinstance(again, km.SavepointIndexed)
    assert folders(folder) == [done.folder, "savepoint.json"], "the first copy is the savepoint"


def test_a_copy_without_an_index_is_no_savepoint_and_goes_when_there_is_one(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path
) -> None:
    savepoints = tmp_path / "savepoints"
    left = copy_savepoint(store, savepoints, ordered(root))
    assert isinstance(left, km.SavepointCopied)
    (savepoints / "monday" / "notes of a user").write_text("kept")
    refused = read_snapshot(km.ReadSnapshot(1, str(savepoints / "monday")))
    assert isinstance(refused, km.ImportFailed)
    assert "no savepoint.json" in refused.reason
    done = copy(store, savepoints, root)
    assert isinstance(done, km.SavepointIndexed)
    assert folders(savepoints / "monday") == [done.folder, "notes of a user", "savepoint.json"]


@pytest.mark.parametrize("error", [errno.ESTALE, errno.ENOSPC])
def test_a_full_disk_of_one_copier_leaves_the_other_whole(
    store: DirectoryBlobStore,
    root: BlobRef,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: int,
) -> None:
    """A is stopped inside its second file and deposed; B copies all; A goes on, and cannot."""
    savepoints = tmp_path / "savepoints"
    stopped, go_on, said = threading.Event(), threading.Event(), []
    real, writes = os.write, []

    def write(file: int, data: memoryview) -> int:
        if threading.current_thread().name == "A":
            writes.append(file)
            if len(writes) == 2:
                real(file, data[:1])
                stopped.set()
                assert go_on.wait(60)
                raise OSError(error, os.strerror(error))
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    first = threading.Thread(name="A", target=lambda: said.append(copy(store, savepoints, root)))
    first.start()
    assert stopped.wait(60)
    done = copy(store, savepoints, root)
    assert isinstance(done, km.SavepointIndexed), done
    go_on.set()
    first.join()
    assert isinstance(said[0], km.SavepointNotCopied)
    assert isinstance(imported(savepoints / "monday", tmp_path / "job"), km.Imported)
    assert folders(savepoints / "monday") == [done.folder, "savepoint.json"]


def test_of_two_whole_copies_the_first_index_stands(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path) -> None:
    savepoints = tmp_path / "savepoints"
    first, second = ordered(root), ordered(root)
    for order in (first, second):
        assert isinstance(copy_savepoint(store, savepoints, order), km.SavepointCopied)
    for order in (second, first):  # the one that was deposed is late
        done = index(savepoints, order)
        assert done == km.SavepointIndexed("r1", order.folder, str(savepoints / "monday"))
    assert folders(savepoints / "monday") == [second.folder, "savepoint.json"]
    assert isinstance(imported(savepoints / "monday", tmp_path / "job"), km.Imported)


def test_a_copy_that_ends_behind_anothers_index_removes_itself(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoints, done = tmp_path / "savepoints", list[Any]()
    real = os.write

    def write(file: int, data: memoryview) -> int:
        if not done:
            done.append(None)  # the other one's own writes
            done.append(copy(store, savepoints, root))
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    late = copy(store, savepoints, root)
    assert isinstance(late, km.SavepointIndexed)
    assert isinstance(done[1], km.SavepointIndexed)
    assert folders(savepoints / "monday") == [done[1].folder, "savepoint.json"]


def test_the_name_of_a_complete_savepoint_is_durable(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, synced = os.fsync, list[str]()

    def noted(file: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{file}"))
        real(file)

    monkeypatch.setattr(os, "fsync", noted)
    done = copy(store, tmp_path / "savepoints", root)
    assert isinstance(done, km.SavepointIndexed)
    folder = tmp_path / "savepoints" / "monday"
    above = [tmp_path, tmp_path / "savepoints", folder, folder / done.folder]
    assert {str(path) for path in above} <= set(synced)


def test_a_savepoint_of_format_1_is_read(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path) -> None:
    folder = tmp_path / "savepoints" / "monday"
    copy(store, tmp_path / "savepoints", root)
    whole = next(path for path in folder.iterdir() if path.is_dir())
    for path in whole.iterdir():
        path.rename(folder / path.name)
    whole.rmdir()
    index = SavepointIndex("words", "monday", root)
    plain = {k: v for k, v in json.loads(encode(index)).items() if k != "folder"}
    (folder / "savepoint.json").write_text(json.dumps(plain))
    assert isinstance(imported(folder, tmp_path / "job"), km.Imported)
    assert isinstance(copy(store, tmp_path / "savepoints", root), km.SavepointIndexed)
    assert isinstance(imported(folder, tmp_path / "job-2"), km.Imported)


def test_a_savepoint_of_a_later_format_is_refused(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path) -> None:
    folder = tmp_path / "savepoints" / "monday"
    copy(store, tmp_path / "savepoints", root)
    (folder / "savepoint.json").write_bytes(encode(SavepointIndex("w", "s", root, "f", 3)))
    refused = imported(folder, tmp_path / "job")
    assert isinstance(refused, km.ImportFailed)
    assert refused.damaged
    assert "has format 3, this Penstock reads up to 2" in refused.reason


def test_a_name_is_not_used_for_two_savepoints(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path) -> None:
    savepoints = tmp_path / "savepoints"
    other = store.put(BlobName("1-5-x-0.root.json"), store.get(root))
    late = ordered(other)
    assert isinstance(copy_savepoint(store, savepoints, late), km.SavepointCopied)
    copy(store, savepoints, root)
    for refused in (copy(store, savepoints, other), index(savepoints, late)):
        assert isinstance(refused, km.SavepointNotCopied)
        assert "choose another name" in refused.reason
    assert isinstance(imported(savepoints / "monday", tmp_path / "job"), km.Imported)


@pytest.mark.parametrize("name", ["../outside", "a/b", "/tmp/x", ".", ""])
def test_no_name_leads_elsewhere(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path, name: str) -> None:
    refused = copy_savepoint(store, tmp_path / "savepoints", ordered(root, name))
    assert isinstance(refused, km.SavepointNotCopied)
    assert "is no name of a folder" in refused.reason
    assert not (tmp_path / "outside").exists()


def test_another_job_imports_it_under_its_own_names(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path) -> None:
    copy(store, tmp_path / "savepoints", root)
    folder = str(tmp_path / "savepoints" / "monday")
    read = read_snapshot(km.ReadSnapshot(1, folder))
    assert isinstance(read, km.SnapshotRead)
    other = DirectoryBlobStore(tmp_path / "other")
    action = km.ImportSnapshot(2, folder, Term(7), Epoch(1), Incarnation("new-life"))
    done = import_snapshot(other, JobUid("new"), action)
    assert isinstance(done, km.Imported)
    manifest = done.manifest
    assert (manifest.job_uid, manifest.epoch, manifest.term) == ("new", 1, 7)
    assert manifest.origin == Origin(JobUid("old"), Epoch(4)), "the sink takes the folder over by it"
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


def test_what_is_no_savepoint_is_said(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path) -> None:
    for path, words in ((tmp_path / "nowhere", "no such folder"), (tmp_path, "no savepoint.json")):
        refused = read_snapshot(km.ReadSnapshot(1, str(path)))
        assert isinstance(refused, km.ImportFailed)
        assert refused.damaged
        assert words in refused.reason
    done = copy(store, tmp_path / "savepoints", root)
    assert isinstance(done, km.SavepointIndexed)
    folder = tmp_path / "savepoints" / "monday"
    (folder / done.folder / root.name).write_bytes(b"altered")
    refused = read_snapshot(km.ReadSnapshot(2, str(folder)))
    assert isinstance(refused, km.ImportFailed)
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

    def tried(token: int) -> km.CoordinatorEvent:
        life = Incarnation("new-life")
        order = km.ImportSnapshot(token, folder, Term(7), Epoch(1), life)
        return import_snapshot(other, JobUid("new"), order)

    monkeypatch.setattr(os, "open", fails_once)
    failed = tried(1)
    assert isinstance(failed, km.ImportFailed)
    assert not failed.damaged
    assert "Input/output error" in failed.reason
    done = tried(2)
    assert isinstance(done, km.Imported), done
    listed = {file.blob.name for task in done.manifest.tasks for file in task.files}
    left = set(other.list_for_collection()) - listed - {done.root.name}
    assert not left, "a failed try keeps no space"


def test_a_copy_that_fails_gives_its_space_back(store: DirectoryBlobStore, root: BlobRef, tmp_path: Path) -> None:
    last = sorted(name for name in store.list_for_collection() if name.endswith(".state"))[-1]
    store.delete(last)
    order = ordered(root)
    failed = copy_savepoint(store, tmp_path / "savepoints", order)
    assert isinstance(failed, km.SavepointNotCopied)
    assert "is missing" in failed.reason
    assert folders(tmp_path / "savepoints" / order.name) == []


def test_files_of_any_size_are_copied_with_little_memory(
    store: DirectoryBlobStore, root: BlobRef, tmp_path: Path
) -> None:
    """The keeper has half a gigabyte, and a state file may have all rows of a task."""
    manifest = decode(RootManifest, store.get(root))
    large = store.put(blob_name(Term(1), Epoch(4), LIFE, 5, ".state"), os.urandom(LARGE_BYTES))
    files = (replace(manifest.tasks[0].files[0], blob=large),)
    tasks = (replace(manifest.tasks[0], files=files),)
    with_large = store.put(blob_name(Term(1), Epoch(4), LIFE, 8, ".root.json"), encode(replace(manifest, tasks=tasks)))
    tracemalloc.start()
    try:
        done = copy(store, tmp_path / "savepoints", with_large)
        again = imported(tmp_path / "savepoints" / "monday", tmp_path / "other")
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(done, km.SavepointIndexed), done
    assert isinstance(again, km.Imported), again
    assert most_bytes < LARGE_BYTES // 2
