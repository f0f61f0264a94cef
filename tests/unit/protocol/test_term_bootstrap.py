"""The file ROOT: a volume belongs to one object, and nothing starts from nothing beside it."""

from penstock.contract.ids import BlobName, Epoch, SwapId, Term
from penstock.contract.latest import Latest
from tests.support.in_memory_control_plane import JOB, InMemoryControlPlane


def committed_elsewhere(epoch: int) -> Latest:
    return Latest(JOB, SwapId("old"), term=Term(5), epoch=Epoch(epoch), max_epoch=Epoch(epoch))


def test_a_volume_of_another_object_is_refused() -> None:
    plane = InMemoryControlPlane(2)
    plane.root_file = "object-0\n"
    plane.run(5.0)
    assert plane.latest.attempt == 0
    assert plane.latest.failure is not None
    assert "the volume belongs to object object-0, not to object-1" in plane.latest.failure
    assert plane.root_file == "object-0\n"


def test_nothing_is_deleted_on_a_volume_of_another_object() -> None:
    plane = InMemoryControlPlane(2)
    plane.root_file = "object-0\n"
    theirs = BlobName("1-1-k9-1.state")
    plane.blobs[theirs] = "state of the other"
    plane.run(30.0)
    assert theirs in plane.blobs
    assert plane.deleted == []


def test_a_committed_job_without_its_root_file_is_refused() -> None:
    plane = InMemoryControlPlane(0)
    plane.record = committed_elsewhere(3)
    plane.want(workers=2)
    plane.start(0)
    plane.start(1)
    plane.run(5.0)
    assert plane.latest.attempt == 0
    assert "has no ROOT" in (plane.latest.failure or "")
    assert plane.root_file is None


def test_a_missing_object_starts_nothing() -> None:
    plane = InMemoryControlPlane(2)
    plane.record = None
    plane.root_file = "object-1\n"
    plane.run(5.0)
    assert plane.record is None
    assert plane.cas == []


def test_a_root_file_that_was_cut_short_is_made_again() -> None:
    plane = InMemoryControlPlane(0)
    plane.root_file = "obj"
    plane.want(workers=1)
    plane.start(0)
    plane.until(lambda: BlobName("ROOT") in plane.deleted)
    plane.root_file = None
    plane.until(lambda: plane.latest.attempt == 1)
    assert plane.root_file == "object-1\n"
