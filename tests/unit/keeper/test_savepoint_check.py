"""What a job can begin from is told from what is not there, leads out, or is no savepoint."""

from pathlib import Path

import pytest

from penstock.contract import pod
from penstock.contract.codec import encode
from penstock.contract.ids import Attempt, BlobName, Epoch, JobUid, Term, Version
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import Assignment
from penstock.keeper.savepoint_check import look, main
from penstock.keeper.savepoint_copies import copy_savepoint, index_savepoint
from penstock.protocol.keeper_core_messages import CopySavepoint, IndexSavepoint
from penstock.storage.blobs import DirectoryBlobStore


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Give the folder of a job with a savepoint."""
    store = DirectoryBlobStore(tmp_path / "wc" / "uid")
    nothing = Assignment(Version(1), 1, ())
    manifest = RootManifest(JobUid("uid"), Epoch(4), Term(1), Attempt(1), "savepoint", 4, "plan", nothing, ())
    made = store.put(BlobName("4-1-a-9.root.json"), encode(manifest))
    savepoints = tmp_path / "wc" / "savepoints"
    copy_savepoint(store, savepoints, CopySavepoint("r1", "monday", made, "1-a-1"))
    index_savepoint(savepoints, "wc", IndexSavepoint("r1", "monday", made, "1-a-1"))
    return tmp_path / "wc"


def test_a_savepoint_is_seen(root: Path) -> None:
    path = str(root / "savepoints" / "monday")
    assert look(str(root), path) == ""
    assert main([str(root), path]) == 0


def test_what_will_not_do_is_told_with_its_reason(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "savepoints" / "empty").mkdir()
    (root / "savepoints" / "out").symlink_to(root.parent)
    (root / "savepoints" / "other").symlink_to(root / "uid")
    wanted = {
        "tuesday": pod.PATH_NOT_FOUND,
        "empty": pod.PATH_UNREADABLE,
        "out": pod.PATH_OUTSIDE,
        "other": pod.PATH_UNREADABLE,
    }
    for name, reason in wanted.items():
        assert main([str(root), str(root / "savepoints" / name)]) == pod.LOOK_REFUSED
        assert capsys.readouterr().err.startswith(f"{reason}: ")


def test_a_root_that_is_a_link_is_not_followed(root: Path) -> None:
    (root.parent / "linked").symlink_to(root)
    linked = root.parent / "linked"
    assert look(str(linked), str(linked / "savepoints" / "monday")).startswith(pod.PATH_OUTSIDE)
