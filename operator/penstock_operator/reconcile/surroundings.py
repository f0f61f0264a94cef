"""Everything around the workers, each object applied when it differs from what was applied last."""

import hashlib
import json
from functools import lru_cache

from penstock.contract import pod
from penstock.contract.streamjob import DeletionPolicy
from penstock_operator.api import names
from penstock_operator.api.observed import ChildKey, Observed
from penstock_operator.api.plain import Object, object_at, text_at
from penstock_operator.reconcile.course import deletion_policy
from penstock_operator.reconcile.decision import (
    Apply,
    Create,
    Delete,
    Draft,
    SetFinalizer,
)
from penstock_operator.reconcile.trust import keep_trust
from penstock_operator.resources import access, records, workload
from penstock_operator.resources.target import Target


def content_hash(manifest: Object) -> str:
    """Hash what would be applied."""
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def marked(manifest: Object, applied: str) -> Object:
    """Note on the object the hash of what was applied, so that no call is made for nothing."""
    metadata = object_at(manifest, "metadata")
    annotations = {**object_at(metadata, "annotations"), names.ANNOTATION_APPLIED: applied}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def surround(seen: Observed, target: Target, draft: Draft) -> None:
    """Make the objects that pods need before they start, and those that guard them."""
    owner = target.owner
    # First what the Role names: it gives no rights over objects of others.
    if ChildKey("ConfigMap", pod.status_name(owner.name)) not in seen.children:
        draft.do(Create(records.empty_status(owner)))
    if ChildKey("Lease", pod.lease_name(owner.name)) not in seen.children:
        draft.do(Create(records.leader_lease(owner)))
    volume = target.spec.checkpoint.volume
    template = None if volume is None else volume.claim_template
    if template and ChildKey("PersistentVolumeClaim", target.claim) not in seen.children:
        draft.do(Create(records.claim(owner, template)))
    keep_trust(seen, target, draft)
    for key, manifest, applied in applied_objects(target):
        child = seen.children.get(key)
        if child is None:
            draft.do(Apply(manifest, applied))
        elif seen.owns(child) and (child.applied != applied or seen.refresh):
            draft.do(Apply(manifest, applied, uid=child.uid))
    _prune_configs(seen, target, draft)


def keep_finalizer(seen: Observed, draft: Draft) -> None:
    """Carry a finalizer only while the deletion has something to wait for."""
    job = seen.job
    wanted = deletion_policy(seen) is not DeletionPolicy.RETAIN
    if wanted != (names.FINALIZER in job.finalizers):
        draft.do(SetFinalizer(wanted, version=job.version))


def drop_views(seen: Observed, draft: Draft) -> None:
    """Delete the views of single epochs that earlier operators made: the status lists them now."""
    for key, child in sorted(seen.children.items(), key=lambda c: c[0].name):
        epoch = records.epoch_of(seen.job.name, key.name) if key.kind == "ConfigMap" else None
        if epoch is not None and child.job_uid == seen.job.uid and not child.deleting:
            draft.do(Delete("ConfigMap", key.name, child.uid))


def of_earlier(seen: Observed) -> list[str]:
    """Name what an earlier job of this name has left and its collection still has to remove.

    What has no owner is collected by nobody, and so is not waited for; see ``reconcile.taken``.
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
        and records.epoch_of(seen.job.name, key.name) is None
        and key.kind != "Job"
    )


@lru_cache(512)
def applied_objects(target: Target) -> tuple[tuple[ChildKey, Object, str], ...]:
    """Build what is applied whenever it differs, with the hash of each, once for each target."""
    owner = target.owner
    found = [records.config(target)]
    if target.spec.service_account_name is None:
        found.append(access.account(owner))
    found += [
        access.role(owner),
        access.role_binding(target),
        access.network_policy(owner),
        workload.headless_service(owner),
        workload.metrics_service(owner),
        workload.disruption_budget(owner),
    ]
    hashes = [content_hash(manifest) for manifest in found]
    return tuple((_key_of(m), marked(m, h), h) for m, h in zip(found, hashes, strict=True))


def _key_of(manifest: Object) -> ChildKey:
    """Return under which key an object is observed."""
    return ChildKey(text_at(manifest, "kind"), text_at(manifest, "metadata", "name"))


def _prune_configs(seen: Observed, target: Target, draft: Draft) -> None:
    """Keep the specs that run, are to run, or ran stably."""
    used = {target.config}
    if seen.stateful_set is not None:
        used.add(seen.stateful_set.config)
    if seen.job.status.last_stable is not None:
        used.add(names.config_name(seen.job.name, seen.job.status.last_stable.digest))
    for name in sorted(seen.configs.keys() - used):
        child = seen.children.get(ChildKey("ConfigMap", name))
        if child is not None and seen.owns(child) and not child.deleting:
            draft.do(Delete("ConfigMap", name, child.uid))
