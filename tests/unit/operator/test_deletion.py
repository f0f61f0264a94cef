"""A deletion: its deadline is shown, its savepoint is tried again, and it always ends."""

from penstock.base.limits import ANSWERS_MAX
from penstock.base.values import replace
from penstock.contract.ids import JobUid
from penstock.contract.latest import Answer, Request
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import Condition, ConditionType, Pending, StreamJobStatus
from penstock.contract.streamsnapshot import SnapshotState, SnapshotStatus
from penstock_operator.api import names
from penstock_operator.api.observed import DesiredView, Observed, SnapshotView
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.actions import (
    Action,
    Create,
    Delete,
    Scale,
    SetFinalizer,
    WriteDesired,
)
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.status import TRY_AGAIN_S
from tests.unit.operator.observing import NOW_S, down, running, spec_of

DEADLINE_S = 300.0


def deleting(policy: str, *, later_s: float = 0.0) -> Observed:
    seen = running(spec_of(deletionPolicy=policy))
    held = (names.FINALIZER,)
    job = replace(seen.job, deleting_since=NOW_S, finalizers=held, version="3")
    return replace(seen, job=job, now=NOW_S + later_s)


def step(seen: Observed) -> tuple[Observed, list[Action]]:
    """Decide once; the status is as it was written."""
    decided = decide(seen)
    if decided.status is not None:
        seen = replace(seen, job=replace(seen.job, status=decided.status))
    return seen, list(decided.actions)


def condition(seen: Observed, kind: ConditionType) -> Condition:
    found = seen.job.status.condition(kind)
    assert found is not None
    return found


def pending(seen: Observed) -> Pending:
    assert seen.job.status.pending is not None
    return seen.job.status.pending


def answered(seen: Observed, *, ok: bool) -> Observed:
    """Let the leader answer the request that the deletion waits for."""
    assert seen.latest is not None
    assert seen.latest.value is not None
    answer = Answer(str(pending(seen).snapshot), ok, "no space left")
    return replace(seen, latest=replace(seen.latest, value=replace(seen.latest.value, answers=(answer,))))


def test_what_a_deletion_waits_for_and_until_when_is_said() -> None:
    for policy, what in (("Savepoint", "a last savepoint"), ("Purge", "the removal")):
        seen, _ = step(deleting(policy))
        text = condition(step(seen)[0], ConditionType.PROGRESSING).message
        assert what in text
        assert stamp(NOW_S + DEADLINE_S) in text
        assert "kubectl patch sj wc" in text
        assert '"deletionPolicy":"Retain"' in text


def test_a_last_savepoint_that_fails_is_tried_again_until_the_deadline() -> None:
    seen, _ = step(deleting("Savepoint"))
    first = pending(seen).snapshot
    seen, actions = step(seen)
    assert [a for a in actions if isinstance(a, WriteDesired)]
    seen, actions = step(answered(seen, ok=False))
    assert not [a for a in actions if isinstance(a, SetFinalizer)]
    stalled = condition(seen, ConditionType.STALLED)
    assert (stalled.status, stalled.reason) == ("True", "SavepointFailed")
    assert "no space left" in stalled.message
    names_tried = {first}
    for number in (1, 2, 3):  # a pause before each
        later = replace(seen, now=NOW_S + number * TRY_AGAIN_S)
        seen, _ = step(later)
        assert pending(seen).snapshot not in names_tried
        names_tried.add(pending(seen).snapshot)
        same, actions = step(seen)
        assert pending(same).snapshot == pending(seen).snapshot
        (asked,) = [a for a in actions if isinstance(a, WriteDesired)]
        assert [r.id for r in asked.value.requests] == [pending(seen).snapshot]
        seen = answered(seen, ok=False)
    decided = decide(replace(seen, now=NOW_S + DEADLINE_S + 1))
    assert SetFinalizer(False, version="3") in decided.actions
    told = [e.message for e in decided.events if e.reason == "DeletionTimedOut"]
    assert "no space left" in told[0]


def test_a_deletion_is_done_at_once_when_nothing_is_to_be_kept() -> None:
    seen, _ = step(deleting("Savepoint"))
    spec: dict[str, Plain] = spec_of(deletionPolicy="Retain")
    _, actions = step(replace(seen, job=replace(seen.job, spec=spec)))
    assert actions[0] == SetFinalizer(False, version="3")


def test_in_a_namespace_that_ends_nothing_is_made_and_nothing_waited_for() -> None:
    for policy in ("Savepoint", "Purge"):
        seen = replace(down(deleting(policy)), namespace_ends=True, desired=None)
        seen, _ = step(seen)
        decided = decide(seen)
        assert SetFinalizer(False, version="3") in decided.actions
        assert not [a for a in decided.actions if isinstance(a, Create | WriteDesired)]


def test_a_snapshot_whose_files_were_to_go_holds_no_namespace_up() -> None:
    status = SnapshotStatus(state=SnapshotState.COMPLETED, path="p", started=stamp(NOW_S))
    spec: Plain = {"jobRef": "wc", "disposeOnDelete": True}
    held = (names.FINALIZER,)
    view = SnapshotView("monday", "abcdefgh-1", 1, spec, status, NOW_S, NOW_S, held, "3")
    seen = replace(running(spec_of()), snapshots=(view,), namespace_ends=True)
    seen, _ = step(seen)
    decided = decide(seen)
    assert SetFinalizer(False, "monday", "3") in decided.actions
    waits = decide(replace(seen, namespace_ends=False))
    assert SetFinalizer(False, "monday", "3") not in waits.actions


def test_workers_end_before_a_purge_forgets_although_desired_is_gone() -> None:
    seen = replace(deleting("Purge"), desired=None)
    seen, _ = step(seen)
    _, actions = step(seen)
    assert [a for a in actions if isinstance(a, Scale)] == [Scale(0, 1, "5")]
    assert not [a for a in actions if isinstance(a, Delete | SetFinalizer)]
    ended, actions = step(down(seen))  # no worker is left: the files are removed before the objects that name them
    assert [a.manifest["kind"] for a in actions if isinstance(a, Create)] == ["Job"]
    assert not [a for a in actions if isinstance(a, Delete | SetFinalizer)]
    purge = names.purge_name("wc", ended.job.uid)
    _, actions = step(replace(ended, purges={purge: True}))
    assert [a.name for a in actions if isinstance(a, Delete)] == ["wc-ckpt-latest"]


def test_a_purge_without_a_readable_spec_says_which_files_stay() -> None:
    seen = down(deleting("Purge"))
    unreadable = replace(seen.job, spec={"deletionPolicy": "Purge"}, spec_text='{"deletionPolicy": "Purge"}')
    seen, _ = step(replace(seen, job=unreadable, stateful_set=None))
    told = [event for event in decide(seen).events if event.reason == "DisposalFailed"]
    assert [(event.warning, event.message) for event in told] == [
        (
            True,
            "files stay: those in /var/lib/penstock/checkpoints/apps/wc/1234-uid: no spec can be read that says where"
            " they are",
        )
    ]


def test_a_last_savepoint_is_taken_although_desired_is_gone() -> None:
    seen = replace(deleting("Savepoint"), desired=None)
    seen, _ = step(seen)
    assert pending(seen).action == "Deleting"
    assert pending(seen).snapshot is None  # its name needs the run that -desired has
    seen, actions = step(seen)
    (made,) = [a for a in actions if isinstance(a, WriteDesired)]
    assert (made.value.workers, made.version) == (2, "")
    assert not [a for a in actions if isinstance(a, SetFinalizer)]
    desired = DesiredView("d2", seen.job.uid, "10", made.value, made.fence, "l")
    seen, _ = step(replace(seen, desired=desired))
    _, actions = step(seen)
    (asked,) = [a for a in actions if isinstance(a, WriteDesired)]
    assert [r.id for r in asked.value.requests] == [pending(seen).snapshot]
    retained, actions = step(replace(seen, desired=None, stateful_set=None, pods=()))
    assert not [a for a in actions if isinstance(a, WriteDesired)]  # no worker would read it
    assert SetFinalizer(False, version="3") in step(retained)[1]


def test_a_savepoint_has_all_the_workers_that_hold_state() -> None:
    """A start has the spec's number of workers. A stop needs all workers of the last commit."""
    seen = deleting("Savepoint")
    assert seen.latest is not None
    assert seen.latest.value is not None
    committed = replace(seen.latest.value, workers=4)
    seen, _ = step(replace(seen, latest=replace(seen.latest, value=committed)))
    _, actions = step(seen)
    assert [a for a in actions if isinstance(a, Scale)] == [Scale(4, 1, "5")]


def test_a_job_that_never_began_has_nothing_to_purge() -> None:
    """The -latest belongs to an earlier job of this name, whose workers may still be there."""
    seen = deleting("Purge")
    assert seen.latest is not None
    assert seen.latest.value is not None
    theirs = replace(seen.latest.value, job_uid=JobUid("an-earlier-uid"))
    seen = replace(seen, latest=replace(seen.latest, value=theirs), desired=None)
    seen, _ = step(replace(seen, stateful_set=None, pods=()))
    _, actions = step(seen)
    assert SetFinalizer(False, version="3") in actions
    assert not [a for a in actions if isinstance(a, Create | Delete)]


def test_a_purge_says_which_files_stay_when_the_record_of_the_job_is_gone() -> None:
    begun = replace(deleting("Purge"), latest=None)
    begun = replace(begun, job=replace(begun.job, status=StreamJobStatus(term=1, attempt=1)))
    for job, told in ((begun.job, ["DisposalFailed"]), (deleting("Purge").job, [])):
        decided = decide(step(replace(begun, job=job))[0])
        assert SetFinalizer(False, version="3") in decided.actions
        assert [e.reason for e in decided.events if e.reason == "DisposalFailed"] == told


def test_a_stop_is_among_the_requests_that_the_leader_looks_at() -> None:
    seen, _ = step(deleting("Savepoint"))
    assert seen.desired is not None
    waiting = tuple(Request(f"snap-{number}", "savepoint", f"s{number}") for number in range(ANSWERS_MAX + 8))
    seen = replace(seen, desired=replace(seen.desired, value=replace(seen.desired.value, requests=waiting)))
    [asked] = [a for a in step(seen)[1] if isinstance(a, WriteDesired)]
    assert pending(seen).snapshot in [r.id for r in asked.value.requests[:ANSWERS_MAX]]
    assert len(asked.value.requests) == ANSWERS_MAX + 9
