"""A job that is being deleted: what its policy asks for, within the deadline, then let go.

::

    Retain     nothing waits; checkpoints and -latest stay
    Savepoint  a last savepoint, then the same
    Purge      workers end, a Job removes the files, -latest and the views go
"""

from penstock.contract import pod
from penstock.contract.latest import Latest
from penstock.contract.streamjob import DeletionPolicy
from penstock_operator.api import names
from penstock_operator.api.observed import ChildKey, Observed
from penstock_operator.reconcile.accept import Accepted, last_good, owner_of
from penstock_operator.reconcile.course import Course, deletion_policy, is_down
from penstock_operator.reconcile.decision import Create, Delete, Draft, SetFinalizer
from penstock_operator.reconcile.status import deletion_deadline_s
from penstock_operator.resources import records
from penstock_operator.resources.purge import purge_job


def let_go(seen: Observed, accepted: Accepted, course: Course, draft: Draft) -> None:
    """Do what the policy still asks for, then take the finalizer away."""
    job = seen.job
    if names.FINALIZER not in job.finalizers:
        return
    target = accepted.target or last_good(seen)
    due = (job.deleting_since or seen.now) + deletion_deadline_s(seen, target)
    latest = seen.latest.value if seen.latest is not None else None
    if seen.now >= due:
        text = "the deadline of the deletion has passed: what its policy asked for was not done"
        draft.tell("DeletionTimedOut", text, warning=True)
    elif not _is_done(seen, accepted, course, draft):
        draft.again(due - seen.now)
        return
    elif deletion_policy(seen) is DeletionPolicy.PURGE and not _forgotten(seen, latest, draft):
        return
    draft.do(SetFinalizer(False, version=job.version))


def _is_done(seen: Observed, accepted: Accepted, course: Course, draft: Draft) -> bool:
    policy = deletion_policy(seen)
    if policy is DeletionPolicy.RETAIN or seen.latest is None or seen.desired is None:
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
