import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import PenstockError, StateError, StorageError
from penstock.contract.ids import BlobName
from penstock.contract.manifest import BlobRef
from penstock.storage.blobs import DirectoryBlobStore
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.virtual_disk import VirtualDisk
from tests.support.contracts import check_blob_store

NAME = BlobName("state/1-1-x-1.state")


@pytest.fixture
def store(tmp_path: Path) -> DirectoryBlobStore:
    return DirectoryBlobStore(tmp_path / "root")


def test_it_keeps_the_promises_of_the_port(tmp_path: Path) -> None:
    check_blob_store(lambda: DirectoryBlobStore(tmp_path / "root"))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "./a",
        ".hidden",
        "a/",
        "a\0b",
        "a/" * 20 + "a",
    ],
)
def test_no_name_leads_out_of_the_root(store: DirectoryBlobStore, name: str) -> None:
    for action in (
        lambda: store.put(BlobName(name), b""),
        lambda: store.get(BlobRef(BlobName(name), "", 0)),
        lambda: store.delete(BlobName(name)),
    ):
        with pytest.raises(StateError, match="is no name of a stored file"):
            action()


def test_a_planted_folder_link_is_not_followed(store: DirectoryBlobStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"secret")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "state").symlink_to(outside)
    ref = BlobRef(BlobName("state/file"), hashlib.sha256(b"secret").hexdigest(), 6)
    for action in (
        lambda: store.get(ref),
        lambda: store.put(BlobName("state/new"), b""),
        lambda: store.delete(ref.name),
    ):
        with pytest.raises(PenstockError):
            action()
    assert [entry.name for entry in outside.iterdir()] == ["file"]
    assert list(store.list_for_collection()) == []


def test_a_planted_file_link_is_not_followed(store: DirectoryBlobStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "file").symlink_to(tmp_path / "secret")
    name = BlobName("file")
    with pytest.raises(StateError, match="symbolic link"):
        store.get(BlobRef(name, hashlib.sha256(b"secret").hexdigest(), 6))
    with pytest.raises(StorageError):
        store.put(name, b"x")
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_every_altered_byte_is_found(store: DirectoryBlobStore, tmp_path: Path) -> None:
    data = bytes(range(64))
    ref = store.put(NAME, data)
    path = tmp_path / "root" / NAME
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(StateError, match="was altered: its SHA-256"):
            store.get(ref)
    path.write_bytes(data[:-1])
    with pytest.raises(StateError, match="was altered: it has 63 bytes"):
        store.get(ref)


def test_large_files_are_copied_whole(store: DirectoryBlobStore, tmp_path: Path) -> None:
    data = os.urandom(3 * 1024 * 1024 + 17)
    (tmp_path / "local").write_bytes(data)
    ref = store.put_file(NAME, str(tmp_path / "local"))
    assert ref == BlobRef(NAME, hashlib.sha256(data).hexdigest(), len(data))
    store.fetch(ref, str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


def test_a_fetch_that_fails_leaves_no_file(store: DirectoryBlobStore, tmp_path: Path) -> None:
    ref = store.put(NAME, b"content")
    wrong = BlobRef(NAME, "0" * 64, ref.size)
    with pytest.raises(StateError):
        store.fetch(wrong, str(tmp_path / "back"))
    assert not (tmp_path / "back").exists()
    with pytest.raises(StorageError, match="nowhere"):
        store.fetch(ref, str(tmp_path / "nowhere" / "back"))


def test_a_full_disk_fails_the_write_and_gives_its_space_back(
    store: DirectoryBlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def full(file: int) -> None:
        monkeypatch.setattr(os, "fsync", real)
        raise OSError(errno.ENOSPC, "No space left on device")

    store.put(BlobName("state/first"), b"x")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        store.put(NAME, b"x" * 1000)
    assert list(store.list_for_collection()) == [BlobName("state/first")]


def test_peek_reads_what_no_manifest_lists(store: DirectoryBlobStore) -> None:
    root = BlobName("ROOT")
    assert store.peek(root, 100) is None
    store.put(root, b"uid-of-the-object")
    assert store.peek(root, 100) == b"uid-of-the-object"
    assert store.peek(root, 3) == b"uid"


def test_a_file_of_a_fixed_name_appears_whole_and_once(
    store: DirectoryBlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, data = BlobName("ROOT"), b"uid"

    def crash(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "link", crash)
        with pytest.raises(StorageError, match="Input/output error"):
            store.put_whole(root, BlobName("ROOT-1"), data)
    assert list(store.list_for_collection()) == []
    store.put_whole(root, BlobName("ROOT-2"), data)
    with pytest.raises(StorageError, match="exists already"):
        store.put_whole(root, BlobName("ROOT-3"), b"other")
    assert store.peek(root, 100) == data
    assert list(store.list_for_collection()) == [root]


def test_a_root_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = DirectoryBlobStore(tmp_path / "file" / "root")  # touches nothing yet
    with pytest.raises(StorageError, match="file/root"):
        store.put(NAME, b"")


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """List what is fsynced, by path."""
    real, paths = os.fsync, list[str]()

    def noted(file: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{file}"))
        real(file)

    monkeypatch.setattr(os, "fsync", noted)
    return paths


def test_every_folder_above_a_new_file_is_synced_once(tmp_path: Path, synced: list[str]) -> None:
    store = DirectoryBlobStore(tmp_path / "new" / "root")
    store.put(NAME, b"x")
    above = [str(tmp_path / name) for name in ("", "new", "new/root", "new/root/state")]
    assert set(above) <= set(synced)
    synced.clear()
    store.put(BlobName("state/2-2-x-2.state"), b"x")
    assert synced == [str(tmp_path / "new/root/state/2-2-x-2.state"), above[-1]]


def test_a_folder_that_another_made_is_not_taken_for_durable(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "new" / "root" / "state").mkdir(parents=True)
    DirectoryBlobStore(tmp_path / "new" / "root").put(NAME, b"x")
    assert {str(tmp_path), str(tmp_path / "new"), str(tmp_path / "new/root")} <= set(synced)


def test_reading_syncs_nothing(store: DirectoryBlobStore, synced: list[str]) -> None:
    assert store.peek(NAME, 10) is None
    assert synced == []


def test_a_folder_goes_with_all_that_is_in_it_and_nothing_else(store: DirectoryBlobStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"kept")
    for name in ("a/1", "a/2", "b/1"):
        store.put(BlobName(name), b"x")
    (tmp_path / "root" / "a" / "link").symlink_to(outside)
    store.delete_folder(BlobName("a"))
    store.delete_folder(BlobName("a"))
    assert list(store.list_for_collection()) == ["b/1"]
    assert (outside / "file").read_bytes() == b"kept"


def test_a_fixed_name_is_durable_when_it_is_there(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, real = DirectoryBlobStore(tmp_path / "root"), os.link

    def link(*names: Any, **options: Any) -> None:
        real(*names, **options)
        synced.clear()

    monkeypatch.setattr(os, "link", link)
    store.put_whole(BlobName("ROOT"), BlobName("ROOT-1"), b"uid")
    assert str(tmp_path / "root") in synced, "synced behind the link"


def test_a_staged_file_of_a_fixed_name_does_not_come_back_when_the_power_fails() -> None:
    disk = VirtualDisk()
    store = DirectoryBlobStore(Path("/job"), MountedFiles(disk, Mount("one")))
    store.put_whole(BlobName("ROOT"), BlobName("ROOT-1"), b"uid")
    disk.power_failure()
    after = DirectoryBlobStore(Path("/job"), MountedFiles(disk, Mount("two")))
    assert list(after.list_for_collection()) == ["ROOT"]
