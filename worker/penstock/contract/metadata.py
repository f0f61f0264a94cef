"""``metadata`` of our objects: name and namespace are read, the API server's own is left alone."""

from penstock.contract.fields import Field, Kind, group, text

OBJECT_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
OBJECT_NAME_RULE = "lower-case letters, digits, - and ."
DNS_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEPT = (
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)


def object_name(name: str, meaning: str, **more: object) -> Field:
    """Build the row of a text that names an object of Kubernetes."""
    return text(name, meaning, pattern=OBJECT_NAME, rule=OBJECT_NAME_RULE, **more)


def metadata(name: Field) -> Field:
    """Return the row of ``metadata`` with the given row of its name."""
    return group(
        "metadata",
        "name and namespace",
        dict,
        name,
        text("namespace", "its namespace", default="default", pattern=_NAMESPACE, length_max=63),
        *(Field(kept, Kind.ANY, "kept by the API server") for kept in _KEPT),
        required=True,
    )
