"""Periodic savepoints: one per period, one for all missed periods, and what retention keeps."""

import pytest

from penstock.base.values import replace
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import ConditionType
from penstock.contract.streamsnapshot import SnapshotState, SnapshotStatus
from penstock_operator.api.observed import Observed, Refusal, SnapshotView
from penstock_operator.api.plain import object_at, text_at
from penstock_operator.reconcile.actions import Action, Create, Delete, Event
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.snapshots import period_of, periodic_name
from tests.unit.operator.observing import NOW_S, OWNER, down, running, spec_of

EVERY_S = 3600.0
SPEC = spec_of(snapshots={"every": "1h", "keep": 2})
PERIOD = period_of(NOW_S, EVERY_S, OWNER.uid)


def job(now: float = NOW_S, *views: SnapshotView, **more: Plain) -> Observed:
    return replace(running({**SPEC, **more}), now=now, snapshots=views)


def view(
    period: float,
    state: SnapshotState = SnapshotState.COMPLETED,
    of: str = OWNER.uid,
    message: str = "",
) -> SnapshotView:
    name = periodic_name("wc", period)
    status = SnapshotStatus(state=state, path=f"apps/wc/savepoints/{name}", message=message)
    spec: Plain = {"jobRef": "wc", "disposeOnDelete": True}
    return SnapshotView(name, f"uid-{period:.0f}", 1, spec, status, period, version="1", periodic_of=of, due=period)


def step(seen: Observed) -> tuple[Observed, list[Action], tuple[Event, ...]]:
    decided = decide(seen)
    if decided.status is not None:
        seen = replace(seen, job=replace(seen.job, status=decided.status))
    return seen, list(decided.actions), decided.events


def made(actions: list[Action]) -> list[str]:
    found = [a.manifest for a in actions if isinstance(a, Create)]
    return [text_at(m, "metadata", "name") for m in found if text_at(m, "kind") == "StreamSnapshot"]


def removed(actions: list[Action]) -> list[str]:
    return sorted(a.name for a in actions if isinstance(a, Delete) and a.kind == "StreamSnapshot")


def test_one_is_asked_for_in_each_period() -> None:
    seen, actions, _ = step(job())
    assert made(actions) == [periodic_name("wc", PERIOD)]
    (manifest,) = [a.manifest for a in actions if isinstance(a, Create)][-1:]
    spec = object_at(manifest, "spec")
    assert spec == {"jobRef": "wc", "type": "Savepoint", "disposeOnDelete": True}
    assert not object_at(manifest, "metadata").get("ownerReferences")  # it outlives the job
    seen, actions, _ = step(seen)  # its object is not observed yet, or was deleted by a person
    assert made(actions) == []
    seen, actions, _ = step(replace(seen, now=PERIOD + EVERY_S - 1))
    assert made(actions) == []
    _, actions, _ = step(replace(seen, now=PERIOD + EVERY_S))
    assert made(actions) == [periodic_name("wc", PERIOD + EVERY_S)]


def test_it_is_looked_at_again_when_the_next_is_due() -> None:
    decided = decide(replace(job(), now=PERIOD + EVERY_S - 20))
    assert decided.again_s is not None
    assert decided.again_s <= 20.0


@pytest.mark.parametrize("refused", [f"StreamSnapshot {periodic_name('wc', PERIOD)}", "Service wc-worker"])
def test_one_that_was_refused_is_asked_for_again(refused: str) -> None:
    """The status is written also when a write before it was refused."""
    refusal = Refusal(refused, "503 ServiceUnavailable: later", NOW_S, transient=True)
    seen, actions, _ = step(replace(job(), refusal=refusal))
    assert made(actions) == [periodic_name("wc", PERIOD)]
    seen, actions, _ = step(seen)
    assert made(actions) == [periodic_name("wc", PERIOD)], "it does not exist"
    _, actions, _ = step(replace(seen, snapshots=(view(PERIOD),)))
    assert made(actions) == []


def test_missed_periods_give_one() -> None:
    seen, _, _ = step(job())
    seen, actions, _ = step(replace(seen, now=PERIOD + 30.5 * EVERY_S))
    assert made(actions) == [periodic_name("wc", PERIOD + 30 * EVERY_S)]
    _, actions, _ = step(seen)
    assert made(actions) == []


def test_what_is_lost_from_the_status_is_read_from_the_snapshots() -> None:
    _, actions, _ = step(job(NOW_S, view(PERIOD)))
    assert made(actions) == []


def test_a_new_job_has_its_first_period_before_it() -> None:
    seen = job()
    seen = replace(seen, job=replace(seen.job, created=NOW_S - 1.0))
    assert made(step(seen)[1]) == []
    assert made(step(replace(seen, now=PERIOD + EVERY_S))[1]) != []


def test_none_is_asked_for_that_cannot_be_taken() -> None:
    assert made(step(down(job(suspend=True)))[1]) == []
    under_way = view(PERIOD - EVERY_S, SnapshotState.IN_PROGRESS)
    assert made(step(job(NOW_S, under_way))[1]) == []
    seen = job()
    gone = replace(seen, job=replace(seen.job, deleting_since=NOW_S))
    assert made(step(gone)[1]) == []


def test_jobs_do_not_save_at_the_same_second() -> None:
    periods = {period_of(NOW_S, EVERY_S, f"uid-{number}") for number in range(50)}
    assert len(periods) > 40


def test_retention_keeps_the_newest_and_what_it_has_not_made() -> None:
    periods = [PERIOD - number * EVERY_S for number in range(5)]
    own = [view(p) for p in periods]
    by_hand = view(PERIOD - 9 * EVERY_S, of="")
    of_earlier_job = view(PERIOD - 8 * EVERY_S, of="uid-of-before")
    _, actions, _ = step(job(NOW_S, *own, by_hand, of_earlier_job))
    assert removed(actions) == sorted(v.name for v in own[2:])


def test_retention_keeps_files_that_another_snapshot_names() -> None:
    own = [view(PERIOD - number * EVERY_S) for number in range(4)]
    used = own[3]
    path = f"apps/wc/savepoints/{used.name[:40]}-{used.uid[:8]}"
    imported = replace(used, name="keep-me", uid="k", spec={"path": path}, periodic_of="", due=0.0)
    _, actions, _ = step(job(NOW_S, *own, imported))
    assert removed(actions) == [own[2].name]
    _, actions, _ = step(job(NOW_S, *own, replace(imported, deleting_since=NOW_S)))
    assert removed(actions) == sorted([own[2].name, used.name])


@pytest.mark.parametrize("by", ["name", "path"])
def test_retention_keeps_what_somebody_restores_from(by: str) -> None:
    own = [view(PERIOD - number * EVERY_S) for number in range(4)]
    used = own[3]
    folder = f"/claim/apps/wc/savepoints/{used.name[:40]}-{used.uid[:8]}"
    wanted = frozenset({used.name if by == "name" else folder})
    _, actions, _ = step(replace(job(NOW_S, *own), restored_from=wanted))
    assert removed(actions) == [own[2].name]


def test_one_that_fails_is_said_and_goes_once_a_newer_one_is_there() -> None:
    before = view(PERIOD - EVERY_S)
    failed = view(PERIOD, SnapshotState.FAILED, message="no space left")
    seen, actions, events = step(job(NOW_S, before, failed))
    assert removed(actions) == []
    judged = seen.job.status.condition(ConditionType.SNAPSHOTS_TAKEN)
    assert judged is not None
    assert (judged.status, judged.reason) == ("False", "SnapshotFailed")
    assert failed.name in judged.message
    assert "no space left" in judged.message
    assert before.name in judged.message
    told = [e for e in events if e.reason == "SnapshotFailed" and e.warning]
    assert len(told) == 1
    later = view(PERIOD + EVERY_S)
    seen, actions, _ = step(replace(seen, now=PERIOD + EVERY_S, snapshots=(before, failed, later)))
    assert removed(actions) == [failed.name]
    judged = seen.job.status.condition(ConditionType.SNAPSHOTS_TAKEN)
    assert judged is not None
    assert (judged.status, judged.reason) == ("True", "Completed")


def test_without_the_field_there_is_no_condition() -> None:
    seen, _, _ = step(running(spec_of()))
    assert seen.job.status.condition(ConditionType.SNAPSHOTS_TAKEN) is None
