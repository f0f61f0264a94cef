"""Watches the kinds that workers write many times a minute: ConfigMaps and Leases.

It also watches SparkApplications, because their definitions may be installed later
(``spark_watches``).

::

    list, page by page ──> watch from its version ──> broken: watch from the newest version seen
             ^──────────── the version is too old ────────────┘

Kopf watches all other kinds. Kopf needs a task for each object and 0.25 ms for each event
(docs/decisions/053). With two hundred events a second that is 5 % of a core, which is all that the
operator may use. This module handles events in batches: a batch has all events that arrived since the
batch before. Most events renew a Lease; they are recognised without parsing them (``renewals``). Most
other events only change the store, and no job has to be reconciled.
"""

import asyncio
import logging
import sys
from dataclasses import dataclass, field

from penstock.contract import pod
from penstock.kubernetes.answers import ApiError, read_json
from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind
from penstock_operator.api.plain import Object, object_at, text_at, whole_at
from penstock_operator.cluster.client import WATCH_BUFFER_BYTES, Client
from penstock_operator.cluster.store import Store
from penstock_operator.handlers.backoff import Backoffs
from penstock_operator.handlers.renewals import Renewal, Renewals
from penstock_operator.handlers.work_queue import WorkQueue

LOG = logging.getLogger("penstock_operator.records")
KINDS = (kinds.CONFIG_MAP, kinds.LEASE)
EVENT_BATCH_S = 1.0  # pause between two batches; the next batch has all events that arrive in it
FULL_BATCH_BYTES = WATCH_BUFFER_BYTES // 2  # no pause follows a batch with so many bytes, because more events wait
ENDED_SOON_S = 1.0  # a watch without an event that the server ends in less counts as a failure
ABSENT = 404
GONE = 410


class TooOldError(Exception):
    """The server no longer has the version from which this watch would continue."""


@dataclass(slots=True)
class RecordWatch:
    """The watch of one kind in one namespace (empty: all namespaces).

    ``listed`` is set after the first list. ``version`` is the newest version seen; empty: list first.
    """

    client: Client
    store: Store
    queue: WorkQueue
    backoffs: Backoffs
    kind: Kind
    namespace: str = ""
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    version: str = ""
    failures: int = 0
    renewals: Renewals = field(default_factory=Renewals)

    async def run(self) -> None:
        """Watch forever."""
        while True:
            try:
                await self._go_on()
            except ApiError as error:
                await self._wait_after(error)

    async def run_while_served(self) -> None:
        """Watch until the server no longer knows the kind. Then remove its objects from the store."""
        while True:
            try:
                await self._go_on()
            except ApiError as error:
                if error.code == ABSENT:
                    break
                await self._wait_after(error)
        self._compare([], sys.maxsize)
        self.listed.set()

    async def _go_on(self) -> None:
        try:
            if not self.version:
                await self._list()
            opened = asyncio.get_running_loop().time()
            heard = await self._watch()
            if not heard and asyncio.get_running_loop().time() - opened < ENDED_SOON_S:
                await self._rest_after_another("the server ended the watch at once")
        except TooOldError:
            self.version = ""
            await self._rest_after_another("the version is too old")
        except ApiError as error:
            if error.code != GONE:
                raise
            self.version = ""
            await self._rest_after_another("the version is too old")

    async def _rest_after_another(self, reason: str) -> None:
        """Wait if the watch before ended without an event, too: a server may answer each one so."""
        self.failures += 1
        if self.failures > 1:
            wait = self.backoffs.after(self.failures - 2)
            LOG.warning("cannot watch", extra={"kind": self.kind.kind, "reason": reason, "wait": round(wait, 1)})
            await asyncio.sleep(wait)

    async def _wait_after(self, error: ApiError) -> None:
        wait = max(self.backoffs.after(self.failures), error.retry_after_s)
        self.failures += 1
        LOG.warning(
            "cannot watch",
            extra={"kind": self.kind.kind, "reason": str(error), "wait": round(wait, 1)},
        )
        await asyncio.sleep(wait)

    async def _list(self) -> None:
        objects, version = await self.client.list_all(self.kind, self.namespace, pod.LABEL_JOB)
        self._compare(objects, version)
        self.renewals.forget()  # events of Leases may have been missed before the list
        self.version = str(version)
        self.listed.set()

    def _compare(self, objects: list[Object], version: int) -> None:
        for key in self.store.compare(self.kind, self.namespace, objects, version):
            self.queue.add(key)

    async def _watch(self) -> bool:
        """Handle events, batch by batch, until the server ends the watch, as it does from time to time.

        Return whether there were any.
        """
        heard = False
        batches = self.client.watch(self.kind, self.namespace, pod.LABEL_JOB, self.version)
        async for lines in batches:
            for line in lines:
                renewal = self.renewals.renewal(line)
                if renewal is None or not self._renew(renewal):
                    self._take(object_at(read_json(line)))
                self.failures, heard = 0, True  # not before: it may say that the version is too old
            if sum(map(len, lines)) < FULL_BATCH_BYTES:
                await asyncio.sleep(EVENT_BATCH_S)
        return heard

    def _renew(self, renewal: Renewal) -> bool:
        """Store the new version of a Lease. Return False when the store does not have that Lease."""
        self.version = renewal.version
        spot = (renewal.namespace, (kinds.LEASE.kind, renewal.name))
        return self.store.renew(spot, renewal.uid, int(renewal.version))

    def _take(self, event: Object) -> None:
        what, plain = text_at(event, "type"), object_at(event, "object")
        if what == "ERROR":
            if whole_at(plain, "code") == GONE:
                raise TooOldError
            text = text_at(plain, "message")
            raise ApiError(whole_at(plain, "code"), text_at(plain, "reason"), text)
        self.version = text_at(plain, "metadata", "resourceVersion") or self.version
        if what == "BOOKMARK":
            return
        change = self.store.remove if what == "DELETED" else self.store.put
        for key in change(plain):
            self.queue.add(key)
