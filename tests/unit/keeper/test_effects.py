from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.base.errors import StateError, StorageError
from penstock.base.limits import MANIFEST_BYTES_MAX
from penstock.base.values import replace
from penstock.contract.codec import encode
from penstock.contract.control_messages import Envelope, MembersFile, StageSplits, Start
from penstock.contract.ids import (
    Attempt,
    BlobName,
    JobUid,
    Ordinal,
    SplitId,
    StageIndex,
    SwapId,
    Term,
    Version,
)
from penstock.contract.latest import Desired, Latest
from penstock.contract.manifest import BlobRef, SplitState
from penstock.contract.plan import Assignment
from penstock.keeper import effects as stores
from penstock.keeper.keeper_messages import Core, KeeperInbox
from penstock.ports import LeaseView, SwapUnknown, Versioned
from penstock.protocol import keeper_core_messages as km
from penstock.storage.blobs import DirectoryBlobStore
from tests.support.fakes import FakeLeaseStore, FakeMetaStore

LATEST = Latest(JobUid("uid"), SwapId("swap-1"))
MEMBERS = MembersFile(Attempt(1), (), Assignment(Version(1), 0, ()))
NAME = BlobName("1-1-life-0.members.json")


@dataclass(frozen=True, slots=True)
class Silent:
    """A store that never answers."""

    def get(self, name: str) -> Versioned | None:
        raise StorageError("no answer")

    def create(self, name: str, data: bytes) -> Versioned:
        raise SwapUnknown("no answer")

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        raise SwapUnknown("no answer")

    def read(self) -> LeaseView:
        raise StorageError("no answer")

    def write(self, holder: str | None, version: str) -> LeaseView:
        raise SwapUnknown("no answer")


def test_the_lease_is_read_and_written() -> None:
    store = FakeLeaseStore(15.0)
    read = stores.read_lease(store, km.ReadLease(1))
    assert read == km.LeaseRead(1, None, "0", 15.0, "0")
    written = stores.write_lease(store, km.WriteLease(2, "me", "0"))
    assert written == km.LeaseWritten(2, "1")
    late = stores.write_lease(store, km.WriteLease(3, "other", "0"))
    assert isinstance(late, km.LeaseFailed)
    assert stores.read_lease(Silent(), km.ReadLease(4)) == km.LeaseFailed(4, "no answer")
    silent = stores.write_lease(Silent(), km.WriteLease(5, "me", "1"))
    assert silent == km.LeaseFailed(5, "no answer")


def test_latest_is_read_and_swapped() -> None:
    store = FakeMetaStore()
    assert stores.read_latest(store, "l", km.ReadLatest(1)) == km.LatestRead(1, None)
    first = store.create("l", encode(LATEST))
    read = stores.read_latest(store, "l", km.ReadLatest(2))
    assert read == km.LatestRead(2, LATEST, first.version, first.uid)
    swap = km.SwapLatest(Latest(JobUid("uid"), SwapId("swap-2")), first.version)
    done = stores.swap_latest(store, "l", swap)
    assert isinstance(done, km.SwapDone)
    assert stores.swap_latest(store, "l", swap) == km.SwapConflicted(SwapId("swap-2"))
    unknown = km.SwapUnknown(SwapId("swap-2"), "no answer")
    assert stores.swap_latest(Silent(), "l", swap) == unknown
    unreadable = stores.read_latest(Silent(), "l", km.ReadLatest(3))
    assert unreadable == km.LatestUnreadable(3, "no answer")


def test_a_record_of_another_version_of_us_is_unreadable() -> None:
    store = FakeMetaStore()
    store.create("l", b'{"is":"Latest","newField":1}')
    read = stores.read_latest(store, "l", km.ReadLatest(1))
    assert isinstance(read, km.LatestUnreadable)
    assert "newField" in read.reason


def test_desired_is_read() -> None:
    store = FakeMetaStore()
    assert stores.read_desired(store, "d") is None
    store.create("d", encode(Desired(3)))
    assert stores.read_desired(store, "d") == Desired(3)


@pytest.fixture
def blobs(tmp_path: Path) -> DirectoryBlobStore:
    return DirectoryBlobStore(tmp_path)


def test_files_are_written_read_listed_and_deleted(blobs: DirectoryBlobStore) -> None:
    written = stores.file_action(blobs, km.WriteBlob(NAME, MEMBERS))
    assert isinstance(written, km.BlobWritten)
    read = stores.file_action(blobs, km.ReadBlob(written.ref, km.BlobKind.MEMBERS))
    assert read == km.BlobRead(written.ref, MEMBERS)
    again = stores.file_action(blobs, km.WriteBlob(NAME, MEMBERS))
    assert isinstance(again, km.BlobNotWritten)
    assert stores.file_action(blobs, km.ListBlobs(1)) == km.BlobsListed(1, (NAME,))
    assert stores.file_action(blobs, km.DeleteBlobs((NAME, NAME))) is None
    assert stores.file_action(blobs, km.ListBlobs(2)) == km.BlobsListed(2, ())


def test_damage_is_told_from_failure(blobs: DirectoryBlobStore, tmp_path: Path) -> None:
    written = stores.write_blob(blobs, km.WriteBlob(NAME, MEMBERS))
    assert isinstance(written, km.BlobWritten)
    missing = BlobRef(BlobName("1-1-life-9.root.json"), "", 0)
    read = stores.read_blob(blobs, km.ReadBlob(missing, km.BlobKind.ROOT))
    assert isinstance(read, km.BlobUnreadable)
    assert read.damaged
    other_kind = stores.read_blob(blobs, km.ReadBlob(written.ref, km.BlobKind.ROOT))
    assert isinstance(other_kind, km.BlobUnreadable)
    assert other_kind.damaged
    data = (tmp_path / NAME).read_bytes()
    (tmp_path / NAME).write_bytes(data[:-1] + b"?")
    altered = stores.read_blob(blobs, km.ReadBlob(written.ref, km.BlobKind.MEMBERS))
    assert isinstance(altered, km.BlobUnreadable)
    assert altered.damaged
    assert "was altered" in altered.reason


def test_the_root_file_is_created_once(blobs: DirectoryBlobStore) -> None:
    assert stores.file_action(blobs, km.ReadRootFile(1)) == km.RootFileRead(1, None)
    written = stores.file_action(blobs, km.WriteRootFile(2, "uid"))
    assert written == km.RootFileWritten(2)
    assert stores.file_action(blobs, km.ReadRootFile(3)) == km.RootFileRead(3, "uid")
    again = stores.file_action(blobs, km.WriteRootFile(4, "other"))
    assert isinstance(again, km.RootFileFailed)


def test_a_failed_deletion_is_said_for_the_log(blobs: DirectoryBlobStore) -> None:
    bad = km.DeleteBlobs((BlobName("../outside"),))
    reason = stores.file_action(blobs, bad)
    assert isinstance(reason, str)
    assert "is no name of a stored file" in reason


def test_a_manifest_that_is_too_large_is_neither_written_nor_read(tmp_path: Path) -> None:
    files = DirectoryBlobStore(tmp_path)
    text = "x" * MANIFEST_BYTES_MAX
    splits = (StageSplits(StageIndex(0), (SplitState(SplitId("a"), text, 0),)),)
    answer = stores.write_blob(files, km.WriteBlob(NAME, replace(MEMBERS, splits=splits)))
    assert isinstance(answer, km.BlobNotWritten)
    assert f"at most {MANIFEST_BYTES_MAX} are possible: fewer splits" in answer.reason
    assert not list(files.list_for_collection())

    ref = BlobRef(NAME, "0" * 64, MANIFEST_BYTES_MAX + 1)
    read = stores.read_blob(files, km.ReadBlob(ref, km.BlobKind.MEMBERS))
    assert isinstance(read, km.BlobUnreadable)
    assert read.damaged
    assert "at most" in read.reason


def test_a_record_of_a_newer_version_stops_a_keeper_and_a_store_that_is_away_does_not() -> None:
    store = FakeMetaStore()
    store.create("l", b'{"is":"Latest","format":1000}')
    with pytest.raises(StateError, match="1000"):
        stores.refuse_newer(store, "l")
    stores.refuse_newer(cast(Any, Silent()), "l")
    stores.refuse_newer(FakeMetaStore(), "l")


def test_a_folder_that_cannot_be_listed_is_not_taken_for_empty() -> None:
    def listing() -> None:
        raise StorageError("stale handle")

    unlisted = SimpleNamespace(list_for_collection=listing)
    assert stores.list_blobs(cast(Any, unlisted), km.ListBlobs(3)) == km.BlobsListed(3, None)


def test_what_is_slow_holds_up_neither_the_lease_nor_checkpoints_and_a_keeper_hears_itself(tmp_path: Path) -> None:
    launch = SimpleNamespace(job="job", savepoints=str(tmp_path), job_uid=JobUid("uid"))
    sent: list[str] = []
    senders = SimpleNamespace(send=lambda address, _: sent.append(address))
    outside = stores.Outside(cast(Any, None), cast(Any, senders), "here")
    kept = stores.Stores(cast(Any, None), cast(Any, None), DirectoryBlobStore(tmp_path))
    effects: Any = stores.KeeperEffects(cast(Any, launch), kept, outside, KeeperInbox(), cast(Any, None))
    lanes: dict[str, list[object]] = {"_lease": [], "_metadata": [], "_files": [], "_copies": []}
    for name, jobs in lanes.items():
        setattr(effects, name, SimpleNamespace(do=jobs.append))
    root = BlobRef(BlobName("1-1-life-0.root.json"), "", 1)
    effects.perform(Core.COORDINATOR, km.ReadLease(1))
    effects.perform(Core.COORDINATOR, km.ReadLatest(2))
    effects.perform(Core.COORDINATOR, km.CopySavepoint("r", "monday", root, "1-life-1"))
    effects.perform(Core.COORDINATOR, km.ListBlobs(3))
    assert {name: len(jobs) for name, jobs in lanes.items()} == dict.fromkeys(lanes, 1)
    for address in ("here", "there"):
        envelope = Envelope(JobUid("uid"), Term(1), Ordinal(0), Start(Attempt(1)))
        effects.perform(Core.COORDINATOR, km.SendCommand(Ordinal(0), address, envelope))
    assert sent == ["there"]
    assert len(effects.loopback) == 1
