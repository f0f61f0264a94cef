"""StreamSnapshots that are deleted together with their files, and StreamSnapshots whose job does not exist."""

from penstock.base.values import replace
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import StreamJobStatus
from penstock.contract.streamsnapshot import SnapshotState, SnapshotStatus
from penstock_operator.api import names
from penstock_operator.api.observed import JobView, Observed, SnapshotView
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.actions import (
    Action,
    Create,
    DecisionBuilder,
    SetFinalizer,
    WriteSnapshotStatus,
)
from penstock_operator.reconcile.snapshots import decide_orphans, reconcile_disposal
from tests.unit.operator.observing import NOW_S, running, spec_of, target_for

TARGET = target_for(spec_of())
HELD = (names.FINALIZER,)


def snapshot(*, gone: bool = False, held: bool = False, **spec: Plain) -> SnapshotView:
    status = SnapshotStatus(state=SnapshotState.COMPLETED, path="p", started=stamp(NOW_S))
    return SnapshotView(
        "monday",
        "abcdefgh-1",
        1,
        {"jobRef": "wc", **spec},
        status,
        NOW_S,
        deleting_since=NOW_S if gone else None,
        finalizers=HELD if held else (),
        version="3",
    )


def seen_with(view: SnapshotView) -> Observed:
    return replace(running(spec_of()), snapshots=(view,))


def actions(seen: Observed) -> list[Action]:
    draft = DecisionBuilder()
    reconcile_disposal(seen, TARGET, draft)
    return draft.actions


def test_only_a_snapshot_whose_files_go_is_held() -> None:
    assert actions(seen_with(snapshot())) == []
    assert actions(seen_with(snapshot(disposeOnDelete=True))) == [SetFinalizer(True, "monday", "3")]
    assert actions(seen_with(snapshot(held=True))) == [SetFinalizer(False, "monday", "3")]


def test_its_files_go_first_and_no_others() -> None:
    seen = seen_with(snapshot(gone=True, held=True, disposeOnDelete=True))
    (made,) = actions(seen)
    assert isinstance(made, Create)
    assert "/apps/wc/savepoints/monday-abcdefgh'" in str(made.manifest)
    assert actions(replace(seen, purges={"wc-purge-abcdefgh": False})) == [made]
    assert actions(replace(seen, purges={"wc-purge-abcdefgh": True})) == [SetFinalizer(False, "monday", "3")]


def test_a_removal_that_does_not_end_holds_nothing_up_for_ever() -> None:
    seen = seen_with(snapshot(gone=True, held=True, disposeOnDelete=True, deadline="60s"))
    draft = DecisionBuilder()
    reconcile_disposal(replace(seen, now=NOW_S + 61), TARGET, draft)
    assert draft.actions == [SetFinalizer(False, "monday", "3")]
    assert [e.reason for e in draft.events] == ["DisposalFailed"]


def orphaned(view: SnapshotView, name: str = "wc", later_s: float = 0.0) -> Observed:
    job = JobView(name, "apps", "", 0, None, StreamJobStatus())
    return Observed(job, NOW_S + later_s, snapshots=(view,))


def test_a_snapshot_of_a_job_that_is_gone_is_let_go() -> None:
    decided = decide_orphans(orphaned(snapshot(gone=True, held=True, disposeOnDelete=True)))
    assert decided.actions == (SetFinalizer(False, "monday", "3"),)
    assert "files stay" in decided.events[0].message


def test_a_snapshot_waits_for_its_job_until_its_deadline() -> None:
    view = replace(snapshot(deadline="60s"), status=SnapshotStatus())
    (asked,) = decide_orphans(orphaned(view)).actions
    assert isinstance(asked, WriteSnapshotStatus)
    assert asked.status.state is SnapshotState.PENDING
    assert asked.status.message == "StreamJob wc does not exist"
    later = decide_orphans(orphaned(replace(view, status=asked.status), later_s=61))
    (given_up,) = later.actions
    assert isinstance(given_up, WriteSnapshotStatus)
    assert given_up.status.state is SnapshotState.FAILED
    assert decide_orphans(orphaned(replace(view, status=given_up.status))).actions == ()
