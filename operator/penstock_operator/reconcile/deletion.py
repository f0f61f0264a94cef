"""A job that is being deleted: what its policy asks for, within the deadline, then let go.

::

    Retain     nothing waits; checkpoints and -latest stay
    Savepoint  a last savepoint, then the same
    Purge      workers end, a Job removes the files, -latest and the views go

Nothing can be made in a namespace that ends, and what is in it goes all the same, the claim too:
there nothing is waited for.
"""

from penstock.contract import pod
from penstock.contract.latest import Latest
from penstock.contract.streamjob import DeletionPolicy
from penstock_operator.api import names
from penstock_operator.api.observed import ChildKey, Observed
from penstock_operator.api.times import stamp
from penstock_operator.reconcile.accept import Accepted, last_good, owner_of
from penstock_operator.reconcile.course import Course, deletion_due, deletion_policy, is_down
from penstock_operator.reconcile.decision import Create, Delete, Draft, SetFinalizer
from penstock_operator.resources import records
from penstock_operator.resources.purge import purge_job
from penstock_operator.resources.target import Target


def let_go(seen: Observed, accepted: Accepted, course: Course, draft: Draft) -> None:
    """Do what the policy still asks for, then take the finalizer away."""
    job = seen.job
    if names.FINALIZER not in job.finalizers:
        return
    target = accepted.target or last_good(seen)
    due = deletion_due(seen, target)
    latest = seen.latest.value if seen.latest is not None else None
    if seen.namespace_ends:
        pass
    elif seen.now >= due:
        text = f"the deadline of the deletion, {stamp(due)}, has passed without {left_to_do(seen)}"
        draft.tell("DeletionTimedOut", text, warning=True)
    elif not _is_done(seen, accepted, course, draft):
        draft.again(due - seen.now)
        return
    elif deletion_policy(seen) is DeletionPolicy.PURGE and not _forgotten(seen, latest, draft):
        return
    draft.do(SetFinalizer(False, version=job.version))


def left_to_do(seen: Observed) -> str:
    """Name what the policy of a deletion waits for, and why it is not there yet where that is said.

    For the condition and the event; empty where it waits for nothing.
    """
    match deletion_policy(seen):
        case DeletionPolicy.SAVEPOINT:
            answer = failed_savepoint(seen)
            return "a last savepoint" + (f" (the newest try failed: {answer})" if answer else "")
        case DeletionPolicy.PURGE:
            return "the removal of the checkpoints, after the workers have ended"
        case _:
            return ""


def failed_savepoint(seen: Observed) -> str:
    """Return why the newest try of a last savepoint failed; empty when none did."""
    pending, latest = seen.job.status.pending, seen.latest.value if seen.latest else None
    if seen.job.deleting_since is None or pending is None or latest is None:
        return ""
    return next((a.text for a in latest.answers if a.request == pending.snapshot and not a.ok), "")


def deletion_text(seen: Observed, target: Target | None) -> str:
    """Say what a deletion waits for, until when, and how it is done at once."""
    if names.FINALIZER not in seen.job.finalizers:
        return ""
    return (
        f"waits for {left_to_do(seen)}; without it from {stamp(deletion_due(seen, target))} on "
        f"(spec.deletionDeadline); at once: kubectl patch sj {seen.job.name} --type=merge -p "
        """'{"spec":{"deletionPolicy":"Retain"}}'"""
    )


def _is_done(seen: Observed, accepted: Accepted, course: Course, draft: Draft) -> bool:
    policy = deletion_policy(seen)
    if policy is DeletionPolicy.RETAIN or not _has_record(seen):
        return True
    if policy is DeletionPolicy.SAVEPOINT:
        return course is not Course.STOP
    if not is_down(seen):
        return False
    target = accepted.target or last_good(seen)
    name = names.purge_name(seen.job.name, seen.job.uid)
    if target is None or seen.purges.get(name):
        return True
    if ChildKey("Job", name) not in seen.children:
        draft.do(Create(purge_job(target)))
    return False


def _has_record(seen: Observed) -> bool:
    """Say whether a ``-latest`` is there that is not of an earlier job of this name.

    The job's own one says that it may have begun. Without it nothing is stopped, nor removed.
    """
    found = seen.latest
    return found is not None and (found.value is None or found.value.job_uid == seen.job.uid)


def _forgotten(seen: Observed, latest: Latest | None, draft: Draft) -> bool:
    """Delete the record and its views; True when none is left."""
    owner = owner_of(seen.job)
    left = False
    for key, child in sorted(seen.children.items(), key=lambda c: c[0].name):
        view = key.kind == "ConfigMap" and records.epoch_of(owner.name, key.name) is not None
        if view and child.job_uid == owner.uid and not child.deleting:
            draft.do(Delete("ConfigMap", key.name, child.uid))
            left = True
    if latest is not None and latest.job_uid == owner.uid and seen.latest is not None:
        draft.do(Delete("ConfigMap", pod.latest_name(owner.name), seen.latest.uid))
        left = True
    return not left
