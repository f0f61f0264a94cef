"""Lists everything anew from time to time: what a watch has missed for good is found by it.

A watch that breaks begins again with a list, but nobody says then what was deleted meanwhile.
"""

import sys
from dataclasses import dataclass

from penstock.contract import pod
from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind
from penstock_operator.cluster.client import ApiError, Client
from penstock_operator.cluster.store import JobKey, Store

WHOLE = (kinds.STREAM_JOB, kinds.STREAM_SNAPSHOT, kinds.CLAIM)  # whatever their labels


@dataclass(frozen=True, slots=True)
class Lister:
    """``namespaces`` are those that are served, all when empty."""

    client: Client
    store: Store
    namespaces: tuple[str, ...] = ()

    async def list_again(self) -> set[JobKey]:
        """Compare the store with the server, kind by kind. Returns the jobs with a difference.

        Of a kind that the server does not know there are no objects. Raises ApiError at the first
        refusal or silence; kinds before it are done.
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
