"""StreamSnapshots of a job: which are asked of the leader, and what became of them.

::

    Pending ── asked ──> InProgress ── answered ──> Completed | (again) | Failed

The request goes only after the status that records its answer was seen: an answer is never lost.
"""

from dataclasses import dataclass, replace

from penstock.base.errors import ConfigError
from penstock.contract.latest import Answer, Desired, Latest, Request
from penstock.contract.streamjob import API_VERSION
from penstock.contract.streamjob_status import Condition, Truth
from penstock.contract.streamsnapshot import (
    KIND,
    SnapshotSpec,
    SnapshotState,
    SnapshotStatus,
    SnapshotType,
)
from penstock.contract.streamsnapshot_fields import read_stream_snapshot
from penstock_operator.api.observed import Observed, SnapshotView
from penstock_operator.api.times import seconds, stamp
from penstock_operator.reconcile.decision import Draft, WriteSnapshotStatus

ENDED = (SnapshotState.COMPLETED, SnapshotState.FAILED)
PREFIX = "snap-"
READY = "Ready"


@dataclass(frozen=True, slots=True)
class Asked:
    """One snapshot with its spec, and the request that stands for it now."""

    view: SnapshotView
    spec: SnapshotSpec
    request: Request


def requests(seen: Observed) -> tuple[Request, ...]:
    """List what is to be asked of the leader, oldest first."""
    return tuple(asked.request for asked in _asked(seen))


def asked_uids(desired: Desired) -> set[str]:
    """Return the uids of the StreamSnapshots that something is asked for."""
    ids = [r.id.removeprefix(PREFIX) for r in desired.requests if r.id.startswith(PREFIX)]
    return {found.rpartition("-")[0] for found in ids}


def decide_snapshots(seen: Observed, draft: Draft, trouble: str) -> None:
    """Bring the status of every snapshot up to date; ``trouble`` says why none can be taken."""
    waiting = {asked.view.uid: asked for asked in _asked(seen)}
    for view in seen.snapshots:
        if view.deleting_since is not None or view.status.state in ENDED:
            continue
        asked = waiting.get(view.uid)
        if asked is None:
            continue
        status = _status(seen, asked, trouble)
        status = replace(status, conditions=judged(view, status, seen.now))
        if status != view.status:
            draft.do(WriteSnapshotStatus(view.name, status, view.version))
            tell(draft, view, status)
        if status.state not in ENDED:
            due = seconds(status.started) + asked.spec.deadline_s
            draft.again(due - seen.now)


def _asked(seen: Observed) -> list[Asked]:
    found = []
    for view in sorted(seen.snapshots, key=lambda s: (s.created, s.name)):
        spec = snapshot_spec(seen.job.namespace, view)
        mine = spec is not None and spec.job_ref == seen.job.name
        if spec is None or not mine or view.deleting_since is not None:
            continue
        if view.status.state not in ENDED:
            found.append(Asked(view, spec, _request(view, spec)))
    return found


def snapshot_spec(namespace: str, view: SnapshotView) -> SnapshotSpec | None:
    """Read what a StreamSnapshot asks for; None when it is of another version than ours."""
    try:
        return read_stream_snapshot(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {"name": view.name, "namespace": namespace},
                "spec": view.spec,
            }
        ).spec
    except ConfigError:
        return None


def _request(view: SnapshotView, spec: SnapshotSpec) -> Request:
    """Name the request after the snapshot and its failures so far: a new try is a new request."""
    request = f"{PREFIX}{view.uid}-{view.status.failures}"
    if spec.type is SnapshotType.CHECKPOINT:
        return Request(request, "checkpoint")
    return Request(request, "savepoint", savepoint_name(view))


def savepoint_name(view: SnapshotView) -> str:
    """Name the folder of a snapshot's savepoint, among all that any job of this name ever took."""
    return f"{view.name[:40]}-{view.uid[:8]}"


def _status(seen: Observed, asked: Asked, trouble: str) -> SnapshotStatus:
    old = asked.view.status
    started = old.started or stamp(seen.now)
    base = replace(old, observed_generation=asked.view.generation, started=started)
    latest = seen.latest.value if seen.latest is not None else None
    answer = _answer(latest, asked.request)
    if latest is not None and answer is not None:
        return _answered(seen, asked, base, (latest, answer))
    if seen.now > seconds(started) + asked.spec.deadline_s:
        text = f"not taken within {asked.spec.deadline_s:g} s" + (f": {trouble}" if trouble else "")
        return replace(base, state=SnapshotState.FAILED, message=text)
    base = replace(base, epoch=_epoch_under_way(latest, asked.request) or old.epoch)
    sent = seen.desired is not None and asked.request in seen.desired.value.requests
    state = SnapshotState.IN_PROGRESS if sent and not trouble else SnapshotState.PENDING
    return replace(base, state=state, message=trouble or old.message)


def _answer(latest: Latest | None, request: Request) -> Answer | None:
    answers = () if latest is None else latest.answers
    return next((a for a in answers if a.request == request.id), None)


def _epoch_under_way(latest: Latest | None, request: Request) -> int | None:
    """Return the epoch that is being copied for a savepoint; None before and after that."""
    retained = () if latest is None else latest.retained
    return next((int(r.epoch) for r in retained if r.savepoint == request.id), None)


def _answered(
    seen: Observed, asked: Asked, base: SnapshotStatus, heard: tuple[Latest, Answer]
) -> SnapshotStatus:
    latest, answer = heard
    if answer.ok:
        savepoint = asked.spec.type is SnapshotType.SAVEPOINT
        return replace(
            base,
            state=SnapshotState.COMPLETED,
            path=answer.text if savepoint else None,
            epoch=base.epoch or int(latest.epoch),
            completed=stamp(seen.now),
            message="" if savepoint else answer.text,
            job_uid=seen.job.uid,
        )
    failures = base.failures + 1
    state = SnapshotState.FAILED if failures > asked.spec.retries else SnapshotState.PENDING
    return replace(base, state=state, failures=failures, message=answer.text)


def judged(
    view: SnapshotView, status: SnapshotStatus, now: float, reason: str = ""
) -> tuple[Condition, ...]:
    """Return the conditions: ours, and those of another version, which stay."""
    others = (c for c in view.status.conditions if c.type != READY)
    return (ready(view, status, now, reason), *others)


def ready(view: SnapshotView, status: SnapshotStatus, now: float, reason: str = "") -> Condition:
    """Judge whether a job can be restored from it; without a ``reason`` it is the state."""
    truth = Truth.TRUE if status.state is SnapshotState.COMPLETED else Truth.FALSE
    old = next((c for c in view.status.conditions if c.type == READY), None)
    since = old.last_transition_time if old is not None and old.status is truth else stamp(now)
    why = reason or str(status.state)
    return Condition(READY, truth, why, status.message, since, view.generation)


def tell(draft: Draft, view: SnapshotView, status: SnapshotStatus) -> None:
    """Post an event when a snapshot has ended."""
    if status.state is SnapshotState.COMPLETED:
        draft.tell("SnapshotCompleted", status.path or "done", snapshot=view.name)
    elif status.state is SnapshotState.FAILED:
        draft.tell("SnapshotFailed", status.message, warning=True, snapshot=view.name)
