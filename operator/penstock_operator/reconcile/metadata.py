"""The objects that a checkpoint hangs on: ``-latest`` and ``-desired``.

``-latest`` is created exactly once in the life of a job: by level-triggered repair it would come
back empty, and the job would silently start from nothing. So it is created only while nothing
shows that the job ever began; afterwards its absence is for a person to judge.
"""

from dataclasses import dataclass

from penstock.contract import pod
from penstock.contract.latest import Latest
from penstock.contract.streamjob import DeletionPolicy
from penstock.contract.streamjob_status import Reason
from penstock_operator.api import names
from penstock_operator.api.observed import ChildKey, Observed
from penstock_operator.reconcile.accept import owner_of
from penstock_operator.reconcile.course import deletion_policy, is_down
from penstock_operator.reconcile.decision import Archive, Create, Delete, Draft
from penstock_operator.reconcile.surroundings import of_earlier
from penstock_operator.reconcile.workers import first_desired
from penstock_operator.resources import records
from penstock_operator.resources.target import Target


@dataclass(frozen=True, slots=True)
class Metadata:
    """``latest`` is the job's own; None while it is not there, for ``reason``."""

    latest: Latest | None
    reason: Reason | None = None
    message: str = ""


def metadata_of(
    seen: Observed, target: Target | None, taken: tuple[ChildKey, ...], draft: Draft
) -> Metadata:
    """Look at ``-latest``, and create both objects where that is certain to be right.

    While names of the job's are ``taken``, no job begins.
    """
    found = seen.latest
    if ChildKey("ConfigMap", pod.latest_name(seen.job.name)) in taken:
        return Metadata(None)
    if found is not None and found.value is None:
        reason = Reason.FORMAT_NEWER if found.newer else Reason.METADATA_MISSING
        return Metadata(None, reason, f"-latest cannot be read: {found.problem}")
    if found is not None and found.value is not None and found.value.job_uid != seen.job.uid:
        return Metadata(None) if taken else _earlier(seen, draft)
    if found is None or found.value is None:
        return Metadata(None) if taken else _absent(seen, target, draft)
    key = ChildKey("ConfigMap", pod.desired_name(seen.job.name))
    wanted = target is not None and (seen.job.deleting_since is None or _ends_with_savepoint(seen))
    if seen.desired is None and wanted and key not in taken:
        assert target is not None
        draft.do(first_desired(seen, target, found.value, found.uid))
    return Metadata(found.value)


def _ends_with_savepoint(seen: Observed) -> bool:
    """Say whether a deletion still needs ``-desired``, to ask for its last savepoint."""
    waits = names.FINALIZER in seen.job.finalizers and not seen.namespace_ends
    return waits and deletion_policy(seen) is DeletionPolicy.SAVEPOINT and not is_down(seen)


def began(seen: Observed) -> bool:
    """Say whether anything shows that this job ever had a -latest."""
    status = seen.job.status
    return (
        status.checkpoint is not None
        or bool(status.attempt or status.term)
        or seen.desired is not None
        or seen.stateful_set is not None
    )


def _absent(seen: Observed, target: Target | None, draft: Draft) -> Metadata:
    if target is None or seen.job.deleting_since is not None:
        return Metadata(None)
    left = of_earlier(seen)
    if left:
        return Metadata(None, Reason.WAITING_FOR_OLD, f"waiting until {left[0]} is gone")
    if began(seen) and not (_asks_to_restore(seen, target) and is_down(seen)):
        return Metadata(
            None,
            Reason.METADATA_MISSING,
            f"ConfigMap {seen.job.name}-ckpt-latest is gone, and with it what is committed: put "
            "it back, or set spec.restore to begin from a savepoint",
        )
    draft.do(Create(records.first_latest(owner_of(seen.job))))
    return Metadata(None)


def _asks_to_restore(seen: Observed, target: Target) -> bool:
    wanted = target.spec.restore
    done = seen.job.status.restore
    if wanted is None or wanted.newest:  # what was the newest one is not known any more
        return False
    return done is None or done.nonce != wanted.nonce


def _earlier(seen: Observed, draft: Draft) -> Metadata:
    """Put what an earlier job of this name has committed out of the way; nothing adopts it."""
    assert seen.latest is not None
    assert seen.latest.value is not None
    left = of_earlier(seen)
    if left:
        return Metadata(None, Reason.WAITING_FOR_OLD, f"waiting until {left[0]} is gone")
    old = seen.latest.value.job_uid
    for key, child in sorted(seen.children.items(), key=lambda c: c[0].name):
        view = key.kind == "ConfigMap" and records.epoch_of(seen.job.name, key.name) is not None
        if view and child.job_uid == old and not child.deleting:
            draft.do(Delete("ConfigMap", key.name, child.uid))
    draft.do(Archive(str(old), seen.latest.uid, seen.latest.version))
    return Metadata(None, Reason.WAITING_FOR_OLD, "putting an earlier job's record away")
