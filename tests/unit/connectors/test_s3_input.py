"""Objects as files of input; the store is the client's own, in memory."""

import io

import pytest
from obstore.store import MemoryStore

from penstock.base.errors import StateError
from penstock.connectors.input_files import list_input, pinned, version_of
from penstock.connectors.s3 import object_path
from penstock.connectors.s3.object_folder import ObjectFolder
from penstock.connectors.s3.object_path import ObjectPath

TEXT = bytes(range(250)) * 10


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    for name in ("b.jsonl", "a.jsonl.gz", "_SUCCESS", "sub/c.jsonl", "notes.txt"):
        made.put(name, TEXT)
    return made


@pytest.fixture
def folder(store: MemoryStore) -> ObjectPath:
    return ObjectPath(ObjectFolder("s3://b/in", lambda: store))


def test_a_folder_lists_what_is_input_and_what_is_passed_over(folder: ObjectPath) -> None:
    found = list_input(folder, "json")
    assert found.files == ("a.jsonl.gz", "b.jsonl")
    assert found.passed == (("_SUCCESS", "hidden"), ("notes.txt", "another ending"), ("sub", "sub-folder"))
    assert (folder.is_dir(), folder.is_file(), str(folder)) == (True, False, "s3://b/in")


def test_an_object_has_what_a_source_uses_of_a_path(folder: ObjectPath) -> None:
    file = folder / "a.jsonl.gz"
    assert (file.name, file.suffix, str(file)) == ("a.jsonl.gz", ".gz", "s3://b/in/a.jsonl.gz")
    assert (file.is_file(), file.is_dir(), file.stat().st_size) == (True, False, len(TEXT))
    gone = folder / "gone.jsonl"
    assert not gone.is_file()
    for look in (gone.stat, gone.version, lambda: gone.open("rb")):
        with pytest.raises(FileNotFoundError, match=r"no object s3://b/in/gone.jsonl"):
            look()


def test_it_is_read_at_any_place_and_beyond_what_is_asked_for_at_once(
    folder: ObjectPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_path, "AHEAD_BYTES", 100)
    file = (folder / "b.jsonl").open("rb")
    assert [file.read(60), file.read(60), file.read(300)] == [TEXT[:60], TEXT[60:120], TEXT[120:420]]
    assert file.tell() == 420
    assert (file.seek(10), file.read(5)) == (10, TEXT[10:15])
    assert (file.seek(-5, io.SEEK_END), file.read(50), file.read(1)) == (len(TEXT) - 5, TEXT[-5:], b"")
    assert (file.seek(-1, io.SEEK_CUR), file.read()) == (len(TEXT) - 1, TEXT[-1:])
    file.seek(0)
    room = bytearray(7)
    assert file.readinto(room) == 7  # type: ignore[attr-defined]
    assert bytes(room) == TEXT[:7]
    file.seek(0)
    assert file.read() == TEXT


def test_of_a_pinned_object_only_that_version_is_read(folder: ObjectPath, store: MemoryStore) -> None:
    file = folder / "b.jsonl"
    version = version_of(file)
    reader = pinned(file, version).open("rb")
    assert reader.read(1) == TEXT[:1]
    store.put("b.jsonl", TEXT)  # the same content, and another version
    assert version_of(file) != version
    with pytest.raises(StateError, match=r"s3://b/in/b.jsonl was replaced or removed while the job read it"):
        pinned(file, version).open("rb").read(1)
    assert file.open("rb").read(1) == TEXT[:1]
