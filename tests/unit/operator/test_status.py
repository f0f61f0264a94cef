"""What the status of a StreamJob says about its checkpoints."""

import pytest

from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.ids import Attempt, BlobName, Epoch, Incarnation, Ordinal
from penstock.contract.latest import Death, Deaths, Desired
from penstock.contract.manifest import BlobRef
from penstock.contract.schema import MESSAGE_CHARS_MAX, Plain
from penstock.contract.status import CheckpointStatus, InputSeen, JobState, JobStatus, SinkStatus, UnlistedSource
from penstock.contract.streamjob_status import (
    CheckpointSummary,
    Condition,
    ConditionType,
    SinkSummary,
    Truth,
    UnlistedSourceSummary,
)
from penstock_operator.api import names
from penstock_operator.api.observed import Observed
from penstock_operator.api.plain import Object
from penstock_operator.api.views import Versions, desired_view
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.observation import ObservationContext, build_observation
from tests.unit.operator.observing import NOW_S, OWNER, running, spec_of


def checkpoint_of(seen: Observed) -> CheckpointSummary:
    status = decide(seen).status or seen.job.status  # None: as it was
    assert status.checkpoint is not None
    return status.checkpoint


def committed(epoch: int, failures: int = 0) -> Observed:
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    root = BlobRef(BlobName("root.json"), "", 1)
    value = replace(seen.latest.value, epoch=Epoch(epoch), max_epoch=Epoch(epoch), root=root)
    told = JobStatus("wc", "u", JobState.RUNNING, 0, failed_checkpoints=failures)
    return replace(seen, latest=replace(seen.latest, value=value), running=told)


def test_failed_checkpoints_are_counted_beside_the_last_good_one() -> None:
    shown = checkpoint_of(committed(7, failures=3))
    assert shown.failures == 3
    assert shown.last_completed is not None
    assert shown.last_completed.epoch == 7


@pytest.mark.parametrize(("time_us", "shown"), [(10**18, "9999-12-31T23:59:59Z"), (-(10**18), "1970-01-01T00:00:00Z")])
def test_a_time_that_no_clock_shows_stops_nothing(time_us: int, shown: str) -> None:
    seen = committed(7)
    assert seen.running is not None
    told = replace(seen.running, checkpoint=CheckpointStatus(7, time_us, 1, 0.5, "p"))
    done = checkpoint_of(replace(seen, running=told)).last_completed
    assert done is not None
    assert done.time == shown


def test_a_count_stays_while_no_worker_speaks_and_goes_with_the_next_commit() -> None:
    seen = committed(7, failures=3)
    status = decide(seen).status
    assert status is not None
    silent = replace(seen, job=replace(seen.job, status=status), running=None)
    assert checkpoint_of(silent).failures == 3
    later = replace(committed(8), job=silent.job, now=seen.now + 60.0)
    assert checkpoint_of(later).failures == 0


def test_files_that_are_not_read_are_a_condition_and_one_warning_for_each_change() -> None:
    seen = committed(7)
    unknown = decide(seen).status
    assert unknown is not None
    judged = unknown.condition(ConditionType.INPUT_COMPLETE)
    assert judged is not None
    assert (judged.status, judged.reason) == (Truth.UNKNOWN, "NotListed")

    def looked(before: Observed, *names: str) -> tuple[Observed, list[str]]:
        assert before.running is not None
        inputs = (InputSeen("in", 2, len(names), names, step="lines"),)
        now = replace(before, running=replace(before.running, inputs=inputs))
        decided = decide(now)
        warned = [e.message for e in decided.events if e.reason == "FilesNotRead" and e.warning]
        status = decided.status or now.job.status
        return replace(now, job=replace(now.job, status=status)), warned

    seen, warned = looked(replace(seen, job=replace(seen.job, status=unknown)))
    assert not warned
    told = []
    for unread in (("a",), ("a",), ("a", "b")):
        seen, warned = looked(seen, *unread)
        told.append(len(warned))
    assert told == [1, 0, 1]
    judged = seen.job.status.condition(ConditionType.INPUT_COMPLETE)
    assert judged is not None
    assert (judged.status, judged.reason) == (Truth.FALSE, "FilesNotRead")
    assert "2 files are not in the checkpoint and not read: a, b" in judged.message


def test_deaths_of_engines_are_counted_and_stall_the_job_before_it_fails() -> None:
    seen = committed(7)
    assert seen.latest is not None
    assert seen.latest.value is not None
    quiet = decide(seen).status
    assert quiet is not None
    assert quiet.restarts is None
    death = Death(Ordinal(1), Incarnation("e"), Attempt(3), 9, 4, "killed\nin flight: x")
    deaths = Deaths(seen.latest.value.run, 4, 10, 600.0, 9, Attempt(3), (), (death,))
    latest = replace(seen.latest, value=replace(seen.latest.value, deaths=deaths))
    status = decide(replace(seen, latest=latest)).status
    assert status is not None
    assert status.restarts is not None
    assert (status.restarts.count, status.restarts.limit) == (4, 10)
    assert (status.restarts.last, status.restarts.window_s) == ("killed\nin flight: x", 600.0)
    assert (status.restarts.worker or "").endswith("-1")
    stalled = status.condition(ConditionType.STALLED)
    assert stalled is not None
    assert (stalled.status, stalled.reason) == (Truth.TRUE, "CrashLoop")


@pytest.mark.parametrize("length", [100, 4000])
def test_a_failure_of_any_length_is_told_and_can_be_written(length: int) -> None:
    """The API server refuses a status with a message of more than 2,048 characters."""
    seen = committed(7)
    assert seen.latest is not None
    assert seen.latest.value is not None
    text = "step 'parse', source 'lines', offset 3: ValueError: bad\n".ljust(length, "x")
    value = replace(seen.latest.value, failure=text)
    status = decide(replace(seen, latest=replace(seen.latest, value=value))).status
    assert status is not None
    assert status.last_failure is not None
    messages = [status.last_failure.message, *(c.message for c in status.conditions)]
    assert max(map(len, messages)) <= MESSAGE_CHARS_MAX
    assert status.last_failure.message.startswith("step 'parse', source 'lines', offset 3: ")
    assert (status.last_failure.message == text) == (length == 100)


def test_a_status_of_a_newer_operator_stops_nothing_and_keeps_its_conditions() -> None:
    theirs = Condition("Flowing", Truth.TRUE, "Flows", "all of it", "2026-11-23T12:00:00Z", 1)
    seen = committed(7)
    status = replace(seen.job.status, state="Draining", conditions=(theirs,))  # type: ignore[arg-type]
    written = decide(replace(seen, job=replace(seen.job, status=status))).status
    assert written is not None
    assert written.condition("Flowing") == theirs  # type: ignore[arg-type]
    assert written.condition(ConditionType.READY) is not None
    assert written.state != "Draining"


@pytest.mark.parametrize("which", ["latest", "desired"])
def test_a_job_whose_record_is_of_a_newer_version_is_left_as_it_is(which: str) -> None:
    seen = committed(7)
    latest, wanted = seen.latest, seen.desired
    assert latest is not None
    assert wanted is not None
    problem = f"-{which} has the format 9"
    if which == "latest":
        latest = replace(latest, value=None, problem=problem, newer=True)
    else:
        wanted = replace(wanted, value=Desired(0), newer=problem)
    seen = replace(seen, latest=latest, desired=wanted)
    for _ in range(2):
        decided = decide(replace(seen, refresh=True))
        if decided.status is not None:
            seen = replace(seen, job=replace(seen.job, status=decided.status))
    assert not decided.actions
    stalled = seen.job.status.condition(ConditionType.STALLED)
    assert stalled is not None
    assert stalled.reason == "FormatNewer"
    assert f"-{which} has the format 9" in stalled.message


def test_a_newer_record_of_what_is_wanted_is_seen_as_one() -> None:
    marks: Object = {"metadata": {"name": "wc-desired", "uid": "d", "resourceVersion": "1"}}
    newer = desired_view({**marks, "data": {"record": '{"format":9,"is":"Desired"}'}})
    assert "format 9" in newer.newer
    damaged = desired_view({**marks, "data": {"record": "{"}})
    assert (damaged.newer, damaged.damaged, newer.damaged) == ("", True, False)


def test_a_damaged_record_of_what_is_wanted_is_kept_apart() -> None:
    job = committed(7).job
    labels: Plain = dict(names.labels(job.name, job.uid))
    metadata: Object = {"name": pod.desired_name(job.name), "uid": "d", "resourceVersion": "8", "labels": labels}
    damaged: Object = {"kind": "ConfigMap", "metadata": metadata, "data": {"record": "{"}}
    seen = build_observation(job, [damaged], ObservationContext(NOW_S), Versions())
    assert seen.desired is None
    assert seen.damaged_desired is not None
    assert seen.damaged_desired.version == "8"


def test_that_mutual_tls_is_off_is_a_condition_and_one_warning() -> None:
    def judged(seen: Observed) -> tuple[Observed, Truth, str, list[str]]:
        decided = decide(seen)
        status = decided.status or seen.job.status
        found = status.condition(ConditionType.SECURED)
        assert found is not None
        told = [e.message for e in decided.events if e.reason == "MutualTLSOff" and e.warning]
        return replace(seen, job=replace(seen.job, status=status)), found.status, found.reason, told

    _, truth, reason, told = judged(committed(7))
    assert (truth, reason, told) == (Truth.TRUE, "MutualTLS", [])
    seen, truth, reason, told = judged(running(spec_of(security={"mtls": False})))
    assert (truth, reason) == (Truth.FALSE, "MutualTLSOff")
    assert ["plain text" in text for text in told] == [True]
    assert judged(seen)[3] == [], "once"


def test_a_sink_that_cannot_publish_is_in_the_status_with_its_reason_and_its_time() -> None:
    seen = committed(epoch=3)
    assert seen.running is not None
    held_up = SinkStatus("out", "exactly-once", "no connection to db:5432", 1_767_225_600_000_000)
    told = replace(seen.running, sinks=(held_up, SinkStatus("other", "at-least-once", why="it says so")))
    decision = decide(replace(seen, running=told))
    assert decision.status is not None
    assert decision.status.sinks == (
        SinkSummary("out", "exactly-once", "2026-01-01T00:00:00Z", "no connection to db:5432"),
        SinkSummary("other", "at-least-once", why="it says so"),
    )


def test_a_source_that_cannot_be_listed_stalls_the_job_with_its_reason_and_its_time_until_it_is_listed() -> None:
    seen = running(spec_of())
    assert seen.latest is not None
    assert seen.latest.value is not None
    away = UnlistedSource("orders", "no broker answers: check bootstrapServers", 1_767_225_600_000_000)
    told = JobStatus("wc", OWNER.uid, JobState.STARTING, 1, unlisted=(away,))
    waits = decide(replace(seen, running=told))
    assert waits.status is not None
    assert waits.status.reason == "SourceUnavailable"
    assert waits.status.unlisted_sources == (UnlistedSourceSummary("orders", "2026-01-01T00:00:00Z", away.because),)
    stalled = waits.status.condition(ConditionType.STALLED)
    assert stalled is not None
    assert stalled.message.startswith(f"source 'orders' cannot be listed since 2026-01-01T00:00:00Z: {away.because}")
    listed = decide(replace(seen, job=replace(seen.job, status=waits.status), running=replace(told, unlisted=())))
    assert listed.status is not None
    assert (listed.status.reason, listed.status.unlisted_sources) == ("Running", ())
    over = replace(seen.latest, value=replace(seen.latest.value, stopped=True))
    stopped = decide(replace(seen, latest=over, running=told))
    assert stopped.status is not None
    assert stopped.status.unlisted_sources == ()
