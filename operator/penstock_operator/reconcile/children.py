"""The objects of a job around its workers, its metadata, and foreign objects under its names.

Children are applied when they differ from what was applied last.

The metadata is ``-latest`` and ``-desired``. ``-latest`` is created exactly once in the life of a
job. If it were repaired like other children, it would come back empty, and the job would silently
start from nothing. It is created only while nothing shows that the job ever began. Later a person
must decide what to do about a missing one.

A **foreign object** has a name that the job needs and belongs to another owner. It is never written
or deleted. The job reports it and looks again until it is gone. Running workers go on. No worker
starts beside a foreign object, because workers write some objects by name.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from penstock.contract import pod
from penstock.contract.latest import Latest
from penstock.contract.streamjob import DeletionPolicy
from penstock.contract.streamjob_status import Reason
from penstock_operator.api import kinds, names
from penstock_operator.api.observed import Child, ChildKey, Observed
from penstock_operator.api.plain import Object, text_at
from penstock_operator.reconcile.accept import SPECS_KEPT, owner_of
from penstock_operator.reconcile.actions import (
    Apply,
    Archive,
    Create,
    DecisionBuilder,
    Delete,
    SetFinalizer,
)
from penstock_operator.reconcile.certificates import reconcile_certificates
from penstock_operator.reconcile.diagnosis import Problem
from penstock_operator.reconcile.lifecycle import delete_epoch_views, deletion_policy, is_down
from penstock_operator.reconcile.workers import initial_desired
from penstock_operator.resources import coordination, workload
from penstock_operator.resources import permissions as network
from penstock_operator.resources import permissions as rbac
from penstock_operator.resources import pods as claims
from penstock_operator.resources.spark_application import replay_name
from penstock_operator.resources.target import Target, content_hash, with_applied_hash

OBJECTS_NAMED_MAX = 3  # in one message; the others are named when these are gone


def apply_children(seen: Observed, target: Target, builder: DecisionBuilder) -> None:
    """Create or apply the objects that pods need before they start, and those that protect them."""
    owner = target.owner
    # The objects that the Role names come first: the Role must give no rights over foreign ones.
    if ChildKey("ConfigMap", pod.status_name(owner.name)) not in seen.children:
        builder.do(Create(coordination.empty_status(owner)))
    if ChildKey("Lease", pod.lease_name(owner.name)) not in seen.children:
        builder.do(Create(coordination.leader_lease(owner)))
    volume = target.spec.checkpoint.volume
    template = None if volume is None else volume.claim_template
    if template and ChildKey("PersistentVolumeClaim", target.claim) not in seen.children:
        builder.do(Create(claims.claim(owner, template)))
    reconcile_certificates(seen, target, builder)
    for manifest, applied in _objects_due(seen, target):
        child = seen.children.get(_key_of(manifest))
        builder.do(Apply(manifest, applied, uid="" if child is None else child.uid))
    _prune_configs(seen, target, builder)


def reconcile_finalizer(seen: Observed, builder: DecisionBuilder) -> None:
    """Keep the finalizer on the StreamJob only if its deletion policy has something to wait for."""
    job = seen.job
    wanted = deletion_policy(seen) is not DeletionPolicy.RETAIN
    if wanted != (names.FINALIZER in job.finalizers):
        builder.do(SetFinalizer(wanted, version=job.version))


def left_by_earlier_job(seen: Observed) -> list[str]:
    """List what an earlier job of this name left and the garbage collector still has to delete.

    It never deletes an object without an owner, so such an object is not waited for: see
    ``foreign_objects``.
    """
    kept = {
        ("ConfigMap", pod.latest_name(seen.job.name)),
        ("PersistentVolumeClaim", names.claim_name(seen.job.name)),
    }
    archives = names.archive_name(seen.job.name, "")
    return sorted(
        f"{key.kind} {key.name}"
        for key, child in seen.children.items()
        if child.job_uid not in {"", seen.job.uid}
        and child.owner
        and (key.kind, key.name) not in kept
        and not key.name.startswith(archives)
        and coordination.epoch_of(seen.job.name, key.name) is None
        and key.kind != "Job"
    )


@lru_cache(SPECS_KEPT)
def applied_hashes(target: Target) -> dict[ChildKey, str]:
    """Return the hashes of the objects that are applied when they differ. Callers must not change the result.

    Only hashes are kept, because the objects are rarely needed.
    """
    return {_key_of(manifest): content_hash(manifest) for manifest in _objects(target)}


def _objects_due(seen: Observed, target: Target) -> Iterator[tuple[Object, str]]:
    """Build the objects to apply, each with its hash: those that are missing or differ, or all for a refresh."""
    hashes = applied_hashes(target)
    due = {key for key, applied in hashes.items() if _is_due(seen, key, applied)}
    for manifest in _objects(target) if due else ():
        key = _key_of(manifest)
        if key in due:
            yield with_applied_hash(manifest, hashes[key]), hashes[key]


def _is_due(seen: Observed, key: ChildKey, applied: str) -> bool:
    child = seen.children.get(key)
    return child is None or (seen.owns(child) and (child.applied != applied or seen.refresh))


def _objects(target: Target) -> Iterator[Object]:
    owner = target.owner
    yield coordination.config(target)
    if target.spec.service_account_name is None:
        yield rbac.account(owner)
    yield rbac.role(owner)
    yield rbac.role_binding(target)
    yield network.network_policy(owner, target.spec.security.egress)
    yield workload.headless_service(owner)
    yield workload.metrics_service(owner)
    yield workload.disruption_budget(owner)


def _key_of(manifest: Object) -> ChildKey:
    """Return the key of an object among the observed children."""
    return ChildKey(text_at(manifest, "kind"), text_at(manifest, "metadata", "name"))


def _prune_configs(seen: Observed, target: Target, builder: DecisionBuilder) -> None:
    """Delete the stored specs, except those that run, are to run, or were the last stable one."""
    used = {target.config}
    if seen.stateful_set is not None:
        used.add(seen.stateful_set.config)
    if seen.job.status.last_stable is not None:
        used.add(names.config_name(seen.job.name, seen.job.status.last_stable.digest))
    for name in sorted(seen.configs.keys() - used):
        child = seen.children.get(ChildKey("ConfigMap", name))
        if child is not None and seen.owns(child) and not child.deleting:
            builder.do(Delete("ConfigMap", name, child.uid))


@dataclass(frozen=True, slots=True)
class Metadata:
    """The job's own ``-latest``; None while it does not exist, with the problem if there is one."""

    latest: Latest | None
    problem: Problem | None = None


def newer_record(seen: Observed) -> str | None:
    """Say which of ``-latest`` and ``-desired`` a newer version wrote; None when neither."""
    if seen.latest is not None and seen.latest.newer:
        return f"-latest cannot be read: {seen.latest.problem}"
    if seen.desired is not None and seen.desired.newer:
        return f"-desired cannot be read: {seen.desired.newer}"
    return None


def reconcile_metadata(
    seen: Observed, target: Target | None, foreign: tuple[ChildKey, ...], builder: DecisionBuilder
) -> Metadata:
    """Look at ``-latest``, and create both objects when this is certainly right.

    No job begins while another owner's object has one of its names (``foreign``).
    """
    found = seen.latest
    if ChildKey("ConfigMap", pod.latest_name(seen.job.name)) in foreign:
        return Metadata(None)
    newer = newer_record(seen)
    if newer is not None:
        return Metadata(None, Problem(Reason.FORMAT_NEWER, newer))
    if found is not None and found.value is None:
        text = f"-latest cannot be read: {found.problem}"
        return Metadata(None, Problem(Reason.METADATA_MISSING, text))
    if found is not None and found.value is not None and found.value.job_uid != seen.job.uid:
        return Metadata(None) if foreign else _archive_earlier(seen, builder)
    if found is None or found.value is None:
        return Metadata(None) if foreign else _create_latest(seen, target, builder)
    key = ChildKey("ConfigMap", pod.desired_name(seen.job.name))
    wanted = target is not None and (seen.job.deleting_since is None or _ends_with_savepoint(seen))
    if seen.desired is None and wanted and key not in foreign:
        assert target is not None
        builder.do(initial_desired(seen, target, found.value, found.uid))
    return Metadata(found.value)


def _ends_with_savepoint(seen: Observed) -> bool:
    """Say whether a deletion still needs ``-desired`` to ask for its last savepoint."""
    waits = names.FINALIZER in seen.job.finalizers and not seen.namespace_ends
    return waits and deletion_policy(seen) is DeletionPolicy.SAVEPOINT and not is_down(seen)


def has_begun(seen: Observed) -> bool:
    """Say whether anything shows that this job ever had a ``-latest``."""
    status = seen.job.status
    return (
        status.checkpoint is not None
        or bool(status.attempt or status.term)
        or seen.desired is not None
        or seen.stateful_set is not None
    )


def _create_latest(seen: Observed, target: Target | None, builder: DecisionBuilder) -> Metadata:
    if target is None or seen.job.deleting_since is not None:
        return Metadata(None)
    left = left_by_earlier_job(seen)
    if left:
        return Metadata(None, Problem(Reason.WAITING_FOR_OLD, f"waiting until {left[0]} is gone"))
    if has_begun(seen) and not (_asks_to_restore(seen, target) and is_down(seen)):
        text = (
            f"ConfigMap {seen.job.name}-ckpt-latest is gone, and the committed checkpoint with it: "
            "put it back, or set spec.restore to begin from a savepoint"
        )
        return Metadata(None, Problem(Reason.METADATA_MISSING, text))
    builder.do(Create(coordination.first_latest(owner_of(seen.job))))
    return Metadata(None)


def _asks_to_restore(seen: Observed, target: Target) -> bool:
    wanted = target.spec.restore
    done = seen.job.status.restore
    if wanted is None or wanted.newest:  # nobody knows any more which one was the newest
        return False
    return done is None or done.nonce != wanted.nonce


def _archive_earlier(seen: Observed, builder: DecisionBuilder) -> Metadata:
    """Archive the ``-latest`` of an earlier job of this name; a new job never takes it over."""
    assert seen.latest is not None
    assert seen.latest.value is not None
    left = left_by_earlier_job(seen)
    if left:
        return Metadata(None, Problem(Reason.WAITING_FOR_OLD, f"waiting until {left[0]} is gone"))
    old = seen.latest.value.job_uid
    delete_epoch_views(seen, old, builder)
    builder.do(Archive(str(old), seen.latest.uid, seen.latest.version))
    return Metadata(None, Problem(Reason.WAITING_FOR_OLD, "archiving the -latest of an earlier job"))


def foreign_objects(seen: Observed, target: Target | None) -> tuple[ChildKey, ...]:
    """List the objects of other owners, and of nobody, that have one of the job's names.

    Objects of an earlier job of this name do not count while the garbage collector deletes them.
    """
    if target is None:
        return ()
    found = (key for key in _wanted(seen, target) if key in seen.children)
    return tuple(key for key in found if _is_foreign(seen, key, seen.children[key]))


def foreign_objects_problem(seen: Observed, foreign: tuple[ChildKey, ...]) -> Problem | None:
    """Say which foreign objects have names of the job, and what to do; None when there are none."""
    if not foreign:
        return None
    listed = [f"{k.kind} {k.name} ({_whose(seen.children[k])})" for k in foreign[:OBJECTS_NAMED_MAX]]
    more = len(foreign) - len(listed)
    text = ", ".join(listed) + (f" and {more} more" if more else "")
    advice = "remove it or have its owner rename it, or give the job another name"
    if any(k.kind == kinds.CLAIM.kind for k in foreign):
        advice += "; to use a claim that exists, set checkpoint.volume.claimName"
    return Problem(
        Reason.NAME_TAKEN,
        f"not of this job, and left as it is: {text}: {advice}; the operator looks again by itself",
    )


def _whose(child: Child) -> str:
    if child.owner:
        return f"of {child.owner}"
    if child.job_uid:
        return "of an earlier job, which is not deleted with that job"
    return "without an owner"


def _is_foreign(seen: Observed, key: ChildKey, child: Child) -> bool:
    if seen.owns(child):
        return False
    if key.kind == kinds.CLAIM.kind:  # a claim that workers use is not refused later
        return not child.job_uid and seen.stateful_set is None
    if key == ChildKey("ConfigMap", pod.latest_name(seen.job.name)):
        value = None if seen.latest is None else seen.latest.value
        return not child.job_uid and (value is None or value.job_uid != seen.job.uid)
    if key.name.startswith(names.archive_name(seen.job.name, "")):
        value = None if seen.latest is None else seen.latest.value
        return value is not None and child.job_uid != value.job_uid
    if key.kind == "Job":
        return not child.job_uid
    # An object that an earlier job owns is being deleted by the garbage collector.
    return not child.job_uid or (not child.owner and not _outlives(seen, key))


def _outlives(seen: Observed, key: ChildKey) -> bool:
    return key.kind == "ConfigMap" and key.name.startswith(pod.epoch_name(seen.job.name, 0)[:-1])


def _wanted(seen: Observed, target: Target) -> Iterator[ChildKey]:
    """List all objects that the job writes or deletes by name, now or soon."""
    job = target.owner.name
    yield from applied_hashes(target)
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
