"""One volume for each claim of a pod: a kubelet waits for ever for a second volume of the same.

A user's template names the claim of the checkpoints again when his data lives on it too; his
mounts are then those of our volume.
"""

from penstock.contract.schema import Plain
from penstock_operator.api.plain import Object, list_at, object_at, text_at


def one_volume_a_claim(spec: Object) -> Object:
    """Drop volumes of a claim that an earlier one has; what mounted them mounts that one.

    A volume that is read-only makes its mounts read-only, so that the one that stays need not be.
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
