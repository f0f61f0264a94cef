"""Savepoints by the clock (``spec.snapshots``): when one is due, which go, what is said of them.

::

    period due ──job runs, none under way──> StreamSnapshot ──> Completed ──newer ones──> gone
        └──missed──> the newest period only          └──> Failed ──a newer one Completed──> gone

A period is a multiple of ``every`` since 1970, shifted by the job's uid, so that not all jobs of a
cluster save at once. Its snapshot is named after it: two operators make one. Only what has the
label of this very job is ever removed. Whoever wants to keep one takes the label away.
"""

import hashlib
import math
from dataclasses import replace

from penstock.contract.streamjob import API_VERSION, PeriodicSnapshots
from penstock.contract.streamjob_status import (
    PeriodicStatus,
    Reason,
    StreamJobStatus,
    Truth,
)
from penstock.contract.streamsnapshot import KIND, SnapshotState, SnapshotType
from penstock_operator.api import names
from penstock_operator.api.observed import JobView, Observed, SnapshotView
from penstock_operator.api.plain import Object
from penstock_operator.api.times import name_stamp, seconds, stamp
from penstock_operator.reconcile.decision import Create, Delete, Draft
from penstock_operator.reconcile.snapshots import ENDED, savepoint_name
from penstock_operator.resources.target import Owner, Target


def period_of(now: float, every_s: float, uid: str) -> float:
    """Return when the newest period began, in whole seconds since 1970."""
    shift = int(hashlib.sha256(uid.encode()).hexdigest()[:8], 16) % every_s
    return float(math.floor(math.floor((now - shift) / every_s) * every_s + shift))


def periodic_name(job: str, period: float) -> str:
    """Name the StreamSnapshot of a period."""
    return f"{job}-{name_stamp(period)}"


def own_snapshots(seen: Observed) -> list[SnapshotView]:
    """List those that were taken by the clock for this very job, newest first."""
    own = (v for v in seen.snapshots if v.periodic_of == seen.job.uid)
    return sorted(own, key=lambda v: (v.due, v.created, v.name), reverse=True)


def decide_periodic(
    seen: Observed, target: Target | None, status: StreamJobStatus, draft: Draft, *, runs: bool
) -> StreamJobStatus:
    """Ask for the savepoint that is due, and remove those that are too many.

    ``runs``: the leader can take one now. Returns the status with what was asked for.
    """
    wanted = None if target is None else target.spec.snapshots
    if target is None or seen.job.deleting_since is not None:
        return status
    if wanted is None:
        return replace(status, snapshots=None)
    own = own_snapshots(seen)
    _retain(seen, own, wanted, draft)
    period = period_of(seen.now, wanted.every_s, seen.job.uid)
    known = seconds(status.snapshots.time) if status.snapshots is not None else 0.0
    last = max([known, *(view.due for view in own)])
    draft.again(period + wanted.every_s - seen.now)
    if period <= max(last, seen.job.created) or not runs or _is_under_way(own):
        return status
    made = snapshot_object(target.owner, period)
    draft.do(Create(made))
    return replace(
        status, snapshots=PeriodicStatus(stamp(period), periodic_name(seen.job.name, period))
    )


def judge_periodic(seen: Observed, wanted: PeriodicSnapshots) -> tuple[Truth, Reason, str]:
    """Say how the newest one ended, for the condition."""
    ended = [v for v in own_snapshots(seen) if v.status.state in ENDED]
    if not ended:
        return Truth.UNKNOWN, Reason.NONE_YET, "no savepoint by the clock yet"
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
    """Build the StreamSnapshot of a period. It has no owner: savepoints outlive their job."""
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


def restores_from(view: SnapshotView, wanted: frozenset[str]) -> bool:
    """Say whether one of these names and paths is that of a snapshot."""
    folder = f"/{savepoint_name(view)}"
    return view.name in wanted or any(path.rstrip("/").endswith(folder) for path in wanted)


def _is_under_way(own: list[SnapshotView]) -> bool:
    return any(v.deleting_since is None and v.status.state not in ENDED for v in own)


def _retain(
    seen: Observed, own: list[SnapshotView], wanted: PeriodicSnapshots, draft: Draft
) -> None:
    kept = [v for v in own if v.deleting_since is None]
    done = [v for v in kept if v.status.state == SnapshotState.COMPLETED]
    newest = done[0].due if done else math.inf
    failed = [v for v in kept if v.status.state == SnapshotState.FAILED and v.due < newest]
    for view in [*done[wanted.keep :], *(failed if done else [])]:
        if not restores_from(view, seen.restored_from):
            draft.do(Delete(KIND, view.name, view.uid))


def may_have_too_many(job: JobView, snapshots: int) -> bool:
    """Say whether retention may have something to remove: then it is asked who restores."""
    spec = job.spec.get("snapshots") if isinstance(job.spec, dict) else None
    return isinstance(spec, dict) and snapshots > 1
