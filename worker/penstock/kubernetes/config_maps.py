"""Metadata in ConfigMaps: one object each, compare-and-swap by ``resourceVersion``.

A swap is a merge patch that names the version it replaces, so that labels, annotations and the
object's uid stay as the operator made them. Each one carries a fresh annotation: the API server
would take an identical update for nothing and keep the version.
"""

import base64
import uuid

from penstock.base.errors import StorageError
from penstock.contract.pod import ANNOTATION_SWAP, RECORD
from penstock.kubernetes.answers import ApiRefused, ApiUnanswered, Object
from penstock.kubernetes.client import ApiClient
from penstock.ports import SwapConflict, SwapUnknown, Versioned

RECORD_BYTES_MAX = 1_000_000  # of the 1 MiB (1,048,576) that a ConfigMap's values may have


class ConfigMapMetaStore:
    """:class:`penstock.ports.MetaStore` on the ConfigMaps of one namespace.

    ``labels`` are put on what :meth:`create` makes; workers find their objects made.
    """

    def __init__(self, client: ApiClient, labels: dict[str, str] | None = None) -> None:
        """Ask through ``client``, whose timeout is the deadline of every call."""
        self._client = client
        self._labels = labels or {}
        self._folder = f"/api/v1/namespaces/{client.namespace}/configmaps"

    def get(self, name: str) -> Versioned | None:
        """Return the newest object, or None. Raises StorageError when it cannot be read."""
        try:
            return _versioned(self._client.get(f"{self._folder}/{name}"))
        except ApiRefused as error:
            if error.code == 404:
                return None
            raise StorageError(f"ConfigMap {name}: {error}") from error
        except ApiUnanswered as error:
            raise StorageError(f"ConfigMap {name}: {error}") from error

    def create(self, name: str, data: bytes) -> Versioned:
        """Create atomically. Raises SwapConflict when it exists, SwapUnknown on a lost reply.

        Raises StorageError when the server refuses: rights, quotas, a namespace that ends.
        """
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": self._labels, "annotations": _mark()},
            **_content(name, data),
        }
        try:
            return _versioned(self._client.create(self._folder, body))
        except ApiRefused as error:
            raise _refusal(name, error) from error
        except ApiUnanswered as error:
            raise SwapUnknown(f"ConfigMap {name}: {error}") from error

    def swap(self, name: str, data: bytes, version: str) -> Versioned:
        """Replace exactly ``version``. Raises SwapConflict, SwapUnknown, and StorageError as above.

        An object that is gone is a conflict: no version of it can be replaced.
        """
        if not (version.isascii() and version.isdecimal()):
            # Without a version that the server knows it would be no comparison at all.
            raise SwapConflict(f"ConfigMap {name} is not at version {version!r}")
        metadata = {"resourceVersion": version, "annotations": _mark()}
        patch = {"metadata": metadata, **_content(name, data)}
        try:
            return _versioned(self._client.merge(f"{self._folder}/{name}", patch))
        except ApiRefused as error:
            raise _refusal(name, error) from error
        except ApiUnanswered as error:
            raise SwapUnknown(f"ConfigMap {name}: {error}") from error


def _mark() -> dict[str, str]:
    return {ANNOTATION_SWAP: str(uuid.uuid4())}


def _refusal(name: str, error: ApiRefused) -> Exception:
    if error.code in (404, 409):
        return SwapConflict(f"ConfigMap {name}: {error}")
    return StorageError(f"ConfigMap {name}: {error}")


def _content(name: str, data: bytes) -> Object:
    """Text where it is text, so that people can read it; the other field is cleared."""
    if len(data) > RECORD_BYTES_MAX:
        raise StorageError(f"ConfigMap {name}: {len(data)} bytes, at most {RECORD_BYTES_MAX}")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return {"data": None, "binaryData": {RECORD: base64.b64encode(data).decode()}}
    return {"data": {RECORD: text}, "binaryData": None}


def _versioned(found: Object) -> Versioned:
    metadata = found["metadata"]
    return Versioned(_data(found), str(metadata["resourceVersion"]), str(metadata["uid"]))


def _data(found: Object) -> bytes:
    binary = (found.get("binaryData") or {}).get(RECORD)
    if binary is not None:
        return base64.b64decode(binary)
    # Without the key it holds nothing (yet): what is made of that is the reader's affair.
    return str((found.get("data") or {}).get(RECORD, "")).encode("utf-8")
