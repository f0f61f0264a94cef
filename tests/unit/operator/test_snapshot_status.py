"""What a StreamSnapshot shows is of the epoch that was taken for it."""

import pytest

from penstock.base.values import replace
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.ids import Epoch
from penstock.contract.latest import Answer
from penstock.contract.streamjob_status import Reason
from penstock.contract.streamsnapshot import SnapshotState, SnapshotStatus, SnapshotType
from penstock_operator.api.observed import SnapshotView
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.accept import accept
from penstock_operator.reconcile.actions import WriteSnapshotStatus
from penstock_operator.reconcile.decide import decide
from tests.unit.operator.observing import NOW_S, running, spec_of

FOLDER = "apps/wc/savepoints/monday-12345678"


@pytest.mark.parametrize("kind", SnapshotType)
@pytest.mark.parametrize(("said", "shown"), [(Epoch(7), 7), (ABSENT, None)])
def test_the_epoch_is_the_one_that_was_taken_and_not_the_newest(
    kind: SnapshotType, said: Epoch | Absent, shown: int | None
) -> None:
    seen = running(spec_of())
    first = decide(seen).status
    assert first is not None
    assert seen.latest is not None
    assert seen.latest.value is not None
    started = SnapshotStatus(state=SnapshotState.IN_PROGRESS, started=stamp(NOW_S - 5))
    view = SnapshotView("monday", "12345678-u", 1, {"jobRef": "wc", "type": str(kind)}, started, NOW_S - 5, version="3")
    answers = (Answer("snap-12345678-u-0", True, FOLDER, said),)
    latest = replace(seen.latest.value, epoch=Epoch(9), max_epoch=Epoch(9), answers=answers)
    seen = replace(seen, snapshots=(view,), latest=replace(seen.latest, value=latest))
    seen = replace(seen, job=replace(seen.job, status=first))
    [written] = [a.status for a in decide(seen).actions if isinstance(a, WriteSnapshotStatus)]
    assert (written.state, written.epoch) == (SnapshotState.COMPLETED, shown)


def test_a_checkpoint_cannot_be_restored_and_that_is_said() -> None:
    done = SnapshotStatus(state=SnapshotState.COMPLETED, epoch=7)
    view = SnapshotView("monday", "u1", 1, {"jobRef": "wc", "type": "Checkpoint"}, done, 0.0)
    wanted = spec_of(restore={"nonce": "1", "snapshotRef": "monday"})
    found = accept(replace(running(spec_of(), wanted=wanted), snapshots=(view,)))
    assert found.reason is Reason.RESTORE_NOT_FOUND
    assert "is a checkpoint" in found.message
