"""Which parts of a watched object stay in memory: those that decisions look at.

Without this, the specs of pods would fill most of the operator's memory, and nothing reads them.
"""

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at

WHOLE = frozenset({"StreamJob", "StreamSnapshot"})
# Of these kinds only metadata: it shows their owner and what was applied last.
BARE = frozenset(
    {
        "Lease",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
    }
)
SPEC_KEPT = {"StatefulSet": ("replicas",), "PersistentVolumeClaim": ("accessModes",)}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def projected(plain: Object) -> Object:
    """Return the part of an object to keep, as a new object.

    Of the managed fields only those of scalers are kept: see ``views.job_view``.
    """
    kind = text_at(plain, "kind")
    kept: Object = {"kind": kind, "metadata": _metadata(plain)}
    if "apiVersion" in plain:
        kept["apiVersion"] = plain["apiVersion"]
    if kind in WHOLE:
        return {**plain, **kept}
    if kind in BARE:
        return kept
    if kind == "ConfigMap":
        return {**kept, "data": at(plain, "data")} if _is_read(plain) else kept
    spec = object_at(plain, "spec")
    kept["spec"] = {k: spec[k] for k in SPEC_KEPT.get(kind, ()) if k in spec}
    kept["status"] = at(plain, "status")
    return kept


def _is_read(plain: Plain) -> bool:
    """Say whether the data of a ConfigMap is read: of a record or a spec, not of an archive."""
    job = text_at(plain, "metadata", "labels", pod.LABEL_JOB)
    name = text_at(plain, "metadata", "name")
    records = (pod.latest_name(job), pod.desired_name(job), pod.status_name(job))
    return name in records or name.startswith(pod.config_name(job))


def _metadata(plain: Plain) -> Object:
    metadata = {k: v for k, v in object_at(plain, "metadata").items() if k != "managedFields"}
    managers = list_at(plain, "metadata", "managedFields")
    scalers = [m for m in managers if text_at(m, "subresource") == "scale"]
    if scalers:
        metadata["managedFields"] = scalers
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and LAST_APPLIED in annotations:
        metadata["annotations"] = {k: v for k, v in annotations.items() if k != LAST_APPLIED}
    return metadata
