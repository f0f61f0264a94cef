"""Lists everything again from time to time, to find changes that a watch has missed.

A broken watch starts again with a list, which does not report what was deleted before it.
"""

import sys
from dataclasses import dataclass

from penstock.contract import pod
from penstock.kubernetes.answers import ApiError
from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind
from penstock_operator.cluster.client import Client
from penstock_operator.cluster.store import JobKey, Store

WHOLE = (kinds.STREAM_JOB, kinds.STREAM_SNAPSHOT, kinds.CLAIM)  # with any labels


@dataclass(frozen=True, slots=True)
class Lister:
    """``namespaces`` are those whose jobs are handled; empty: all."""

    client: Client
    store: Store
    namespaces: tuple[str, ...] = ()

    async def list_again(self) -> set[JobKey]:
        """Compare the store with the server, kind by kind. Returns the jobs with a difference.

        A kind that the server does not know has no objects. Raises ApiError at the first refusal or
        missing answer; the kinds before it are done then.
        """
        found: set[JobKey] = set()
        for kind in (*WHOLE, *kinds.CHILDREN):
            for namespace in self.namespaces or ("",):
                found |= await self._kind(kind, namespace)
        return found

    async def _kind(self, kind: Kind, namespace: str) -> set[JobKey]:
        selector = "" if kind in WHOLE else pod.LABEL_JOB
        try:
            objects, version = await self.client.list_all(kind, namespace, selector)
        except ApiError as error:
            if error.code != 404:
                raise
            objects, version = [], sys.maxsize
        return self.store.compare(kind, namespace, objects, version)
