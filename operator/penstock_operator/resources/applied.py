"""The hash of what was applied last. It is an annotation; an equal hash saves the API call."""

import hashlib
import json

from penstock_operator.api import names
from penstock_operator.api.plain import Object, object_at


def content_hash(manifest: Object) -> str:
    """Hash a manifest."""
    data = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def with_applied_hash(manifest: Object, applied: str) -> Object:
    """Return the manifest with its hash as an annotation."""
    metadata = object_at(manifest, "metadata")
    annotations = {**object_at(metadata, "annotations"), names.ANNOTATION_APPLIED: applied}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
