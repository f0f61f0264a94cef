"""The operator's own Lease: one operator leads, the others wait, so no work is done twice.

The Lease is not a fence, because a paused process does not notice its end. Versions and uids in
every write protect against two operators at once: see ``reconcile.workers``.

The pod that holds the Lease owns it, so it is deleted with the last pod of a removed operator.
"""

import asyncio
import math
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from penstock.kubernetes.answers import ApiError
from penstock_operator.api import kinds
from penstock_operator.api.plain import Object, object_at, text_at, whole_at
from penstock_operator.cluster.client import Client

DURATION_S = 15
RENEW_S = 10.0
RETRY_S = 2.0
CALL_S = 2.5  # the deadline of a call: another connection must be tried before the renewal is due


@dataclass(slots=True)
class OperatorLease:
    """Measures the age of renewals by its own clock: two machines' clocks are never compared.

    ``client`` is for the Lease only, with deadlines of ``CALL_S``. So one connection on which nothing
    arrives any more costs one attempt: the next one uses another connection. ``name`` is that of the Lease, and
    ``identity`` that of the pod. ``pod_uid`` is its UID, empty outside a cluster.
    """

    client: Client
    namespace: str
    name: str
    identity: str
    pod_uid: str = ""
    seen: tuple[str, str] = ("", "")
    since: float = field(default=0.0)
    answered: float | None = None

    def silent_s(self) -> float:
        """Return the time since the API server last said who holds the Lease; inf: never yet."""
        return math.inf if self.answered is None else time.monotonic() - self.answered

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        while not await self.attempt():
            await asyncio.sleep(RETRY_S)

    async def hold(self) -> None:
        """Renew. Returns when the Lease could not be renewed in time, or another holds it."""
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(RETRY_S)
            if await self.attempt():
                renewed = time.monotonic()
            elif time.monotonic() - renewed > RENEW_S or self.seen[0] not in {"", self.identity}:
                return

    async def release(self) -> None:
        """Give the Lease up, so that the next leader need not wait."""
        try:
            found = await self.client.get(kinds.LEASE, self.namespace, self.name)
            if found is not None and text_at(found, "spec", "holderIdentity") == self.identity:
                spec: Object = {**object_at(found, "spec"), "holderIdentity": ""}
                version = text_at(found, "metadata", "resourceVersion")
                await self.client.replace({**_kind(found), "spec": spec}, version)
        except ApiError:
            return  # it expires by itself

    async def attempt(self) -> bool:
        """Take or renew the Lease with one read and one write. True when it is ours."""
        try:
            found = await self.client.get(kinds.LEASE, self.namespace, self.name)
            self.answered = time.monotonic()
            if found is None:
                await self.client.create(self._first())
                return True
            spec = object_at(found, "spec")
            holder, renewed = text_at(spec, "holderIdentity"), text_at(spec, "renewTime")
            now = time.monotonic()
            if (holder, renewed) != self.seen:
                self.seen, self.since = (holder, renewed), now
            ours = holder in {"", self.identity}
            if not ours and now - self.since < (whole_at(spec, "leaseDurationSeconds") or DURATION_S):
                return False
            version = text_at(found, "metadata", "resourceVersion")
            metadata = {**object_at(found, "metadata"), **self._owned()}
            taken = {**_kind(found), "metadata": metadata, "spec": self._spec(spec)}
            await self.client.replace(taken, version)
        except ApiError:
            return False
        self.seen = (self.identity, "")
        return True

    def _first(self) -> Object:
        metadata: Object = {"name": self.name, "namespace": self.namespace, **self._owned()}
        return {**_kind({}), "metadata": metadata, "spec": self._spec({})}

    def _owned(self) -> Object:
        if not self.pod_uid:
            return {}
        pod: Object = {"apiVersion": "v1", "kind": "Pod", "name": self.identity}
        return {"ownerReferences": [{**pod, "uid": self.pod_uid}]}

    def _spec(self, old: Object) -> Object:
        now = datetime.fromtimestamp(time.time_ns() / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changed = text_at(old, "holderIdentity") != self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": DURATION_S,
            "renewTime": now,
            "acquireTime": now if changed else text_at(old, "acquireTime") or now,
            "leaseTransitions": whole_at(old, "leaseTransitions") + int(changed),
        }


def _kind(found: Object) -> Object:
    return {**found, "apiVersion": kinds.LEASE.api_version, "kind": kinds.LEASE.kind}
