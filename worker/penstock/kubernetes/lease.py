"""The Lease of ``coordination.k8s.io/v1``: who tries to lead.

Its times are written for people and other tools. A reader judges expiry by its own monotonic
clock since ``renewed`` changed; no two clocks are compared.
"""

from collections.abc import Callable
from typing import Any

from penstock.base.errors import StorageError
from penstock.kubernetes.answers import ApiRefused, ApiUnanswered, Object
from penstock.kubernetes.client import ApiClient
from penstock.kubernetes.times import micro_time
from penstock.ports import LeaseView, SwapConflict, SwapUnknown


class KubernetesLeaseStore:
    """:class:`penstock.ports.LeaseStore` on one Lease, which the operator has made."""

    def __init__(self, client: ApiClient, name: str, duration_s: float, wall_us: Callable[[], int]) -> None:
        """Serve the Lease ``name``; ``duration_s`` is what its readers judge expiry by."""
        self._client = client
        self._name = name
        self._duration_s = duration_s
        self._wall_us = wall_us
        namespace = client.namespace
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        self._seen: Object = {}

    def read(self) -> LeaseView:
        """Return the Lease. Raises StorageError; one that is not there is the operator's to make.

        The newest state is asked for, not a cache's: an old one would only delay a takeover, but
        an expired holder is judged by how long nothing has changed.
        """
        try:
            return self._view(self._client.get(self._path))
        except (ApiRefused, ApiUnanswered) as error:
            raise StorageError(f"Lease {self._name}: {error}") from error

    def write(self, holder: str | None, version: str) -> LeaseView:
        """Take, renew or give up (None). Raises SwapConflict, SwapUnknown, StorageError."""
        if not (version.isascii() and version.isdecimal()):
            raise SwapConflict(f"Lease {self._name} is not at version {version!r}")
        patch = {"metadata": {"resourceVersion": version}, "spec": self._spec(holder)}
        try:
            return self._view(self._client.merge(self._path, patch))
        except ApiRefused as error:
            if error.code in (404, 409):
                raise SwapConflict(f"Lease {self._name}: {error}") from error
            raise StorageError(f"Lease {self._name}: {error}") from error
        except ApiUnanswered as error:
            raise SwapUnknown(f"Lease {self._name}: {error}") from error

    def _spec(self, holder: str | None) -> Object:
        now = micro_time(self._wall_us())
        spec: Object = {"holderIdentity": holder, "renewTime": now}
        if holder is not None and holder != self._seen.get("holderIdentity"):
            spec["acquireTime"] = now
            spec["leaseTransitions"] = int(self._seen.get("leaseTransitions") or 0) + 1
            # Whole seconds are all the API takes; our own readers use the exact figure.
            spec["leaseDurationSeconds"] = max(1, round(self._duration_s))
        return spec

    def _view(self, found: Object) -> LeaseView:
        spec: dict[str, Any] = found.get("spec") or {}
        self._seen = spec
        version = str(found["metadata"]["resourceVersion"])
        # Only writes of the holder count: an annotation by another client is no sign of its life.
        renewed = f"{spec.get('renewTime')}/{spec.get('leaseTransitions')}"
        return LeaseView(spec.get("holderIdentity") or None, renewed, self._duration_s, version)
