"""Collection: what is garbage is decided from names and manifests, and stays garbage."""

from penstock.base.values import replace
from penstock.contract.ids import BlobName, Epoch, Incarnation, Term
from penstock.contract.latest import Latest
from penstock.contract.manifest import RootManifest
from penstock.contract.names import parse_name
from penstock.protocol import control_actions as do
from penstock.protocol import control_events as on
from tests.support.in_memory_control_plane import SETTINGS, InMemoryControlPlane, Keeper
from tests.support.running_jobs import running


def orders(town: InMemoryControlPlane) -> list[str]:
    """List deletions and swaps of the retained list in their order."""
    found = []
    for *_, actions in town.steps:
        for action in actions:
            if isinstance(action, do.DeleteBlobs):
                found += [f"delete {name}" for name in action.names]
            elif isinstance(action, do.SwapLatest) and action.latest.retained:
                found.append(f"retain {action.latest.retained[0].epoch}")
    return found


def test_the_retained_list_is_shrunk_before_anything_is_deleted() -> None:
    town = running(epoch=8)
    found = orders(town)
    first = next(i for i, text in enumerate(found) if text.startswith("delete 1-1-"))
    assert "retain 2" in found[:first]


def test_what_a_retained_manifest_lists_is_kept_whatever_its_epoch() -> None:
    town = running(epoch=8)
    kept = {r.root.name for r in town.latest.retained}
    assert kept <= set(town.blobs)
    assert len([n for n in town.blobs if n.endswith(".root.json")]) <= len(kept) + 2


def test_files_of_aborted_epochs_go_and_those_of_epochs_to_come_stay() -> None:
    town = running(epoch=1)
    aborted, coming = BlobName("1-1-e0-77.state"), BlobName("1-99-e0-78.state")
    town.blobs[aborted] = town.blobs[coming] = "state"
    town.until(lambda: aborted not in town.blobs, seconds=10.0)
    assert coming in town.blobs


def test_names_that_are_not_ours_are_never_touched() -> None:
    town = running(epoch=1)
    for name in ("ROOT", "notes.txt", "x-1-y", "1-x-y"):
        town.blobs[BlobName(name)] = "whatever"
    town.run(8.0)
    for name in ("ROOT", "notes.txt", "x-1-y", "1-x-y"):
        assert BlobName(name) in town.blobs


def test_members_files_that_were_superseded_go() -> None:
    town = running(epoch=1)
    for attempt in (2, 3):
        town.kill_engine(1)
        town.until(lambda attempt=attempt: town.latest.attempt == attempt)  # type: ignore[misc]
    town.run(6.0)
    left = [n for n in town.blobs if n.endswith(".members.json")]
    assert town.latest.members is not None
    assert left == [town.latest.members.name]


def test_a_members_file_of_a_higher_term_is_spared() -> None:
    town = running(epoch=1)
    theirs = BlobName("2-1-k9-1.members.json")
    town.blobs[theirs] = "of a leader that this one does not know yet"
    town.run(6.0)
    assert theirs in town.blobs


def test_a_members_file_that_is_being_admitted_is_spared() -> None:
    town = running(epoch=2)
    town.start(2)
    town.mute[2] = ("Prepare",)
    town.want(workers=3)
    town.until(lambda: town.latest.pinned != ())
    town.run(8.0)
    assert town.latest.members is not None
    assert town.latest.members.name in town.blobs
    assert all(ref.root.name in town.blobs for ref in town.latest.pinned)


def test_what_a_joiner_pre_loads_outlives_its_retention() -> None:
    town = InMemoryControlPlane(2, replace(SETTINGS, prepare_timeout_s=60.0))
    town.until(lambda: town.latest.epoch >= 2)
    town.start(2)
    town.mute[2] = ("Prepare",)
    town.want(workers=3)
    town.until(lambda: town.latest.pinned != ())
    (pinned,) = town.latest.pinned
    town.until(lambda: town.latest.epoch >= pinned.epoch + 8)
    assert pinned.epoch not in [r.epoch for r in town.latest.retained]
    manifest = town.blobs[pinned.root.name]
    assert isinstance(manifest, RootManifest)
    assert all(f.blob.name in town.blobs for t in manifest.tasks for f in t.files)


def test_nothing_is_deleted_while_a_swap_is_undecided() -> None:
    town = running(epoch=4)
    deleted: list[int] = []

    def lost(_latest: Latest) -> str:
        deleted.append(len(town.deleted))
        return "lost"

    town.lose_reply = lost
    town.run(10.0)
    assert len(deleted) > 3, "it tries again and again"
    assert len(town.deleted) == deleted[0]


def test_a_failed_listing_is_tried_again_later() -> None:
    class Deaf(InMemoryControlPlane):
        listings = 0

        def _file(self, keeper: Keeper, action: object) -> None:
            if isinstance(action, do.ListBlobs):
                self.listings += 1
                if self.listings == 1:
                    self.post(keeper.ordinal, on.BlobsListed(action.token, None))
                    return
            super()._file(keeper, action)

    town = Deaf(2)
    town.until(lambda: town.latest.epoch >= 8)
    assert town.listings >= 2
    assert town.deleted


def test_a_finished_job_keeps_nothing_but_its_retained_checkpoints() -> None:
    town = running(epoch=5)
    stray = BlobName("1-99-e0-1.state")
    town.blobs[stray] = "of an epoch that was never committed"
    for ordinal in (0, 1):
        town.engine(ordinal).exhausted = True
    town.until(lambda: town.latest.finished)
    town.run(12.0)
    assert stray not in town.blobs
    roots = [n for n in town.blobs if n.endswith(".root.json")]
    assert sorted(roots) == sorted(r.root.name for r in town.latest.retained)
    listings = sum(isinstance(a, do.ListBlobs) for *_, acts in town.steps for a in acts)
    town.run(30.0)
    again = sum(isinstance(a, do.ListBlobs) for *_, acts in town.steps for a in acts)
    assert again == listings, "quiet at rest"


def test_names_are_read_back() -> None:
    parts = parse_name(BlobName(f"state/7-41-{Incarnation('a-b-c')}-3.state"))
    assert parts is not None
    assert (parts.term, parts.epoch, parts.members) == (Term(7), Epoch(41), False)
    assert parse_name(BlobName("1-2-x-3.members.json")).members  # type: ignore[union-attr]
    assert parse_name(BlobName("ROOT")) is None
