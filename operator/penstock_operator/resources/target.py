"""The input of all builders in this package, and the metadata that all objects share.

The hash of what was applied last is an annotation. An equal hash saves the API call.
"""

import hashlib
import json
from dataclasses import dataclass

from penstock.contract import pod
from penstock.contract.schema import API_VERSION, Plain
from penstock.contract.streamjob import KIND, Spec
from penstock_operator.api import names
from penstock_operator.api.plain import Object, object_at


@dataclass(frozen=True, slots=True)
class Owner:
    """The StreamJob that an object belongs to."""

    name: str
    namespace: str
    uid: str


@dataclass(frozen=True, slots=True)
class RestoreSource:
    """Another job's folder on a claim; ``folder`` is relative to the claim's root."""

    claim: str
    folder: str


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The spec that is to run.

    ``plain`` is what the pods read. A change of ``digest`` restarts them. Targets are compared by
    identity: caches have them as keys.
    """

    owner: Owner
    spec: Spec
    plain: Plain
    digest: str
    restore: RestoreSource | None = None

    @property
    def config(self) -> str:
        """Name the ConfigMap that holds this spec."""
        return names.config_name(self.owner.name, self.digest)

    @property
    def claim(self) -> str:
        """Name the claim of the checkpoints: the user's, or the one from the claim template."""
        volume = self.spec.checkpoint.volume
        given = None if volume is None else volume.claim_name
        return given or names.claim_name(self.owner.name)


def framed(
    api_version: str,
    kind: str,
    owner: Owner,
    name: str,
    *,
    component: str = pod.WORKER,
    owned: bool = True,
    annotations: dict[str, str] | None = None,
) -> Object:
    """Begin an object with kind, name, labels and the owner reference.

    The garbage collector deletes an ``owned`` object with its job. What checkpoints need is never
    owned.
    """
    metadata: Object = {
        "name": name,
        "namespace": owner.namespace,
        "labels": dict(names.labels(owner.name, owner.uid, component)),
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owned:
        metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def owner_reference(owner: Owner) -> Object:
    """Refer to the StreamJob as the controller of an object."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def content_hash(manifest: Object) -> str:
    """Hash a manifest."""
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def with_applied_hash(manifest: Object, applied: str) -> Object:
    """Return the manifest with its hash as an annotation."""
    metadata = object_at(manifest, "metadata")
    annotations = {**object_at(metadata, "annotations"), names.ANNOTATION_APPLIED: applied}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
