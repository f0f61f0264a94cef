"""StreamSnapshots that name files: complete when a pod has seen them, not before.

::

    Pending ── a StreamJob has the claim ──> InProgress ── its pod has looked ──> Completed | Failed
       └── the path leads out of the namespace's folders ─────────────────────────────> Failed

The operator has no volume. The job whose folder it is has one, and so has a job that restores from
it: its claim, its image and a Job of Kubernetes do the looking (``resources.look``).
"""

from dataclasses import replace

from penstock.contract import pod
from penstock.contract.streamsnapshot import SnapshotSpec, SnapshotState, SnapshotStatus
from penstock_operator.api import names
from penstock_operator.api.folders import Folder, folder_at
from penstock_operator.api.observed import ChildKey, Observed, SnapshotView
from penstock_operator.api.plain import text_at
from penstock_operator.api.times import seconds, stamp
from penstock_operator.reconcile.accept import asked
from penstock_operator.reconcile.decision import Create, Draft, WriteSnapshotStatus
from penstock_operator.reconcile.snapshots import ENDED, judged, snapshot_spec, tell
from penstock_operator.resources.look import look_job

NOT_LOOKED_AT = "NotLookedAt"
REASONS = (pod.PATH_NOT_FOUND, pod.PATH_OUTSIDE, pod.PATH_UNREADABLE)
IMPORTED = "names files that are there already"
LATE_S = 30.0  # beyond its deadline a Job has surely ended, and been told of


def decide_imported(seen: Observed, draft: Draft, *, orphans: bool = False) -> None:
    """Look at the files of each snapshot that names some of this job, or that it restores from.

    ``orphans``: no such StreamJob is there, so nobody can.
    """
    for view in seen.snapshots:
        spec = snapshot_spec(seen.job.namespace, view)
        if spec is None or spec.path is None or not _is_open(view):
            continue
        status, reason = _status(seen, (view, spec), draft, orphans=orphans)
        conditions = judged(view, status, seen.now, reason)
        status = replace(status, conditions=conditions, observed_generation=view.generation)
        if status != view.status:
            draft.do(WriteSnapshotStatus(view.name, status, view.version))
            tell(draft, view, status)


def _is_open(view: SnapshotView) -> bool:
    return view.deleting_since is None and view.status.state not in ENDED


def _status(
    seen: Observed, what: tuple[SnapshotView, SnapshotSpec], draft: Draft, *, orphans: bool
) -> tuple[SnapshotStatus, str]:
    """Return the new status, and the reason of its condition; empty: that is the state."""
    view, spec = what
    assert spec.path is not None, "the caller has looked"
    folder = folder_at(seen.job.namespace, spec.path)
    if folder is None:
        text = (
            f"spec.path {spec.path!r} leads out of the namespace's folders: expected "
            f"{seen.job.namespace}/JOB/savepoints/NAME on the claim of the checkpoints"
        )
        return replace(view.status, state=SnapshotState.FAILED, message=text), pod.PATH_OUTSIDE
    if orphans or not _is_mine(seen, view, folder):
        return _waits(seen, view, spec, folder, draft)
    return _looked(seen, view, spec, folder, draft)


def _is_mine(seen: Observed, view: SnapshotView, folder: Folder) -> bool:
    wanted = text_at(seen.job.spec, "restore", "snapshotRef")
    return seen.job.deleting_since is None and (folder.job == seen.job.name or wanted == view.name)


def _waits(
    seen: Observed, view: SnapshotView, spec: SnapshotSpec, folder: Folder, draft: Draft
) -> tuple[SnapshotStatus, str]:
    """Nobody can look now. One who began to, and went, is waited for until the deadline."""
    if view.status.state is SnapshotState.IN_PROGRESS:
        left = seconds(view.status.started) + spec.deadline_s + LATE_S - seen.now
        if left > 0:
            draft.again(left)
            return view.status, ""
    text = (
        f"nobody has looked at the files yet: StreamJob {folder.job} does not exist; they are "
        "looked at when it does, or when another StreamJob of the namespace restores from them"
    )
    return replace(view.status, state=SnapshotState.PENDING, message=text), NOT_LOOKED_AT


def _looked(
    seen: Observed, view: SnapshotView, spec: SnapshotSpec, folder: Folder, draft: Draft
) -> tuple[SnapshotStatus, str]:
    name = names.look_name(seen.job.name, view.uid)
    target = asked(seen)
    started = view.status.started or stamp(seen.now)
    base = replace(view.status, started=started, state=SnapshotState.IN_PROGRESS, message="")
    ended = seen.purges.get(name)
    if ended:
        done = replace(base, state=SnapshotState.COMPLETED, path=spec.path, message=IMPORTED)
        return replace(done, completed=stamp(seen.now)), ""
    late = seen.now > seconds(started) + spec.deadline_s + LATE_S
    if ended is False or late:
        reason, text = _why(seen.last_words.get(name, ""), name)
        advice = "; once it is mended make the StreamSnapshot anew"
        return replace(base, state=SnapshotState.FAILED, message=text + advice), reason
    if target is None:
        text = f"nobody has looked at the files yet: the spec of StreamJob {seen.job.name} is wrong"
        return replace(view.status, state=SnapshotState.PENDING, message=text), NOT_LOOKED_AT
    if ChildKey("Job", name) not in seen.children:
        draft.do(Create(look_job(target, folder, view.uid, spec.deadline_s)))
    draft.again(seconds(started) + spec.deadline_s + LATE_S - seen.now)
    return base, ""


def _why(words: str, name: str) -> tuple[str, str]:
    """Return the reason and what is wrong, from the last words of the pod that has looked."""
    reason, _, text = words.partition(": ")
    if reason in REASONS:
        return reason, text
    detail = f" ({words})" if words else ""
    return NOT_LOOKED_AT, f"no pod could look at the files{detail}: kubectl describe job {name}"
