"""Each problem of a job gives a condition with reason and message, and an event, at once."""

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.control_messages import OUT_OF_MEMORY
from penstock.contract.ids import Attempt, Epoch, Incarnation, Ordinal
from penstock.contract.latest import Death, Deaths, Latest
from penstock.contract.status import JobState, JobStatus
from penstock.contract.streamjob_status import ConditionType, StreamJobStatus, Truth
from penstock_operator.api.observed import ContainerView, Observed, PodView, Refusal
from penstock_operator.api.plain import stamp
from penstock_operator.reconcile.actions import Decision
from penstock_operator.reconcile.decide import WATCHFUL_S, decide
from tests.unit.operator.observing import NOW_S, OWNER, running, spec_of

NO_ROOM = "StorageError: /var/lib/penstock/checkpoints/a: No space left on device"
MISSING_ACCOUNT = (
    'create Pod wc-worker-0 in StatefulSet wc-worker failed error: pods "wc-worker-0" is '
    'forbidden: error looking up service account apps/later: serviceaccount "later" not found'
)
QUOTA = (
    'create Pod wc-worker-0 in StatefulSet wc-worker failed error: pods "wc-worker-0" is '
    "forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2"
)
SECURITY = (
    'create Pod wc-worker-0 in StatefulSet wc-worker failed error: pods "wc-worker-0" is '
    'forbidden: violates PodSecurity "restricted:latest": hostNetwork'
)
WEBHOOK = (
    "create Pod wc-worker-0 in StatefulSet wc-worker failed error: admission webhook "
    '"policy.example" denied the request: no images of strangers'
)


def settled(seen: Observed) -> Observed:
    """Observe the same job with the status that it has when nothing is wrong."""
    status = decide(seen).status
    assert status is not None
    return replace(seen, job=replace(seen.job, status=status))


def condition(status: StreamJobStatus | None, kind: ConditionType) -> tuple[Truth, str, str]:
    assert status is not None
    found = status.condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def check_told(decided: Decision, reason: str, *words: str) -> None:
    """Check that Stalled has reason and words, the status has the reason, and an event warns."""
    truth, why, message = condition(decided.status, ConditionType.STALLED)
    assert (truth, why) == (Truth.TRUE, reason)
    for word in words:
        assert word in message
    assert decided.status is not None
    assert decided.status.reason == reason
    (event,) = [e for e in decided.events if e.reason == reason]
    assert event.warning
    assert event.message == message


def without_a_pod(seen: Observed) -> Observed:
    return replace(seen, pods=seen.pods[1:])


@pytest.mark.parametrize(
    ("event", "reason", "advice"),
    [
        (MISSING_ACCOUNT, "ServiceAccountMissing", "spec.serviceAccountName"),
        (QUOTA, "QuotaExceeded", "raise the quota"),
        (SECURITY, "PodRefused", "spec.podTemplate"),
        (WEBHOOK, "PodRefused", "no images of strangers"),
    ],
)
def test_a_pod_that_is_not_made_is_told_from_the_sets_events(event: str, reason: str, advice: str) -> None:
    seen = without_a_pod(settled(running(spec_of())))
    decided = decide(replace(seen, set_trouble=event))
    check_told(decided, reason, event, advice)


def test_a_set_without_its_pods_is_looked_at_every_few_seconds() -> None:
    """No watch reports events, so a running job that loses a pod must be observed often."""
    seen = settled(running(spec_of()))
    assert (decide(seen).again_s or 0.0) > WATCHFUL_S
    assert decide(without_a_pod(seen)).again_s == WATCHFUL_S


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("422 Invalid: spec.template.spec.containers[0].image: Required value", "ObjectRefused"),
        ("403 Forbidden: exceeded quota: small, requested: services=1", "QuotaExceeded"),
    ],
)
def test_an_object_that_is_refused_stalls_the_job_at_once(answer: str, reason: str) -> None:
    seen = settled(running(spec_of()))
    refusal = Refusal("StatefulSet wc-worker", answer, seen.now)
    decided = decide(replace(seen, refusal=refusal))
    check_told(decided, reason, "StatefulSet wc-worker", answer)


def test_what_may_pass_by_itself_is_told_when_it_lasts() -> None:
    seen = settled(running(spec_of()))
    answer = "500 InternalError: failed to create typed patch object"
    fresh = Refusal("StatefulSet wc-worker", answer, seen.now - 1.0, transient=True)
    assert decide(replace(seen, refusal=fresh)).status is None
    lasting = replace(fresh, since=seen.now - 8.0)
    check_told(decide(replace(seen, refusal=lasting)), "ObjectRefused", "typed patch")


def dying(seen: Observed, count: int, reason: str) -> Observed:
    assert seen.latest is not None
    assert seen.latest.value is not None
    death = Death(Ordinal(1), Incarnation("e"), Attempt(3), count, count, reason)
    deaths = Deaths(seen.latest.value.run, count, 10, 600.0, count, Attempt(3), (), (death,))
    return with_latest(seen, replace(seen.latest.value, deaths=deaths))


def with_latest(seen: Observed, latest: Latest) -> Observed:
    assert seen.latest is not None
    return replace(seen, latest=replace(seen.latest, value=latest))


def test_an_engine_that_memory_ends_twice_is_told_as_that() -> None:
    seen = settled(running(spec_of()))
    killed = f"the engine was killed by SIGKILL (signal 9): {OUT_OF_MEMORY} (limit 512Mi)"
    first = decide(dying(seen, 1, killed))
    assert condition(first.status, ConditionType.STALLED)[0] is Truth.FALSE
    decided = decide(dying(seen, 2, killed))
    check_told(decided, "EngineOutOfMemory", "limit 512Mi", "spec.resources.limits.memory")


def test_each_death_of_an_engine_is_an_event() -> None:
    """A job whose engine is killed now and then is not Stalled, and its pod's RESTARTS stays 0."""
    seen = settled(running(spec_of()))
    died = dying(seen, 1, "the engine was killed by SIGKILL (signal 9)\nin flight: x")
    decided = decide(died)
    (event,) = [e for e in decided.events if e.reason == "EngineDied"]
    assert event.warning
    assert "wc-worker-1" in event.message
    assert "killed by SIGKILL" in event.message
    assert decided.status is not None
    again = replace(died, job=replace(died.job, status=decided.status))
    assert not decide(again).events


def with_container(seen: Observed, container: ContainerView) -> Observed:
    sick = replace(seen.pods[0], ready=False, phase="Running", containers=(container,))
    return replace(seen, pods=(sick, *seen.pods[1:]))


@pytest.mark.parametrize(
    ("name", "reason"),
    [(pod.ENGINE_CONTAINER, "EngineOutOfMemory"), (pod.KEEPER_CONTAINER, "CrashLoop")],
)
def test_a_container_that_the_kubelet_saw_killed_by_memory_is_told_as_that(name: str, reason: str) -> None:
    seen = settled(running(spec_of()))
    killed = ContainerView(name, "CrashLoopBackOff", "back-off", "OOMKilled", "", 137, 2, seen.now - 1.0)
    check_told(decide(with_container(seen, killed)), reason, "OOMKilled", "memory")


def test_a_container_that_ended_long_ago_and_runs_stalls_nothing() -> None:
    seen = settled(running(spec_of()))
    old = ContainerView("keeper", ended="Error", exit_code=1, restarts=5, ended_at=NOW_S - 7200)
    status = decide(with_container(seen, old)).status
    assert condition(status, ConditionType.STALLED)[0] is Truth.FALSE
    new = replace(old, ended_at=NOW_S - 5)
    check_told(decide(with_container(seen, new)), "CrashLoop", "ended 5 times")


def telling(seen: Observed, failure: str | None, failed: int) -> Observed:
    told = JobStatus("wc", OWNER.uid, JobState.RUNNING, 0, failure=failure, failed_checkpoints=failed)
    return replace(seen, running=told)


def test_a_full_volume_stalls_a_running_job_with_its_first_failed_checkpoint() -> None:
    seen = settled(running(spec_of()))
    text = f"checkpoint 8 failed: {NO_ROOM}"
    decided = decide(telling(seen, text, 1))
    check_told(decided, "VolumeFull", NO_ROOM)
    assert condition(decided.status, ConditionType.READY)[:2] == (Truth.FALSE, "CheckpointFailing")
    assert condition(decided.status, ConditionType.CHECKPOINTING) == (
        Truth.FALSE,
        "Failing",
        text,
    )


@pytest.mark.parametrize("failed", [0, 1])
def test_a_volume_that_is_full_before_the_first_checkpoint_is_told(failed: int) -> None:
    """Such a job stays in Starting: the volume has no room for its first checkpoint."""
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    new = replace(seen.latest.value, epoch=Epoch(0), max_epoch=Epoch(0), attempt=Attempt(0))
    decided = decide(telling(settled(with_latest(seen, new)), NO_ROOM, failed))
    check_told(decided, "VolumeFull", NO_ROOM)
    assert condition(decided.status, ConditionType.CHECKPOINTING)[:2] == (Truth.FALSE, "Failing")


def test_checkpoints_that_fail_again_and_again_make_a_job_unready() -> None:
    seen = settled(running(spec_of()))
    few = decide(telling(seen, "checkpoint 8 failed: slow", 2)).status
    assert condition(few, ConditionType.READY)[0] is Truth.TRUE
    assert condition(few, ConditionType.CHECKPOINTING)[:2] == (Truth.FALSE, "Failing")
    assert few is not None
    assert few.reason == "CheckpointFailing"
    many = decide(telling(seen, "checkpoint 9 failed: slow", 3)).status
    assert condition(many, ConditionType.READY)[:2] == (Truth.FALSE, "CheckpointFailing")


def test_a_keeper_that_finds_no_room_is_told_as_a_full_volume() -> None:
    seen = settled(running(spec_of()))
    text = '{"reason": "CheckpointVolumeUnusable", "message": "/a: No space left on device"}'
    ended = ContainerView("keeper", "CrashLoopBackOff", "", "Error", text, 3, 2, seen.now)
    check_told(decide(with_container(seen, ended)), "VolumeFull", "No space left")


def test_a_finished_job_is_complete_and_ready() -> None:
    """`kubectl wait` for Ready must also end when the job has already finished."""
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    status = decide(seen).status
    assert condition(status, ConditionType.COMPLETE)[:2] == (Truth.FALSE, "NotFinished")
    done = decide(with_latest(seen, replace(seen.latest.value, finished=True))).status
    assert condition(done, ConditionType.COMPLETE)[:2] == (Truth.TRUE, "Finished")
    assert condition(done, ConditionType.READY)[:2] == (Truth.TRUE, "Finished")


def test_the_reason_shown_is_the_stall_and_not_the_state() -> None:
    seen = running(spec_of())
    waits = ContainerView("engine", "ImagePullBackOff", "no such image")
    pods = tuple(PodView(f"wc-worker-{n}", f"p{n}", OWNER.uid, n, ready=False, containers=(waits,)) for n in (0, 1))
    pending = replace(seen, pods=pods, job=replace(seen.job, status=StreamJobStatus()))
    status = decide(pending).status
    assert status is not None
    assert status.reason == "ImagePullFailed"
    assert stamp(seen.now) in {c.last_transition_time for c in status.conditions}
