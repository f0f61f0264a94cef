"""The cleaner: garbage is decided from names and manifests, and stays garbage."""

from penstock.base.values import replace
from penstock.contract.ids import BlobName, Epoch, Incarnation, Term, parse_name
from penstock.contract.latest import Latest
from penstock.contract.manifest import RootManifest
from penstock.protocol import keeper_core_messages as km
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane, Keeper
from tests.support.running_jobs import running


def orders(plane: InMemoryControlPlane) -> list[str]:
    """List deletions and swaps of the retained list in their order."""
    found = []
    for *_, actions in plane.steps:
        for action in actions:
            if isinstance(action, km.DeleteBlobs):
                found += [f"delete {name}" for name in action.names]
            elif isinstance(action, km.SwapLatest) and action.latest.retained:
                found.append(f"retain {action.latest.retained[0].epoch}")
    return found


def test_the_retained_list_is_shrunk_before_anything_is_deleted() -> None:
    plane = running(epoch=8)
    found = orders(plane)
    first = next(i for i, text in enumerate(found) if text.startswith("delete 1-1-"))
    assert "retain 2" in found[:first]


def test_what_a_retained_manifest_lists_is_kept_whatever_its_epoch() -> None:
    plane = running(epoch=8)
    kept = {r.root.name for r in plane.latest.retained}
    assert kept <= set(plane.blobs)
    assert len([n for n in plane.blobs if n.endswith(".root.json")]) <= len(kept) + 2


def test_files_of_aborted_epochs_go_and_those_of_epochs_to_come_stay() -> None:
    plane = running(epoch=1)
    aborted, coming = BlobName("1-1-e0-77.state"), BlobName("1-99-e0-78.state")
    plane.blobs[aborted] = plane.blobs[coming] = "state"
    plane.until(lambda: aborted not in plane.blobs, seconds=10.0)
    assert coming in plane.blobs


def test_names_that_are_not_ours_are_never_touched() -> None:
    plane = running(epoch=1)
    for name in ("ROOT", "notes.txt", "x-1-y", "1-x-y"):
        plane.blobs[BlobName(name)] = "whatever"
    plane.run(8.0)
    for name in ("ROOT", "notes.txt", "x-1-y", "1-x-y"):
        assert BlobName(name) in plane.blobs


def test_members_files_that_were_superseded_go() -> None:
    plane = running(epoch=1)
    for attempt in (2, 3):
        plane.kill_engine(1)
        plane.until(lambda attempt=attempt: plane.latest.attempt == attempt)  # type: ignore[misc]
    plane.run(6.0)
    left = [n for n in plane.blobs if n.endswith(".members.json")]
    assert plane.latest.members is not None
    assert left == [plane.latest.members.name]


def test_a_members_file_of_a_higher_term_is_spared() -> None:
    plane = running(epoch=1)
    theirs = BlobName("2-1-k9-1.members.json")
    plane.blobs[theirs] = "of a leader that this one does not know yet"
    plane.run(6.0)
    assert theirs in plane.blobs


def test_a_members_file_that_is_being_admitted_is_spared() -> None:
    plane = running(epoch=2)
    plane.start(2)
    plane.mute[2] = ("Prepare",)
    plane.want(workers=3)
    plane.until(lambda: plane.latest.pinned != ())
    plane.run(8.0)
    assert plane.latest.members is not None
    assert plane.latest.members.name in plane.blobs
    assert all(ref.root.name in plane.blobs for ref in plane.latest.pinned)


def test_what_a_joiner_pre_loads_outlives_its_retention() -> None:
    plane = InMemoryControlPlane(2, replace(SETTINGS, prepare_timeout_s=60.0))
    plane.until(lambda: plane.latest.epoch >= 2)
    plane.start(2)
    plane.mute[2] = ("Prepare",)
    plane.want(workers=3)
    plane.until(lambda: plane.latest.pinned != ())
    (pinned,) = plane.latest.pinned
    plane.until(lambda: plane.latest.epoch >= pinned.epoch + 8)
    assert pinned.epoch not in [r.epoch for r in plane.latest.retained]
    manifest = plane.blobs[pinned.root.name]
    assert isinstance(manifest, RootManifest)
    assert all(f.blob.name in plane.blobs for t in manifest.tasks for f in t.files)


def test_nothing_is_deleted_while_a_swap_is_undecided() -> None:
    plane = running(epoch=4)
    deleted: list[int] = []

    def lost(_latest: Latest) -> str:
        deleted.append(len(plane.deleted))
        return "lost"

    plane.lose_reply = lost
    plane.run(10.0)
    assert len(deleted) > 3, "it tries again and again"
    assert len(plane.deleted) == deleted[0]


def test_a_failed_listing_is_tried_again_later() -> None:
    class Deaf(InMemoryControlPlane):
        listings = 0

        def _file(self, keeper: Keeper, action: object) -> None:
            if isinstance(action, km.ListBlobs):
                self.listings += 1
                if self.listings == 1:
                    self.post(keeper.ordinal, km.BlobsListed(action.token, None))
                    return
            super()._file(keeper, action)

    plane = Deaf(2)
    plane.until(lambda: plane.latest.epoch >= 8)
    assert plane.listings >= 2
    assert plane.deleted


def test_a_finished_job_keeps_nothing_but_its_retained_checkpoints() -> None:
    plane = running(epoch=5)
    stray = BlobName("1-99-e0-1.state")
    plane.blobs[stray] = "of an epoch that was never committed"
    for ordinal in (0, 1):
        plane.engine(ordinal).exhausted = True
    plane.until(lambda: plane.latest.finished)
    plane.run(12.0)
    assert stray not in plane.blobs
    roots = [n for n in plane.blobs if n.endswith(".root.json")]
    assert sorted(roots) == sorted(r.root.name for r in plane.latest.retained)
    listings = sum(isinstance(a, km.ListBlobs) for *_, acts in plane.steps for a in acts)
    plane.run(30.0)
    again = sum(isinstance(a, km.ListBlobs) for *_, acts in plane.steps for a in acts)
    assert again == listings, "quiet at rest"


def test_a_write_that_arrives_when_its_engine_has_ended_is_collected() -> None:
    plane = running(epoch=2)
    for ordinal in (0, 1):
        plane.engine(ordinal).exhausted = True
    plane.until(lambda: all(keeper.engine is None for keeper in plane.keepers.values()))
    plane.run(SETTINGS.heartbeat_timeout_s + SETTINGS.collect_interval_s + 1.0)  # a listing has met no engine
    late = BlobName("1-1-e0-77.state")
    plane.blobs[late] = "given up by its engine"
    plane.until(lambda: late not in plane.blobs)


def test_names_are_read_back() -> None:
    parts = parse_name(BlobName(f"state/7-41-{Incarnation('a-b-c')}-3.state"))
    assert parts is not None
    assert (parts.term, parts.epoch, parts.members) == (Term(7), Epoch(41), False)
    assert parse_name(BlobName("1-2-x-3.members.json")).members  # type: ignore[union-attr]
    assert parse_name(BlobName("ROOT")) is None
