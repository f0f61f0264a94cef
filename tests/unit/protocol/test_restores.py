"""Restores: what a job may begin from, what is refused, and what the object can hold."""

from collections import Counter
from typing import Any

import pytest

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.codec import ABSENT, encode
from penstock.contract.ids import BlobName, Epoch, JobUid, SwapId, Term
from penstock.contract.latest import (
    Answer,
    Latest,
    Leader,
    Lost,
    LostRows,
    OutputRestore,
    Restore,
    Retained,
    SinkRestore,
    Unpublished,
    encode_latest,
    how_of,
)
from penstock.contract.manifest import BlobRef, RootManifest
from penstock.contract.plan import PhysicalPlan, StepState
from penstock.protocol import keeper_core_messages as km
from penstock.protocol.state_matching import incompatible
from tests.support.in_memory_control_plane import InMemoryControlPlane, Keeper
from tests.support.running_jobs import OTHER_PLAN, OTHER_STATES, root, running, sent, taken
from tests.support.stub_engine import PLAN

# --- Restores -------------------------------------------------------------------------------------


def test_an_older_epoch_is_refused_without_leave_to_repeat_output() -> None:
    plane = running(epoch=4)
    plane.want(restore=Restore("n1", epoch=Epoch(3)))
    plane.until(lambda: plane.latest.failure is not None)
    assert "allowOutputReplay" in (plane.latest.failure or "")
    assert plane.latest.epoch >= 4


def test_an_older_epoch_is_restored_with_leave_and_new_numbers_exceed_all() -> None:
    plane = running(epoch=4)
    newest = plane.latest.epoch
    plane.want(restore=Restore("n1", epoch=Epoch(3), allow_output_replay=True))
    plane.until(lambda: plane.latest.attempt == 2)
    assert (plane.latest.epoch, plane.latest.max_epoch) == (3, newest)
    assert plane.latest.replayed
    plane.until(lambda: plane.latest.epoch > 3)
    assert plane.latest.epoch == newest + 1


def test_new_numbers_exceed_all_for_a_leader_that_saw_none_of_them() -> None:
    plane = running(epoch=4)
    newest = plane.latest.epoch
    for ordinal in (0, 1):
        plane.kill(ordinal)
    again = Restore("n1", epoch=Epoch(3), allow_output_replay=True)
    plane.want(run="run-2", restore=again)
    for ordinal in (0, 1):
        plane.start(ordinal)
    plane.until(lambda: plane.latest.epoch == 3)
    plane.until(lambda: plane.latest.epoch > 3)
    assert plane.latest.epoch == newest + 1


def test_a_restore_is_done_once() -> None:
    plane = running(epoch=4)
    plane.want(restore=Restore("n1", epoch=Epoch(3), allow_output_replay=True))
    plane.until(lambda: plane.latest.attempt == 2 and plane.latest.epoch > 4)
    plane.run(5.0)
    assert plane.latest.attempt == 2


def test_an_epoch_that_is_not_retained_is_refused() -> None:
    plane = running(epoch=5)
    plane.want(restore=Restore("n1", epoch=Epoch(1), allow_output_replay=True))
    plane.until(lambda: plane.latest.failure is not None)
    assert "epoch 1 is not retained; retained are [3, 4, 5]" in (plane.latest.failure or "")


def test_output_that_can_never_be_published_is_dropped_only_on_request() -> None:
    plane = running()
    plane.engine(1).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    plane.want(restore=Restore("n1", drop_unpublished=True))
    plane.until(lambda: plane.latest.epoch > 2)
    assert plane.latest.lost_output == (2,)
    assert plane.latest.lost_rows == (LostRows("out", Epoch(2), 4),), "a row of each task"
    assert plane.latest.unpublished is ABSENT, "it is about that epoch only"
    assert how(plane, "out") == {Unpublished.DROP}


TWO_SINKS = replace(
    PLAN,
    fingerprint="plan-3",
    stages=(PLAN.stages[0], replace(PLAN.stages[1], steps=("counts", "out", "other"), sinks=("out", "other"))),
    states=(*PLAN.states, StepState("other", "sink", "parquet")),
)


def owing(plan: PhysicalPlan = TWO_SINKS) -> InMemoryControlPlane:
    """Return a stopped job of which epoch 2 is committed and not published."""
    plane = InMemoryControlPlane(2)
    plane.plan = plan
    plane.until(lambda: plane.latest.epoch == 1)
    plane.engine(1).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    for ordinal in (0, 1):
        plane.kill(ordinal)
    return plane


def again(plane: InMemoryControlPlane, restore: Restore, plan: PhysicalPlan = TWO_SINKS) -> InMemoryControlPlane:
    plane.plan = plan
    run = f"run of {restore.nonce}"
    plane.want(run=run, restore=restore)
    for ordinal in (0, 1):
        plane.start(ordinal)
    plane.until(lambda: plane.latest.run == run and (plane.latest.epoch > 2 or plane.latest.failure is not None))
    return plane


def publications(plane: InMemoryControlPlane) -> list[control.Publish]:
    """Return the orders to publish that a restore has changed."""
    orders = [order for order in sent(plane, control.Publish) if isinstance(order, control.Publish)]
    return [order for order in orders if order.sinks is not ABSENT]


def how(plane: InMemoryControlPlane, sink: str) -> set[Unpublished]:
    """Return what the workers were told of the unpublished output of a sink."""
    return {how_of(sink, () if order.sinks is ABSENT else order.sinks) for order in publications(plane)}


def sinks(plane: InMemoryControlPlane) -> Counter[str]:
    """Count the handles in these orders by their sink."""
    return Counter(handle.sink for order in publications(plane) for handle in order.handles)


def drop(sink: str, wanted: Unpublished = Unpublished.DROP, nonce: str = "n1") -> Restore:
    return Restore(nonce, unpublished=(SinkRestore(sink, wanted),))


def test_output_of_one_sink_is_dropped_and_the_other_loses_nothing() -> None:
    plane = again(owing(), drop("out"))
    assert plane.latest.lost_rows == (LostRows("out", Epoch(2), 4),)
    assert (how(plane, "out"), how(plane, "other")) == ({Unpublished.DROP}, {Unpublished.FAIL})
    assert sinks(plane) == {"out": 4, "other": 4}


def test_the_others_are_dropped_with_all_but_for_those_that_are_named() -> None:
    plane = again(owing(), replace(drop("out", Unpublished.FAIL), drop_unpublished=True))
    assert plane.latest.lost_rows == (LostRows("other", Epoch(2), 4),)


@pytest.mark.parametrize("wanted", [Unpublished.PUBLISH, Unpublished.SKIP, Unpublished.FAIL])
def test_nothing_is_called_lost_that_is_published_after_all(wanted: Unpublished) -> None:
    plane = again(owing(), drop("out", wanted))
    assert (plane.latest.lost_output, plane.latest.lost_rows) == ((), ABSENT)
    assert how(plane, "out") == {wanted}


def test_a_sink_that_is_gone_can_only_be_dropped() -> None:
    plane = owing()
    for nonce, wanted in (("n1", Unpublished.PUBLISH), ("n2", Unpublished.SKIP), ("n3", Unpublished.FAIL)):
        again(plane, drop("other", wanted, nonce), PLAN)
        assert "give restore.unpublishedSinks: {other: Drop}" in (plane.latest.failure or "")
        for ordinal in (0, 1):
            plane.kill(ordinal)
    again(plane, drop("other", nonce="n4"), PLAN)
    assert plane.latest.lost_rows == (LostRows("other", Epoch(2), 4),)
    assert set(sinks(plane)) == {"out"}


def test_a_sink_that_is_misspelt_is_named() -> None:
    plane = again(owing(), drop("othr"))
    assert "restore.unpublishedSinks: unknown sink 'othr': did you mean 'other'" in (plane.latest.failure or "")
    assert plane.latest.lost_output == ()


def test_a_job_that_begins_empty_gives_up_one_sink_and_publishes_the_other_first() -> None:
    plane = again(owing(), replace(drop("out"), empty=True, allow_output_replay=True))
    assert plane.latest.replayed
    assert plane.latest.lost_rows == (LostRows("out", Epoch(2), 4),)
    assert set(sinks(plane)) == {"out", "other"}


def test_what_a_restore_says_of_output_outlives_a_leader() -> None:
    plane = owing()
    plane.mute = {0: ("Publish",), 1: ("Publish",)}
    plane.plan = TWO_SINKS
    plane.want(run="run-2", restore=drop("out"))
    for ordinal in (0, 1):
        plane.start(ordinal)
    plane.until(lambda: bool(sent(plane, control.Publish)))
    plane.mute = {}
    for ordinal in (0, 1):
        plane.kill(ordinal)
    plane.want(run="run-3", restore=None)
    again(plane, drop("out"))
    assert plane.latest.lost_rows == (LostRows("out", Epoch(2), 4),)


def savepoint(epoch: int, uid: str = "other", **changes: Any) -> RootManifest:
    """Make the manifest of a savepoint in some folder."""
    plane = running(epoch=2)
    manifest = replace(root(plane), job_uid=JobUid(uid), epoch=Epoch(epoch))
    return replace(manifest, **changes)


class Importing(InMemoryControlPlane):
    """A control plane that can read one savepoint's folder."""

    folder: RootManifest
    errors: list[str]

    def _file(self, keeper: Keeper, action: object) -> None:
        match action:
            case km.ReadSnapshot(token):
                self.post(keeper.ordinal, km.SnapshotRead(token, self.folder))
            case km.ImportSnapshot(token) if self.errors:
                self.post(keeper.ordinal, km.ImportFailed(token, self.errors.pop()))
            case km.ImportSnapshot(token, _, term, epoch, life):
                name = BlobName(f"{term}-{epoch}-{life}-900.root.json")
                mine = replace(self.folder, job_uid=JobUid("job"), epoch=epoch)
                self.blobs[name] = mine
                ref = BlobRef(name, "hash", len(encode(mine)))
                self.post(keeper.ordinal, km.Imported(token, ref, mine))
            case _:
                super()._file(keeper, action)


def importing(folder: RootManifest, restore: Restore, workers: int = 2) -> Importing:
    plane = Importing(0)
    plane.folder, plane.errors = folder, []
    plane.want(workers=workers, restore=restore)
    for ordinal in range(workers):
        plane.start(ordinal)
    return plane


def test_a_savepoint_of_another_job_is_imported_above_its_epoch() -> None:
    plane = importing(savepoint(40), Restore("n1", path="/savepoints/s"), workers=3)
    plane.until(lambda: plane.latest.attempt == 1)
    assert (plane.latest.epoch, plane.latest.published_through) == (41, 41)
    assert plane.latest.workers == 3
    assert not plane.latest.replayed
    assert taken(plane, "Enumerate") == 0, "its splits are those of the savepoint"
    plane.until(lambda: plane.latest.epoch == 42)


def test_an_old_savepoint_is_imported_above_what_the_job_has_committed() -> None:
    plane = importing(savepoint(2), Restore("", path="/savepoints/s"))
    plane.until(lambda: plane.latest.epoch >= 6)
    newest = plane.latest.epoch
    plane.want(restore=Restore("n2", path="/savepoints/s", allow_output_replay=True))
    plane.until(lambda: plane.latest.restored == "n2")
    assert plane.latest.epoch == newest + 1


def test_each_try_of_an_import_has_a_number_of_its_own() -> None:
    plane = importing(savepoint(40), Restore("n1", path="/savepoints/s"))
    plane.errors = ["Input/output error"] * 3
    plane.until(lambda: plane.latest.attempt == 1)
    orders = [a for *_, done in plane.steps for a in done if isinstance(a, km.ImportSnapshot)]
    assert len({(order.life, order.token) for order in orders}) == len(orders) == 4


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"max_key_groups": 16}, "maxKeyGroups never changes"),
        (
            {"states": OTHER_STATES},
            "step 'counts': stored keys [lang: string], columns []; the job has [word: string], []",
        ),
    ],
)
def test_a_savepoint_that_does_not_fit_is_refused_by_its_name(change: dict[str, Any], text: str) -> None:
    plane = importing(savepoint(40, **change), Restore("n1", path="/savepoints/mid"))
    plane.until(lambda: plane.latest.failure is not None)
    assert (plane.latest.failure or "").startswith("StateError: ")
    assert "savepoint 'mid' (checkpoint 40)" in (plane.latest.failure or "")
    assert text in (plane.latest.failure or "")
    assert plane.latest.epoch == 0


def test_a_job_that_has_committed_takes_no_foreign_savepoint_without_leave() -> None:
    plane = importing(savepoint(40), Restore("", path="/savepoints/s"))
    plane.until(lambda: plane.latest.epoch >= 2)
    plane.want(restore=Restore("n2", path="/savepoints/s"))
    plane.until(lambda: plane.latest.failure is not None)
    assert "allowOutputReplay" in (plane.latest.failure or "")


@pytest.mark.parametrize(("hidden", "lost"), [(True, (2,)), (False, ())])
def test_output_that_a_foreign_savepoint_leaves_behind_is_named(hidden: bool, lost: tuple[int, ...]) -> None:
    plane = importing(savepoint(40), Restore("", path="/savepoints/s"))
    plane.until(lambda: plane.latest.epoch == 1)
    if hidden:
        plane.engine(1).mute = ["Commit"]
    plane.until(lambda: plane.latest.epoch == 2)
    plane.want(restore=Restore("n2", path="/savepoints/s", allow_output_replay=True))
    plane.until(lambda: plane.latest.epoch > 3)
    assert plane.latest.lost_output == lost


def test_a_changed_job_does_not_continue_from_its_own_checkpoint() -> None:
    plane = running(epoch=2)
    plane.plan = OTHER_PLAN
    for ordinal in (0, 1):
        plane.kill(ordinal)
    plane.run(0.1)
    for ordinal in (0, 1):
        plane.start(ordinal)
    plane.until(lambda: plane.latest.failure is not None)
    assert "does not fit this job" in (plane.latest.failure or "")


def test_what_fits_is_compatible() -> None:
    plane = running()
    assert incompatible(root(plane), PLAN) is None
    assert incompatible(None, PLAN) is None


def test_a_damaged_root_manifest_fails_the_job_and_is_never_skipped() -> None:
    plane = running(epoch=3)
    assert plane.latest.root is not None
    del plane.blobs[plane.latest.root.name]
    plane.kill(plane.leader().ordinal)
    plane.until(lambda: plane.latest.failure is not None)
    assert "checkpoint 3 cannot be read" in (plane.latest.failure or "")
    assert plane.latest.epoch == 3


def test_a_finished_job_stays_finished_unless_it_is_restored() -> None:
    plane = running(epoch=3)
    for ordinal in (0, 1):
        plane.engine(ordinal).exhausted = True
    plane.until(lambda: plane.latest.finished)
    plane.want(run="run-2")
    plane.run(2.0)
    assert plane.latest.finished
    kept = plane.latest.retained[0].epoch
    plane.want(run="run-3", restore=Restore("n1", epoch=kept, allow_output_replay=True))
    plane.until(lambda: plane.latest.attempt == 2)
    assert (plane.latest.finished, plane.latest.epoch) == (False, kept)


def test_a_damaged_root_manifest_is_passed_over_only_when_asked() -> None:
    plane = running(epoch=4)
    assert plane.latest.root is not None
    del plane.blobs[plane.latest.root.name]
    plane.kill(plane.leader().ordinal)
    plane.until(lambda: plane.latest.failure is not None)
    plane.start(0)
    again = Restore("n1", epoch=Epoch(3), allow_output_replay=True)
    plane.want(run="run-2", restore=again)
    plane.until(lambda: plane.latest.epoch > 4)
    assert plane.latest.replayed


# --- Size -----------------------------------------------------------------------------------------


def test_the_fullest_object_still_fits() -> None:
    uuid = "f" * 36
    ref = BlobRef(BlobName(f"999999-99999999-{uuid}-99999999.root.json"), "0" * 64, 10**9)
    kept = Retained(Epoch(10**8), ref, uuid)
    fullest = Latest(
        JobUid(uuid),
        SwapId(f"{uuid}-99999999"),
        term=Term(10**6),
        leader=Leader(1023, uuid, "a" * 100),  # type: ignore[arg-type]
        root=ref,
        members=ref,
        retained=(kept,) * (64 + 8),
        pinned=(kept,),
        lost=(Lost(1023, uuid),) * 64,  # type: ignore[arg-type]
        failure="x" * 4000,
        stalled="x" * 400,
        rescale="x" * 400,
        lost_output=(Epoch(10**8),) * 16,
        lost_rows=(LostRows("s" * 253, Epoch(10**8), 10**15),) * 16,
        unpublished=OutputRestore(Epoch(10**8), (SinkRestore("s" * 253, Unpublished.PUBLISH),) * 16),
        answers=(Answer(uuid, True, "x" * 400),) * 32,
    )
    assert len(encode_latest(fullest)) < 60_000
    with pytest.raises(AssertionError, match="-latest has"):
        encode_latest(replace(fullest, failure="x" * 40_000))
