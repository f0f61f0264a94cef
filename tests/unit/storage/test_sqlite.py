import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import StateError, StorageError
from penstock.ports import SwapConflict, SwapUnknown
from penstock.storage.sqlite import Database, SqliteLeaseStore, SqliteMetaStore
from tests.support.contracts import check_lease_store, check_meta_store


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "metadata.sqlite")
    yield database
    database.close()


def test_metadata_keeps_the_promises_of_the_port(database: Database) -> None:
    check_meta_store(lambda: SqliteMetaStore(database))


def test_the_lease_keeps_the_promises_of_the_port(database: Database) -> None:
    check_lease_store(lambda: SqliteLeaseStore(database, 15.0))


def test_everything_is_there_after_opening_again(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    first = Database(path)
    stored = SqliteMetaStore(first).create("a", b"\x00\xff")
    held = SqliteLeaseStore(first, 15.0).write("one", SqliteLeaseStore(first, 15.0).read().version)
    first.close()
    second = Database(path)
    assert SqliteMetaStore(second).get("a") == stored
    assert SqliteLeaseStore(second, 15.0).read() == held
    assert SqliteMetaStore(second).create("b", b"").version != stored.version
    second.close()


def test_an_object_keeps_its_uid_and_a_new_one_has_its_own(database: Database) -> None:
    store = SqliteMetaStore(database)
    first = store.create("a", b"1")
    assert store.swap("a", b"2", first.version).uid == first.uid
    assert store.create("b", b"1").uid != first.uid


def test_of_many_swaps_of_one_version_one_wins(database: Database) -> None:
    store = SqliteMetaStore(database)
    for round_number in range(20):
        name = f"object-{round_number}"
        start = store.create(name, b"")
        won: list[bytes] = []
        barrier = threading.Barrier(4)

        def swap(data: bytes, version: str, name: str, barrier: threading.Barrier) -> None:
            barrier.wait()
            try:
                store.swap(name, data, version)
            except SwapConflict:
                return
            won.append(data)  # noqa: B023 - joined before the next round

        arguments = [(str(i).encode(), start.version, name, barrier) for i in range(4)]
        threads = [threading.Thread(target=swap, args=a) for a in arguments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = store.get(name)
        assert found is not None
        assert won == [found.data]


@pytest.mark.parametrize("version", ["", "-1", "x", "1 OR 1", "²"])
def test_a_version_of_another_store_conflicts(database: Database, version: str) -> None:
    store = SqliteMetaStore(database)
    store.create("a", b"1")
    with pytest.raises(SwapConflict):
        store.swap("a", b"2", version)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StateError, match=r"metadata\.sqlite: not a usable metadata store"):
        Database(path)


def test_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 99")
    other.close()
    with pytest.raises(StateError, match="format 99"):
        Database(path)


def test_when_sqlite_fails_a_write_is_unknown_and_a_read_says_so(tmp_path: Path) -> None:
    database = Database(tmp_path / "metadata.sqlite")
    store = SqliteMetaStore(database)
    stored = store.create("a", b"1")
    # A full disk: no page can be added.
    with database.read() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(SwapUnknown):
        store.swap("a", b"x" * 1_000_000, stored.version)
    assert store.get("a") == stored
    database.close()
    with pytest.raises(StorageError):
        store.get("a")


def test_a_commit_is_on_disk_when_it_returns(database: Database) -> None:
    with database.read() as connection:
        modes = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert modes == ["wal", 2], "2 is FULL: the log is synced at every commit"
