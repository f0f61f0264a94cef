"""StreamSnapshots: requested ones, imported ones, periodic ones, and their disposal.

A **requested** snapshot is taken by the job's leader::

    Pending ── asked ──> InProgress ── answered ──> Completed | Pending (another try) | Failed

The request is removed only after a status with its answer was seen, so no answer is lost.

An **imported** snapshot names files that exist already. It is complete when a pod has seen them::

    Pending ── a StreamJob has the claim ──> InProgress ── its pod has looked ──> Completed | Failed
       └── the path is outside the namespace's folders ──────────────────────────> Failed

The operator mounts no volume. The job with this folder does, and so does a job that restores from
it. A Kubernetes Job with its claim and image looks at the files (``resources.jobs``).

A **periodic** snapshot is a savepoint by ``spec.snapshots``::

    period due ── job runs, none under way ──> StreamSnapshot ──> Completed ── newer ones ──> deleted
        └── missed ──> only the newest period           └──> Failed ── a newer one is Completed ──> deleted

A period is a multiple of ``every`` since 1970, shifted by the job's uid: not all jobs of a cluster
take savepoints at once. The snapshot has its name from the period, so two operators create only
one. Only snapshots with the label of this job are deleted. To keep one, remove its label.

A deleted snapshot with ``disposeOnDelete`` takes its files with it::

    our finalizer ── deleted ──> a Job removes the files ──> the object is deleted
                        └── no job is left, or the deadline has passed ──> the files stay
"""

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract import pod
from penstock.contract.codec import ABSENT
from penstock.contract.latest import Answer, Desired, Latest, Request
from penstock.contract.schema import API_VERSION
from penstock.contract.settings import PeriodicSnapshots
from penstock.contract.streamjob_status import (
    Condition,
    PeriodicStatus,
    Reason,
    StreamJobStatus,
    Truth,
)
from penstock.contract.streamsnapshot import (
    KIND,
    SnapshotSpec,
    SnapshotState,
    SnapshotStatus,
    SnapshotType,
    read_stream_snapshot,
)
from penstock_operator.api import names
from penstock_operator.api.folders import Folder, folder_at
from penstock_operator.api.observed import ChildKey, JobView, Observed, SnapshotView
from penstock_operator.api.plain import Object, name_stamp, seconds, stamp, text_at
from penstock_operator.reconcile.accept import requested_target
from penstock_operator.reconcile.actions import (
    Create,
    Decision,
    DecisionBuilder,
    Delete,
    SetFinalizer,
    WriteSnapshotStatus,
)
from penstock_operator.reconcile.lifecycle import JobPhase, Lifecycle
from penstock_operator.resources.jobs import disposal_job, look_job
from penstock_operator.resources.target import Owner, Target

ENDED = (SnapshotState.COMPLETED, SnapshotState.FAILED)
PREFIX = "snap-"
READY = "Ready"
NOT_LOOKED_AT = "NotLookedAt"
REASONS = (pod.PATH_NOT_FOUND, pod.PATH_OUTSIDE, pod.PATH_UNREADABLE)
IMPORTED = "names files that exist already"
LATE_S = 30.0  # so long after its deadline a Job has ended, and the watch has reported it


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """One requested snapshot with its spec and its current request."""

    view: SnapshotView
    spec: SnapshotSpec
    request: Request


def snapshot_requests(seen: Observed) -> tuple[Request, ...]:
    """List the requests for the leader, the oldest first."""
    return tuple(asked.request for asked in _requested(seen))


def requested_snapshot_uids(desired: Desired) -> set[str]:
    """Return the uids of the StreamSnapshots that ``-desired`` has requests for."""
    ids = [r.id.removeprefix(PREFIX) for r in desired.requests if r.id.startswith(PREFIX)]
    return {found.rpartition("-")[0] for found in ids}


def reconcile_requested(seen: Observed, builder: DecisionBuilder, problem: str) -> None:
    """Update the status of each requested snapshot; ``problem`` says why none can be taken."""
    waiting = {asked.view.uid: asked for asked in _requested(seen)}
    for view in seen.snapshots:
        if view.deleting_since is not None or view.status.state in ENDED:
            continue
        asked = waiting.get(view.uid)
        if asked is None:
            continue
        status = _status(seen, asked, problem)
        status = replace(status, conditions=snapshot_conditions(view, status, seen.now))
        if status != view.status:
            builder.do(WriteSnapshotStatus(view.name, status, view.version))
            _tell_end(builder, view, status)
        if status.state not in ENDED:
            due = seconds(status.started) + asked.spec.deadline_s
            builder.again(due - seen.now)


def why_no_snapshot(latest: Latest | None, lifecycle: Lifecycle) -> str:
    """Say why no snapshot can be taken now; empty when one can."""
    if latest is None:
        return "the job has no metadata yet"
    if latest.finished:
        return "the job has finished"
    if latest.failure is not None:
        return "the job has failed"
    return "" if lifecycle.phase is JobPhase.RUN else "the job does not run"


def _requested(seen: Observed) -> list[SnapshotRequest]:
    found = []
    for view in sorted(seen.snapshots, key=lambda s: (s.created, s.name)):
        spec = snapshot_spec(seen.job.namespace, view)
        mine = spec is not None and spec.job_ref == seen.job.name
        if spec is None or not mine or view.deleting_since is not None:
            continue
        if view.status.state not in ENDED:
            found.append(SnapshotRequest(view, spec, _request(view, spec)))
    return found


def snapshot_spec(namespace: str, view: SnapshotView) -> SnapshotSpec | None:
    """Read the spec of a StreamSnapshot; None when it was written for another version."""
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
    """Name the request by the snapshot and its failures so far: a new try is a new request."""
    request = f"{PREFIX}{view.uid}-{view.status.failures}"
    if spec.type is SnapshotType.CHECKPOINT:
        return Request(request, "checkpoint")
    return Request(request, "savepoint", savepoint_name(view))


def savepoint_name(view: SnapshotView) -> str:
    """Name the folder of a savepoint. No other savepoint of any job has this name."""
    return f"{view.name[:40]}-{view.uid[:8]}"


def _status(seen: Observed, asked: SnapshotRequest, problem: str) -> SnapshotStatus:
    old = asked.view.status
    started = old.started or stamp(seen.now)
    base = replace(old, observed_generation=asked.view.generation, started=started)
    latest = seen.latest.value if seen.latest is not None else None
    answer = _answer(latest, asked.request)
    if answer is not None:
        return _answered(seen, asked, base, answer)
    if seen.now > seconds(started) + asked.spec.deadline_s:
        text = f"not taken within {asked.spec.deadline_s:g} s" + (f": {problem}" if problem else "")
        return replace(base, state=SnapshotState.FAILED, message=text)
    base = replace(base, epoch=_epoch_under_way(latest, asked.request) or old.epoch)
    sent = seen.desired is not None and asked.request in seen.desired.value.requests
    state = SnapshotState.IN_PROGRESS if sent and not problem else SnapshotState.PENDING
    return replace(base, state=state, message=problem or old.message)


def _answer(latest: Latest | None, request: Request) -> Answer | None:
    answers = () if latest is None else latest.answers
    return next((a for a in answers if a.request == request.id), None)


def _epoch_under_way(latest: Latest | None, request: Request) -> int | None:
    """Return the epoch that is being copied for a savepoint; None before and after the copy."""
    retained = () if latest is None else latest.retained
    return next((int(r.epoch) for r in retained if r.savepoint == request.id), None)


def _answered(seen: Observed, asked: SnapshotRequest, base: SnapshotStatus, answer: Answer) -> SnapshotStatus:
    if answer.ok:
        savepoint = asked.spec.type is SnapshotType.SAVEPOINT
        return replace(
            base,
            state=SnapshotState.COMPLETED,
            path=answer.text if savepoint else None,
            epoch=base.epoch if answer.epoch is ABSENT else int(answer.epoch),
            completed=stamp(seen.now),
            message="" if savepoint else answer.text,
            job_uid=seen.job.uid,
        )
    failures = base.failures + 1
    state = SnapshotState.FAILED if failures > asked.spec.retries else SnapshotState.PENDING
    return replace(base, state=state, failures=failures, message=answer.text)


def snapshot_conditions(
    view: SnapshotView, status: SnapshotStatus, now: float, reason: str = ""
) -> tuple[Condition, ...]:
    """Return our condition, and the conditions that another version wrote, unchanged."""
    others = (c for c in view.status.conditions if c.type != READY)
    return (_ready_condition(view, status, now, reason), *others)


def _ready_condition(view: SnapshotView, status: SnapshotStatus, now: float, reason: str = "") -> Condition:
    """Say whether the snapshot is complete; the default reason is the state."""
    truth = Truth.TRUE if status.state is SnapshotState.COMPLETED else Truth.FALSE
    old = next((c for c in view.status.conditions if c.type == READY), None)
    since = old.last_transition_time if old is not None and old.status is truth else stamp(now)
    why = reason or str(status.state)
    return Condition(READY, truth, why, status.message, since, view.generation)


def _tell_end(builder: DecisionBuilder, view: SnapshotView, status: SnapshotStatus) -> None:
    """Add an event when a snapshot has completed or failed."""
    if status.state is SnapshotState.COMPLETED:
        builder.tell("SnapshotCompleted", status.path or "done", snapshot=view.name)
    elif status.state is SnapshotState.FAILED:
        builder.tell("SnapshotFailed", status.message, warning=True, snapshot=view.name)


def reconcile_imported(seen: Observed, builder: DecisionBuilder, *, orphans: bool = False) -> None:
    """Check the files of the imported snapshots that this job can look at.

    ``orphans``: the StreamJob does not exist, so nobody can look.
    """
    for view in seen.snapshots:
        spec = snapshot_spec(seen.job.namespace, view)
        if spec is None or spec.path is None or not _is_open(view):
            continue
        status, reason = _imported_status(seen, (view, spec), builder, orphans=orphans)
        conditions = snapshot_conditions(view, status, seen.now, reason)
        status = replace(status, conditions=conditions, observed_generation=view.generation)
        if status != view.status:
            builder.do(WriteSnapshotStatus(view.name, status, view.version))
            _tell_end(builder, view, status)


def _is_open(view: SnapshotView) -> bool:
    return view.deleting_since is None and view.status.state not in ENDED


def _imported_status(
    seen: Observed,
    what: tuple[SnapshotView, SnapshotSpec],
    builder: DecisionBuilder,
    *,
    orphans: bool,
) -> tuple[SnapshotStatus, str]:
    """Return the new status and the reason of its condition (empty: the state is the reason)."""
    view, spec = what
    assert spec.path is not None, "the caller has looked"
    folder = folder_at(seen.job.namespace, spec.path)
    if folder is None:
        text = (
            f"spec.path {spec.path!r} is outside the namespace's folders: expected "
            f"{seen.job.namespace}/JOB/savepoints/NAME on the claim of the checkpoints"
        )
        return replace(view.status, state=SnapshotState.FAILED, message=text), pod.PATH_OUTSIDE
    if orphans or not _can_look(seen, view, folder):
        return _waits_for_job(seen, view, spec, folder, builder)
    return _status_of_look(seen, view, spec, folder, builder)


def _can_look(seen: Observed, view: SnapshotView, folder: Folder) -> bool:
    wanted = text_at(seen.job.spec, "restore", "snapshotRef")
    return seen.job.deleting_since is None and (folder.job == seen.job.name or wanted == view.name)


def _waits_for_job(
    seen: Observed, view: SnapshotView, spec: SnapshotSpec, folder: Folder, builder: DecisionBuilder
) -> tuple[SnapshotStatus, str]:
    """Return the status while no job can look. A job that began to look is awaited."""
    if view.status.state is SnapshotState.IN_PROGRESS:
        left = seconds(view.status.started) + spec.deadline_s + LATE_S - seen.now
        if left > 0:
            builder.again(left)
            return view.status, ""
    text = (
        f"nobody has looked at the files yet: StreamJob {folder.job} does not exist; they are "
        "looked at when it does, or when another StreamJob of the namespace restores from them"
    )
    return replace(view.status, state=SnapshotState.PENDING, message=text), NOT_LOOKED_AT


def _status_of_look(
    seen: Observed, view: SnapshotView, spec: SnapshotSpec, folder: Folder, builder: DecisionBuilder
) -> tuple[SnapshotStatus, str]:
    name = names.look_name(seen.job.name, view.uid)
    target = requested_target(seen)
    started = view.status.started or stamp(seen.now)
    base = replace(view.status, started=started, state=SnapshotState.IN_PROGRESS, message="")
    ended = seen.purges.get(name)
    if ended:
        done = replace(base, state=SnapshotState.COMPLETED, path=spec.path, message=IMPORTED)
        return replace(done, completed=stamp(seen.now)), ""
    late = seen.now > seconds(started) + spec.deadline_s + LATE_S
    if ended is False or late:
        reason, text = _failure_of_look(seen.termination_messages.get(name, ""), name)
        advice = "; after the repair create the StreamSnapshot again"
        return replace(base, state=SnapshotState.FAILED, message=text + advice), reason
    if target is None:
        text = f"nobody has looked at the files yet: the spec of StreamJob {seen.job.name} is wrong"
        return replace(view.status, state=SnapshotState.PENDING, message=text), NOT_LOOKED_AT
    if ChildKey("Job", name) not in seen.children:
        builder.do(Create(look_job(target, folder, view.uid, spec.deadline_s)))
    builder.again(seconds(started) + spec.deadline_s + LATE_S - seen.now)
    return base, ""


def _failure_of_look(words: str, name: str) -> tuple[str, str]:
    """Return the reason and the text from the termination message of the pod that has looked."""
    reason, _, text = words.partition(": ")
    if reason in REASONS:
        return reason, text
    detail = f" ({words})" if words else ""
    return NOT_LOOKED_AT, f"no pod could look at the files{detail}: kubectl describe job {name}"


def period_of(now: float, every_s: float, uid: str) -> float:
    """Return the start of the newest period, in whole seconds since 1970."""
    shift = int(hashlib.sha256(uid.encode()).hexdigest()[:8], 16) % every_s
    return float(math.floor(math.floor((now - shift) / every_s) * every_s + shift))


def periodic_name(job: str, period: float) -> str:
    """Name the StreamSnapshot of a period."""
    return f"{job}-{name_stamp(period)}"


def periodic_snapshots(seen: Observed) -> list[SnapshotView]:
    """List the periodic snapshots of this job, the newest first."""
    own = (v for v in seen.snapshots if v.periodic_of == seen.job.uid)
    return sorted(own, key=lambda v: (v.due, v.created, v.name), reverse=True)


def reconcile_periodic(
    seen: Observed,
    target: Target | None,
    status: StreamJobStatus,
    builder: DecisionBuilder,
    *,
    runs: bool,
) -> StreamJobStatus:
    """Create the snapshot that is due, and delete those beyond the retention.

    ``runs``: the leader can take one now. Returns the status with the newest period.
    """
    wanted = None if target is None else target.spec.snapshots
    if target is None or seen.job.deleting_since is not None:
        return status
    if wanted is None:
        return replace(status, snapshots=None)
    own = periodic_snapshots(seen)
    _delete_beyond_retention(seen, own, wanted, builder)
    period = period_of(seen.now, wanted.every_s, seen.job.uid)
    known = seconds(status.snapshots.time) if status.snapshots is not None else 0.0
    last = max([known, *(view.due for view in own)])
    builder.again(period + wanted.every_s - seen.now)
    if period <= max(last, seen.job.created) or not runs or _is_under_way(own):
        return status
    made = snapshot_object(target.owner, period)
    builder.do(Create(made))
    if seen.refusal is not None:
        return status  # a status is also written when this was not created, or a write before it was refused
    return replace(status, snapshots=PeriodicStatus(stamp(period), periodic_name(seen.job.name, period)))


def periodic_condition(seen: Observed, wanted: PeriodicSnapshots) -> tuple[Truth, Reason, str]:
    """Return the condition SnapshotsTaken: how the newest periodic snapshot ended."""
    ended = [v for v in periodic_snapshots(seen) if v.status.state in ENDED]
    if not ended:
        return Truth.UNKNOWN, Reason.NONE_YET, "no periodic savepoint yet"
    newest = ended[0]
    if newest.status.state == SnapshotState.COMPLETED:
        return Truth.TRUE, Reason.COMPLETED, f"StreamSnapshot {newest.name}"
    done = next((v for v in ended if v.status.state == SnapshotState.COMPLETED), None)
    before = "none is complete" if done is None else f"the newest complete one is {done.name}"
    text = f"StreamSnapshot {newest.name}: {newest.status.message}; {before}"
    return (
        Truth.FALSE,
        Reason.SNAPSHOT_FAILED,
        f"{text}; the next follows within {wanted.every_s:g} s",
    )


def snapshot_object(owner: Owner, period: float) -> Object:
    """Build the StreamSnapshot of a period. It has no owner, because savepoints outlive the job."""
    metadata: Object = {
        "name": periodic_name(owner.name, period),
        "namespace": owner.namespace,
        "labels": {names.LABEL_PERIODIC: owner.uid, **names.snapshot_labels(owner.uid)},
        "annotations": {names.ANNOTATION_DUE: str(int(period))},
    }
    spec: Object = {
        "jobRef": owner.name,
        "type": str(SnapshotType.SAVEPOINT),
        "disposeOnDelete": True,
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def imported_paths(views: Iterable[SnapshotView]) -> frozenset[str]:
    """Return the folders that imported snapshots name. Somebody may restore from them by that snapshot's name."""
    return frozenset(filter(None, (text_at(v.spec, "path") for v in views if v.deleting_since is None)))


def is_used(view: SnapshotView, wanted: frozenset[str]) -> bool:
    """Say whether one of these names and paths refers to the snapshot."""
    folder = f"/{savepoint_name(view)}"
    return view.name in wanted or any(path.rstrip("/").endswith(folder) for path in wanted)


def _is_under_way(own: list[SnapshotView]) -> bool:
    return any(v.deleting_since is None and v.status.state not in ENDED for v in own)


def _delete_beyond_retention(
    seen: Observed, own: list[SnapshotView], wanted: PeriodicSnapshots, builder: DecisionBuilder
) -> None:
    kept = [v for v in own if v.deleting_since is None]
    done = [v for v in kept if v.status.state == SnapshotState.COMPLETED]
    newest = done[0].due if done else math.inf
    used = seen.restored_from | imported_paths(seen.snapshots)
    failed = [v for v in kept if v.status.state == SnapshotState.FAILED and v.due < newest]
    for view in [*done[wanted.keep :], *(failed if done else [])]:
        if not is_used(view, used):
            builder.do(Delete(KIND, view.name, view.uid))


def may_exceed_retention(job: JobView, snapshots: int) -> bool:
    """Return whether retention may delete snapshots. Then the caller must know which jobs restore from them."""
    spec = job.spec.get("snapshots") if isinstance(job.spec, dict) else None
    return isinstance(spec, dict) and snapshots > 1


def reconcile_disposal(seen: Observed, target: Target | None, builder: DecisionBuilder) -> None:
    """Keep the finalizer on snapshots with ``disposeOnDelete``, and remove files of deleted ones."""
    for view in seen.snapshots:
        spec = snapshot_spec(seen.job.namespace, view)
        if spec is None or spec.job_ref != seen.job.name:
            continue
        held = names.FINALIZER in view.finalizers
        if view.deleting_since is None:
            if held != spec.dispose_on_delete:
                _set_finalizer(view, builder, present=spec.dispose_on_delete)
        elif held and _is_disposed(seen, target, (view, spec), builder):
            _set_finalizer(view, builder, present=False)


def _is_disposed(
    seen: Observed,
    target: Target | None,
    what: tuple[SnapshotView, SnapshotSpec],
    builder: DecisionBuilder,
) -> bool:
    """Say whether the object may be deleted. Starts the removal of its files if needed."""
    view, spec = what
    name = names.purge_name(seen.job.name, view.uid)
    if not spec.dispose_on_delete or not _was_begun(view) or seen.purges.get(name):
        return True
    if seen.namespace_ends:
        return True  # a namespace that ends takes no new Job, and its claim is deleted with it
    due = (view.deleting_since or seen.now) + spec.deadline_s
    if target is None or seen.now >= due:
        _tell_files_left(view, builder)
        return True
    if ChildKey("Job", name) not in seen.children and not _is_copied(seen, view):
        builder.do(Create(disposal_job(target, savepoint_name(view), view.uid)))
    builder.again(due - seen.now)
    return False


def _was_begun(view: SnapshotView) -> bool:
    """Say whether the savepoint was ever begun: otherwise it has no files."""
    return bool(view.status.started)


def _is_copied(seen: Observed, view: SnapshotView) -> bool:
    """Say whether the leader still copies files for it. It stops when the request is gone."""
    latest = seen.latest.value if seen.latest is not None else None
    asked = f"{PREFIX}{view.uid}-"
    retained = () if latest is None else latest.retained
    return any((kept.savepoint or "").startswith(asked) for kept in retained)


def decide_orphans(seen: Observed) -> Decision:
    """Decide about snapshots whose StreamJob does not exist, and imported ones without a job.

    ``seen.job`` has only a name, which is empty for the latter.
    """
    builder = DecisionBuilder()
    for view in seen.snapshots:
        if _is_orphan_held(view):
            if _was_begun(view):
                _tell_files_left(view, builder)
            _set_finalizer(view, builder, present=False)
        elif view.deleting_since is None and view.status.state not in ENDED:
            _judge_orphan(seen, view, builder)
    reconcile_imported(seen, builder, orphans=True)
    return Decision(tuple(builder.actions), events=tuple(builder.events), again_s=builder.again_s)


def _is_orphan_held(view: SnapshotView) -> bool:
    """Say whether only our finalizer keeps it: without a job no Job can remove its files."""
    return view.deleting_since is not None and names.FINALIZER in view.finalizers


def _judge_orphan(seen: Observed, view: SnapshotView, builder: DecisionBuilder) -> None:
    spec = snapshot_spec(seen.job.namespace, view)
    if spec is None or spec.path is not None:
        return  # written for a newer version; or imported, see reconcile_imported
    status = _orphan_status(seen, (view, spec), builder)
    status = replace(status, conditions=snapshot_conditions(view, status, seen.now))
    if status != view.status:
        builder.do(WriteSnapshotStatus(view.name, status, view.version))


def _orphan_status(seen: Observed, what: tuple[SnapshotView, SnapshotSpec], builder: DecisionBuilder) -> SnapshotStatus:
    """Wait until the deadline for the StreamJob: a user may apply the snapshot before its job."""
    view, spec = what
    started = view.status.started or stamp(seen.now)
    left = seconds(started) + spec.deadline_s - seen.now
    state = SnapshotState.PENDING if left > 0 else SnapshotState.FAILED
    if left > 0:
        builder.again(left)
    text = f"StreamJob {spec.job_ref} does not exist"
    return replace(
        view.status,
        observed_generation=view.generation,
        started=started,
        state=state,
        message=text if left > 0 else f"not taken within {spec.deadline_s:g} s: {text}",
    )


def _set_finalizer(view: SnapshotView, builder: DecisionBuilder, *, present: bool) -> None:
    builder.do(SetFinalizer(present, view.name, view.version))


def _tell_files_left(view: SnapshotView, builder: DecisionBuilder) -> None:
    text = f"files stay: {view.status.path or 'those of an unfinished savepoint'}"
    builder.tell("DisposalFailed", text, warning=True, snapshot=view.name)
