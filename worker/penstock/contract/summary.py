"""The status of a job for people, made from what its parts report. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.base.values import replace
from penstock.contract.codec import ABSENT
from penstock.contract.guarantees import lowest
from penstock.contract.ids import Ordinal
from penstock.contract.latest import Deaths, Desired, Latest
from penstock.contract.schemes import given
from penstock.contract.status import (
    CheckpointStatus,
    DeathStatus,
    JobState,
    JobStatus,
    RequestAnswer,
    RestartStatus,
    SinkStatus,
    StepStatus,
    UnlistedSource,
    WorkerReport,
    WorkerStatus,
    most_pending,
)
from penstock.contract.worker_rules import is_over


@dataclass(frozen=True, slots=True)
class Seen:
    """All that a status is made from, read at one moment.

    ``keepers`` holds the process ids of the running keepers, and ``restarts`` their restarts, by
    ordinal. ``epoch_time_us`` is the time when the newest epoch was first seen committed.
    ``has_run``: all workers ran before in this run. ``trouble``: what keeps a worker from running.
    ``silent_s`` and ``listening_s`` are those of :class:`JobStatus`.
    """

    job: str
    latest: Latest
    desired: Desired
    reports: Mapping[Ordinal, WorkerReport]
    keepers: Mapping[Ordinal, int]
    restarts: Mapping[Ordinal, int]
    answers: tuple[RequestAnswer, ...]
    storage: str
    address: str
    time_us: int
    epoch_time_us: int
    has_run: bool = False
    trouble: str | None = None
    silent_s: Mapping[Ordinal, float] = field(default_factory=dict)
    listening_s: float = 0.0


def job_status(seen: Seen) -> JobStatus:
    """Describe the job."""
    latest, led = seen.latest, _of_leader(seen)
    reports = [report for _, report in sorted(seen.reports.items())]
    return JobStatus(
        job=seen.job,
        uid=latest.job_uid,
        state=job_state(seen),
        time_us=seen.time_us,
        wanted_workers=seen.desired.workers,
        term=latest.term,
        attempt=latest.attempt,
        version=latest.version,
        published_through=latest.published_through,
        workers=tuple(_worker(seen, ordinal) for ordinal in sorted(seen.keepers)),
        steps=merge_steps([r.progress.steps for r in reports if r.progress is not None]),
        checkpoint=_checkpoint(seen, reports),
        sinks=_sinks(reports),
        answers=seen.answers,
        failure=_ended_by(seen) or seen.trouble or _trouble(seen),
        address=seen.address,
        listening_s=seen.listening_s,
        inputs=next((r.progress.inputs for r in reports if r.progress and r.progress.inputs), ()),
        failed_checkpoints=0 if led is None else led.failed_checkpoints,
        restarts=_restarts(latest.deaths) if latest.deaths.run == seen.desired.run else None,
        unread="" if led is None else led.unread,
        uncommitted_s=None if led is None else led.uncommitted_s,
        checkpoint_interval_s=0.0 if led is None else led.checkpoint_interval_s,
        splits=most_pending(split for r in reports if r.progress is not None for split in r.progress.splits),
        lost_rows=() if latest.lost_rows is ABSENT else latest.lost_rows,
        schemes=given(latest.schemes),
        balance=None if latest.balance is ABSENT else latest.balance,
        unlisted=() if is_over(latest, seen.desired) else _unlisted(reports),
    )


def _unlisted(reports: Sequence[WorkerReport]) -> tuple[UnlistedSource, ...]:
    return next((r.progress.unlisted for r in reports if r.progress and r.progress.unlisted), ())


def _sinks(reports: Sequence[WorkerReport]) -> tuple[SinkStatus, ...]:
    """Return each sink as the worker says that has been held up there for longest, with the lowest guarantee."""
    found: dict[str, SinkStatus] = {}
    for sink in (s for r in reports if r.progress is not None for s in r.progress.sinks):
        before = found.setdefault(sink.name, sink)
        held_up, lower = before, before
        if sink.since_us is not None and (before.since_us is None or sink.since_us < before.since_us):
            held_up = sink
        if lowest((before.guarantee, sink.guarantee)) != before.guarantee:
            lower = sink
        full_s = max((s for s in (before.full_s, sink.full_s) if s is not None), default=None)
        found[sink.name] = replace(held_up, guarantee=lower.guarantee, why=lower.why, full_s=full_s)
    return tuple(found.values())


def job_state(seen: Seen) -> JobState:
    """Return the state of the job."""
    latest, desired = seen.latest, seen.desired
    if is_over(latest, desired):
        if latest.failure is not None:
            return JobState.FAILED
        return JobState.FINISHED if latest.finished else JobState.STOPPED
    if any(request.kind == "stop" for request in desired.requests):
        return JobState.STOPPING
    if not seen.keepers:
        return JobState.PENDING
    if latest.run != desired.run or latest.attempt == 0 or latest.settled == 0:
        return JobState.STARTING
    if not _all_run(seen):
        return JobState.RESTARTING if seen.has_run else JobState.STARTING
    if latest.workers != desired.workers or latest.settled != latest.version:
        return JobState.RESCALING
    return JobState.RUNNING


def _all_run(seen: Seen) -> bool:
    # A worker that joins has no attempt yet. It does not count until the rescale is settled.
    fine = {seen.latest.attempt, *((0,) if seen.latest.settled != seen.latest.version else ())}
    attempts = [
        report.progress.attempt
        for ordinal in range(seen.latest.workers)
        if (report := seen.reports.get(Ordinal(ordinal))) is not None
        and report.progress is not None
        and report.engine_pid is not None
    ]
    return len(attempts) == seen.latest.workers and set(attempts) <= fine


def _of_leader(seen: Seen) -> WorkerReport | None:
    leader = seen.latest.leader
    return None if leader is None else seen.reports.get(leader.ordinal)


def _ended_by(seen: Seen) -> str | None:
    """Return what ended or stalls this run. What ended an earlier run does not count."""
    latest = seen.latest
    return latest.failure or latest.stalled if latest.run == seen.desired.run else None


def _trouble(seen: Seen) -> str | None:
    if is_over(seen.latest, seen.desired):
        return None
    for ordinal, report in sorted(seen.reports.items()):
        if report.unready is not None:
            return f"worker {ordinal} does not get ready, {report.engine_restarts + 1} engines so far: {report.unready}"
    leader = _of_leader(seen)
    return None if leader is None else leader.trouble


def _restarts(deaths: Deaths) -> RestartStatus | None:
    if not deaths.newest:
        return None
    newest = tuple(DeathStatus(d.ordinal, d.number, d.count, d.reason) for d in deaths.newest)
    return RestartStatus(deaths.count, deaths.attempts, deaths.window_s, newest)


def _worker(seen: Seen, ordinal: Ordinal) -> WorkerStatus:
    report = seen.reports.get(ordinal)
    engine_pid = None if report is None else report.engine_pid
    leader = seen.latest.leader
    leads = leader is not None and report is not None and leader.incarnation == report.keeper_life
    engine_restarts = 0 if report is None else report.engine_restarts
    return WorkerStatus(
        ordinal,
        "starting" if engine_pid is None else "up",
        seen.keepers.get(ordinal),
        engine_pid,
        leads,
        seen.restarts.get(ordinal, 0) + engine_restarts,
        "" if report is None else report.metrics,
        pod="" if report is None else report.pod,
        incarnation="" if report is None else report.incarnation,
        silent_s=round(seen.silent_s.get(ordinal, 0.0), 1),
    )


def merge_steps(engines: Iterable[Sequence[StepStatus]]) -> tuple[StepStatus, ...]:
    """Add up each step over the engines, in the order in which the steps first appear."""
    merged: dict[str, StepStatus] = {}
    for steps in engines:
        for step in steps:
            known = merged.get(step.name)
            merged[step.name] = step if known is None else _merge(known, step)
    return tuple(merged.values())


def _merge(one: StepStatus, two: StepStatus) -> StepStatus:
    tasks = one.tasks + two.tasks
    longest = max(one, two, key=lambda step: -1.0 if step.waits_s is None else step.waits_s)
    marks = [m for m in (one.watermark_us, two.watermark_us) if m is not None]
    share = (one.tasks / tasks, two.tasks / tasks) if tasks else (0.5, 0.5)
    return replace(
        one,
        tasks=tasks,
        rows_in=one.rows_in + two.rows_in,
        rows_out=one.rows_out + two.rows_out,
        late_rows=one.late_rows + two.late_rows,
        dead_rows=one.dead_rows + two.dead_rows,
        untimed_rows=one.untimed_rows + two.untimed_rows,
        shed_rows=one.shed_rows + two.shed_rows,
        busy=one.busy * share[0] + two.busy * share[1],
        blocked=one.blocked * share[0] + two.blocked * share[1],
        blocked_s=one.blocked_s + two.blocked_s,
        busy_s=one.busy_s + two.busy_s,
        idle_s=one.idle_s + two.idle_s,
        queue_bytes=one.queue_bytes + two.queue_bytes,
        state_keys=one.state_keys + two.state_keys,
        watermark_us=min(marks, default=None),
        waits_s=longest.waits_s,
        because=longest.because,
        splits=one.splits + two.splits,
        pending_rows=_added(one.splits, one.pending_rows, two.splits, two.pending_rows),
        pending_bytes=_added(one.splits, one.pending_bytes, two.splits, two.pending_bytes),
    )


def _added(splits: int, pending: int | None, others: int, more: int | None) -> int | None:
    """Add what two engines have left to read; None if one of them has splits and does not know."""
    known = [count for number, count in ((splits, pending), (others, more)) if number]
    return None if not known or None in known else sum(count for count in known if count is not None)


def _checkpoint(seen: Seen, reports: Sequence[WorkerReport]) -> CheckpointStatus | None:
    latest = seen.latest
    if latest.root is None:
        return None
    done = [r.checkpoint for r in reports if r.checkpoint and r.checkpoint.epoch == latest.epoch]
    return CheckpointStatus(
        epoch=latest.epoch,
        time_us=seen.epoch_time_us,
        bytes=done[0].bytes if done else 0,
        duration_s=done[0].duration_s if done else 0.0,
        path=f"{seen.storage}/{latest.root.name}",
    )
