"""The file ROOT: a volume belongs to one object, and nothing starts from nothing beside it."""

from penstock.contract.ids import BlobName, Epoch, SwapId, Term
from penstock.contract.latest import Latest
from tests.support.in_memory_control_plane import JOB, InMemoryControlPlane


def committed_elsewhere(epoch: int) -> Latest:
    return Latest(JOB, SwapId("old"), term=Term(5), epoch=Epoch(epoch), max_epoch=Epoch(epoch))


def test_a_volume_of_another_object_is_refused() -> None:
    town = InMemoryControlPlane(2)
    town.root_file = "object-0\n"
    town.run(5.0)
    assert town.latest.attempt == 0
    assert town.latest.failure is not None
    assert "the volume belongs to object object-0, not to object-1" in town.latest.failure
    assert town.root_file == "object-0\n"


def test_nothing_is_deleted_on_a_volume_of_another_object() -> None:
    town = InMemoryControlPlane(2)
    town.root_file = "object-0\n"
    theirs = BlobName("1-1-k9-1.state")
    town.blobs[theirs] = "state of the other"
    town.run(30.0)
    assert theirs in town.blobs
    assert town.deleted == []


def test_a_committed_job_without_its_root_file_is_refused() -> None:
    town = InMemoryControlPlane(0)
    town.record = committed_elsewhere(3)
    town.want(workers=2)
    town.start(0)
    town.start(1)
    town.run(5.0)
    assert town.latest.attempt == 0
    assert "has no ROOT" in (town.latest.failure or "")
    assert town.root_file is None


def test_a_missing_object_starts_nothing() -> None:
    town = InMemoryControlPlane(2)
    town.record = None
    town.root_file = "object-1\n"
    town.run(5.0)
    assert town.record is None
    assert town.cas == []


def test_a_root_file_that_was_cut_short_is_made_again() -> None:
    town = InMemoryControlPlane(0)
    town.root_file = "obj"
    town.want(workers=1)
    town.start(0)
    town.until(lambda: BlobName("ROOT") in town.deleted)
    town.root_file = None
    town.until(lambda: town.latest.attempt == 1)
    assert town.root_file == "object-1\n"
