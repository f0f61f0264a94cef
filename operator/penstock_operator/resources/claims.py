"""The claim of the checkpoints, and one volume for each claim of a pod.

A kubelet waits forever for a second volume with the same claim. A user's template names the claim
of the checkpoints again when it also has the user's data. Its mounts then use our volume.
"""

from penstock.contract.schema import Plain
from penstock.contract.settings import ClaimTemplate
from penstock_operator.api import names
from penstock_operator.api.plain import Object, list_at, object_at, text_at
from penstock_operator.resources.target import Owner, framed


def claim(owner: Owner, template: ClaimTemplate) -> Object:
    """Build the claim for checkpoints. It outlives the job, as the checkpoints do."""
    name = names.claim_name(owner.name)
    frame = framed("v1", "PersistentVolumeClaim", owner, name, component=names.STATE, owned=False)
    spec: Object = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": str(template.size_bytes)}},
    }
    if template.storage_class_name is not None:
        spec["storageClassName"] = template.storage_class_name
    return {**frame, "spec": spec}


def one_volume_a_claim(spec: Object) -> Object:
    """Drop each volume whose claim an earlier volume has, and mount the earlier one instead.

    Mounts of a read-only volume become read-only mounts, so the volume that stays need not be.
    """
    first: dict[str, str] = {}
    renamed: dict[str, str] = {}
    closed: set[str] = set()
    kept: list[Plain] = []
    for volume in list_at(spec, "volumes"):
        name = text_at(volume, "name")
        claim = text_at(volume, "persistentVolumeClaim", "claimName")
        if claim and object_at(volume, "persistentVolumeClaim").get("readOnly"):
            closed.add(name)
        if claim and claim in first:
            renamed[name] = first[claim]
        else:
            first[claim or f"no claim: {name}"] = name
            kept.append(volume)
    if not renamed:
        return spec
    kept = [_opened(volume) if text_at(volume, "name") in closed else volume for volume in kept]
    containers: Object = {
        kind: [_renamed(c, renamed, closed) for c in list_at(spec, kind)]
        for kind in ("initContainers", "containers")
        if kind in spec
    }
    return {**spec, "volumes": kept, **containers}


def _opened(volume: Plain) -> Plain:
    claim = {**object_at(volume, "persistentVolumeClaim"), "readOnly": False}
    return {**object_at(volume), "persistentVolumeClaim": claim}


def _renamed(container: Plain, renamed: dict[str, str], closed: set[str]) -> Plain:
    mounts: list[Plain] = []
    for mount in list_at(container, "volumeMounts"):
        name = text_at(mount, "name")
        found = {**object_at(mount), "name": renamed.get(name, name)}
        mounts.append({**found, "readOnly": True} if name in closed else found)
    return {**object_at(container), "volumeMounts": mounts} if mounts else container
