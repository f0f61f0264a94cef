"""Imported StreamSnapshots are complete when a pod has seen their files, else they say why."""

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import StreamJobStatus
from penstock.contract.streamsnapshot import SnapshotState, SnapshotStatus
from penstock_operator.api import names
from penstock_operator.api.observed import Child, ChildKey, JobView, Observed, SnapshotView
from penstock_operator.api.plain import list_at, object_at, text_at
from penstock_operator.reconcile.actions import Create, DecisionBuilder, Event, WriteSnapshotStatus
from penstock_operator.reconcile.snapshots import (
    LATE_S,
    NOT_LOOKED_AT,
    decide_orphans,
    reconcile_imported,
)
from tests.unit.operator.observing import NOW_S, OWNER, running, spec_of

UID = "5678-uid"
LOOK = names.look_name(OWNER.name, UID)
CHILD = {ChildKey("Job", LOOK): Child("j", OWNER.uid, "")}


def snapshot(path: str = "apps/wc/savepoints/monday") -> SnapshotView:
    spec: Plain = {"path": path, "deadline": "60s"}
    return SnapshotView("monday", UID, 1, spec, SnapshotStatus(), NOW_S, version="3")


def seen_with(view: SnapshotView, spec: dict[str, Plain] | None = None) -> Observed:
    return replace(running(spec or spec_of()), snapshots=(view,))


def judged(seen: Observed) -> tuple[SnapshotStatus, list[Create], list[Event]]:
    """Decide. Returns the written status, the created objects, and the events."""
    draft = DecisionBuilder()
    reconcile_imported(seen, draft)
    (status,) = [a.status for a in draft.actions if isinstance(a, WriteSnapshotStatus)]
    return status, [a for a in draft.actions if isinstance(a, Create)], draft.events


def reason_of(status: SnapshotStatus) -> tuple[str, str]:
    (ready,) = status.conditions
    return str(ready.status), ready.reason


@pytest.mark.parametrize("path", ["other/wc/savepoints/monday", "apps/wc", "/etc/apps/x"])
def test_a_path_out_of_the_namespaces_folders_fails_at_once(path: str) -> None:
    job = JobView("", "apps", "", 0, None, StreamJobStatus())
    decided = decide_orphans(Observed(job, NOW_S, snapshots=(snapshot(path),)))
    (written,) = decided.actions
    assert isinstance(written, WriteSnapshotStatus)
    assert written.status.state is SnapshotState.FAILED
    assert reason_of(written.status) == ("False", pod.PATH_OUTSIDE)
    assert path in written.status.message
    (told,) = decided.events
    assert (told.reason, told.warning, told.snapshot) == ("SnapshotFailed", True, "monday")


def test_files_that_nobody_can_see_are_waited_for() -> None:
    job = JobView("wc", "apps", "", 0, None, StreamJobStatus())
    decided = decide_orphans(Observed(job, NOW_S, snapshots=(snapshot(),)))
    (written,) = decided.actions
    assert isinstance(written, WriteSnapshotStatus)
    assert written.status.state is SnapshotState.PENDING
    assert reason_of(written.status) == ("False", NOT_LOOKED_AT)
    assert "StreamJob wc does not exist" in written.status.message
    later = replace(snapshot(), status=written.status)
    assert decide_orphans(Observed(job, NOW_S + 1e6, snapshots=(later,))).actions == ()


@pytest.mark.parametrize("by", ["owner", "restorer"])
def test_a_job_that_has_the_claim_looks_read_only_at_the_folder(by: str) -> None:
    view = snapshot() if by == "owner" else snapshot("apps/gone/savepoints/monday")
    restores: dict[str, Plain] = {"restore": {"nonce": "1", "snapshotRef": "monday"}}
    wanted = None if by == "owner" else spec_of(**restores)
    status, (made,), events = judged(seen_with(view, wanted))
    assert status.state is SnapshotState.IN_PROGRESS
    assert not events
    template = object_at(made.manifest, "spec", "template", "spec")
    (container,) = list_at(template, "containers")
    (mount,) = list_at(container, "volumeMounts")
    assert mount == {
        "name": "checkpoints",
        "mountPath": f"{pod.CHECKPOINT_FOLDER}/apps",
        "subPath": "apps",
        "readOnly": True,
    }
    assert template["automountServiceAccountToken"] is False
    root, path = list_at(container, "command")[-2:]
    assert isinstance(root, str)
    assert path == f"{root}/savepoints/monday"
    assert text_at(made.manifest, "metadata", "name") == LOOK


def test_another_job_does_not_look() -> None:
    status, made, _ = judged(seen_with(snapshot("apps/gone/savepoints/monday")))
    assert status.state is SnapshotState.PENDING
    assert not made


def looking(**more: object) -> Observed:
    """Observe the job whose pod looks at the files, or has looked."""
    status, _, _ = judged(seen_with(snapshot()))
    view = replace(snapshot(), status=status)
    return replace(seen_with(view), children=CHILD, **more)  # type: ignore[arg-type]


def test_what_was_seen_is_complete() -> None:
    draft = DecisionBuilder()
    reconcile_imported(looking(), draft)
    assert not draft.actions
    status, _, events = judged(looking(purges={LOOK: True}))
    assert (status.state, status.path) == ("Completed", "apps/wc/savepoints/monday")
    assert reason_of(status) == ("True", "Completed")
    assert events[0].reason == "SnapshotCompleted"


@pytest.mark.parametrize(
    ("words", "reason", "told"),
    [
        (f"{pod.PATH_NOT_FOUND}: /a/b: there is no such folder", pod.PATH_NOT_FOUND, "/a/b: there"),
        (f"{pod.PATH_OUTSIDE}: /a leads out of /b", pod.PATH_OUTSIDE, "leads out of"),
        ("No module named penstock.keeper.savepoint_check", NOT_LOOKED_AT, "No module named"),
        ("", NOT_LOOKED_AT, f"kubectl describe job {LOOK}"),
    ],
)
def test_what_the_pod_said_is_told(words: str, reason: str, told: str) -> None:
    seen = looking(purges={LOOK: False}, termination_messages={LOOK: words})
    status, _, (event,) = judged(seen)
    assert status.state is SnapshotState.FAILED
    assert reason_of(status) == ("False", reason)
    assert told in status.message
    assert (event.reason, event.warning, event.message) == ("SnapshotFailed", True, status.message)


def test_a_pod_that_never_ends_is_given_up() -> None:
    seen = looking()
    draft = DecisionBuilder()
    reconcile_imported(replace(seen, now=NOW_S + 60 + LATE_S - 1), draft)
    assert not draft.actions
    status, _, _ = judged(replace(seen, now=NOW_S + 60 + LATE_S + 1))
    assert reason_of(status) == ("False", NOT_LOOKED_AT)
