"""Names that a job needs and that objects of others have: those are never written or deleted.

The job says which they are, and looks again until they are gone. One whose workers run goes on;
no worker is started beside such an object, for workers write some objects by their names.
"""

from collections.abc import Iterator

from penstock.contract import pod
from penstock.contract.streamjob import DeletionPolicy
from penstock.contract.streamjob_status import Reason
from penstock_operator.api import kinds, names
from penstock_operator.api.observed import Child, ChildKey, Observed
from penstock_operator.reconcile.course import deletion_policy
from penstock_operator.reconcile.diagnosis import Trouble
from penstock_operator.reconcile.surroundings import applied_objects
from penstock_operator.resources.replay import replay_name
from penstock_operator.resources.target import Target

NAMED_MAX = 3  # in one message; the others follow when these are gone


def names_taken(seen: Observed, target: Target | None) -> tuple[ChildKey, ...]:
    """List what has a name of the job's and is not its own, nor an earlier job's of its name."""
    if target is None:
        return ()
    found = (key for key in _wanted(seen, target) if key in seen.children)
    return tuple(key for key in found if _is_taken(seen, key, seen.children[key]))


def taken_trouble(seen: Observed, taken: tuple[ChildKey, ...]) -> Trouble | None:
    """Say which objects have names of the job's, and what to do about it; None: no object has."""
    if not taken:
        return None
    listed = [f"{k.kind} {k.name} ({_whose(seen.children[k])})" for k in taken[:NAMED_MAX]]
    more = len(taken) - len(listed)
    text = ", ".join(listed) + (f" and {more} more" if more else "")
    advice = "remove it or have its owner rename it, or give the job another name"
    if any(k.kind == kinds.CLAIM.kind for k in taken):
        advice += "; a claim that is there is used by checkpoint.volume.claimName"
    return Trouble(
        Reason.NAME_TAKEN,
        f"not of this job, and left as it is: {text}: {advice}; the operator looks again by itself",
    )


def _whose(child: Child) -> str:
    if child.owner:
        return f"of {child.owner}"
    return "of an earlier job, which nothing collects" if child.job_uid else "of nobody"


def _is_taken(seen: Observed, key: ChildKey, child: Child) -> bool:
    if seen.owns(child):
        return False
    if key.kind == kinds.CLAIM.kind:  # one that works is not given up by a newer operator
        return not child.job_uid and seen.stateful_set is None
    if key == ChildKey("ConfigMap", pod.latest_name(seen.job.name)):
        value = None if seen.latest is None else seen.latest.value
        return not child.job_uid and (value is None or value.job_uid != seen.job.uid)
    if key.name.startswith(names.archive_name(seen.job.name, "")):
        value = None if seen.latest is None else seen.latest.value
        return value is not None and child.job_uid != value.job_uid
    if key.kind == "Job":
        return not child.job_uid
    # What is of an earlier job, and has it as its owner, is being collected.
    return not child.job_uid or (not child.owner and not _outlives(seen, key))


def _outlives(seen: Observed, key: ChildKey) -> bool:
    return key.kind == "ConfigMap" and key.name.startswith(pod.epoch_name(seen.job.name, 0)[:-1])


def _wanted(seen: Observed, target: Target) -> Iterator[ChildKey]:
    """List the names of all objects that are, or soon will be, written or deleted by name."""
    job = target.owner.name
    yield from (key for key, _, _ in applied_objects(target))
    yield ChildKey("StatefulSet", pod.workers_name(job))
    for name in (pod.status_name(job), pod.desired_name(job), pod.latest_name(job)):
        yield ChildKey("ConfigMap", name)
    yield ChildKey("Lease", pod.lease_name(job))
    if target.spec.security.mtls:
        yield from (ChildKey("Secret", name) for name in names.trust_secrets(job))
    volume = target.spec.checkpoint.volume
    if volume is not None and volume.claim_template is not None:
        yield ChildKey(kinds.CLAIM.kind, target.claim)
    if target.spec.replay is not None:
        yield ChildKey(kinds.SPARK_KUBEFLOW.kind, replay_name(target))
    latest = None if seen.latest is None else seen.latest.value
    if latest is not None and latest.job_uid == seen.job.uid:
        for kept in latest.retained:
            yield ChildKey("ConfigMap", pod.epoch_name(job, kept.epoch))
    elif latest is not None:
        yield ChildKey("ConfigMap", names.archive_name(job, latest.job_uid))
    if seen.job.deleting_since is not None and deletion_policy(seen) is DeletionPolicy.PURGE:
        yield ChildKey("Job", names.purge_name(job, seen.job.uid))
