"""When the autoscaler may choose a number, what it writes, and how the workers follow."""

import json

from penstock.base.values import replace
from penstock.contract.ids import Attempt, Version
from penstock.contract.latest import Latest
from penstock.contract.schema import Plain
from penstock.contract.status import JobState, JobStatus, Load
from penstock.contract.streamjob_status import (
    AutoscalingStatus,
    Condition,
    ConditionType,
    LastStable,
    Pending,
    Reason,
    StreamJobStatus,
    Truth,
)
from penstock_operator.api.classes import digest_of
from penstock_operator.api.observed import Observed, PodView
from penstock_operator.api.plain import stamp
from penstock_operator.api.views import job_view
from penstock_operator.cluster.store import JobKey, Store
from penstock_operator.reconcile.accept import accept
from penstock_operator.reconcile.actions import Decision, Event, Scale, WriteDesired
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.scaling import BUSY_STEP, TAKE_BACK_S
from penstock_operator.reconcile.status import AUTOSCALED
from penstock_operator.reconcile.workers import STALE_S
from tests.unit.operator.observing import NOW_S, OWNER, running, spec_of

BOUNDS: dict[str, Plain] = {"minReplicas": 1, "maxReplicas": 6, "cooldown": "30s"}
SPEC = spec_of(autoscaling=BOUNDS)
BUSY = (0.9, 0.9)
LONG_AGO = stamp(NOW_S - 3600)


def told(seen: Observed, *shares: float, at: float = NOW_S) -> Observed:
    """Let the leader report how busy the workers were."""
    latest = latest_of(seen)
    status = JobStatus(
        "wc",
        OWNER.uid,
        JobState.RUNNING,
        int(at * 1e6),
        attempt=latest.attempt,
        version=latest.version,
        load=Load(15.0, shares, (0.0,) * len(shares), "counts") if shares else None,
    )
    return replace(seen, running=status)


def latest_of(seen: Observed) -> Latest:
    assert seen.latest is not None
    assert seen.latest.value is not None
    return seen.latest.value


def chose(seen: Observed, chosen: AutoscalingStatus, **more: object) -> Observed:
    status = replace(seen.job.status, autoscaling=chosen, **more)  # type: ignore[arg-type]
    return replace(seen, job=replace(seen.job, status=status))


def at_rest(*shares: float) -> Observed:
    """Observe an autoscaled job with two workers, a number that was chosen long ago."""
    return told(chose(running(SPEC), AutoscalingStatus(2, LONG_AGO)), *shares)


def chosen(seen: Observed) -> AutoscalingStatus:
    found = status_of(seen).autoscaling
    assert found is not None
    return found


def status_of(seen: Observed) -> StreamJobStatus:
    return decide(seen).status or seen.job.status


def written(seen: Observed, decided: Decision) -> Observed:
    assert decided.status is not None
    return replace(seen, job=replace(seen.job, status=decided.status))


def test_a_choice_is_written_before_anything_is_done_about_it() -> None:
    seen = at_rest(*BUSY)
    first = decide(seen)
    assert first.status is not None
    assert first.status.autoscaling is not None
    assert first.status.autoscaling.replicas == 3
    assert not any(isinstance(a, Scale | WriteDesired) for a in first.actions)
    assert first.events[-1] == Event(
        AUTOSCALED,
        "2 -> 3 workers: the busiest step (counts) worked at least 90% of the time, of 70% wanted",
    )
    seen = written(seen, first)
    second = decide(seen)  # the next reconcile continues from the status
    assert second.status is not None
    assert second.status_first
    assert second.status.pending is not None
    assert (second.status.pending.action, second.status.pending.replicas) == ("Rescaling", 3)
    assert second.status.desired_replicas == 3
    third = decide(written(seen, second))
    assert [a for a in third.actions if isinstance(a, Scale)] == [Scale(3, 2, "5")]
    wanted = [a for a in third.actions if isinstance(a, WriteDesired)]
    assert [a.value.workers for a in wanted] == [3]


def test_it_begins_with_the_workers_that_there_are() -> None:
    found = chosen(told(running(SPEC), *BUSY))
    assert (found.replicas, found.time) == (2, stamp(NOW_S))
    assert "when autoscaling began" in found.message
    assert status_of(running(SPEC)).desired_replicas == 2


def test_new_bounds_count_at_once() -> None:
    spec = spec_of(autoscaling={"minReplicas": 4, "maxReplicas": 5})
    seen = chose(running(SPEC, wanted=spec), AutoscalingStatus(2, LONG_AGO))
    target = accept(seen).target
    assert target is not None
    assert target.spec.replicas == 4
    assert (chosen(seen).replicas, chosen(seen).message) == (
        4,
        "at least 4 and at most 5 are allowed",
    )
    assert accept(seen).target is target, "what is kept with a target is made once"


def test_without_bounds_the_spec_counts_and_nothing_is_remembered() -> None:
    seen = told(chose(running(SPEC, wanted=spec_of()), AutoscalingStatus(5, LONG_AGO)), *BUSY)
    assert status_of(seen).autoscaling is None
    assert status_of(seen).desired_replicas == 2


def test_nothing_is_chosen_in_the_middle_of_a_rescale() -> None:
    resting = at_rest(*BUSY)
    latest, desired, at = latest_of(resting), resting.desired, resting.stateful_set
    assert desired is not None
    assert at is not None
    assert resting.latest is not None
    unsettled = replace(latest, version=Version(2))
    committed = replace(latest, workers=1)
    for seen in (
        replace(resting, latest=replace(resting.latest, value=unsettled)),
        replace(resting, latest=replace(resting.latest, value=committed)),
        replace(resting, desired=replace(desired, value=replace(desired.value, workers=1))),
        replace(resting, stateful_set=replace(at, replicas=3)),
        replace(resting, pods=resting.pods[:1]),
        replace(resting, pods=(resting.pods[0], replace(resting.pods[1], ready=False))),
    ):
        busy = told(seen, *BUSY)
        assert chosen(busy) == AutoscalingStatus(2, LONG_AGO)


def test_only_a_fresh_word_about_the_committed_table_counts() -> None:
    seen = at_rest(*BUSY)
    assert chosen(seen).replicas == 3
    assert chosen(told(seen, *BUSY, at=NOW_S - STALE_S - 1)).replicas == 2
    assert chosen(told(seen)).replicas == 2
    assert chosen(replace(seen, running=None)).replicas == 2
    assert seen.running is not None
    for other in (
        replace(seen.running, attempt=Attempt(9)),
        replace(seen.running, version=Version(9)),
        replace(seen.running, uid="another"),
    ):
        assert chosen(replace(seen, running=other)).replicas == 2


def test_a_job_that_has_ended_or_is_going_stays_as_it_is() -> None:
    seen = at_rest(*BUSY)
    assert seen.latest is not None
    for latest in (
        replace(latest_of(seen), finished=True),
        replace(latest_of(seen), failure="row 7"),
        replace(latest_of(seen), stopped=True),
    ):
        ended = replace(seen, latest=replace(seen.latest, value=latest))
        assert chosen(ended).replicas == 2
    assert chosen(replace(seen, job=replace(seen.job, deleting_since=NOW_S))).replicas == 2


def test_a_spec_that_cannot_be_taken_leaves_the_choice_alone() -> None:
    bad = spec_of(autoscaling=BOUNDS, replicas=0)
    seen = told(chose(running(SPEC, wanted=bad), AutoscalingStatus(2, LONG_AGO)), *BUSY)
    assert accept(seen).reason is Reason.SPEC_INVALID
    assert chosen(seen) == AutoscalingStatus(2, LONG_AGO)


def missing(for_s: float) -> Observed:
    """Four workers were chosen ``for_s`` ago, and two are there."""
    seen = chose(
        running(SPEC),
        AutoscalingStatus(4, LONG_AGO),
        pending=Pending("Rescaling", 2, stamp(NOW_S - for_s), replicas=4),
    )
    assert seen.desired is not None
    desired = replace(seen.desired, value=replace(seen.desired.value, workers=4))
    at = seen.stateful_set
    assert at is not None
    new = [PodView(f"wc-worker-{n}", f"p{n}", OWNER.uid, n, ready=False) for n in (2, 3)]
    return replace(
        seen,
        desired=desired,
        stateful_set=replace(at, replicas=4),
        pods=(*seen.pods, *new),
    )


def test_workers_that_do_not_come_are_given_up_after_a_while() -> None:
    assert chosen(missing(TAKE_BACK_S - 1)).replicas == 4
    found = chosen(missing(TAKE_BACK_S))
    assert (found.replicas, found.undone) == (2, True)
    assert found.message == "4 were wanted, and did not appear within 10 minutes"
    assert decide(missing(TAKE_BACK_S)).events[-1].warning
    seen = missing(TAKE_BACK_S)
    assert seen.latest is not None
    undone = replace(latest_of(seen), rescale="undone: a joiner is lost")
    told_why = chosen(replace(seen, latest=replace(seen.latest, value=undone)))
    assert told_why.message.endswith("within 10 minutes (undone: a joiner is lost)")


def test_a_rescale_that_is_committed_is_never_taken_back() -> None:
    seen = missing(TAKE_BACK_S)
    assert seen.latest is not None
    forward = replace(latest_of(seen), workers=4, version=Version(2))
    assert chosen(replace(seen, latest=replace(seen.latest, value=forward))).replicas == 4


def test_small_changes_of_what_is_shown_are_not_written() -> None:
    seen = at_rest(0.6, 0.7)
    shown = chosen(seen)
    assert (shown.busy, shown.step, shown.time) == (0.7, "counts", LONG_AGO)
    after = chose(seen, shown)
    assert chosen(told(after, 0.6, 0.7 + BUSY_STEP / 2)) == shown
    assert chosen(told(after, 0.6, 0.7 - 2 * BUSY_STEP)).busy == 0.7 - 2 * BUSY_STEP


# --- beside the HorizontalPodAutoscaler --------------------------------------------------------


def stream_job(*managers: Plain) -> dict[str, Plain]:
    return {
        "kind": "StreamJob",
        "metadata": {"name": "wc", "namespace": "apps", "managedFields": list(managers)},
        "spec": {},
    }


def manager(name: str, subresource: str, *fields: str) -> dict[str, Plain]:
    owned: dict[str, Plain] = {f"f:{field}": {} for field in fields}
    return {"manager": name, "subresource": subresource, "fieldsV1": {"f:spec": owned}}


HPA = manager("kube-controller-manager", "scale", "replicas")


def test_an_autoscaler_of_kubernetes_shows_in_who_manages_the_replicas() -> None:
    assert job_view(stream_job(HPA)).scaled_by_hpa
    for other in (
        manager("kubectl", "scale", "replicas"),
        manager("kube-controller-manager", "", "replicas"),
        manager("kube-controller-manager", "scale", "other"),
    ):
        assert not job_view(stream_job(other)).scaled_by_hpa


def test_the_store_keeps_of_the_managers_who_scale() -> None:
    store = Store(lambda: 0.0)
    store.put(stream_job(manager("kubectl-client-side-apply", "", "job", "image"), HPA))
    kept = store.job(JobKey("apps", "wc"))
    assert kept is not None
    assert kept["metadata"] == {"name": "wc", "namespace": "apps", "managedFields": [HPA]}
    assert job_view(kept).scaled_by_hpa


def test_beside_another_autoscaler_ours_is_off() -> None:
    seen = at_rest(*BUSY)
    seen = replace(seen, job=replace(seen.job, scaled_by_hpa=True))
    status = status_of(seen)
    assert status.autoscaling is None
    assert status.desired_replicas == 2
    accepted = status.condition(ConditionType.ACCEPTED)
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "AutoscalerConflict")
    assert "HorizontalPodAutoscaler" in accepted.message


def test_the_chosen_workers_of_all_jobs_are_added_up() -> None:
    store = Store(lambda: 0.0)
    for name, count in (("a", 2), ("b", 3)):
        plain = stream_job()
        plain["metadata"] = {"name": name, "namespace": "apps"}
        store.put({**plain, "status": {"autoscaling": {"replicas": count}}})
    store.put({**stream_job(), "metadata": {"name": "c", "namespace": "apps"}})
    assert store.autoscaled_workers() == 5


def test_a_job_that_has_not_begun_is_not_at_rest() -> None:
    """A refused spec has ended the operation in the status; what it began continues."""
    seen = at_rest(*BUSY)
    blank = replace(latest_of(seen), attempt=Attempt(0), version=Version(0), settled=Version(0))
    assert seen.latest is not None
    seen = replace(seen, latest=replace(seen.latest, value=replace(blank, workers=0)))
    found = status_of(told(seen, *BUSY))
    assert found.pending is not None
    assert (found.state, found.pending.action) == ("Starting", "Deploying")
    assert found.autoscaling is not None
    assert found.autoscaling.replicas == 2


def test_after_a_rollback_it_goes_on_choosing() -> None:
    newest = {**SPEC, "image": "example/penstock:2"}
    seen = at_rest(*BUSY)
    stalled = Condition(ConditionType.STALLED, Truth.TRUE, "RolledBack", "", stamp(NOW_S), seen.job.generation)
    kept = LastStable(1, digest_of(SPEC))
    status = replace(seen.job.status, conditions=(stalled,), last_stable=kept)
    job = replace(seen.job, status=status, spec=newest, spec_text=json.dumps(newest, sort_keys=True))
    seen = replace(seen, job=job)
    assert accept(seen).given_up is Reason.ROLLED_BACK
    assert chosen(seen).replicas == 3
