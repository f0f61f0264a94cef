"""StreamSnapshots that go, whose files go first where the spec says so; and those without a job.

::

    disposeOnDelete ── our finalizer ── deleted ──> a Job removes the files ──> the object goes
                                           └── no job is left, or too late ──> the files stay
"""

from dataclasses import replace

from penstock.contract.streamsnapshot import SnapshotSpec, SnapshotState, SnapshotStatus
from penstock_operator.api import names
from penstock_operator.api.observed import ChildKey, Observed, SnapshotView
from penstock_operator.api.times import seconds, stamp
from penstock_operator.reconcile.decision import (
    Create,
    Decision,
    Draft,
    SetFinalizer,
    WriteSnapshotStatus,
)
from penstock_operator.reconcile.imported import decide_imported
from penstock_operator.reconcile.snapshots import (
    ENDED,
    PREFIX,
    judged,
    savepoint_name,
    snapshot_spec,
)
from penstock_operator.resources.purge import disposal_job
from penstock_operator.resources.target import Target


def dispose(seen: Observed, target: Target | None, draft: Draft) -> None:
    """Keep the finalizer of each snapshot whose files go with it, and have them removed."""
    for view in seen.snapshots:
        spec = snapshot_spec(seen.job.namespace, view)
        if spec is None or spec.job_ref != seen.job.name:
            continue
        held = names.FINALIZER in view.finalizers
        if view.deleting_since is None:
            if held != spec.dispose_on_delete:
                _set_finalizer(view, draft, present=spec.dispose_on_delete)
        elif held and _is_disposed(seen, target, (view, spec), draft):
            _set_finalizer(view, draft, present=False)


def _is_disposed(
    seen: Observed, target: Target | None, what: tuple[SnapshotView, SnapshotSpec], draft: Draft
) -> bool:
    """Say whether the object may go; begins the removal of its files where that is left to do."""
    view, spec = what
    name = names.purge_name(seen.job.name, view.uid)
    if not spec.dispose_on_delete or not _was_asked(view) or seen.purges.get(name):
        return True
    if seen.namespace_ends:
        return True  # no Job can be made in it, and the claim goes with it
    due = (view.deleting_since or seen.now) + spec.deadline_s
    if target is None or seen.now >= due:
        _tell_left(view, draft)
        return True
    if ChildKey("Job", name) not in seen.children and not _is_copied(seen, view):
        draft.do(Create(disposal_job(target, savepoint_name(view), view.uid)))
    draft.again(due - seen.now)
    return False


def _was_asked(view: SnapshotView) -> bool:
    """A savepoint that was never begun has no files."""
    return bool(view.status.started)


def _is_copied(seen: Observed, view: SnapshotView) -> bool:
    """Say whether the leader still copies for it; it ends when it sees that nobody asks."""
    latest = seen.latest.value if seen.latest is not None else None
    asked = f"{PREFIX}{view.uid}-"
    retained = () if latest is None else latest.retained
    return any((kept.savepoint or "").startswith(asked) for kept in retained)


def decide_orphans(seen: Observed) -> Decision:
    """Judge snapshots whose StreamJob does not exist, and those that name files and no job.

    ``seen.job`` is no more than a name, empty for the latter.
    """
    draft = Draft()
    for view in seen.snapshots:
        if _is_orphan_held(view):
            if _was_asked(view):
                _tell_left(view, draft)
            _set_finalizer(view, draft, present=False)
        elif view.deleting_since is None and view.status.state not in ENDED:
            _judge(seen, view, draft)
    decide_imported(seen, draft, orphans=True)
    return Decision(tuple(draft.actions), events=tuple(draft.events), again_s=draft.again_s)


def _is_orphan_held(view: SnapshotView) -> bool:
    """Without a job there is no image and no claim to remove files with."""
    return view.deleting_since is not None and names.FINALIZER in view.finalizers


def _judge(seen: Observed, view: SnapshotView, draft: Draft) -> None:
    spec = snapshot_spec(seen.job.namespace, view)
    if spec is None or spec.path is not None:
        return  # of a newer version of the definition; or judged by its files
    status = _waits(seen, (view, spec), draft)
    status = replace(status, conditions=judged(view, status, seen.now))
    if status != view.status:
        draft.do(WriteSnapshotStatus(view.name, status, view.version))


def _waits(seen: Observed, what: tuple[SnapshotView, SnapshotSpec], draft: Draft) -> SnapshotStatus:
    """A job may come later than what is asked of it, as when both are applied together."""
    view, spec = what
    started = view.status.started or stamp(seen.now)
    left = seconds(started) + spec.deadline_s - seen.now
    state = SnapshotState.PENDING if left > 0 else SnapshotState.FAILED
    if left > 0:
        draft.again(left)
    text = f"StreamJob {spec.job_ref} does not exist"
    return replace(
        view.status,
        observed_generation=view.generation,
        started=started,
        state=state,
        message=text if left > 0 else f"not taken within {spec.deadline_s:g} s: {text}",
    )


def _set_finalizer(view: SnapshotView, draft: Draft, *, present: bool) -> None:
    draft.do(SetFinalizer(present, view.name, view.version))


def _tell_left(view: SnapshotView, draft: Draft) -> None:
    text = f"files stay: {view.status.path or 'those of an unfinished savepoint'}"
    draft.tell("DisposalFailed", text, warning=True, snapshot=view.name)
