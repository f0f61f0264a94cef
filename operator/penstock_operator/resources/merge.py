"""Merges a user's pod template into ours: objects by key, lists by the name of their items."""

from penstock.contract.schema import Plain
from penstock_operator.api.plain import Object, at, object_at

# Lists of a pod spec whose items are identified by another key than name.
KEYS = {"volumeMounts": "mountPath", "ports": "containerPort", "topologySpreadConstraints": ""}
# Prefixes of the labels that select the pods: a user's template must not change these labels.
OURS = ("penstock.dev/", "app.kubernetes.io/")


def merged_pod(base: Object, template: Object) -> Object:
    """Merge ``template`` (metadata and spec of a pod) into ``base``.

    Of the template's metadata only labels and annotations count. They cannot change ours.
    """
    metadata = {
        part: {
            **_foreign(object_at(template, "metadata", part)),
            **object_at(base, "metadata", part),
        }
        for part in ("labels", "annotations")
    }
    spec = merged(object_at(base, "spec"), object_at(template, "spec"))
    return {**base, "metadata": {**object_at(base, "metadata"), **metadata}, "spec": spec}


def merged(base: Plain, other: Plain, name: str = "") -> Plain:
    """Merge ``other`` over ``base``: scalars and unnamed lists are replaced, None removes."""
    if isinstance(base, dict) and isinstance(other, dict):
        both = {k: merged(base.get(k), v, k) if k in base else v for k, v in other.items()}
        return {k: v for k, v in {**base, **both}.items() if v is not None}
    if isinstance(base, list) and isinstance(other, list):
        return _lists(base, other, KEYS.get(name, "name"))
    return other


def _lists(base: list[Plain], other: list[Plain], key: str) -> list[Plain]:
    """Merge lists of objects by ``key``, in the order of ``base``. Other lists are replaced."""
    named = all(at(item, key) is not None for item in (*base, *other)) if key else False
    if not named:
        return [*base, *other] if not key else other
    changes = {str(at(item, key)): item for item in other}
    kept = [merged(item, changes.pop(str(at(item, key)), {})) for item in base]
    return [*kept, *changes.values()]


def _foreign(found: Object) -> Object:
    return {k: v for k, v in found.items() if not k.startswith(OURS)}
