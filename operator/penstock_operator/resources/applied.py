"""The hash of what was applied last, kept on the object: nothing is applied when it is equal."""

import hashlib
import json

from penstock_operator.api import names
from penstock_operator.api.plain import Object, object_at


def content_hash(manifest: Object) -> str:
    """Hash what would be applied."""
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def with_applied_hash(manifest: Object, applied: str) -> Object:
    """Note on the object the hash of what was applied, so that no call is made for nothing."""
    metadata = object_at(manifest, "metadata")
    annotations = {**object_at(metadata, "annotations"), names.ANNOTATION_APPLIED: applied}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
